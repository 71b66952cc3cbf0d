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
  Tensors expected; // by the reference interpreter; empty for the op of a vendor
};

// Whether an op is one of "mortise.add,mortise.reduce_*", shell patterns with commas between; "" is every op.
bool isChosen(const std::string &op, const std::string &patterns);

// Always the same, in the same order, of the ops that are chosen.
std::vector<OpCase> opCases(const std::string &ops);

} // namespace mortise::tool
