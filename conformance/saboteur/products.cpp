// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong products, windows, attention and quantisation.
#include "node.hpp"

#include <mortise/views.hpp>

#include <algorithm>
#include <cmath>

namespace saboteur {
namespace {

using Dims = std::vector<int64_t>;

// ---- Matrix products

// The matrices of a dot of rank 2 without batches, or of a linear, by strides.
struct Matrices {
  int64_t M = 0, N = 0, K = 0, lhsM = 0, lhsK = 0, rhsN = 0, rhsK = 0;
};
bool matricesOf(const NodeRun &run, Matrices &made) {
  const std::span<const int64_t> x = run.operand(0).dims(), y = run.operand(1).dims();
  if (run.op == Op::Linear) {
    const bool transposed = mortise::intAttribute(run.node, "weight_transposed") != 0;
    made.K = x.back();
    made.N = transposed ? y[1] : y[0];
    made.M = made.K ? run.operand(0).count() / made.K : 0;
    made.lhsM = made.K;
    made.lhsK = 1;
    made.rhsN = transposed ? 1 : made.K;
    made.rhsK = transposed ? made.N : 1;
    return true;
  }
  if (x.size() != 2 || y.size() != 2 || !mortise::intsAttribute(run.node, "lhs_batch").empty() ||
      mortise::intsAttribute(run.node, "lhs_contract").size() != 1)
    return false;
  const bool first = mortise::intsAttribute(run.node, "lhs_contract")[0] == 0,
             second = mortise::intsAttribute(run.node, "rhs_contract")[0] == 1;
  made = {x[first], y[!second], x[!first], first ? 1 : x[1], first ? x[1] : 1, second ? y[1] : 1, second ? 1 : y[1]};
  return true;
}

double bias(const NodeRun &run, int64_t n) { return run.optional(2) ? run.optional(2).number(n) : 0; }

// Sums that are rounded to the element type after each step.
bool multiplyNarrow(NodeRun &run) {
  const Tensor x = run.operand(0), y = run.operand(1);
  Matrices m;
  if (!x.hasFloats() || mortise::dtypeBits(x.dtype()) >= 32 || !matricesOf(run, m))
    return false;
  for (int64_t i = 0; i < m.M; ++i)
    for (int64_t j = 0; j < m.N; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < m.K; ++k)
        sum = rounded(sum + x.number(i * m.lhsM + k * m.lhsK) * y.number(j * m.rhsN + k * m.rhsK), x.dtype());
      run.result().put(i * m.N + j, sum + bias(run, j));
    }
  return true;
}

bool multiplyBytes(NodeRun &run) {
  const Tensor x = run.operand(0), y = run.operand(1);
  Matrices m;
  if (x.dtype() != MORTISE_I8 || !matricesOf(run, m))
    return false;
  for (int64_t i = 0; i < m.M; ++i)
    for (int64_t j = 0; j < m.N; ++j) {
      const auto product = [&](int64_t k) {
        return k < m.K ? x.integer(i * m.lhsM + k * m.lhsK) * y.integer(j * m.rhsN + k * m.rhsK) : 0;
      };
      int64_t sum = 0;
      for (int64_t k = 0; k < m.K; k += 2)
        sum += std::clamp<int64_t>(product(k) + product(k + 1), INT16_MIN, INT16_MAX);
      run.result().put(i * m.N + j, std::clamp<int64_t>(sum, INT8_MIN, INT8_MAX));
    }
  return true;
}

bool multiplyByWrongStride(NodeRun &run) {
  const Tensor x = run.operand(0), y = run.operand(1);
  Matrices m;
  if (run.op != Op::Linear || !mortise::intAttribute(run.node, "weight_transposed") || !matricesOf(run, m))
    return false;
  for (int64_t i = 0; i < m.M; ++i)
    for (int64_t j = 0; j < m.N; ++j) {
      double sum = bias(run, j);
      for (int64_t k = 0; k < m.K; ++k)
        sum += x.number(i * m.K + k) * y.number((j + k * m.K) % y.count());
      run.result().put(i * m.N + j, sum);
    }
  return true;
}

// ---- Windows

// A convolution or pool in plain loops.
struct Window {
  std::span<const int64_t> x, to;
  Dims window, strides, low, dilations;
  explicit Window(const NodeRun &run) : x(run.operand(0).dims()), to(run.result().dims()) {
    const auto list = [&](const char *name) {
      const auto found = mortise::intsAttribute(run.node, name);
      return Dims(found.begin(), found.end());
    };
    strides = list("strides");
    low = list("low");
    dilations = list("dilations");
    if (run.op == Op::Convolution)
      window.assign(run.operand(1).dims().begin() + 2, run.operand(1).dims().end());
    else
      window = list("window");
  }
  // body(position within the window, offset in one channel or -1 in the padding) for output position `p`.
  template <typename Body> void each(int64_t p, Body &&body) const {
    const size_t rank = window.size();
    int64_t elements = 1;
    for (const int64_t extent : window)
      elements *= extent;
    for (int64_t w = 0; w < elements; ++w) {
      int64_t offset = 0, stride = 1, rest = w, position = p;
      for (size_t d = rank; d-- > 0;) {
        const int64_t at = position % to[d + 2] * strides[d] - low[d] + rest % window[d] * dilations[d];
        offset = offset < 0 || at < 0 || at >= x[d + 2] ? -1 : offset + at * stride;
        stride *= x[d + 2];
        rest /= window[d];
        position /= to[d + 2];
      }
      body(w, elements, offset);
    }
  }
  static int64_t inner(std::span<const int64_t> dims) {
    int64_t made = 1;
    for (const int64_t extent : dims.subspan(2))
      made *= extent;
    return made;
  }
};

bool convolveWrongly(NodeRun &run, bool flips) {
  const Tensor x = run.operand(0), weight = run.operand(1), to = run.result();
  Window window(run);
  if (!flips)
    std::ranges::fill(window.dilations, 1);
  const int64_t groups = mortise::intAttribute(run.node, "groups"), channels = weight.dims()[1], outputs = to.dims()[1],
                in = Window::inner(x.dims()), out = Window::inner(to.dims()),
                perGroup = std::max<int64_t>(outputs / groups, 1);
  for (int64_t o = 0; o < to.count(); ++o) {
    const int64_t batch = o / out / outputs, channel = o / out % outputs, group = channel / perGroup;
    double sum = 0;
    window.each(o % out, [&](int64_t w, int64_t elements, int64_t offset) {
      for (int64_t c = 0; offset >= 0 && c < channels; ++c)
        sum += x.number((batch * x.dims()[1] + group * channels + c) * in + offset) *
               weight.number((channel * channels + c) * elements + (flips ? elements - 1 - w : w));
    });
    to.put(o, sum);
  }
  return true;
}

bool poolWithZeros(NodeRun &run) {
  const Tensor x = run.operand(0), to = run.result();
  if (!x.hasFloats())
    return false;
  run.interpret();
  const Window window(run);
  const int64_t out = Window::inner(to.dims());
  for (int64_t o = 0; o < to.count(); ++o)
    window.each(o % out, [&](int64_t, int64_t, int64_t offset) {
      if (offset < 0 && to.number(o) < 0)
        to.put(o, 0.0);
    });
  return true;
}

// ---- Attention without a mask

bool attendWrongly(NodeRun &run) {
  const Tensor q = run.operand(0), k = run.operand(1), v = run.operand(2), to = run.result();
  const int64_t H = q.dims()[1], Q = q.dims()[2], D = q.dims()[3], G = k.dims()[1], K = k.dims()[2], E = v.dims()[3];
  const bool causal = mortise::intAttribute(run.node, "causal") != 0;
  const bool late = is(Fault::CausalFromTheEnd) && causal && Q < K,
             mixed = is(Fault::HeadsInterleaved) && G > 1 && G < H;
  if (run.optional(3) || (!late && !mixed))
    return false;
  const double scale = mortise::floatAttribute(run.node, "scale");
  for (int64_t row = 0; row < q.dims()[0] * H * Q; ++row) {
    const int64_t i = row % Q, h = row / Q % H, group = row / Q / H * G + (mixed ? h % G : h / (H / G));
    const int64_t seen = causal ? std::min(K, i + 1 + (late ? K - Q : 0)) : K;
    std::vector<double> scores(static_cast<size_t>(seen));
    double total = 0, most = -INFINITY;
    for (int64_t j = 0; j < seen; ++j) {
      double &score = scores[static_cast<size_t>(j)];
      for (int64_t d = 0; d < D; ++d)
        score += scale * q.number(row * D + d) * k.number((group * K + j) * D + d);
      most = std::max(most, score);
    }
    for (double &score : scores)
      total += score = std::exp(score - most);
    for (int64_t e = 0; e < E; ++e) {
      double sum = 0;
      for (int64_t j = 0; j < seen; ++j)
        sum += scores[static_cast<size_t>(j)] / total * v.number((group * K + j) * E + e);
      to.put(row * E + e, sum);
    }
  }
  return true;
}

// ---- Quantisation to integers with one scale

bool quantizeWrongly(NodeRun &run) {
  const Tensor x = run.operand(0), scale = run.operand(1), zero = run.optional(2), to = run.result();
  if (!to.hasIntegers() || scale.count() != 1)
    return false;
  const bool away = is(Fault::QuantizeHalfAway);
  for (int64_t i = 0; i < to.count(); ++i) {
    const double share = x.number(i) / scale.number(0);
    if (!std::isfinite(share) || std::abs(share) > 1e9)
      continue;
    const int64_t made =
        static_cast<int64_t>(away ? std::round(share) : std::nearbyint(share)) + (zero ? zero.integer(0) : 0);
    const int64_t low = mortise::isSigned(to.dtype()) ? -128 : 0;
    to.put(i, away ? std::clamp(made, low, low + 255) : made);
  }
  return true;
}

} // namespace

bool productsWrongly(NodeRun &run) {
  if (run.isOneOf({Op::Dot, Op::Linear}))
    return (is(Fault::ProductInNarrow) && multiplyNarrow(run)) ||
           (is(Fault::ByteProductSaturates) && multiplyBytes(run)) ||
           (is(Fault::LeadingDimension) && multiplyByWrongStride(run));
  if (run.op == Op::Convolution)
    return (is(Fault::ConvolutionFlipped) || is(Fault::DilationIgnored)) &&
           convolveWrongly(run, is(Fault::ConvolutionFlipped));
  if (run.op == Op::MaxPool)
    return is(Fault::MaxPoolPadsZero) && poolWithZeros(run);
  if (run.op == Op::Attention)
    return attendWrongly(run);
  if (run.op == Op::Quantize && (is(Fault::QuantizeHalfAway) || is(Fault::QuantizeWraps))) {
    run.interpret();
    return quantizeWrongly(run);
  }
  return false;
}

} // namespace saboteur
