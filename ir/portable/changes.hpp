// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/portable/opset.hpp>

namespace mortise::portable {

// Parses one op per line: "mortise.put 1 (operand,indices,updates,) axis=I64 mode=STRING:set|add". Sorted by name.
std::vector<Op> parseOps(std::string_view lines);

std::vector<AttributeAdded> attributesAdded();
std::vector<ValueAdded> valuesAdded();
std::vector<OpRetired> opsRetired();

} // namespace mortise::portable
