// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and pools.
#include "rows.hpp"

#include "window.hpp"

#include <algorithm>

namespace mortise::onnx {

Window windowOf(Node &node, const Dims &size) {
  const Value &x = node[0];
  const auto count = static_cast<size_t>(std::max<int64_t>(x.rank() - 2, 0));
  if (count == 0)
    corrupt(node.place() + ": expected an input [N, C, ...] with spatial dimensions, found " + typeText(x));
  Window made{node.list("kernel_shape", size),
              node.list("strides", Dims(count, 1)),
              node.list("dilations", Dims(count, 1)),
              {},
              {},
              Dims(count, 0)};
  const Dims pads = node.list("pads", Dims(2 * count, 0));
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const bool isCeiled = node.flag("ceil_mode", false);
  constexpr int64_t most = int64_t{1} << 22; // so that no product with an extent overflows
  const auto isLegal = [&](const Dims &list, size_t length, int64_t least) {
    return list.size() == length && std::ranges::all_of(list, [&](int64_t n) { return n >= least && n < most; });
  };
  if (!isLegal(made.size, count, 1) || !isLegal(made.strides, count, 1) || !isLegal(made.dilations, count, 1) ||
      !isLegal(pads, 2 * count, 0) || (!size.empty() && made.size != size))
    corrupt(node.place() +
            ": expected a window, strides, dilations from 1 and two pads from 0 to below 2^22 for each of " +
            std::to_string(count) + " dimensions, found " + text(made.size) + ", " + text(made.strides) + ", " +
            text(made.dilations) + " and " + text(pads));
  made.low.assign(pads.begin(), pads.begin() + static_cast<ptrdiff_t>(count));
  made.high.assign(pads.begin() + static_cast<ptrdiff_t>(count), pads.end());
  for (size_t i = 0; i < count; ++i) {
    const int64_t extent = x.dims[i + 2], reach = made.dilations[i] * (made.size[i] - 1) + 1, stride = made.strides[i];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t positions = (extent + stride - 1) / stride;
      const int64_t sum = std::max<int64_t>((positions - 1) * stride + reach - extent, 0);
      made.low[i] = automatic == "SAME_UPPER" ? sum / 2 : sum - sum / 2;
      made.high[i] = sum - made.low[i];
    } else if (automatic == "VALID") {
      made.low[i] = made.high[i] = 0;
    } else if (automatic != "NOTSET") {
      corrupt(node.place() + ": expected auto_pad as NOTSET, SAME_UPPER, SAME_LOWER or VALID, found '" + automatic +
              "'");
    }
    const int64_t rest = (extent + made.low[i] + made.high[i] - reach) % stride;
    // One more window, unless it would begin in the padding behind the input.
    if (isCeiled && rest > 0 && extent + made.low[i] + made.high[i] - reach - rest + stride < extent + made.low[i])
      made.more[i] = stride - rest;
  }
  return made;
}

namespace {

Dims plus(const Dims &a, const Dims &b) {
  Dims made;
  for (size_t i = 0; i < a.size(); ++i)
    made.push_back(a[i] + b[i]);
  return made;
}

Attributes attributesOf(const Window &window, bool isPool) {
  Attributes made{{"strides", window.strides},
                  {"low", window.low},
                  {"high", plus(window.high, window.more)},
                  {"dilations", window.dilations}};
  if (isPool)
    made.emplace_back("window", window.size);
  return made;
}

} // namespace

Value convolved(Emitter &e, const Value &x, const Value &weight, const Value &bias, const Window &window,
                int64_t groups) {
  Attributes attributes = attributesOf(window, false);
  attributes.emplace_back("groups", groups);
  if (!bias)
    return e.op("mortise.convolution", {x, weight}, attributes);
  attributes.emplace_back("activation", "none");
  return e.op("mortise.fused_convolution", {x, weight, Value(), bias}, attributes);
}

void checkWeight(const Node &node, const Value &x, const Value &weight) {
  if (x.rank() < 3 || weight.rank() != x.rank())
    corrupt(node.place() + ": expected a weight of the input's rank, found " + typeText(weight) + " and " +
            typeText(x));
}

Value convolvedExactly(Emitter &e, const Value &x, const Value &weight, const Window &window, int64_t groups) {
  const int64_t terms = countOf(weight.dims) / std::max<int64_t>(weight.dims[0], 1);
  const int32_t wide = terms < 256 ? MORTISE_F32 : MORTISE_F64; // products of 9 bits by 9 bits and a sign: 2^16 at most
  return e.convert(convolved(e, e.convert(x, wide), e.convert(weight, wide), Value(), window, groups), MORTISE_I32);
}

namespace {

Dims spatial(const Value &x) { return x.rank() < 3 ? Dims{0} : Dims(x.dims.begin() + 2, x.dims.end()); }

Values convolution(Emitter &e, Node &node) {
  const Window window = windowOf(node, spatial(node[1]));
  return {convolved(e, node[0], node[1], node.optional(2), window, node.integer("group", 1))};
}

// The input is spread by its strides, and each window reads what the transposed one would have written there.
Values convolutionTransposed(Emitter &e, Node &node) {
  const Value &x = node[0];
  checkWeight(node, x, node[1]);
  const int64_t groups = node.integer("group", 1);
  const std::string automatic = node.text("auto_pad", "NOTSET");
  const auto rank = static_cast<size_t>(x.rank());
  const Dims wanted = node.list("output_shape", {}),
             extra = node.list("output_padding", Dims(rank < 2 ? 0 : rank - 2, 0));
  Window window = windowOf(node, spatial(node[1]));
  const size_t count = window.size.size();
  const auto isLegal = [](int64_t n) { return n >= 0 && n < int64_t{1} << 40; };
  if (!std::ranges::all_of(wanted, isLegal) || !std::ranges::all_of(extra, isLegal))
    corrupt(node.place() + ": expected extents of at least 0, found " + text(wanted) + " and " + text(extra));
  if (groups < 1 || x.dims[1] % groups != 0 || node[1].dims[0] != x.dims[1] || extra.size() != count ||
      (!wanted.empty() && wanted.size() != count))
    corrupt(node.place() + ": expected a weight of the input's channels, in groups, found " + typeText(x) + " and " +
            typeText(node[1]));
  Dims low(rank, 0), high = low, between = low, shape{groups, x.dims[1] / groups}, order{0, 2, 1}, axes;
  for (size_t i = 0; i < count; ++i) {
    const int64_t reach = window.dilations[i] * (window.size[i] - 1), stride = window.strides[i];
    const int64_t extent = x.dims[i + 2], whole = stride * (extent - 1) + extra[i] + reach + 1;
    if (!wanted.empty() || automatic.starts_with("SAME")) {
      const int64_t sum = std::max<int64_t>(whole - (wanted.empty() ? extent * stride : wanted[i]), 0);
      window.low[i] = automatic == "SAME_UPPER" ? sum / 2 : sum - sum / 2;
      window.high[i] = sum - window.low[i];
    }
    low[i + 2] = reach - window.low[i];
    high[i + 2] = reach - window.high[i] + extra[i];
    if (!wanted.empty()) // what is asked for may be more than all windows reach
      high[i + 2] += wanted[i] - (whole - window.low[i] - window.high[i]);
    between[i + 2] = stride - 1;
    order.push_back(static_cast<int64_t>(i + 3));
    axes.push_back(static_cast<int64_t>(i + 2));
  }
  shape.insert(shape.end(), node[1].dims.begin() + 1, node[1].dims.end());
  const Value parts = e.transpose(e.reshape(node[1], shape), order);
  Dims weightShape = parts.dims;
  weightShape[1] *= weightShape[0];
  weightShape.erase(weightShape.begin());
  const Value weight = e.reverse(e.reshape(parts, weightShape), axes);
  window.strides.assign(count, 1);
  window.low.assign(count, 0);
  window.high = window.more = window.low;
  return {convolved(e, e.pad(x, low, high, e.like(x, 0), between), weight, node.optional(2), window, groups)};
}

Values maxPool(Emitter &e, Node &node) {
  node.ignore("storage_order"); // of the second result, which is not computed
  return {e.op("mortise.max_pool", {node[0]}, attributesOf(windowOf(node, {}), true))};
}

// Sums divided by how many elements each has.
Values averagePool(Emitter &e, Node &node) {
  const Value &x = node[0];
  Window window = windowOf(node, {});
  const bool countsPadding = node.flag("count_include_pad", false);
  const Value sum = e.op("mortise.sum_pool", {x}, attributesOf(window, true));
  const Dims area = spatial(x);
  Dims ones{1, 1};
  ones.insert(ones.end(), area.begin(), area.end());
  if (countsPadding) {
    for (size_t i = 0; i < area.size(); ++i)
      ones[i + 2] += window.low[i] + window.high[i];
    window.low.assign(area.size(), 0);
    window.high = window.low;
  }
  const Value counts = e.op("mortise.sum_pool", {e.spread(e.like(x, 1), ones)}, attributesOf(window, true));
  return {e.div(sum, counts)};
}

Values lpPool(Emitter &e, Node &node) {
  const Value x = e.map("mortise.abs", node[0]);
  const int64_t p = node.integer("p", 2);
  if (p < 1)
    corrupt(node.place() + ": expected p of at least 1, found " + std::to_string(p));
  const auto power = [&](const Value &of, double exponent) {
    return exponent == 1 ? of : e.combine("mortise.pow", of, e.like(of, exponent));
  };
  const Value sum =
      e.op("mortise.sum_pool", {power(x, static_cast<double>(p))}, attributesOf(windowOf(node, {}), true));
  return {p == 2 ? e.map("mortise.sqrt", sum) : power(sum, 1 / static_cast<double>(p))};
}

Values global(Emitter &e, Node &node) {
  Dims axes = upTo(node[0].rank());
  if (axes.size() < 3)
    corrupt(node.place() + ": expected an input [N, C, ...] with spatial dimensions, found " + typeText(node[0]));
  axes.erase(axes.begin(), axes.begin() + 2);
  return {e.reduce(node.row->op, node[0], axes, true)};
}

constexpr Row table[] = {
    {"AveragePool", averagePool},
    {"Conv", convolution},
    {"ConvTranspose", convolutionTransposed},
    {"GlobalAveragePool", global, "mortise.mean"},
    {"GlobalMaxPool", global, "mortise.reduce_max"},
    {"LpPool", lpPool},
    {"MaxPool", maxPool},
};

} // namespace

std::span<const Row> windowRows() { return table; }

} // namespace mortise::onnx
