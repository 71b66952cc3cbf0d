// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs of several nodes, written as expressions, and their gradients.
#pragma once

#include "view_builder.hpp"

#include <mortise/ops.hpp>

#include <set>
#include <span>
#include <string>
#include <vector>

namespace mortise::conformance {

using Dims = std::vector<int64_t>;
using Value = const MortiseValue *;

// An input, filled with evenly distributed numbers from `low` to `high`: integers of both ends, floats below the upper.
struct Leaf {
  Value value = nullptr;
  double low = 0, high = 1;
  bool isWeight = false;
};

// Records nodes as they are written down. Shapes follow NumPy's rules: operands of elementwise ops are repeated to a
// common shape. All floats have one element type unless a function is given another.
class Tape {
public:
  // `expanded`: composite ops in whose place stand the core ops that they mean (expansions.cpp).
  explicit Tape(int32_t dtype, std::set<Op> expanded = {}) : dtype(dtype), expanded(std::move(expanded)) {}
  Tape(const Tape &) = delete;

  const int32_t dtype;
  const std::set<Op> expanded;
  ViewBuilder builder;
  std::vector<Leaf> leaves; // in the order of the graph's inputs
  bool bindsWeights = true; // weights are constants

  // ---- Inputs and outputs
  Value input(const Dims &dims, double low = -1, double high = 1, int32_t of = 0);
  Value weight(const Dims &dims, double low, double high, int32_t of = 0);
  Value weight(const Dims &dims); // of a deviation that keeps the size of what it is multiplied with
  Value integers(const Dims &dims, int64_t low, int64_t high, int32_t of = MORTISE_I64);
  void output(Value value) { builder.output(const_cast<MortiseValue *>(value)); }
  // The value is what becomes of the input, a state, in its memory.
  void state(Value input, Value value);

  // ---- Numbers and shapes
  Value number(double value, int32_t of = 0); // a scalar
  Value zeros(const Dims &dims);
  Value convert(Value x, int32_t to);
  Value reshape(Value x, const Dims &shape);
  Value transpose(Value x, const Dims &permutation);
  Value broadcast(Value x, const Dims &shape, const Dims &axes);
  Value spread(Value x, const Dims &shape); // its dimensions are the last ones
  Value slice(Value x, const Dims &starts, const Dims &limits, const Dims &strides = {});
  Value part(Value x, int64_t axis, int64_t begin, int64_t end); // of one axis
  Value concatenate(const std::vector<Value> &parts, int64_t axis);
  Value pad(Value x, const Dims &low, const Dims &high, const Dims &interior = {}); // with 0
  Value reverse(Value x, const Dims &axes);
  Value iota(const Dims &dims, int64_t axis, int32_t of = MORTISE_I64);

  // ---- Elementwise
  Value map(const char *op, Value x); // exp and others of one operand without attributes; relu and silu, too
  Value combine(const char *op, Value a, Value b);
  Value add(Value a, Value b) { return combine("add", a, b); }
  Value sub(Value a, Value b) { return combine("sub", a, b); }
  Value mul(Value a, Value b) { return combine("mul", a, b); }
  Value div(Value a, Value b) { return combine("div", a, b); }
  Value scale(Value x, double by) { return mul(x, number(by, x->type->dtype)); }
  Value shift(Value x, double by) { return add(x, number(by, x->type->dtype)); }
  Value compare(const char *direction, Value a, Value b);
  Value select(Value predicate, Value a, Value b);
  Value gelu(Value x, bool isTanh = false);

  // ---- Sums and products. `keeps`: axes stay, with extent 1.
  Value reduce(const char *op, Value x, const Dims &axes, bool keeps = false);
  Value sum(Value x, const Dims &axes, bool keeps = false) { return reduce("reduce_sum", x, axes, keeps); }
  Value mean(Value x, const Dims &axes, bool keeps = false) { return reduce("mean", x, axes, keeps); }
  struct Axes { // of a product
    Dims lhsBatch, rhsBatch, lhsContract, rhsContract;
  };
  Value dot(Value a, Value b, const Axes &axes);
  Value matmul(Value a, Value b); // of the last two dimensions; those before are equal
  Value linear(Value x, Value weight, Value bias = nullptr);
  Value quantizedLinear(Value x, Value weight, Value scale, Value zero = nullptr, Value bias = nullptr);
  struct Window { // equal in all spatial dimensions
    int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
  };
  Value convolution(Value x, Value weight, const Window &window);
  Value fusedConvolution(Value x, Value weight, Value bias, const Window &window, const char *activation);
  Value pool(const char *op, Value x, int64_t size, int64_t stride, int64_t padding = 0);
  Value attention(Value q, Value k, Value v, Value mask, double scale, bool causal);
  Value rope(Value x, Value cosine, Value sine);

  // ---- Along axes
  Value softmax(const char *op, Value x, int64_t axis); // or log_softmax
  Value layerNorm(Value x, Value scale, Value bias, int64_t axis, double epsilon = 1e-5);
  Value rmsNorm(Value x, Value scale, int64_t axis, double epsilon = 1e-5);
  Value groupNorm(Value x, Value scale, Value bias, int64_t groups, double epsilon = 1e-5);
  Value batchNorm(Value x, Value scale, Value bias, Value mean, Value variance, double epsilon = 1e-5);
  Value crossEntropy(Value logits, Value targets);
  Value embedding(Value table, Value indices);
  Value take(Value x, Value indices, int64_t axis);
  Value put(Value x, Value indices, Value updates, int64_t axis, const char *mode);
  Value running(const char *op, Value x, int64_t axis); // cumsum and others
  Value argmax(Value x, int64_t axis);
  std::pair<Value, Value> sort(Value x, int64_t axis, bool isDescending); // values and indices
  std::pair<Value, Value> topK(Value x, int64_t k, int64_t axis);         // values and indices
  Value dropout(Value x, double p, Value key, Value offset);
  Value uniform(const Dims &dims, Value key, Value offset); // in f32
  Value randomBits(const Dims &dims, Value key, Value offset);

  // ---- Quantisation
  Value quantize(Value x, Value scale, Value zero, int32_t to);
  Value dequantize(Value x, Value scale, Value zero);
  std::pair<Value, Value> dynamicQuantize(Value x, int32_t to); // numbers and scales

  // Records another graph, a static one that outlives this object: its inputs and nodes, expanded composites as their
  // parts where that is known for their attributes, and its outputs.
  void record(const MortiseGraph &from);

  // The derivatives, by each of `to`, of the sum of `of`'s elements times those of `adjoint` (reverse accumulation;
  // Griewank and Walther, Evaluating Derivatives, 2008, chapter 3). Values that `of` does not depend on have the
  // derivative zero. Ends the program where an op on the way has no rule, which is a fault of the kit.
  std::vector<Value> gradients(Value of, Value adjoint, std::span<const Value> to);

  bool isExpanded(Op op) const { return expanded.contains(op); }
  static Dims dimsOf(Value value) { return {value->type->dims, value->type->dims + value->type->rank}; }
  static int64_t lastOf(Value value) { return value->type->dims[value->type->rank - 1]; }

private:
  Value node(const char *op, const std::vector<Value> &operands, int32_t of, const Dims &dims,
             std::vector<test::Attribute> attributes = {});
  std::vector<Value> nodes(const char *op, const std::vector<Value> &operands,
                           const std::vector<const MortiseType *> &types, std::vector<test::Attribute> attributes);
  std::vector<Value> recordNode(const MortiseNode &node, const std::vector<Value> &operands);
  Value recordExpanded(const MortiseNode &node, const std::vector<Value> &operands);
  Dims windowed(Value x, const Dims &kernel, int64_t channels, const Window &window) const;
};

// The attribute list of a node.
Dims listOf(const MortiseNode &node, const char *attribute);

} // namespace mortise::conformance
