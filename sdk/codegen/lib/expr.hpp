// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of one group: graph nodes with composites expanded, as data. Knows nothing of MLIR.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/graph.hpp>
#include <mortise/ops.hpp>

#include <map>
#include <optional>

namespace mortise::codegen {

// The ops of the dialect under their numbers, and some that only expressions have.
enum class Op : uint16_t {
#define MORTISE_OP_ROW(NAME, Name, name) Name = MORTISE_OP_##NAME,
  MORTISE_FOR_EACH_OP(MORTISE_OP_ROW)
#undef MORTISE_OP_ROW
      Input = MORTISE_OP_COUNT,
  Extent, // an extent of the graph as a number
  Keep,   // the operand under another dtype of the same register type: a composite's one rounding is left to the store
  MulAdd, // x * y + z, rounded once
  ReduceFastMax, // may lose NaN
};
template <typename... Traits> bool has(Op op, Trait trait, Traits... others) {
  return has(static_cast<mortise::Op>(op), trait, others...);
}
inline bool isElementwise(Op op) { return op == Op::Keep || op == Op::MulAdd || has(op, Trait::Elementwise); }
inline bool isIndexMap(Op op) {
  return op == Op::Take || op == Op::TakeAlong || op == Op::TakeNd || has(op, Trait::Movement);
}
inline bool isReduction(Op op) { return op == Op::ReduceFastMax || has(op, Trait::Reduction); }
inline bool isArg(Op op) { return op == Op::Argmax || op == Op::Argmin; }
inline bool isRunning(Op op) { return has(op, Trait::Running); }

enum class Direction : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };

using ExprId = uint32_t;

struct Expr {
  Op op = Op::Input;
  int32_t dtype = 0;
  std::vector<Dim> dims;
  std::vector<ExprId> operands;
  // Attributes: axes, permutation, shape; starts or low; strides or interior.
  std::vector<int64_t> axes, steps;
  std::vector<Dim> starts;
  Direction direction = Direction::Eq;
  bool add = false;                // Put: mode
  double real = 0;                 // Constant: splat of a float
  int64_t integer = 0;             // Constant: splat of an integer
  const std::byte *data = nullptr; // Constant: dense elements where not a splat
  size_t bytes = 0;
  Dim extent;               // Extent
  uint32_t slot = 0;        // Input: position in Group::inputs
  Dim offset = 0;           // Input: where element (0, ...) stands
  std::vector<Dim> strides; // Input
  bool reductions = false;  // a reduction is below
};

struct Dag {
  std::vector<Expr> exprs;   // operands first
  std::vector<ExprId> roots; // one per Group::outputs
  std::string key;           // equal keys: equal functions
  std::vector<SymbolRange> symbols;
};

// Errors: MORTISE_UNSUPPORTED naming the node that groups cannot compute.
Result<Dag> buildDag(const MortiseGraph &graph, const Group &group);

// Relative cost of computing one element of this expression from its operands (an add is 1).
int cost(const Expr &expr);

// Appends the expressions of one node; `map` finds operands by graph value. False when the op is not known.
bool expandNode(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands, ExprId &result);

// expandNode() knows every node of this op: an answer that costs no expressions.
bool expandsAlways(mortise::Op op);

// What computing one element of an elementwise op costs; nothing where there is no generated code (elementwise.cpp).
std::optional<int> elementwiseCost(Op op);

} // namespace mortise::codegen
