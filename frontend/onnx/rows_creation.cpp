// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tensors from numbers and positions, and graphs that are chosen while a model is read.
#include "rows.hpp"

#include "importer.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::onnx {
namespace {

Values constant(Emitter &e, Node &node) {
  if (const auto *found = node.take("value", proto::AttributeProto::TENSOR))
    return {e.constant(tensorFrom(found->t(), "", node.place()))};
  if (node.has("value_int"))
    return {e.constant(tensorOf(std::span<const int64_t>(Dims{node.integer("value_int")}), {}))};
  if (node.has("value_ints"))
    return {e.integers(node.list("value_ints", {}))};
  if (node.has("value_float"))
    return {e.number(node.real("value_float"), MORTISE_F32)};
  if (node.has("value_floats")) {
    const std::vector<double> numbers = node.reals("value_floats");
    return {e.constant(tensorOf(std::span(numbers), {static_cast<int64_t>(numbers.size())}, MORTISE_F32))};
  }
  unsupported("attribute", node.place() + ": a value that is no dense tensor, no number and no list of numbers");
}

Values constantOfShape(Emitter &e, Node &node) {
  const Dims shape = node.integers(0, "shape");
  const auto *found = node.take("value", proto::AttributeProto::TENSOR);
  const Value value = found ? e.constant(tensorFrom(found->t(), "", node.place())) : e.number(0, MORTISE_F32);
  checkedBytes(value.dtype, shape, node.place());
  return {e.spread(e.reshape(value, {}), shape)};
}

Values shape(Emitter &e, Node &node) {
  const Dims &dims = node[0].dims;
  const auto place = [&](int64_t at) {
    return std::clamp<int64_t>(at < 0 ? at + node[0].rank() : at, 0, node[0].rank());
  };
  const int64_t start = place(node.integer("start", 0)), end = place(node.integer("end", node[0].rank()));
  return {e.integers(Dims(dims.begin() + start, dims.begin() + std::max(start, end)))};
}
Values size(Emitter &e, Node &node) {
  return {e.constant(tensorOf(std::span<const int64_t>(Dims{countOf(node[0].dims)}), {}))};
}

Values range(Emitter &e, Node &node) {
  const int32_t dtype = node[0].dtype;
  const double start = node.real(0, "start"), limit = node.real(1, "limit"), delta = node.real(2, "delta");
  const double count = std::max(std::ceil((limit - start) / delta), 0.0);
  if (!(count < 0x1p40))
    corrupt(node.place() + ": expected a range of some length, found one from " + std::to_string(start) + " to " +
            std::to_string(limit) + " by " + std::to_string(delta));
  const Value steps = e.iota({static_cast<int64_t>(count)}, 0, dtype);
  return {e.add(e.mul(steps, e.reshape(node[2], {})), e.reshape(node[0], {}))};
}

// Whether a column stands `above` or more to the right of a row, or for "eq" exactly there.
Value diagonal(Emitter &e, const Dims &shape, const char *direction, int64_t above) {
  const auto rank = static_cast<int64_t>(shape.size());
  const Value row = e.iota(shape, rank - 2), column = e.iota(shape, rank - 1);
  return e.compare(direction, column, e.add(row, e.like(row, static_cast<double>(above))));
}

Values eyeLike(Emitter &e, Node &node) {
  const Value &x = node[0];
  if (x.rank() != 2)
    corrupt(node.place() + ": expected a matrix, found " + typeText(x));
  const int32_t dtype = node.dtype("dtype", x.dtype);
  return {e.convert(diagonal(e, x.dims, "eq", node.integer("k", 0)), dtype)};
}

Values trilu(Emitter &e, Node &node) {
  const Value &x = node[0];
  if (x.rank() < 2)
    corrupt(node.place() + ": expected a matrix, found " + typeText(x));
  const int64_t k = node.has(1) ? node.integer(1, "k") : 0;
  const char *direction = node.flag("upper", true) ? "ge" : "le";
  return {e.select(diagonal(e, x.dims, direction, k), x, e.like(x, 0))};
}

Values oneHot(Emitter &e, Node &node) {
  const Value &indices = node[0], &values = node[2];
  const double wanted = node.real(1, "depth");
  if (!(wanted >= 0 && wanted <= 0x1p40))
    corrupt(node.place() + ": expected a depth of at least 0, found " + std::to_string(wanted));
  const auto depth = static_cast<int64_t>(wanted);
  const int64_t rank = indices.rank() + 1, axis = node.axis(node.integer("axis", -1), rank);
  Dims shape = indices.dims, wide = shape;
  shape.insert(shape.begin() + axis, depth);
  wide.insert(wide.begin() + axis, 1);
  checkedBytes(values.dtype, shape, node.place());
  if (values.dims != Dims{2})
    corrupt(node.place() + ": expected two values, found " + typeText(values));
  const Value size = e.like(indices, static_cast<double>(depth));
  const Value positive = e.select(e.compare("lt", indices, e.like(indices, 0)), e.add(indices, size), indices);
  const Value isHot = e.compare("eq", e.reshape(positive, wide), e.iota(shape, axis, indices.dtype));
  const auto valueOf = [&](int64_t i) { return e.reshape(e.part(values, 0, i, i + 1), {}); };
  return {e.select(isHot, valueOf(1), valueOf(0))};
}

// A condition that is known, as of constants and shapes, chooses the graph.
Values choose(Emitter &e, Node &node) {
  const Tensor &condition = e.known(node[0], "cond");
  if (countOf(condition.dims) != 1)
    corrupt(node.place() + ": expected one condition, found " + typeText(node[0]));
  const auto *yes = node.take("then_branch", proto::AttributeProto::GRAPH);
  const auto *no = node.take("else_branch", proto::AttributeProto::GRAPH);
  if (!yes || !no)
    corrupt(node.place() + ": expected two graphs, found one missing");
  return node.importer.inlined(numbersOf(condition)[0] != 0 ? yes->g() : no->g());
}

constexpr Row table[] = {
    {"Constant", constant}, {"ConstantOfShape", constantOfShape},
    {"EyeLike", eyeLike},   {"If", choose},
    {"OneHot", oneHot},     {"Range", range},
    {"Shape", shape},       {"Size", size},
    {"Trilu", trilu},
};

} // namespace

std::span<const Row> creationRows() { return table; }

} // namespace mortise::onnx
