// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Networks of any size for measuring the compiler: transformer layers as a frontend writes them out, in small steps.
#pragma once

#include <mortise/ir/builder.hpp>

#include <deque>

namespace mortise::passes::bench {

struct Shape {
  int64_t tokens = 16, hidden = 64, heads = 4, inner = 128;
};

// Every value is f32. Throws when the builder refuses an op, which is a bug in this class.
class LayerMaker {
public:
  LayerMaker(ir::Builder &builder, Shape shape) : builder(builder), shape(shape) {}

  using Value = ir::ValueId;
  Value input(std::vector<int64_t> dims, bool constant);
  // Layer norm, attention with rotary embedding and a mask, rms norm, gated MLP, residuals: [tokens, hidden] to the
  // same, about 80 ops.
  Value layer(Value x);
  // The head of a language model: layer norm and a linear, [tokens, hidden] to [tokens, outputs].
  Value head(Value x, int64_t outputs) { return linear(layerNorm(x), shape.hidden, outputs); }
  Value add(Value a, Value b) { return op("mortise.add", {a, b}); }
  size_t ops() const { return opCount; }
  void prepare(); // makes what all layers share: the mask and rotary tables

private:
  struct Attributes {
    std::deque<MortiseAttribute> list;
    std::deque<std::vector<int64_t>> arrays;
    std::deque<MortiseType> types;
    Attributes &ints(const char *name, std::vector<int64_t> values);
    Attributes &integer(const char *name, int64_t value);
    Attributes &tensor(const char *name, const float *value);
  };
  Value op(const char *name, std::vector<Value> operands, Attributes attributes = {});
  Value filled(float number, std::vector<int64_t> dims);
  Value broadcast(Value x, std::vector<int64_t> dims, std::vector<int64_t> axes);
  Value reshape(Value x, std::vector<int64_t> dims);
  Value transpose(Value x, std::vector<int64_t> permutation);
  Value dot(Value a, Value b, std::vector<int64_t> batch, int64_t left, int64_t right);
  Value linear(Value x, int64_t from, int64_t to);
  Value rowMean(Value x);
  Value rotate(Value x);
  Value attention(Value x);
  Value layerNorm(Value x);
  Value rsqrtOfMean(Value squares);

  ir::Builder &builder;
  Shape shape;
  Value mask = 0, cosines = 0, sines = 0;
  size_t opCount = 0, inputCount = 0;
};

} // namespace mortise::passes::bench
