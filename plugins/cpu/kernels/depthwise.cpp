// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Depthwise convolutions (each channel has a window of its own) of f32 images, with an activation of the input as well
// as of the result. oneDNN needs more instructions than the loop for an activation that keeps NaN, which costs most
// behind a 1x1 convolution of few channels, because that computes little for each element. Here the activation is
// applied once to each row of the input, when the row is copied to a buffer in the first-level cache; the buffer is
// padded, so that the sums need no test for the border.
#include "../device.hpp"
#include "channels.hpp"
#include "convolution.hpp"
#include "product.hpp"
#include "wide.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::cpu {

using memory = dnnl::memory;

static constexpr int64_t bufferFloats = 8192; // 32 KiB
static constexpr int tileColumns = 7;         // results of one row whose sums stay in registers

namespace {
struct DepthwiseLoop {
  int64_t batch, channels, in[2], out[2], window[2], stride[2], low[2];
  ChannelLayout from, to; // the last two of their spatial dimensions
  LoopActivation before, after;
  int64_t columns, rows; // of results: as many columns as the buffer has room for; rows of one task
  bool biased;
};

template <int lanes> using Floats = float __attribute__((vector_size(lanes * sizeof(float))));

// The vector whose address meets a size that is not known is a copy, so that the other one stays in a register.
template <typename Vector> MORTISE_INLINE void load(Vector &into, const float *from, int64_t count) {
  if (count * static_cast<int64_t>(sizeof(float)) == sizeof into) {
    std::memcpy(&into, from, sizeof into);
  } else {
    Vector part = {};
    std::memcpy(&part, from, static_cast<size_t>(count) * sizeof(float));
    into = part;
  }
}
template <typename Vector> MORTISE_INLINE void store(float *to, const Vector &from, int64_t count) {
  if (count * static_cast<int64_t>(sizeof(float)) == sizeof from) {
    std::memcpy(to, &from, sizeof from);
  } else {
    const Vector part = from;
    std::memcpy(to, &part, static_cast<size_t>(count) * sizeof(float));
  }
}

template <typename Vector> MORTISE_INLINE void clip(Vector &x, const Vector &low, const Vector &high) {
  x = low > x ? low : x; // false for NaN, which therefore stays
  x = high < x ? high : x;
}

// body(function) with the function that applies the activation to a vector. The kind is decided here, outside loops.
template <typename Vector, typename Body>
MORTISE_INLINE void withActivation(const LoopActivation &activation, Body body) {
  switch (activation.kind) {
  case LoopActivation::None:
    return body([](Vector &) MORTISE_INLINE_LAMBDA {});
  case LoopActivation::Clip: {
    const Vector low = Vector() + activation.low, high = Vector() + activation.high;
    return body([=](Vector &x) MORTISE_INLINE_LAMBDA { clip(x, low, high); });
  }
  case LoopActivation::HardSwish: {
    const Vector slope = Vector() + activation.slope, shift = Vector() + activation.shift;
    return body([=](Vector &x) MORTISE_INLINE_LAMBDA {
      Vector gate = slope * x + shift;
      clip(gate, Vector(), Vector() + 1.f);
      x *= gate;
    });
  }
  }
}

// Channels [0, count) of one block: a vector of an image's element.
template <int lanes> struct Block {
  const float *from;
  float *to;
  const float *weights; // [window][window][lanes]
  int64_t count;
  Floats<lanes> bias;
};

// Columns [begin, begin + width) of the input's row, padded and activated.
template <int lanes>
MORTISE_INLINE void copyRow(const DepthwiseLoop &loop, const Block<lanes> &block, int64_t row, int64_t begin,
                            int64_t width, float *buffer) {
  if (row < 0 || row >= loop.in[0]) {
    std::fill(buffer, buffer + width * lanes, 0.f);
    return;
  }
  const int64_t first = std::clamp<int64_t>(-begin, 0, width),
                last = std::clamp<int64_t>(loop.in[1] - begin, first, width);
  std::fill(buffer, buffer + first * lanes, 0.f);
  const float *from = block.from + row * loop.from.s[1] + (begin + first) * loop.from.s[2];
  withActivation<Floats<lanes>>(loop.before, [&](auto activate) MORTISE_INLINE_LAMBDA {
    const auto copy = [&](int64_t count) MORTISE_INLINE_LAMBDA {
      const int64_t step = loop.from.s[2];
      for (int64_t i = first; i < last; ++i) {
        Floats<lanes> x;
        load(x, from + (i - first) * step, count);
        activate(x);
        std::memcpy(buffer + i * lanes, &x, sizeof x);
      }
    };
    block.count == lanes ? copy(lanes) : copy(block.count);
  });
  std::fill(buffer + last * lanes, buffer + width * lanes, 0.f);
}

// `columns` neighbouring results. Each is summed in the order of the window, whatever its neighbours.
template <int lanes, int stride, int columns>
MORTISE_INLINE void tile(const DepthwiseLoop &loop, const Block<lanes> &block, const float *const *rows, int64_t at,
                         float *to) {
  Floats<lanes> sums[columns];
#pragma unroll
  for (int i = 0; i < columns; ++i)
    sums[i] = block.bias;
  const float *weights = block.weights;
  for (int64_t h = 0; h < loop.window[0]; ++h) {
    const float *x = rows[h] + at * stride * lanes;
    for (int64_t w = 0; w < loop.window[1]; ++w, x += lanes, weights += lanes) {
      Floats<lanes> weight;
      std::memcpy(&weight, weights, sizeof weight);
#pragma unroll
      for (int i = 0; i < columns; ++i) {
        Floats<lanes> element;
        std::memcpy(&element, x + i * stride * lanes, sizeof element);
        sums[i] += weight * element;
      }
    }
  }
  withActivation<Floats<lanes>>(loop.after, [&](auto activate) MORTISE_INLINE_LAMBDA {
#pragma unroll
    for (int i = 0; i < columns; ++i)
      activate(sums[i]);
  });
#pragma unroll
  for (int i = 0; i < columns; ++i)
    store(to + (at + i) * loop.to.s[2], sums[i], block.count);
}

template <int lanes, int stride>
MORTISE_INLINE void rows(const DepthwiseLoop &loop, const Block<lanes> &block, int64_t begin, int64_t end) {
  constexpr int64_t mostRows = bufferFloats / lanes / tileColumns; // of a window: suitsLoop()
  alignas(64) float buffer[bufferFloats];
  const float *window[mostRows];
  for (int64_t column = 0; column < loop.out[1]; column += loop.columns) {
    const int64_t columns = std::min(loop.columns, loop.out[1] - column);
    const int64_t width = (columns - 1) * stride + loop.window[1];
    int64_t next = begin * stride; // rows of the padded input; row r is at place r % window of the buffer
    for (int64_t row = begin; row < end; ++row) {
      const int64_t first = row * stride, last = first + loop.window[0];
      for (next = std::max(next, first); next < last; ++next)
        copyRow(loop, block, next - loop.low[0], column * stride - loop.low[1], width,
                buffer + next % loop.window[0] * width * lanes);
      for (int64_t h = 0; h < loop.window[0]; ++h)
        window[h] = buffer + (first + h) % loop.window[0] * width * lanes;
      float *to = block.to + row * loop.to.s[1] + column * loop.to.s[2];
      int64_t at = 0;
      for (; at + tileColumns <= columns; at += tileColumns)
        tile<lanes, stride, tileColumns>(loop, block, window, at, to);
      if (at + 4 <= columns) {
        tile<lanes, stride, 4>(loop, block, window, at, to);
        at += 4;
      }
      for (; at < columns; ++at)
        tile<lanes, stride, 1>(loop, block, window, at, to);
    }
  }
}

int64_t blocksOf(const DepthwiseLoop &loop, int64_t lanes) { return (loop.channels + lanes - 1) / lanes; }

// A task is `rows` rows of results in one block of channels.
template <int lanes, int stride> void run(const DepthwiseLoop &loop, void *const *operands) {
  const int64_t blocks = blocksOf(loop, lanes), chunks = (loop.out[0] + loop.rows - 1) / loop.rows;
  const int64_t window = loop.window[0] * loop.window[1];
  const auto *x = static_cast<const float *>(operands[0]), *weights = static_cast<const float *>(operands[1]),
             *bias = loop.biased ? static_cast<const float *>(operands[2]) : nullptr;
  auto *result = static_cast<float *>(operands[loop.biased ? 3 : 2]);
  const int64_t grain = std::max<int64_t>(1, 65536 / (loop.rows * loop.out[1] * window * lanes + 1));
  forEachOnBest(loop.batch * blocks * chunks, grain, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t chunk = task % chunks, channel = task / chunks % blocks * lanes, n = task / chunks / blocks;
      const auto at = [&](const ChannelLayout &layout) {
        return n * layout.n + channel / layout.block * layout.c + channel % layout.block;
      };
      const int64_t real = std::min<int64_t>(lanes, loop.channels - channel);
      Block<lanes> block{x + at(loop.from), result + at(loop.to), weights + channel * window, lanes, {}};
      if (bias)
        load(block.bias, bias + channel, real);
      if (loop.from.block != lanes) // channels last; blocks are padded
        block.count = real;
      rows<lanes, stride>(loop, block, chunk * loop.rows, std::min((chunk + 1) * loop.rows, loop.out[0]));
    }
  });
}
} // namespace

static int64_t columnsOf(int64_t lanes, int64_t windowRows, int64_t windowColumns, int64_t stride) {
  return (bufferFloats / (lanes * windowRows) - windowColumns) / stride + 1;
}

// The vectors that blocks of channels have: those of the layout, or as wide as is best for channels last.
static int64_t lanesOf(const ChannelLayout &layout) { return layout.block == 8 ? 8 : 16; }

static bool suitsLoop(const Claims &claims, const Convolution &made) {
  constexpr auto f32 = memory::data_type::f32;
  if (made.type != f32 || made.compute != f32 || made.residual != none || made.strides.size() != 2 ||
      made.strides[0] != made.strides[1] || made.strides[0] > 2 || made.dilations != memory::dims{0, 0})
    return false;
  const std::span<const Dim> x = claims.facts.extents(made.x), result = claims.facts.extents(made.result),
                             weight = claims.facts.extents(made.weight);
  if (made.groups < 2 || !(x[1] == made.groups) || !(result[1] == made.groups))
    return false;
  const std::optional<int64_t> rows = weight[2].number(), columns = weight[3].number();
  return rows && columns && *rows > 0 && *columns > 0 && loopActivation(made.activations) &&
         columnsOf(16, *rows, *columns, made.strides[0]) >= tileColumns;
}

// The unit of the convolution whose activated result is x, and has no other reader.
static Unit *inputUnit(Claims &claims, const Convolution &made) {
  for (Unit &unit : claims.units)
    if (auto *input = std::get_if<Convolution>(&unit.work);
        input && input->target == made.x && !input->activations.empty())
      return claims.facts.soleUser(made.x) ? &unit : nullptr;
  return nullptr;
}

void claimDepthwiseLoop(Claims &claims, Convolution &made) {
  if (!suitsLoop(claims, made))
    return;
  Unit *unit = inputUnit(claims, made);
  Convolution *input = unit ? &std::get<Convolution>(unit->work) : nullptr;
  if (input && (!loopActivation(input->activations) || input->type != made.type))
    input = nullptr;
  if (!input && made.activations.empty()) // nothing to gain
    return;
  made.byLoop = true;
  if (!input)
    return;
  made.inputActivations = std::exchange(input->activations, {});
  for (uint32_t node : input->activationNodes)
    std::erase(input->nodes, node);
  made.nodes.insert(made.nodes.end(), input->activationNodes.begin(), input->activationNodes.end());
  input->activationNodes.clear();
  made.x = input->target = input->beforeActivation;
  made.xView = claims.viewOf(made.x);
  unit->nodes = input->nodes;
  std::ranges::sort(unit->nodes);
  unit->writes = {input->target};
}

// The layout in which the loop reads x: the one that it has, or channels last.
static memory::desc inputLayout(StepBuilder &builder, const FixedConvolution &made) {
  const FixedView view = builder.values(made.xView);
  const Memory &found = builder.memoryOf(view.base);
  if (found.blocked != none && builder.isWhole(view) && sameKind(found.layout, made.xDims)) {
    const int64_t block = channelLayout(found.layout).block;
    if (block == 8 || block == 16 || block == made.xDims[1])
      return found.layout;
  }
  return {made.xDims, made.type, memory::format_tag::nhwc};
}

void addDepthwiseLoop(StepBuilder &builder, const FixedConvolution &made) {
  const memory::desc x = inputLayout(builder, made), result = *sameKind(x, made.resultDims);
  DepthwiseLoop loop;
  loop.batch = made.xDims[0];
  loop.channels = made.xDims[1];
  for (size_t i = 0; i < 2; ++i) {
    loop.in[i] = made.xDims[2 + i];
    loop.out[i] = made.resultDims[2 + i];
    loop.window[i] = made.weightDims[3 + i];
    loop.stride[i] = made.strides[i];
    loop.low[i] = made.low[i];
  }
  loop.from = channelLayout(x);
  loop.to = channelLayout(result);
  loop.before = *loopActivation(made.inputActivations);
  loop.after = *loopActivation(made.activations);
  loop.biased = !made.affine.empty();
  const int64_t lanes = lanesOf(loop.from);
  loop.columns = columnsOf(lanes, loop.window[0], loop.window[1], loop.stride[1]);
  // Enough tasks for even work; rows enough that reading a window's other rows again costs little.
  const int64_t wanted = 16 * static_cast<int64_t>(threadCount()), there = loop.batch * blocksOf(loop, lanes);
  loop.rows = std::max(loop.out[0] * there / wanted, std::min<int64_t>(loop.out[0], 8 * loop.window[0]));

  const memory::format_tag packed = lanes == 8 ? memory::format_tag::Goihw8g : memory::format_tag::Goihw16g;
  Step step;
  step.name = title(made);
  step.lowering = "cpu.depthwise";
  step.nodes = made.nodes;
  step.flops = made.flops;
  const Operand source = inLayout(builder, made.x, builder.values(made.xView), x);
  const auto [weights, bias] = makeWeights(builder, made, {made.weightDims, made.type, packed});
  const Operand target{builder.allocate(result.get_size()), 0, true};
  step.operands = {source, weights};
  if (loop.biased)
    step.operands.push_back(bias);
  step.operands.push_back(target);
  step.bytes = static_cast<double>(x.get_size() + result.get_size());
  step.action = NativeLoop{[loop, lanes](void *const *operands) {
                             if (lanes == 8)
                               loop.stride[0] == 1 ? run<8, 1>(loop, operands) : run<8, 2>(loop, operands);
                             else
                               loop.stride[0] == 1 ? run<16, 1>(loop, operands) : run<16, 2>(loop, operands);
                           },
                           {}};
  builder.addStep(std::move(step));
  builder.memoryOf(made.target).blocked = target.buffer;
  builder.memoryOf(made.target).layout = result;
}

} // namespace mortise::cpu
