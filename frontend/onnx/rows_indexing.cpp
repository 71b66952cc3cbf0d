// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reads and writes at computed positions.
#include "rows.hpp"

namespace mortise::onnx {
namespace {

Values gather(Emitter &e, Node &node) {
  return {e.take(node[0], node[1], node.axis(node.integer("axis", 0), node[0].rank()))};
}

Values gatherElements(Emitter &e, Node &node) {
  return {
      e.op("mortise.take_along", {node[0], node[1]}, {{"axis", node.axis(node.integer("axis", 0), node[0].rank())}})};
}

// Shared leading dimensions are coordinates like the others.
Values gatherNd(Emitter &e, Node &node) {
  Value indices = node[1];
  const int64_t batch = node.integer("batch_dims", 0);
  if (indices.rank() < 1 || batch < 0 || batch >= indices.rank() || batch >= node[0].rank())
    corrupt(node.place() + ": expected fewer shared dimensions than those of " + typeText(node[0]) + " and " +
            typeText(indices) + ", found " + std::to_string(batch));
  Dims shape = indices.dims;
  shape.back() = 1;
  Values coordinates;
  for (int64_t axis = 0; axis < batch; ++axis)
    coordinates.push_back(e.iota(shape, axis, indices.dtype));
  coordinates.push_back(indices);
  return {e.op("mortise.take_nd", {node[0], e.concatenate(coordinates, indices.rank() - 1)})};
}

std::string modeOf(Node &node) {
  const std::string mode = node.text("reduction", "none");
  return mode == "none" ? "set" : mode;
}

Values scatterElements(Emitter &e, Node &node) {
  const int64_t axis = node.axis(node.integer("axis", 0), node[0].rank());
  const std::string mode = modeOf(node);
  return {e.op("mortise.scatter_along", {node[0], node[1], node[2]}, {{"axis", axis}, {"mode", mode.c_str()}})};
}

Values scatterNd(Emitter &e, Node &node) {
  const std::string mode = modeOf(node);
  return {e.op("mortise.scatter_nd", {node[0], node[1], node[2]}, {{"mode", mode.c_str()}})};
}

Values compress(Emitter &e, Node &node) {
  Value x = node[0];
  const bool isFlat = !node.has("axis");
  if (isFlat)
    x = e.reshape(x, {countOf(x.dims)});
  const int64_t axis = isFlat ? 0 : node.axis(node.integer("axis"), x.rank());
  const Dims chosen = node.integers(1, "condition");
  Dims positions;
  for (size_t i = 0; i < chosen.size() && static_cast<int64_t>(i) < x.dims[static_cast<size_t>(axis)]; ++i)
    if (chosen[i])
      positions.push_back(static_cast<int64_t>(i));
  return {e.take(x, e.integers(positions), axis)};
}

// The first elements along the time axis turned round, as many as the batch's entry says.
Values reverseSequence(Emitter &e, Node &node) {
  const Value &x = node[0], &lengths = node[1];
  const int64_t batch = node.axis(node.integer("batch_axis", 1), x.rank()),
                time = node.axis(node.integer("time_axis", 0), x.rank());
  const Value position = e.iota(x.dims, time, lengths.dtype);
  const Value length = e.spread(e.along(lengths, batch, x.rank()), x.dims);
  const Value turned = e.sub(e.shift(length, -1), position);
  const Value source = e.select(e.compare("lt", position, length), turned, position);
  return {e.op("mortise.take_along", {x, source}, {{"axis", time}})};
}

constexpr Row table[] = {
    {"Compress", compress},
    {"Gather", gather},
    {"GatherElements", gatherElements},
    {"GatherND", gatherNd},
    {"ReverseSequence", reverseSequence},
    {"ScatterElements", scatterElements},
    {"ScatterND", scatterNd},
};

} // namespace

std::span<const Row> indexingRows() { return table; }

} // namespace mortise::onnx
