// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The expressions of one group: graph nodes with composites expanded, as data. Knows nothing of MLIR.
#pragma once

#include <mortise/codegen/codegen.hpp>
#include <mortise/graph.hpp>

#include <map>
#include <string_view>

namespace mortise::codegen {

enum class Op : uint8_t {
  Input,
  Constant,
  Extent, // an extent of the graph as a number
  Iota,
  // one operand
  Abs,
  Neg,
  Sign,
  Exp,
  Expm1,
  Log,
  Log1p,
  Sqrt,
  Rsqrt,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Sinh,
  Cosh,
  Tanh,
  Asinh,
  Acosh,
  Atanh,
  Log2,
  Log10,
  Exp2,
  Erf,
  Erfc,
  Logistic,
  Floor,
  Ceil,
  Round,
  Not,
  Relu,
  Gelu,
  Convert,
  Keep, // the operand under another dtype of the same register type: a
        // composite's one rounding is left to the store
  // two and three operands
  Add,
  Sub,
  Mul,
  Div,
  Rem,
  Pow,
  Max,
  Min,
  Atan2,
  And,
  Or,
  Xor,
  ShiftLeft,
  ShiftRight,
  Compare,
  Select,
  MulAdd,
  // index maps
  Reshape,
  Transpose,
  Broadcast,
  Slice,
  Reverse,
  Concatenate,
  Pad,
  Take,
  TakeAlong,
  TakeNd,
  // over many elements
  ReduceSum,
  ReduceProd,
  ReduceMax,
  ReduceMin,
  ReduceFastMax /* may lose NaN */,
  Argmax,
  Argmin,
  // along an axis
  Cumsum,
  Cumprod,
  Put,
};
inline bool isElementwise(Op op) { return op >= Op::Abs && op <= Op::MulAdd; }
inline bool isIndexMap(Op op) { return op >= Op::Reshape && op <= Op::TakeNd; }
inline bool isReduction(Op op) { return op >= Op::ReduceSum && op <= Op::Argmin; }
inline bool isArg(Op op) { return op == Op::Argmax || op == Op::Argmin; }
inline bool isRunning(Op op) { return op == Op::Cumsum || op == Op::Cumprod; }

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
bool expandsAlways(std::string_view op);

Dim count(const std::vector<Dim> &dims);

// Extents and positions of the graph as Dims; not valid where the graph's program is not.
std::vector<Dim> dimsOf(const MortiseType &type);
std::vector<SymbolRange> symbolsOf(const MortiseGraph &graph);
std::vector<Dim> dimsAttribute(const MortiseNode &node, std::string_view name);
// What one step along a broadcast's result is along its operand: 0 for a repeated extent, else 1; both are possible
// where an extent may be 1.
Dim repetition(const Dim &from, const Dim &to);

} // namespace mortise::codegen
