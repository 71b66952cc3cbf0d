// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes a graph as expressions, with the shapes of ONNX: operands of elementwise ops are repeated to a common shape.
#pragma once

#include "tensor.hpp"

#include <mortise/ops.hpp>

#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>

namespace mlir {
class MLIRContext;
}
namespace mortise::ir {
class Builder;
}

namespace mortise::onnx {

// A value of the graph, or one that is known already and becomes part of the graph where it is read.
struct Value {
  uint32_t id = UINT32_MAX; // ir::ValueId
  std::shared_ptr<const Tensor> constant;
  std::shared_ptr<const Tensor> offered; // of an input's value, or what follows from such; it may be bound
  std::vector<std::string> sources;      // these inputs
  int32_t dtype = 0;                     // 0: no value, an optional operand that is left out
  Dims dims;

  explicit operator bool() const { return dtype != 0; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  int64_t last() const { return dims.back(); }
};
using Values = std::vector<Value>;

// Of an op; a wrong kind is an error of the builder.
struct Attribute {
  Attribute(const char *name, bool value);
  Attribute(const char *name, int64_t value);
  Attribute(const char *name, double value);
  Attribute(const char *name, const char *value);
  Attribute(const char *name, Dims value);
  Attribute(const char *name, const Tensor &value);
  std::string name;
  int32_t kind;
  int64_t number = 0;
  double real = 0;
  std::string word;
  Dims list;
  const Tensor *tensor = nullptr;
};
using Attributes = std::vector<Attribute>;

class Emitter {
public:
  explicit Emitter(mlir::MLIRContext &context);
  ~Emitter();
  Emitter(const Emitter &) = delete;

  std::string place;               // of the node at hand, for messages
  std::vector<Tensor> weights;     // by the order of their inputs
  std::vector<std::string> inputs; // that are no weights
  std::vector<std::string> bound;  // inputs whose values were taken

  Value input(const std::string &name, int32_t dtype, const Dims &dims);
  Value constant(Tensor tensor);
  // Its elements as numbers; refuses a value that is not constant and has none to be bound.
  const Tensor &known(const Value &value, const char *what);
  // The graph with these results. The emitter is empty afterwards.
  std::shared_ptr<const Graph> finish(const Values &results);

  // ---- Any op
  Value op(OpName name, const Values &operands, const Attributes &attributes = {});
  Values ops(OpName name, const Values &operands, const Attributes &attributes = {});

  // ---- Numbers and shapes
  Value number(double value, int32_t dtype);
  Value like(const Value &of, double value) { return number(value, of.dtype); }
  Value integers(const Dims &numbers); // a tensor of rank 1
  Value convert(const Value &x, int32_t dtype);
  Value reshape(const Value &x, const Dims &shape);
  Value transpose(const Value &x, const Dims &permutation);
  Value swapLast(const Value &x);
  Value spread(const Value &x, const Dims &shape);         // its dimensions are the last ones of the shape
  Value along(const Value &x, int64_t axis, int64_t rank); // of rank 1, or as it is where it has one element
  Value slice(const Value &x, const Dims &starts, const Dims &limits, const Dims &strides = {});
  Value part(const Value &x, int64_t axis, int64_t begin, int64_t end); // of one axis
  Value concatenate(const Values &parts, int64_t axis);
  Value pad(const Value &x, const Dims &low, const Dims &high, const Value &with, const Dims &interior = {});
  Value reverse(const Value &x, const Dims &axes);
  Value iota(const Dims &shape, int64_t axis, int32_t dtype = MORTISE_I64);

  // ---- Elementwise
  Value map(OpName name, const Value &x) { return op(name, {x}); }
  Value combine(OpName name, const Value &a, const Value &b);
  Value add(const Value &a, const Value &b) { return combine("mortise.add", a, b); }
  Value sub(const Value &a, const Value &b) { return combine("mortise.sub", a, b); }
  Value mul(const Value &a, const Value &b) { return combine("mortise.mul", a, b); }
  Value div(const Value &a, const Value &b) { return combine("mortise.div", a, b); }
  Value maximum(const Value &a, const Value &b) { return combine("mortise.max", a, b); }
  Value minimum(const Value &a, const Value &b) { return combine("mortise.min", a, b); }
  Value scale(const Value &x, double by) { return mul(x, like(x, by)); }
  Value shift(const Value &x, double by) { return add(x, like(x, by)); }
  Value compare(const char *direction, const Value &a, const Value &b);
  Value select(const Value &predicate, const Value &a, const Value &b);

  // ---- Along axes
  Value reduce(OpName name, const Value &x, const Dims &axes, bool keeps);
  Value sum(const Value &x, const Dims &axes, bool keeps = true) {
    return reduce("mortise.reduce_sum", x, axes, keeps);
  }
  Value mean(const Value &x, const Dims &axes, bool keeps = true) { return reduce("mortise.mean", x, axes, keeps); }
  Value take(const Value &x, const Value &indices, int64_t axis);
  // Of the last two dimensions, as numpy.matmul has it, vectors included.
  Value matmul(const Value &a, const Value &b);

private:
  uint32_t idOf(const Value &value);
  Value made(uint32_t id);

  std::unique_ptr<ir::Builder> builder;
  std::map<const Tensor *, uint32_t> ids; // of constants that were read
  std::deque<std::shared_ptr<const Tensor>> kept;
};

// The shape of two operands together.
Dims common(const Dims &a, const Dims &b, const std::string &place);
Dims without(const Dims &dims, const Dims &axes);
Dims upTo(int64_t count);                 // 0, 1, ...
std::string typeText(const Value &value); // "f32[2, 3]"

} // namespace mortise::onnx
