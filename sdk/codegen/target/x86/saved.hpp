// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled functions as bytes. Only the build that wrote them reads them.
#pragma once

#include <mortise/codegen/codegen.hpp>

#include <string>
#include <vector>

namespace mortise::codegen {

// One function: machine code, and what is known about it.
struct Compiled {
  std::string symbol, object; // `object`: an ELF file, which defines `symbol`
  Function function;          // without an entry until it is linked
};

struct SavedFunction {
  std::string key; // of the Dag
  Compiled compiled;
};

void append(std::vector<std::byte> &bytes, const std::string &key, const Compiled &compiled);
// Errors: MORTISE_CORRUPT.
Result<std::vector<SavedFunction>> readFunctions(std::span<const std::byte> bytes);

} // namespace mortise::codegen
