// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements in another order, under another shape, or some of them.
#include "rows.hpp"

#include <algorithm>

namespace mortise::onnx {
namespace {

Values reshape(Emitter &e, Node &node) {
  const Value &x = node[0];
  Dims shape = node.integers(1, "shape");
  const bool allowsZero = node.flag("allowzero", false);
  int64_t rest = 1;
  auto open = shape.end();
  for (auto at = shape.begin(); at != shape.end(); ++at) {
    if (*at == 0 && !allowsZero) {
      if (at - shape.begin() >= x.rank())
        corrupt(node.place() + ": expected a shape whose 0 stands for an extent of " + typeText(x) + ", found " +
                text(shape));
      *at = x.dims[static_cast<size_t>(at - shape.begin())];
    }
    if (*at == -1 && open == shape.end())
      open = at;
    else if (*at < 0 || (*at > 0 && rest > (int64_t{1} << 40) / *at))
      corrupt(node.place() + ": expected extents and one -1 at most, found the shape " + text(shape));
    else
      rest *= *at;
  }
  if (open != shape.end()) {
    if (rest == 0 || countOf(x.dims) % rest != 0)
      corrupt(node.place() + ": expected a shape that " + typeText(x) + " fits, found " + text(shape));
    *open = countOf(x.dims) / rest;
  }
  if (countOf(shape) != countOf(x.dims))
    corrupt(node.place() + ": expected a shape of as many elements as " + typeText(x) + ", found " + text(shape));
  return {e.reshape(x, shape)};
}

Values transpose(Emitter &e, Node &node) {
  const Value &x = node[0];
  Dims backwards = upTo(x.rank());
  std::ranges::reverse(backwards);
  const Dims permutation = node.list("perm", backwards);
  if (node.axes(permutation, x.rank()) != upTo(x.rank()))
    corrupt(node.place() + ": expected each axis of " + typeText(x) + " once in 'perm', found " + text(permutation));
  return {e.transpose(x, permutation)};
}

Values squeeze(Emitter &e, Node &node) {
  const Value &x = node[0];
  Dims axes;
  if (node.has(1))
    axes = node.axes(node.integers(1, "axes"), x.rank());
  else
    for (int64_t i = 0; i < x.rank(); ++i)
      if (x.dims[static_cast<size_t>(i)] == 1)
        axes.push_back(i);
  for (const int64_t axis : axes)
    if (x.dims[static_cast<size_t>(axis)] != 1)
      corrupt(node.place() + ": expected axes of extent 1, found " + text(axes) + " of " + typeText(x));
  return {e.reshape(x, without(x.dims, axes))};
}

Values unsqueeze(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Dims given = node.integers(1, "axes");
  const Dims axes = node.axes(given, x.rank() + static_cast<int64_t>(given.size()));
  Dims shape = x.dims;
  for (const int64_t axis : axes)
    shape.insert(shape.begin() + axis, 1);
  return {e.reshape(x, shape)};
}

Values flatten(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t of = node.integer("axis", 1), axis = of == x.rank() ? of : node.axis(of, x.rank());
  const Dims front(x.dims.begin(), x.dims.begin() + axis), back(x.dims.begin() + axis, x.dims.end());
  return {e.reshape(x, {countOf(front), countOf(back)})};
}

Values expand(Emitter &e, Node &node) {
  const Dims shape = node.integers(1, "shape");
  if (std::ranges::any_of(shape, [](int64_t extent) { return extent < 0; }))
    corrupt(node.place() + ": expected extents of at least 0, found " + text(shape));
  return {e.spread(node[0], common(node[0].dims, shape, node.place()))};
}

Values tile(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Dims repeats = node.integers(1, "repeats");
  if (repeats.size() != x.dims.size() || std::ranges::any_of(repeats, [](int64_t n) { return n < 0; }))
    corrupt(node.place() + ": expected a number of at least 0 for each axis of " + typeText(x) + ", found " +
            text(repeats));
  Dims wide, axes, shape;
  for (size_t i = 0; i < repeats.size(); ++i) {
    wide.insert(wide.end(), {repeats[i], x.dims[i]});
    axes.push_back(static_cast<int64_t>(2 * i + 1));
    shape.push_back(0);
  }
  checkedBytes(x.dtype, wide, node.place());
  for (size_t i = 0; i < repeats.size(); ++i)
    shape[i] = repeats[i] * x.dims[i];
  return {e.reshape(e.op("mortise.broadcast", {x}, {{"shape", wide}, {"axes", axes}}), shape)};
}

Values concat(Emitter &e, Node &node) {
  const int64_t axis = node.axis(node.integer("axis"), node[0].rank());
  return {e.concatenate(node.all(), axis)};
}

Values split(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t axis = node.axis(node.integer("axis", 0), x.rank()), extent = x.dims[static_cast<size_t>(axis)];
  const auto count = static_cast<int64_t>(node.outputCount());
  if (count < 1)
    corrupt(node.place() + ": expected outputs, found none");
  Dims parts;
  if (node.has(1))
    parts = node.integers(1, "split");
  else
    for (int64_t left = extent, size = (extent + count - 1) / count; static_cast<int64_t>(parts.size()) < count;
         left -= size)
      parts.push_back(std::clamp<int64_t>(left, 0, size));
  const int64_t number = node.integer("num_outputs", count);
  int64_t sum = 0;
  for (const int64_t part : parts)
    sum = part < 0 || part > extent - sum ? -1 : sum + part;
  if (sum != extent || static_cast<int64_t>(parts.size()) != count || number != count)
    corrupt(node.place() + ": expected " + std::to_string(count) + " parts of " + typeText(x) + " along axis " +
            std::to_string(axis) + ", found " + text(parts));
  Values made;
  int64_t begin = 0;
  for (const int64_t part : parts) {
    made.push_back(e.part(x, axis, begin, begin + part));
    begin += part;
  }
  return made;
}

// One axis of a slice, with what numpy makes of positions out of range. A negative step begins at the end.
struct Cut {
  bool isReversed;
  int64_t start, limit, step;
};
Cut cutOf(int64_t extent, int64_t start, int64_t end, int64_t step) {
  const bool isReversed = step < 0;
  const int64_t least = isReversed ? -1 : 0, most = isReversed ? extent - 1 : extent;
  const auto place = [&](int64_t at, int64_t lowest) {
    return std::clamp(at < 0 ? at + extent : at, lowest, std::max(most, lowest));
  };
  start = place(start, isReversed ? std::min<int64_t>(0, extent - 1) : 0);
  end = place(end, least);
  if (isReversed) {
    start = extent - 1 - start;
    end = extent - 1 - end;
    step = step == INT64_MIN ? INT64_MAX : -step;
  }
  return {isReversed, start, std::max(start, end), step};
}

Values slice(Emitter &e, Node &node) {
  const Value &x = node[0];
  const Dims from = node.integers(1, "starts"), to = node.integers(2, "ends");
  const Dims given = node.has(3) ? node.integers(3, "axes") : upTo(static_cast<int64_t>(from.size()));
  const Dims steps = node.has(4) ? node.integers(4, "steps") : Dims(from.size(), 1);
  if (to.size() != from.size() || given.size() != from.size() || steps.size() != from.size() ||
      std::ranges::find(steps, 0) != steps.end())
    corrupt(node.place() + ": expected starts, ends, axes and steps of one length, and no step of 0, found " +
            text(from) + ", " + text(to) + ", " + text(given) + " and " + text(steps));
  (void)node.axes(given, x.rank()); // none twice
  Dims starts(x.dims.size(), 0), limits = x.dims, strides(x.dims.size(), 1), reversed;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto axis = static_cast<size_t>(node.axis(given[i], x.rank()));
    const Cut cut = cutOf(x.dims[axis], from[i], to[i], steps[i]);
    starts[axis] = cut.start;
    limits[axis] = cut.limit;
    strides[axis] = cut.step;
    if (cut.isReversed)
      reversed.push_back(static_cast<int64_t>(axis));
  }
  std::ranges::sort(reversed);
  return {e.slice(e.reverse(x, reversed), starts, limits, strides)};
}

// Where each element along an axis comes from, in modes that repeat elements.
Dims sourcesOf(const std::string &mode, int64_t extent, int64_t low, int64_t high, const std::string &place) {
  Dims made;
  if (extent + low + high > 1 << 24)
    unsupported("size", place + ": more than 2^24 elements along an axis that repeats them");
  if (extent + low + high < 0 || (extent == 0 && low + high > 0))
    corrupt(place + ": expected something to repeat, found an extent of " + std::to_string(extent));
  const int64_t period = mode == "reflect" ? std::max<int64_t>(2 * extent - 2, 1) : extent;
  for (int64_t i = -low; i < extent + high; ++i) {
    const int64_t turned = ((i % period) + period) % period;
    made.push_back(mode == "edge"      ? std::clamp<int64_t>(i, 0, extent - 1)
                   : mode == "reflect" ? std::min(turned, period - turned) % std::max<int64_t>(extent, 1)
                                       : turned);
  }
  return made;
}

Values pad(Emitter &e, Node &node) {
  Value x = node[0];
  const std::string mode = node.text("mode", "constant");
  const Dims pads = node.integers(1, "pads");
  const Dims given = node.has(3) ? node.integers(3, "axes") : upTo(x.rank());
  (void)node.axes(given, x.rank());
  if (pads.size() != 2 * given.size() || (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap"))
    corrupt(node.place() + ": expected two pads for each axis and the mode constant, reflect, edge or wrap, found " +
            text(pads) + " and '" + mode + "'");
  Dims low(x.dims.size(), 0), high = low, after = x.dims;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto axis = static_cast<size_t>(node.axis(given[i], x.rank()));
    constexpr int64_t most = int64_t{1} << 40;
    low[axis] = std::clamp(pads[i], -most, most);
    high[axis] = std::clamp(pads[given.size() + i], -most, most);
    after[axis] += low[axis] + high[axis];
  }
  checkedBytes(x.dtype, after, node.place());
  if (mode == "constant")
    return {e.pad(x, low, high, node.has(2) ? node[2] : e.like(x, 0))};
  for (size_t axis = 0; axis < x.dims.size(); ++axis)
    if (low[axis] != 0 || high[axis] != 0)
      x = e.take(x, e.integers(sourcesOf(mode, x.dims[axis], low[axis], high[axis], node.place())),
                 static_cast<int64_t>(axis));
  return {x};
}

Values centerCropPad(Emitter &e, Node &node) {
  Value x = node[0];
  const Dims shape = node.integers(1, "shape"), given = node.list("axes", upTo(x.rank()));
  (void)node.axes(given, x.rank());
  const auto isLegal = [](int64_t extent) { return extent >= 0 && extent <= int64_t{1} << 40; };
  if (shape.size() != given.size() || !std::ranges::all_of(shape, isLegal))
    corrupt(node.place() + ": expected an extent for each of the axes " + text(given) + ", found " + text(shape));
  Dims low(x.dims.size(), 0), high = low, starts = low, limits = x.dims;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto axis = static_cast<size_t>(node.axis(given[i], x.rank()));
    const int64_t extent = x.dims[axis], more = shape[i] - extent;
    if (more > 0) {
      low[axis] = more / 2;
      high[axis] = more - more / 2;
    } else {
      starts[axis] = -more / 2;
      limits[axis] = starts[axis] + shape[i];
    }
  }
  return {e.pad(e.slice(x, starts, limits), low, high, e.like(x, 0))};
}

// [N, C, H, W]
void checkImage(const Node &node, int64_t block) {
  if (node[0].rank() != 4 || block < 1)
    corrupt(node.place() + ": expected an input of rank 4 and a block of at least 1, found " + typeText(node[0]) +
            " and " + std::to_string(block));
}

Values depthToSpace(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t block = node.integer("blocksize");
  const std::string mode = node.text("mode", "DCR");
  checkImage(node, block);
  const int64_t n = x.dims[0], c = block > x.dims[1] ? 0 : x.dims[1] / block / block, h = x.dims[2], w = x.dims[3];
  if (c * block * block != x.dims[1])
    corrupt(node.place() + ": expected channels in blocks, found " + typeText(x));
  const Value parts = mode == "DCR" ? e.transpose(e.reshape(x, {n, block, block, c, h, w}), {0, 3, 4, 1, 5, 2})
                                    : e.transpose(e.reshape(x, {n, c, block, block, h, w}), {0, 1, 4, 2, 5, 3});
  return {e.reshape(parts, {n, c, h * block, w * block})};
}

Values spaceToDepth(Emitter &e, Node &node) {
  const Value &x = node[0];
  const int64_t block = node.integer("blocksize");
  const std::string mode = node.text("mode", "DCR");
  checkImage(node, block);
  const int64_t n = x.dims[0], c = x.dims[1], h = x.dims[2] / block, w = x.dims[3] / block;
  if (h * block != x.dims[2] || w * block != x.dims[3])
    corrupt(node.place() + ": expected an image in blocks, found " + typeText(x));
  const Dims order = mode == "DCR" ? Dims{0, 3, 5, 1, 2, 4} : Dims{0, 1, 3, 5, 2, 4};
  const Value parts = e.transpose(e.reshape(x, {n, c, h, block, w, block}), order);
  return {e.reshape(parts, {n, c * block * block, h, w})};
}

constexpr Row table[] = {
    {"CenterCropPad", centerCropPad},
    {"Concat", concat},
    {"DepthToSpace", depthToSpace},
    {"Expand", expand},
    {"Flatten", flatten},
    {"Pad", pad},
    {"Reshape", reshape},
    {"Slice", slice},
    {"SpaceToDepth", spaceToDepth},
    {"Split", split},
    {"Squeeze", squeeze},
    {"Tile", tile},
    {"Transpose", transpose},
    {"Unsqueeze", unsqueeze},
};

} // namespace

std::span<const Row> movementRows() { return table; }

} // namespace mortise::onnx
