// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Images of another size. Every position along an axis is a sum of some elements with weights that are known when the
// model is read.
#include "rows.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::onnx {
namespace {

struct Axis {
  int64_t from = 0, to = 0;             // extents
  double scale = 1, begin = 0, end = 1; // the part that tf_crop_and_resize reads
};

struct Settings {
  std::string coordinates, nearest;
  bool isCubic, isAntialiased, excludesOutside;
  double coefficient, outside;
};

// Where position `i` of the result lies in the input.
double sourceOf(const Axis &axis, const Settings &settings, int64_t i, const std::string &place) {
  const double length = static_cast<double>(axis.from), target = axis.scale * length, x = static_cast<double>(i);
  const std::string &mode = settings.coordinates;
  if (mode == "half_pixel")
    return (x + 0.5) / axis.scale - 0.5;
  if (mode == "half_pixel_symmetric")
    return length / 2 * (1 - static_cast<double>(axis.to) / target) + (x + 0.5) / axis.scale - 0.5;
  if (mode == "pytorch_half_pixel")
    return target == 1 ? -0.5 : (x + 0.5) / axis.scale - 0.5;
  if (mode == "asymmetric")
    return x / axis.scale;
  if (mode == "align_corners")
    return target == 1 ? 0 : x * (length - 1) / (target - 1);
  if (mode == "tf_crop_and_resize") {
    const double span = axis.end - axis.begin;
    return axis.begin * (length - 1) + (target == 1 ? span * (length - 1) / 2 : x * span * (length - 1) / (target - 1));
  }
  corrupt(place + ": expected a coordinate_transformation_mode of ONNX's, found '" + mode + "'");
}

int64_t nearestTo(double x, const Settings &settings, const std::string &place) {
  const std::string &mode = settings.nearest;
  if (mode == "round_prefer_floor")
    return static_cast<int64_t>(std::ceil(x - 0.5));
  if (mode == "round_prefer_ceil")
    return static_cast<int64_t>(std::floor(x + 0.5));
  if (mode == "floor" || mode == "ceil")
    return static_cast<int64_t>(mode == "floor" ? std::floor(x) : std::ceil(x));
  corrupt(place + ": expected a nearest_mode of ONNX's, found '" + mode + "'");
}

// The weight of an element at a distance: a triangle, or R. Keys's cubic convolution (1981).
double weightOf(double distance, const Settings &settings) {
  const double d = std::abs(distance), a = settings.coefficient;
  if (!settings.isCubic)
    return std::max(1 - d, 0.0);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

struct Taps { // by tap, then by position
  std::vector<Dims> sources;
  std::vector<std::vector<double>> weights;
  std::vector<double> isOutside; // positions that no element belongs to
};

Taps tapsOf(const Axis &axis, const Settings &settings, const std::string &place) {
  const double stretch = settings.isAntialiased ? std::min(axis.scale, 1.0) : 1;
  const auto first = static_cast<int64_t>(std::floor((settings.isCubic ? -2 : -1) / stretch)) + 1;
  const int64_t count = 2 - 2 * first;
  if (count > 4096)
    unsupported("size", place + ": a filter of " + std::to_string(count) + " elements");
  Taps made{
      std::vector<Dims>(static_cast<size_t>(count)), std::vector<std::vector<double>>(static_cast<size_t>(count)), {}};
  for (int64_t i = 0; i < axis.to; ++i) {
    const double x = sourceOf(axis, settings, i, place);
    const auto base = static_cast<int64_t>(std::ceil(x)) - 1;
    const double last = static_cast<double>(axis.from - 1);
    made.isOutside.push_back(settings.coordinates == "tf_crop_and_resize" && (x < 0 || x > last));
    double sum = 0;
    std::vector<double> weights;
    for (int64_t tap = 0; tap < count; ++tap) {
      const int64_t at = base + first + tap;
      const bool isLeftOut = settings.excludesOutside && (at < 0 || at >= axis.from);
      weights.push_back(isLeftOut ? 0 : weightOf((static_cast<double>(at) - x) * stretch, settings));
      sum += weights.back();
      made.sources[static_cast<size_t>(tap)].push_back(std::clamp<int64_t>(at, 0, axis.from - 1));
    }
    for (size_t tap = 0; tap < weights.size(); ++tap)
      made.weights[tap].push_back(settings.isAntialiased || settings.excludesOutside ? weights[tap] / sum
                                                                                     : weights[tap]);
  }
  return made;
}

Value vectorOf(Emitter &e, const std::vector<double> &numbers, int64_t axis, const Value &x, int32_t dtype) {
  return e.along(e.constant(tensorOf(std::span(numbers), {static_cast<int64_t>(numbers.size())}, dtype)), axis,
                 x.rank());
}

Value interpolated(Emitter &e, const Value &x, int64_t at, const Axis &axis, const Settings &settings) {
  const Taps taps = tapsOf(axis, settings, e.place);
  Value sum;
  for (size_t tap = 0; tap < taps.sources.size(); ++tap) {
    if (std::ranges::all_of(taps.weights[tap], [](double weight) { return weight == 0; }))
      continue;
    const Value part =
        e.mul(e.take(x, e.integers(taps.sources[tap]), at), vectorOf(e, taps.weights[tap], at, x, x.dtype));
    sum = sum ? e.add(sum, part) : part;
  }
  if (std::ranges::any_of(taps.isOutside, [](double flag) { return flag != 0; }))
    sum = e.select(vectorOf(e, taps.isOutside, at, x, MORTISE_I1), e.like(sum, settings.outside), sum);
  return sum;
}

Value nearest(Emitter &e, const Value &x, int64_t at, const Axis &axis, const Settings &settings) {
  Dims sources;
  std::vector<double> isOutside;
  for (int64_t i = 0; i < axis.to; ++i) {
    const double source = sourceOf(axis, settings, i, e.place);
    sources.push_back(std::clamp<int64_t>(nearestTo(source, settings, e.place), 0, axis.from - 1));
    isOutside.push_back(settings.coordinates == "tf_crop_and_resize" &&
                        (source < 0 || source > static_cast<double>(axis.from - 1)));
  }
  Value taken = e.take(x, e.integers(sources), at);
  if (std::ranges::none_of(isOutside, [](double flag) { return flag != 0; }))
    return taken;
  return e.select(vectorOf(e, isOutside, at, x, MORTISE_I1), e.like(taken, settings.outside), taken);
}

// By sizes or by scales, of all axes or of those that are named.
std::vector<Axis> axesOf(Emitter &e, Node &node, const Dims &named) {
  const Value &x = node[0];
  std::vector<Axis> axes;
  for (const int64_t extent : x.dims)
    axes.push_back({extent, extent});
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  const bool hasSizes = node.has(3) && countOf(node[3].dims) > 0;
  const std::vector<double> numbers = numbersOf(e.known(node[hasSizes ? 3 : 2], hasSizes ? "sizes" : "scales"));
  const std::vector<double> part =
      node.has(1) && countOf(node[1].dims) > 0 ? numbersOf(e.known(node[1], "roi")) : std::vector<double>();
  if (numbers.size() != named.size() || (!part.empty() && part.size() != 2 * named.size()))
    corrupt(node.place() + ": expected a size or scale, and no or two numbers of roi, for each of " +
            std::to_string(named.size()) + " axes");
  double shared = policy == "not_smaller" ? 0 : INFINITY;
  for (size_t i = 0; i < named.size(); ++i) {
    Axis &axis = axes[static_cast<size_t>(node.axis(named[i], x.rank()))];
    const double length = static_cast<double>(axis.from);
    axis.scale = hasSizes ? numbers[i] / std::max(length, 1.0) : numbers[i];
    shared = policy == "not_smaller" ? std::max(shared, axis.scale) : std::min(shared, axis.scale);
    if (!(axis.scale > 0) || !(axis.scale * length < 0x1p40) || axis.from < 1)
      corrupt(node.place() + ": expected sizes above 0, found the scale " + std::to_string(axis.scale) +
              " of the extent " + std::to_string(axis.from));
    axis.to = hasSizes ? static_cast<int64_t>(numbers[i]) : static_cast<int64_t>(std::floor(axis.scale * length));
    if (!part.empty()) {
      axis.begin = part[i];
      axis.end = part[named.size() + i];
    }
  }
  if (hasSizes && policy != "stretch")
    for (const int64_t name : named) {
      Axis &axis = axes[static_cast<size_t>(node.axis(name, x.rank()))];
      axis.scale = shared;
      axis.to = static_cast<int64_t>(std::floor(shared * static_cast<double>(axis.from) + 0.5));
    }
  return axes;
}

Values resize(Emitter &e, Node &node) {
  Value x = node[0];
  const std::string mode = node.text("mode", "nearest");
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    corrupt(node.place() + ": expected the mode nearest, linear or cubic, found '" + mode + "'");
  const Settings settings{node.text("coordinate_transformation_mode", "half_pixel"),
                          node.text("nearest_mode", "round_prefer_floor"),
                          mode == "cubic",
                          node.flag("antialias", false),
                          node.flag("exclude_outside", false),
                          node.real("cubic_coeff_a", -0.75),
                          node.real("extrapolation_value", 0)};
  const Dims named = node.list("axes", upTo(x.rank()));
  (void)node.axes(named, x.rank());
  const std::vector<Axis> axes = axesOf(e, node, named);
  if (mode != "nearest" && !isFloat(x.dtype))
    unsupported("element type", node.place() + ": interpolation between " + dtypeName(x.dtype));
  for (size_t at = 0; at < axes.size(); ++at) {
    const bool isSame = axes[at].from == axes[at].to && axes[at].scale == 1 && axes[at].begin == 0 && axes[at].end == 1;
    if (!isSame && axes[at].to > 1 << 24)
      unsupported("size", node.place() + ": more than 2^24 elements along an axis");
    if (!isSame)
      x = mode == "nearest" ? nearest(e, x, static_cast<int64_t>(at), axes[at], settings)
                            : interpolated(e, x, static_cast<int64_t>(at), axes[at], settings);
  }
  return {x};
}

constexpr Row table[] = {{"Resize", resize}};

} // namespace

std::span<const Row> resizeRows() { return table; }

} // namespace mortise::onnx
