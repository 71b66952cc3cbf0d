// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What changed in ops after the set that introduced them; new ops say `since` in their .td. OpsetTest holds this
// against opset/N.txt, what each released set was.
#include "changes.hpp"

namespace mortise::portable {

std::vector<AttributeAdded> attributesAdded() { return {}; }

std::vector<ValueAdded> valuesAdded() { return {}; }

std::vector<OpRetired> opsRetired() { return {}; }

} // namespace mortise::portable
