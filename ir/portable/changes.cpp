// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Changes of ops after the opset that introduced them. New ops are not listed here; their .td entry has `since`.
// OpsetTest compares this list with opset/N.txt, the record of each released opset.
#include "changes.hpp"

namespace mortise::portable {

std::vector<AttributeAdded> attributesAdded() { return {}; }

std::vector<ValueAdded> valuesAdded() { return {}; }

std::vector<OpRetired> opsRetired() { return {}; }

} // namespace mortise::portable
