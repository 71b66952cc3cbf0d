// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <cctype>
#include <cstdint>
#include <string>

namespace mortise::codegen {

// The name of a function in machine code: the letters and digits of its group's name, so that profilers show a readable
// symbol.
inline std::string symbolName(const std::string &name, uint64_t number) {
  std::string symbol = "mortise_" + std::to_string(number) + "_";
  for (char letter : name.substr(0, 48))
    symbol += std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return symbol;
}

} // namespace mortise::codegen
