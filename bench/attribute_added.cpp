// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Takes the place of ir/portable/changes.cpp in `mortise-attribute-added`: here opset 3 added the attribute
// `approximate` to gelu, which "none" stands for in earlier opsets. The figure abi-matrix runs that program with
// plugins of opset 2.
#include "changes.hpp"

namespace mortise::portable {

std::vector<AttributeAdded> attributesAdded() {
  return {{"mortise.gelu", "approximate", 3, AttributeValue::of("none")}};
}

std::vector<ValueAdded> valuesAdded() { return {}; }

std::vector<OpRetired> opsRetired() { return {}; }

} // namespace mortise::portable
