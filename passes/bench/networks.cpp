// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "networks.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace mortise::passes::bench {
namespace {

[[noreturn]] void refused(const Error &error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(1);
}

MortiseType typeOf(const std::vector<int64_t> &dims) {
  MortiseType type{};
  type.struct_size = sizeof type;
  type.dtype = MORTISE_F32;
  type.rank = static_cast<int32_t>(dims.size());
  type.dims = dims.data();
  return type;
}

MortiseAttribute attribute(const char *name, int32_t kind) {
  MortiseAttribute result{};
  result.struct_size = sizeof result;
  result.name = name;
  result.kind = kind;
  return result;
}

} // namespace

LayerMaker::Attributes &LayerMaker::Attributes::ints(const char *name, std::vector<int64_t> values) {
  arrays.push_back(std::move(values));
  list.push_back(attribute(name, MORTISE_ATTRIBUTE_I64_ARRAY));
  list.back().i64s = arrays.back().data();
  list.back().count = arrays.back().size();
  return *this;
}
LayerMaker::Attributes &LayerMaker::Attributes::integer(const char *name, int64_t value) {
  list.push_back(attribute(name, MORTISE_ATTRIBUTE_I64));
  list.back().i64 = value;
  return *this;
}
LayerMaker::Attributes &LayerMaker::Attributes::tensor(const char *name, const float *value) {
  types.push_back(typeOf({}));
  list.push_back(attribute(name, MORTISE_ATTRIBUTE_TENSOR));
  list.back().tensor_type = &types.back();
  list.back().tensor_data = value;
  list.back().count = sizeof *value;
  return *this;
}

LayerMaker::Value LayerMaker::input(std::vector<int64_t> dims, bool constant) {
  const MortiseType type = typeOf(dims);
  Result<Value> made =
      builder.addInput("input." + std::to_string(inputCount++), type, constant ? MORTISE_VALUE_CONSTANT : 0);
  if (!made)
    refused(made.error());
  return *made;
}

LayerMaker::Value LayerMaker::op(const char *name, std::vector<Value> operands, Attributes attributes) {
  std::vector<const MortiseAttribute *> list;
  for (const MortiseAttribute &attribute : attributes.list)
    list.push_back(&attribute);
  Result<std::vector<Value>> made = builder.addOp(name, operands, list, "model.py:" + std::to_string(opCount++ % 1000));
  if (!made)
    refused(made.error());
  return (*made)[0];
}

LayerMaker::Value LayerMaker::broadcast(Value x, std::vector<int64_t> dims, std::vector<int64_t> axes) {
  return op("mortise.broadcast", {x}, Attributes().ints("shape", std::move(dims)).ints("axes", std::move(axes)));
}
LayerMaker::Value LayerMaker::filled(float number, std::vector<int64_t> dims) {
  return broadcast(op("mortise.constant", {}, Attributes().tensor("value", &number)), std::move(dims), {});
}
LayerMaker::Value LayerMaker::reshape(Value x, std::vector<int64_t> dims) {
  return op("mortise.reshape", {x}, Attributes().ints("shape", std::move(dims)));
}
LayerMaker::Value LayerMaker::transpose(Value x, std::vector<int64_t> permutation) {
  return op("mortise.transpose", {x}, Attributes().ints("permutation", std::move(permutation)));
}
LayerMaker::Value LayerMaker::dot(Value a, Value b, std::vector<int64_t> batch, int64_t left, int64_t right) {
  return op("mortise.dot", {a, b},
            Attributes()
                .ints("lhs_batch", batch)
                .ints("rhs_batch", batch)
                .ints("lhs_contract", {left})
                .ints("rhs_contract", {right}));
}

LayerMaker::Value LayerMaker::linear(Value x, int64_t from, int64_t to) {
  const Value weight = transpose(input({to, from}, true), {1, 0});
  const Value bias = broadcast(input({to}, true), {shape.tokens, to}, {1});
  return add(dot(x, weight, {}, 1, 0), bias);
}

LayerMaker::Value LayerMaker::rowMean(Value x) {
  const Value sum = op("mortise.reduce_sum", {x}, Attributes().ints("axes", {1}));
  const Value mean = op("mortise.div", {sum, filled(static_cast<float>(shape.hidden), {shape.tokens})});
  return reshape(mean, {shape.tokens, 1});
}

// x * cos + rotate_half(x) * sin
LayerMaker::Value LayerMaker::rotate(Value x) {
  const int64_t half = shape.hidden / shape.heads / 2, tokens = shape.tokens, heads = shape.heads;
  const auto part = [&](int64_t from) {
    return op("mortise.slice", {x},
              Attributes()
                  .ints("starts", {0, 0, from})
                  .ints("limits", {heads, tokens, from + half})
                  .ints("strides", {1, 1, 1}));
  };
  const Value turned =
      op("mortise.concatenate", {op("mortise.neg", {part(half)}), part(0)}, Attributes().integer("axis", 2));
  const std::vector<int64_t> dims{heads, tokens, 2 * half};
  return add(op("mortise.mul", {x, broadcast(cosines, dims, {1, 2})}),
             op("mortise.mul", {turned, broadcast(sines, dims, {1, 2})}));
}

LayerMaker::Value LayerMaker::attention(Value x) {
  const int64_t tokens = shape.tokens, hidden = shape.hidden, heads = shape.heads, size = hidden / heads;
  const auto split = [&](Value projected) { return transpose(reshape(projected, {tokens, heads, size}), {1, 0, 2}); };
  const Value q = rotate(split(linear(x, hidden, hidden))), k = rotate(split(linear(x, hidden, hidden)));
  const Value v = split(linear(x, hidden, hidden));
  const std::vector<int64_t> square{heads, tokens, tokens};
  Value scores = dot(q, transpose(k, {0, 2, 1}), {0}, 2, 1);
  scores = op("mortise.mul", {scores, filled(1 / std::sqrt(static_cast<float>(size)), square)});
  scores = add(scores, broadcast(mask, square, {1, 2}));
  const auto repeated = [&](Value row) { return broadcast(reshape(row, {heads, tokens, 1}), square, {0, 1, 2}); };
  const Value top = op("mortise.reduce_max", {scores}, Attributes().ints("axes", {2}));
  const Value powers = op("mortise.exp", {op("mortise.sub", {scores, repeated(top)})});
  const Value sum = op("mortise.reduce_sum", {powers}, Attributes().ints("axes", {2}));
  const Value weights = op("mortise.div", {powers, repeated(sum)});
  const Value read = transpose(dot(weights, v, {0}, 2, 1), {1, 0, 2});
  return linear(reshape(read, {tokens, hidden}), hidden, hidden);
}

void LayerMaker::prepare() {
  mask = input({shape.tokens, shape.tokens}, false);
  cosines = input({shape.tokens, shape.hidden / shape.heads}, true);
  sines = input({shape.tokens, shape.hidden / shape.heads}, true);
}

LayerMaker::Value LayerMaker::rsqrtOfMean(Value squares) {
  const Value root = op("mortise.rsqrt", {add(rowMean(squares), filled(1e-5f, {shape.tokens, 1}))});
  return broadcast(root, {shape.tokens, shape.hidden}, {0, 1});
}

LayerMaker::Value LayerMaker::layerNorm(Value x) {
  const std::vector<int64_t> full{shape.tokens, shape.hidden};
  const auto parameter = [&] { return broadcast(input({shape.hidden}, true), full, {1}); };
  const Value distance = op("mortise.sub", {x, broadcast(rowMean(x), full, {0, 1})});
  const Value normed = op("mortise.mul", {distance, rsqrtOfMean(op("mortise.mul", {distance, distance}))});
  return add(op("mortise.mul", {normed, parameter()}), parameter());
}

LayerMaker::Value LayerMaker::layer(Value x) {
  x = add(x, attention(layerNorm(x)));
  // rms norm
  Value normed = op("mortise.mul", {x, rsqrtOfMean(op("mortise.mul", {x, x}))});
  normed = op("mortise.mul", {normed, broadcast(input({shape.hidden}, true), {shape.tokens, shape.hidden}, {1})});
  const Value gate = linear(normed, shape.hidden, shape.inner), up = linear(normed, shape.hidden, shape.inner);
  const Value active = op("mortise.mul", {op("mortise.mul", {gate, op("mortise.logistic", {gate})}), up});
  return add(x, linear(active, shape.inner, shape.hidden));
}

} // namespace mortise::passes::bench
