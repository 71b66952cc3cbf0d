// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tape.hpp"
#include "expansions.hpp"

#include <mortise/reference/formats.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace mortise::conformance {
namespace {

using test::flag;
using test::integer;
using test::real;
using test::string;

Dims counting(size_t count) {
  Dims axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Dims common(const Dims &a, const Dims &b) {
  Dims made(std::max(a.size(), b.size()));
  for (size_t i = 0; i < made.size(); ++i) {
    const auto from = [&](const Dims &dims) {
      const size_t missing = made.size() - dims.size();
      return i < missing ? 1 : dims[i - missing];
    };
    made[i] = from(a) == 1 ? from(b) : from(a);
  }
  return made;
}

std::vector<uint8_t> bytesOf(int32_t dtype, double value) {
  std::vector<uint8_t> bytes(dtypeBits(dtype) / 8);
  reference::visitElement(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    const typename Kind::Storage stored = Kind::store(static_cast<typename Kind::Compute>(value));
    std::memcpy(bytes.data(), &stored, bytes.size());
  });
  return bytes;
}

} // namespace

Dims listOf(const MortiseNode &node, const char *attribute) {
  const auto list = intsAttribute(node, attribute);
  return {list.begin(), list.end()};
}

std::vector<Value> Tape::nodes(const char *op, const std::vector<Value> &operands,
                               const std::vector<const MortiseType *> &types, std::vector<test::Attribute> attributes) {
  const auto made = builder.ops(op, operands, types, std::move(attributes));
  MortiseNode &node = builder.lastNode();
  if (const MortiseOpInfo *info = infoOf(opOf(node)))
    node.since = info->since;
  return {made.begin(), made.end()};
}

Value Tape::node(const char *op, const std::vector<Value> &operands, int32_t of, const Dims &dims,
                 std::vector<test::Attribute> attributes) {
  return nodes(op, operands, {builder.type(of, dims)}, std::move(attributes)).front();
}

Value Tape::input(const Dims &dims, double low, double high, int32_t of) {
  Value value = builder.input(of ? of : dtype, dims);
  leaves.push_back({value, low, high, false});
  return value;
}

Value Tape::weight(const Dims &dims, double low, double high, int32_t of) {
  Value value = input(dims, low, high, of);
  leaves.back().isWeight = true;
  if (bindsWeights)
    const_cast<MortiseValue *>(value)->flags |= MORTISE_VALUE_CONSTANT;
  return value;
}

Value Tape::weight(const Dims &dims) {
  double terms = 1; // of a sum: all dimensions but the first, which are the results
  for (size_t i = 1; i < dims.size(); ++i)
    terms *= static_cast<double>(dims[i]);
  const double most = std::sqrt(3 / terms);
  return weight(dims, -most, most);
}

Value Tape::integers(const Dims &dims, int64_t low, int64_t high, int32_t of) {
  return input(dims, static_cast<double>(low), static_cast<double>(high), of);
}

void Tape::state(Value input, Value value) {
  const_cast<MortiseValue *>(input)->flags |= MORTISE_VALUE_STATE;
  builder.alias(input->result_index, static_cast<uint32_t>(builder.view().output_count));
  output(value);
}

Value Tape::number(double value, int32_t of) {
  const MortiseType *type = builder.type(of ? of : dtype, {});
  return nodes("constant", {}, {type}, {test::tensor("value", type, bytesOf(type->dtype, value))}).front();
}

Value Tape::zeros(const Dims &dims) { return spread(number(0), dims); }

Value Tape::convert(Value x, int32_t to) {
  return x->type->dtype == to ? x : node("convert", {x}, to, dimsOf(x), {string("dtype", dtypeName(to))});
}

Value Tape::reshape(Value x, const Dims &shape) {
  return dimsOf(x) == shape ? x : node("reshape", {x}, x->type->dtype, shape, {test::integers("shape", shape)});
}

Value Tape::transpose(Value x, const Dims &permutation) {
  Dims dims;
  for (const int64_t axis : permutation)
    dims.push_back(x->type->dims[axis]);
  return node("transpose", {x}, x->type->dtype, dims, {test::integers("permutation", permutation)});
}

Value Tape::broadcast(Value x, const Dims &shape, const Dims &axes) {
  return node("broadcast", {x}, x->type->dtype, shape, {test::integers("axes", axes), test::integers("shape", shape)});
}

Value Tape::spread(Value x, const Dims &shape) {
  const Dims dims = dimsOf(x);
  if (dims == shape)
    return x;
  Dims axes = counting(dims.size());
  for (int64_t &axis : axes)
    axis += static_cast<int64_t>(shape.size() - dims.size());
  return broadcast(x, shape, axes);
}

Value Tape::slice(Value x, const Dims &starts, const Dims &limits, const Dims &strides) {
  const Dims steps = strides.empty() ? Dims(starts.size(), 1) : strides;
  Dims dims;
  for (size_t i = 0; i < starts.size(); ++i)
    dims.push_back((limits[i] - starts[i] + steps[i] - 1) / steps[i]);
  return node("slice", {x}, x->type->dtype, dims,
              {test::integers("starts", starts), test::integers("limits", limits), test::integers("strides", steps)});
}

Value Tape::part(Value x, int64_t axis, int64_t begin, int64_t end) {
  Dims starts(static_cast<size_t>(x->type->rank)), limits = dimsOf(x);
  starts[static_cast<size_t>(axis)] = begin;
  limits[static_cast<size_t>(axis)] = end;
  return slice(x, starts, limits);
}

Value Tape::concatenate(const std::vector<Value> &parts, int64_t axis) {
  Dims dims = dimsOf(parts.front());
  dims[static_cast<size_t>(axis)] = 0;
  for (Value value : parts)
    dims[static_cast<size_t>(axis)] += value->type->dims[axis];
  return node("concatenate", parts, parts.front()->type->dtype, dims, {integer("axis", axis)});
}

Value Tape::pad(Value x, const Dims &low, const Dims &high, const Dims &interior) {
  const Dims between = interior.empty() ? Dims(low.size()) : interior;
  Dims dims = dimsOf(x);
  for (size_t i = 0; i < dims.size(); ++i)
    dims[i] += low[i] + high[i] + std::max<int64_t>(dims[i] - 1, 0) * between[i];
  return node("pad", {x, number(0, x->type->dtype)}, x->type->dtype, dims,
              {test::integers("low", low), test::integers("high", high), test::integers("interior", between)});
}

Value Tape::reverse(Value x, const Dims &axes) {
  return node("reverse", {x}, x->type->dtype, dimsOf(x), {test::integers("axes", axes)});
}

Value Tape::iota(const Dims &dims, int64_t axis, int32_t of) {
  return node("iota", {}, of, dims,
              {test::integers("shape", dims), string("dtype", dtypeName(of)), integer("axis", axis)});
}

Value Tape::map(const char *op, Value x) {
  const std::string_view name = op;
  if (name == "relu" && isExpanded(Op::Relu))
    return combine("max", x, number(0, x->type->dtype));
  if (name == "silu" && isExpanded(Op::Silu))
    return mul(x, map("logistic", x));
  return node(op, {x}, x->type->dtype, dimsOf(x));
}

Value Tape::combine(const char *op, Value a, Value b) {
  if (std::string_view(op) == "swiglu" && isExpanded(Op::Swiglu))
    return mul(map("silu", a), b);
  const Dims dims = common(dimsOf(a), dimsOf(b));
  return node(op, {spread(a, dims), spread(b, dims)}, a->type->dtype, dims);
}

Value Tape::compare(const char *direction, Value a, Value b) {
  const Dims dims = common(dimsOf(a), dimsOf(b));
  return node("compare", {spread(a, dims), spread(b, dims)}, MORTISE_I1, dims, {string("direction", direction)});
}

Value Tape::select(Value predicate, Value a, Value b) {
  const Dims dims = common(dimsOf(predicate), common(dimsOf(a), dimsOf(b)));
  return node("select", {spread(predicate, dims), spread(a, dims), spread(b, dims)}, a->type->dtype, dims);
}

Value Tape::gelu(Value x, bool isTanh) {
  if (isExpanded(Op::Gelu))
    return expansion::gelu(*this, x, isTanh);
  return node("gelu", {x}, x->type->dtype, dimsOf(x), {string("approximate", isTanh ? "tanh" : "none")});
}

Value Tape::reduce(const char *op, Value x, const Dims &axes, bool keeps) {
  if (std::string_view(op) == "mean" && isExpanded(Op::Mean)) {
    double count = 1;
    for (const int64_t axis : axes)
      count *= static_cast<double>(x->type->dims[axis]);
    return scale(sum(x, axes, keeps), 1 / count);
  }
  Dims dims, kept = dimsOf(x);
  for (size_t i = 0; i < kept.size(); ++i)
    if (std::ranges::find(axes, static_cast<int64_t>(i)) == axes.end())
      dims.push_back(kept[i]);
    else
      kept[i] = 1;
  Value made = node(op, {x}, x->type->dtype, dims, {test::integers("axes", axes)});
  return keeps ? reshape(made, kept) : made;
}

Value Tape::dot(Value a, Value b, const Axes &axes) {
  Dims dims;
  const auto isIn = [](const Dims &list, int64_t axis) { return std::ranges::find(list, axis) != list.end(); };
  for (const int64_t axis : axes.lhsBatch)
    dims.push_back(a->type->dims[axis]);
  for (int64_t i = 0; i < a->type->rank; ++i)
    if (!isIn(axes.lhsBatch, i) && !isIn(axes.lhsContract, i))
      dims.push_back(a->type->dims[i]);
  for (int64_t i = 0; i < b->type->rank; ++i)
    if (!isIn(axes.rhsBatch, i) && !isIn(axes.rhsContract, i))
      dims.push_back(b->type->dims[i]);
  return node("dot", {a, b}, a->type->dtype, dims,
              {test::integers("lhs_batch", axes.lhsBatch), test::integers("rhs_batch", axes.rhsBatch),
               test::integers("lhs_contract", axes.lhsContract), test::integers("rhs_contract", axes.rhsContract)});
}

Value Tape::matmul(Value a, Value b) {
  const int64_t rank = a->type->rank;
  const Dims batch = counting(static_cast<size_t>(rank - 2));
  return dot(a, b, {batch, batch, {rank - 1}, {rank - 2}});
}

Value Tape::linear(Value x, Value weight, Value bias) {
  if (isExpanded(Op::Linear))
    return expansion::linear(*this, x, weight, bias);
  Dims dims = dimsOf(x);
  dims.back() = weight->type->dims[0];
  return node("linear", {x, weight, bias}, x->type->dtype, dims, {flag("weight_transposed", false)});
}

Value Tape::quantizedLinear(Value x, Value weight, Value scale, Value zero, Value bias) {
  if (isExpanded(Op::QuantizedLinear))
    return expansion::quantizedLinear(*this, x, weight, scale, zero, bias);
  Dims dims = dimsOf(x);
  dims.back() = weight->type->dims[0];
  return node("quantized_linear", {x, weight, scale, zero, bias}, x->type->dtype, dims,
              {flag("weight_transposed", false)});
}

Dims Tape::windowed(Value x, const Dims &kernel, int64_t channels, const Window &window) const {
  Dims dims = {x->type->dims[0], channels};
  for (size_t i = 0; i < kernel.size(); ++i)
    dims.push_back((x->type->dims[i + 2] + 2 * window.padding - window.dilation * (kernel[i] - 1) - 1) / window.stride +
                   1);
  return dims;
}

namespace {
std::vector<test::Attribute> attributesOf(const Tape::Window &window, size_t spatial) {
  return {test::integers("strides", Dims(spatial, window.stride)), test::integers("low", Dims(spatial, window.padding)),
          test::integers("high", Dims(spatial, window.padding)),
          test::integers("dilations", Dims(spatial, window.dilation))};
}
} // namespace

Value Tape::convolution(Value x, Value weight, const Window &window) {
  const Dims shape = dimsOf(weight), kernel(shape.begin() + 2, shape.end());
  auto attributes = attributesOf(window, kernel.size());
  attributes.push_back(integer("groups", window.groups));
  return node("convolution", {x, weight}, x->type->dtype, windowed(x, kernel, shape[0], window), std::move(attributes));
}

Value Tape::fusedConvolution(Value x, Value weight, Value bias, const Window &window, const char *activation) {
  if (isExpanded(Op::FusedConvolution))
    return expansion::fusedConvolution(*this, x, weight, bias, window, activation);
  const Dims shape = dimsOf(weight), kernel(shape.begin() + 2, shape.end());
  auto attributes = attributesOf(window, kernel.size());
  attributes.push_back(integer("groups", window.groups));
  attributes.push_back(string("activation", activation));
  return node("fused_convolution", {x, weight, nullptr, bias}, x->type->dtype, windowed(x, kernel, shape[0], window),
              std::move(attributes));
}

Value Tape::pool(const char *op, Value x, int64_t size, int64_t stride, int64_t padding) {
  const Dims kernel(static_cast<size_t>(x->type->rank - 2), size);
  const Window window{stride, padding};
  auto attributes = attributesOf(window, kernel.size());
  attributes.push_back(test::integers("window", kernel));
  return node(op, {x}, x->type->dtype, windowed(x, kernel, x->type->dims[1], window), std::move(attributes));
}

Value Tape::attention(Value q, Value k, Value v, Value mask, double scale, bool causal) {
  if (isExpanded(Op::Attention))
    return expansion::attention(*this, q, k, v, mask, scale, causal);
  Dims dims = dimsOf(q);
  dims.back() = lastOf(v);
  return node("attention", {q, k, v, mask}, q->type->dtype, dims, {real("scale", scale), flag("causal", causal)});
}

Value Tape::rope(Value x, Value cosine, Value sine) {
  if (isExpanded(Op::Rope))
    return expansion::rope(*this, x, cosine, sine);
  return node("rope", {x, cosine, sine}, x->type->dtype, dimsOf(x), {flag("interleaved", false)});
}

Value Tape::softmax(const char *op, Value x, int64_t axis) {
  const bool isLogarithm = std::string_view(op) == "log_softmax";
  if (isExpanded(isLogarithm ? Op::LogSoftmax : Op::Softmax))
    return expansion::softmax(*this, x, axis, isLogarithm);
  return node(op, {x}, x->type->dtype, dimsOf(x), {integer("axis", axis)});
}

Value Tape::layerNorm(Value x, Value scale, Value bias, int64_t axis, double epsilon) {
  if (isExpanded(Op::LayerNorm))
    return expansion::norm(*this, x, scale, bias, axis, true, epsilon);
  return node("layer_norm", {x, scale, bias}, x->type->dtype, dimsOf(x),
              {integer("axis", axis), real("epsilon", epsilon)});
}

Value Tape::rmsNorm(Value x, Value scale, int64_t axis, double epsilon) {
  if (isExpanded(Op::RmsNorm))
    return expansion::norm(*this, x, scale, nullptr, axis, false, epsilon);
  return node("rms_norm", {x, scale}, x->type->dtype, dimsOf(x), {integer("axis", axis), real("epsilon", epsilon)});
}

Value Tape::groupNorm(Value x, Value scale, Value bias, int64_t groups, double epsilon) {
  if (isExpanded(Op::GroupNorm))
    return expansion::groupNorm(*this, x, scale, bias, groups, epsilon);
  return node("group_norm", {x, scale, bias}, x->type->dtype, dimsOf(x),
              {integer("groups", groups), real("epsilon", epsilon)});
}

Value Tape::batchNorm(Value x, Value scale, Value bias, Value mean, Value variance, double epsilon) {
  if (isExpanded(Op::BatchNorm))
    return expansion::batchNorm(*this, x, scale, bias, mean, variance, epsilon);
  return node("batch_norm", {x, scale, bias, mean, variance}, x->type->dtype, dimsOf(x), {real("epsilon", epsilon)});
}

Value Tape::crossEntropy(Value logits, Value targets) {
  if (isExpanded(Op::CrossEntropy))
    return expansion::crossEntropy(*this, logits, targets);
  return node("cross_entropy", {logits, targets}, logits->type->dtype, {},
              {integer("ignore_index", -100), real("label_smoothing", 0), string("reduction", "mean")});
}

Value Tape::embedding(Value table, Value indices) {
  if (isExpanded(Op::Embedding))
    return take(table, indices, 0);
  Dims dims = dimsOf(indices);
  dims.push_back(lastOf(table));
  return node("embedding", {table, indices}, table->type->dtype, dims);
}

Value Tape::take(Value x, Value indices, int64_t axis) {
  Dims dims = dimsOf(x);
  dims.erase(dims.begin() + axis);
  const Dims chosen = dimsOf(indices);
  dims.insert(dims.begin() + axis, chosen.begin(), chosen.end());
  return node("take", {x, indices}, x->type->dtype, dims, {integer("axis", axis)});
}

Value Tape::put(Value x, Value indices, Value updates, int64_t axis, const char *mode) {
  return node("put", {x, indices, updates}, x->type->dtype, dimsOf(x), {integer("axis", axis), string("mode", mode)});
}

Value Tape::running(const char *op, Value x, int64_t axis) {
  return node(op, {x}, x->type->dtype, dimsOf(x), {integer("axis", axis)});
}

Value Tape::argmax(Value x, int64_t axis) {
  Dims dims = dimsOf(x);
  dims.erase(dims.begin() + axis);
  return node("argmax", {x}, MORTISE_I64, dims, {integer("axis", axis)});
}

std::pair<Value, Value> Tape::topK(Value x, int64_t k, int64_t axis) {
  if (isExpanded(Op::TopK))
    return expansion::topK(*this, x, k, axis);
  Dims dims = dimsOf(x);
  dims[static_cast<size_t>(axis)] = k;
  const auto made = nodes("top_k", {x}, {builder.type(x->type->dtype, dims), builder.type(MORTISE_I64, dims)},
                          {integer("k", k), integer("axis", axis), flag("largest", true), flag("sorted", true)});
  return {made[0], made[1]};
}

std::pair<Value, Value> Tape::sort(Value x, int64_t axis, bool isDescending) {
  const auto made = nodes("sort", {x}, {x->type, builder.type(MORTISE_I64, dimsOf(x))},
                          {integer("axis", axis), flag("descending", isDescending), flag("stable", true)});
  return {made[0], made[1]};
}

Value Tape::randomBits(const Dims &dims, Value key, Value offset) {
  return node("random_bits", {key, offset}, MORTISE_I32, dims,
              {test::integers("shape", dims), string("dtype", dtypeName(MORTISE_I32))});
}

Value Tape::uniform(const Dims &dims, Value key, Value offset) {
  if (isExpanded(Op::Uniform))
    return expansion::uniform(*this, dims, key, offset);
  return node("uniform", {key, offset}, MORTISE_F32, dims,
              {test::integers("shape", dims), string("dtype", dtypeName(MORTISE_F32))});
}

Value Tape::dropout(Value x, double p, Value key, Value offset) {
  if (isExpanded(Op::Dropout))
    return expansion::dropout(*this, x, p, key, offset);
  return nodes("dropout", {x, key, offset},
               {builder.type(x->type->dtype, dimsOf(x)), builder.type(MORTISE_I1, dimsOf(x))}, {real("p", p)})
      .front();
}

Value Tape::quantize(Value x, Value scale, Value zero, int32_t to) {
  if (isExpanded(Op::Quantize))
    return expansion::quantize(*this, x, scale, zero, to);
  return node("quantize", {x, scale, zero}, to, dimsOf(x), {string("dtype", dtypeName(to))});
}

Value Tape::dequantize(Value x, Value scale, Value zero) {
  if (isExpanded(Op::Dequantize))
    return expansion::dequantize(*this, x, scale, zero);
  return node("dequantize", {x, scale, zero}, dtype, dimsOf(x), {string("dtype", dtypeName(dtype))});
}

std::pair<Value, Value> Tape::dynamicQuantize(Value x, int32_t to) {
  if (isExpanded(Op::DynamicQuantize))
    return expansion::dynamicQuantize(*this, x, to);
  Dims scales = dimsOf(x);
  scales.back() = 1;
  const int32_t compute = x->type->dtype == MORTISE_F64 ? MORTISE_F64 : MORTISE_F32;
  const auto made = nodes("dynamic_quantize", {x}, {builder.type(to, dimsOf(x)), builder.type(compute, scales)},
                          {string("dtype", dtypeName(to))});
  return {made[0], made[1]};
}

} // namespace mortise::conformance
