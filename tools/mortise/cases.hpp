// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small cases for each op: every node of the language's own tests (ir/test), alone in a graph, with the element types
// that its op allows in place of its f32; and the chains of ops, states and products of cases.mlir.
#pragma once

#include "point.hpp"

namespace mortise::tool {

struct OpCase {
  std::string op;   // "mortise.add"; of several nodes "mortise.mul + mortise.add"
  std::string name; // "mortise.add f32[4, 8], f32[4, 8]", by its operands; with a number where several have one
  int32_t dtype = 0,
          rank = 0; // of the first operand, or of the result where there is none; the largest rank of all values
  size_t nodes = 1;
  // Of a static graph, whose inputs are the operands. Nothing is expected of the op of a vendor, which has no
  // reference.
  Point point;
  std::shared_ptr<const Graph> symbolic; // the same with symbols in its extents, where the text has them; or NULL
  bool isVariant = false;                // with another element type in place of f32
};

// Always the same, in the same order. `ops`: shell patterns with commas between, such as
// "mortise.add,mortise.reduce_*"; "" is every op. All ops of a chain are like one of them.
std::vector<OpCase> opCases(const std::string &ops);

// Whether an op is like one of the patterns.
bool isChosen(const std::string &op, const std::string &patterns);

// The case with symbols: its own, or one or two in place of its first extents wherever those occur first, as far as
// the language allows it. NULL: there is none.
std::shared_ptr<const Graph> withSymbols(const OpCase &given);

} // namespace mortise::tool
