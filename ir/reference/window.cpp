// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "activations.hpp"
#include "product.hpp"

#include <array>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

constexpr size_t maxSpatial = 3;
using Place = std::array<int64_t, maxSpatial>; // a position in the spatial dimensions; unused ones are 0

// The windows over one input image, extended to three spatial dimensions.
struct Windows {
  Place in{1, 1, 1}, out{1, 1, 1}, kernel{1, 1, 1};
  std::vector<Place> starts; // by output element; negative in the padding
  std::vector<Place> taps;   // by kernel element, relative to the start

  Windows(const Call &call, std::span<const int64_t> window) {
    Place stride{1, 1, 1}, low{}, dilation{1, 1, 1};
    for (size_t d = 0; d < window.size(); ++d) {
      in[d] = call.operand(0).dims()[d + 2];
      out[d] = call.result.dims()[d + 2];
      kernel[d] = window[d];
      stride[d] = call.integers("strides")[d];
      low[d] = call.integers("low")[d];
      dilation[d] = call.integers("dilations")[d];
    }
    fill(starts, out, [&](int64_t i, size_t d) { return i * stride[d] - low[d]; });
    fill(taps, kernel, [&](int64_t i, size_t d) { return i * dilation[d]; });
  }
  template <typename At> static void fill(std::vector<Place> &list, const Place &extents, At at) {
    list.reserve(static_cast<size_t>(product(extents)));
    for (int64_t x = 0; x < extents[0]; ++x)
      for (int64_t y = 0; y < extents[1]; ++y)
        for (int64_t z = 0; z < extents[2]; ++z)
          list.push_back({at(x, 0), at(y, 1), at(z, 2)});
  }
  // The offset in the image; -1 in the padding.
  int64_t at(const Place &start, const Place &tap) const {
    int64_t offset = 0;
    for (size_t d = 0; d < maxSpatial; ++d) {
      int64_t i = start[d] + tap[d];
      if (i < 0 || i >= in[d])
        return -1;
      offset = offset * in[d] + i;
    }
    return offset;
  }
};

// Checks the window attributes and appends the spatial extents of the result.
Refusal appendOutput(const Shapes &shapes, std::span<const int64_t> window, Shape &expected) {
  for (std::string_view name : {"strides", "low", "high", "dilations"})
    if (Refusal refusal =
            firstOf(shapes.length(name, window.size()), shapes.atLeast(name, name == "low" || name == "high" ? 0 : 1)))
      return refusal;
  constexpr int64_t largest = int64_t(1) << 40; // keeps the sums below from overflowing
  for (size_t d = 0; d < window.size(); ++d) {
    int64_t extent = shapes.dims(0)[d + 2], low = shapes.integers("low")[d], high = shapes.integers("high")[d];
    int64_t dilation = shapes.integers("dilations")[d], reach = 0;
    if (window[d] < 1 || __builtin_mul_overflow(dilation, window[d] - 1, &reach) || reach > largest || low > largest ||
        high > largest || extent > largest)
      return shapes.fail("the window or its padding is not positive or too large in dimension " + std::to_string(d));
    int64_t room = extent + low + high - reach - 1;
    if (room < 0)
      return shapes.fail("expected a window that fits, found one of " + std::to_string(reach + 1) + " over " +
                         std::to_string(extent + low + high) + " in spatial dimension " + std::to_string(d));
    expected.push_back(room / shapes.integers("strides")[d] + 1);
  }
  return {};
}
Refusal spatialRank(const Shapes &shapes) {
  if (shapes.rank(0) < 3 || shapes.rank(0) > 5)
    return shapes.fail("expected one, two or three spatial dimensions, found " + typeString(shapes.type(0)),
                       MORTISE_REASON_RANK);
  return {};
}

Refusal checkConvolution(const Shapes &shapes) {
  if (Refusal refusal = spatialRank(shapes))
    return refusal;
  if (shapes.dtype(1) != shapes.dtype(0) || shapes.rank(1) != shapes.rank(0))
    return shapes.fail("expected a weight of x's dtype and rank, found " + typeString(shapes.type(1)));
  int64_t groups = shapes.integer("groups"), channels = shapes.dims(0)[1], outputs = shapes.dims(1)[0];
  if (groups < 1 || channels % groups || outputs % groups || shapes.dims(1)[1] != channels / groups)
    return shapes.fail("expected channels in " + std::to_string(groups) + " groups, found x " +
                       typeString(shapes.type(0)) + " and weight " + typeString(shapes.type(1)));
  Shape expected{shapes.dims(0)[0], outputs};
  if (Refusal refusal = appendOutput(shapes, shapes.dims(1).subspan(2), expected))
    return refusal;
  return shapes.expect(shapes.dtype(0), expected);
}
// `finish` computes a result element from its sum and output channel.
template <typename Finish> void convolve(const Call &call, Finish finish) {
  Windows windows(call, call.operand(1).dims().subspan(2));
  int64_t groups = call.integer("groups"), images = call.operand(0).dims()[0];
  int64_t M = call.operand(1).dims()[0] / groups, channels = call.operand(1).dims()[1];
  auto N = static_cast<int64_t>(windows.starts.size()), taps = static_cast<int64_t>(windows.taps.size());
  int64_t K = channels * taps, image = product(windows.in);
  visitFloat(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    const auto *x = call.operand(0).as<T>(), *weight = call.operand(1).as<T>();
    auto *to = call.result.as<T>();
    product<Number>( // one batch for each image and group
        call, images * groups, M, N, K,
        [&](int64_t b, int64_t m, int64_t k) { return T::load(weight[(b % groups * M + m) * K + k]); },
        [&](int64_t b, int64_t k, int64_t n) {
          int64_t at = windows.at(windows.starts[size_t(n)], windows.taps[size_t(k % taps)]);
          return at < 0 ? Number(0) : T::load(x[(b * channels + k / taps) * image + at]);
        },
        [&](int64_t b, int64_t m, int64_t n, Number sum) {
          to[(b * M + m) * N + n] = T::store(finish(type, b % groups * M + m, sum));
        });
  });
}
void runConvolution(const Call &call) {
  convolve(call, [](auto, int64_t, Number sum) { return sum; });
}

Refusal checkFused(const Shapes &shapes) {
  if (Refusal refusal = checkConvolution(shapes))
    return refusal;
  Shape channels{shapes.dims(1)[0]};
  return firstOf(shapes.expectOperand(2, shapes.dtype(0), channels),
                 shapes.expectOperand(3, shapes.dtype(0), channels));
}
void runFused(const Call &call) {
  std::string_view name = stringAttribute(call.node, "activation");
  int64_t outputs = call.operand(1).dims()[0];
  std::vector<Number> scale = toNumbers(call.operand(2), outputs, 1), bias = toNumbers(call.operand(3), outputs, -0.0);
  convolve(call, [&](auto type, int64_t channel, Number sum) {
    using T = decltype(type);
    Number x = inRange<T>(inRange<T>(sum) * scale[size_t(channel)]);
    x = inRange<T>(x + bias[size_t(channel)]);
    return name == "relu"        ? maximum(x, Number(0))
           : name == "silu"      ? silu(x)
           : name == "gelu"      ? gelu(x)
           : name == "gelu_tanh" ? geluTanh(x)
                                 : x;
  });
}

Refusal checkPool(const Shapes &shapes) {
  if (Refusal refusal = firstOf(spatialRank(shapes), shapes.length("window", shapes.dims(0).size() - 2)))
    return refusal;
  Shape expected{shapes.dims(0)[0], shapes.dims(0)[1]};
  if (Refusal refusal = appendOutput(shapes, shapes.integers("window"), expected))
    return refusal;
  return shapes.expect(shapes.dtype(0), expected);
}
template <typename T, typename Combine> void pool(const Call &call, typename T::Compute start, Combine combine) {
  Windows windows(call, call.integers("window"));
  int64_t image = product(windows.in), N = static_cast<int64_t>(windows.starts.size());
  int64_t planes = call.operand(0).dims()[0] * call.operand(0).dims()[1];
  const auto *from = call.operand(0).as<T>();
  auto *to = call.result.as<T>();
  call.parallel(planes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t n = 0; n < N; ++n) {
        auto sum = start;
        for (const Place &tap : windows.taps)
          if (int64_t at = windows.at(windows.starts[size_t(n)], tap); at >= 0)
            sum = combine(sum, T::load(from[p * image + at]));
        to[p * N + n] = T::store(sum);
      }
  });
}
void runMaxPool(const Call &call) {
  visitElement(call.result.dtype(), [&](auto type) {
    using T = decltype(type);
    pool<T>(call, lowestOf<T>(), [](auto x, auto y) { return maximum(x, y); });
  });
}
void runSumPool(const Call &call) {
  visitElement(call.result.dtype(),
               [&](auto type) { pool<decltype(type)>(call, 0, [](auto x, auto y) { return plus(x, y); }); });
}

} // namespace

std::span<const OpSpec> windowOps() {
  static const std::vector<OpSpec> ops = {
      {Op::Convolution, checkConvolution, runConvolution},
      {Op::FusedConvolution, checkFused, runFused},
      {Op::MaxPool, checkPool, runMaxPool},
      {Op::SumPool, checkPool, runSumPool},
  };
  return ops;
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
