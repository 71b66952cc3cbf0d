// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of one group as data: graph nodes with composites expanded. Independent of MLIR.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/graph.hpp>
#include <mortise/ops.hpp>

#include <map>
#include <optional>

namespace mortise::codegen {

// The ops of the dialect under their numbers, and ops that only expressions have.
enum class Op : uint16_t {
#define MORTISE_OP_ROW(NAME, Name, name) Name = MORTISE_OP_##NAME,
  MORTISE_FOR_EACH_OP(MORTISE_OP_ROW)
#undef MORTISE_OP_ROW
      Input = MORTISE_OP_COUNT,
  Extent, // a symbolic extent of the graph, as a number
  Keep,   // the operand with another dtype of the same register type; used inside composites, which round only when
          // stored
  MulAdd, // x * y + z, rounded once
  ExpOfNonPositive, // e^x of x <= 0
  ReduceFastMax,    // a maximum that may drop NaN, and take subnormal numbers for 0
  Position,         // where the element stands that its operand, a running extreme, is
  Window, // an index map: the operand's index i is at[axes[2i]] * steps[2i] + at[axes[2i + 1]] * steps[2i + 1], or
          // the first of them alone where the second axis is -1
};
template <typename... Traits> bool has(Op op, Trait trait, Traits... others) {
  return has(static_cast<mortise::Op>(op), trait, others...);
}
inline bool isElementwise(Op op) {
  return op == Op::Keep || op == Op::MulAdd || op == Op::ExpOfNonPositive || has(op, Trait::Elementwise);
}
inline bool isReduction(Op op) { return op == Op::ReduceFastMax || has(op, Trait::Reduction); }
inline bool isArg(Op op) { return op == Op::Argmax || op == Op::Argmin; }
inline bool isRunning(Op op) { return has(op, Trait::Running); }
// How many values a running op carries from element to element.
inline int64_t runSize(Op op) { return op == Op::Cumsum || op == Op::Cumprod ? 1 : 2; }
inline bool isSort(Op op) { return has(op, Trait::Sort); }
inline bool isUpdate(Op op) { return op == Op::Put || op == Op::ScatterAlong || op == Op::ScatterNd; }
enum class UpdateMode : uint8_t { Set, Add, Mul, Max, Min };

enum class Direction : uint8_t { Eq, Ne, Lt, Le, Gt, Ge };

using ExprId = uint32_t;

struct Expr {
  Op op = Op::Input;
  int32_t dtype = 0;
  std::vector<Dim> dims;
  // Of what isUpdate: the operand, indices, updates, and the place of each update, an i64: that of the first element
  // that it goes to in the dense result, or -1 where it is dropped.
  std::vector<ExprId> operands;
  // Attributes: `axes` also holds permutations; `starts` also holds `low`; `steps` holds strides or `interior`.
  std::vector<int64_t> axes, steps;
  std::vector<Dim> starts;
  Direction direction = Direction::Eq;
  UpdateMode mode = UpdateMode::Set;
  bool descending = false;         // Sort, TopK
  double real = 0;                 // Constant: splat of a float
  int64_t integer = 0;             // Constant: splat of an integer
  const std::byte *data = nullptr; // Constant: dense elements, when it is not a splat
  size_t bytes = 0;
  Dim extent;               // Extent
  uint32_t slot = 0;        // Input: position in Group::inputs
  Dim offset = 0;           // Input: position of element (0, ...)
  std::vector<Dim> strides; // Input
  bool stays = false;       // Input: bound once, so that no kernel of a call writes it
  bool reductions = false;  // it depends on a reduction
};

struct Dag {
  std::vector<Expr> exprs;                   // operands come before their users
  std::vector<ExprId> roots;                 // one per Group::outputs
  std::vector<std::vector<Dim>> rootStrides; // of each root in memory
  std::string key;                           // equal keys compile to equal functions
  std::vector<SymbolRange> symbols;          // of the graph
  std::vector<uint32_t> usedSymbols;         // the numbers of those that occur, ascending
  bool product = false;                      // a node of it is a product (isProduct)
};

// `nodes` in depth-first order from `outputs`, operands first. Equal computations come in equal order, wherever their
// nodes stand in the graph, so that they compile once.
std::vector<uint32_t> depthFirst(const MortiseGraph &graph, std::span<const uint32_t> nodes,
                                 std::span<const uint32_t> outputs);

// Errors: MORTISE_UNSUPPORTED, naming a node that groups cannot compute; MORTISE_INVALID_ARGUMENT when the group reads
// a value that is neither an input nor computed in it, or does not compute one of its outputs.
Result<Dag> buildDag(const MortiseGraph &graph, const Group &group);

// Relative cost of computing one element of this expression from its operands (an add is 1).
int cost(const Expr &expr);

// Appends the expressions of one node and sets `result` to the last one. `operands` has one expression per operand, ~0u
// for an optional one left out. False when the op has no expansion.
bool expandNode(Dag &dag, const MortiseNode &node, const std::vector<ExprId> &operands, ExprId &result);

// True when expandNode() expands every node of this op, so that supports() need not try.
bool expandsAlways(mortise::Op op);

// A product of tensors or a convolution: a node that becomes a sum of products.
bool isProduct(const MortiseNode &node);
inline bool isView(const MortiseNode &node) { return has(node, Trait::View); }
inline bool isSort(const MortiseNode &node) { return has(node, Trait::Sort); }
// A group of its own has such a node.
inline bool isAlone(const MortiseNode &node) { return isSort(node) || node.result_count > 1; }
inline bool isUpdate(const MortiseNode &node) { return isUpdate(static_cast<Op>(opOf(node))); }
// As supports(), of a target that computes more than all do (FuseTarget).
Support supports(const MortiseNode &node, FuseTarget target);

// The relative cost of one element of an elementwise op; nullopt when the op has no generated code (elementwise.cpp).
std::optional<int> elementwiseCost(Op op);

} // namespace mortise::codegen
