// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small cases for each op: every node of the language's own tests (ir/test), alone in a graph, with the element types
// that its op allows in place of its f32.
#pragma once

#include "files.hpp"

namespace mortise::tool {

struct OpCase {
  std::string op;   // "mortise.add"
  std::string name; // "mortise.add f32[4, 8], f32[4, 8]", by its operands; with a number where several have one
  int32_t dtype = 0,
          rank = 0; // of the first operand, or of the result where there is none; the largest rank of all values
  std::shared_ptr<const Graph> graph; // static; the operands are its inputs
  Tensors inputs;
  Tensors expected; // by the reference interpreter
};

// Always the same, in the same order. `ops`: shell patterns with commas between, such as
// "mortise.add,mortise.reduce_*";
// "" is every op.
std::vector<OpCase> opCases(const std::string &ops);

} // namespace mortise::tool
