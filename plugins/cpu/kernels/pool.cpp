// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// max_pool and sum_pool, in whatever layout the input has: row-major, or channels in blocks as oneDNN's convolutions
// leave them. Loops of our own: oneDNN's maximum loses NaN.
#include "../claims.hpp"
#include "../step_builder.hpp"
#include "channels.hpp"
#include "narrow.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <limits>

namespace mortise::cpu {

using memory = dnnl::memory;

namespace {
struct PoolLoop {
  bool maximum = false;
  int32_t dtype = 0;
  // Three spatial dimensions, leading ones of extent 1.
  int64_t batch = 0, channels = 0, in[3], out[3], window[3], stride[3], low[3], dilation[3];
  ChannelLayout from, to;
};

struct HalfLane {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t value) { return static_cast<float>(__builtin_bit_cast(_Float16, value)); }
  static uint16_t store(float value) { return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value)); }
};
struct BrainLane {
  using Stored = uint16_t;
  using Sum = float;
  static float load(uint16_t value) { return fromBrain(value); }
  static uint16_t store(float value) { return toBrain(value); }
};
template <typename T> struct Lane {
  using Stored = T;
  using Sum = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
  static Sum load(T value) { return value; }
  static T store(Sum value) { return static_cast<T>(value); }
};

// The maximum of no elements, of the element type: a window may lie in the padding as a whole.
template <typename Kind> typename Kind::Sum lowest() {
  if constexpr (std::is_floating_point_v<typename Kind::Sum>)
    return -std::numeric_limits<typename Kind::Sum>::infinity();
  else
    return std::numeric_limits<typename Kind::Stored>::min();
}

template <bool maximum, typename Sum> MORTISE_INLINE Sum combine(Sum sum, Sum x) {
  if constexpr (!maximum)
    return sum + x;
  else if constexpr (std::is_floating_point_v<Sum>) // NaN wins, +0 over -0
    // NOLINTNEXTLINE(misc-redundant-expression): x != x is NaN without a branch
    return (x > sum) | (x != x) | ((x == sum) & !__builtin_signbit(x)) ? x : sum;
  else
    return x > sum ? x : sum;
}

// `size` neighbouring channels of one output position.
template <typename Kind, bool maximum>
MORTISE_INLINE void position(const PoolLoop &pool, const typename Kind::Stored *from, typename Kind::Stored *to,
                             const int64_t *at, int64_t size) {
  using Sum = typename Kind::Sum;
  constexpr int64_t width = 16;
  for (int64_t lane = 0; lane < size; lane += width) {
    Sum sums[width];
    int64_t lanes = std::min(width, size - lane);
    for (int64_t i = 0; i < width; ++i)
      sums[i] = maximum ? lowest<Kind>() : Sum(0);
    int64_t k[3];
    for (k[0] = 0; k[0] < pool.window[0]; ++k[0])
      for (k[1] = 0; k[1] < pool.window[1]; ++k[1])
        for (k[2] = 0; k[2] < pool.window[2]; ++k[2]) {
          int64_t offset = lane;
          bool inside = true;
          for (int d = 0; d < 3; ++d) {
            int64_t p = at[d] * pool.stride[d] - pool.low[d] + k[d] * pool.dilation[d];
            inside &= p >= 0 && p < pool.in[d];
            offset += p * pool.from.s[d];
          }
          if (!inside)
            continue;
          const typename Kind::Stored *element = from + offset;
          if (lanes == width) // a fixed count, which becomes one vector
            for (int64_t i = 0; i < width; ++i)
              sums[i] = combine<maximum>(sums[i], Sum(Kind::load(element[i])));
          else
            for (int64_t i = 0; i < lanes; ++i)
              sums[i] = combine<maximum>(sums[i], Sum(Kind::load(element[i])));
        }
    for (int64_t i = 0; i < lanes; ++i)
      to[lane + i] = Kind::store(sums[i]);
  }
}

// One row of output positions of one channel: neighbouring positions side by side, as `position` has channels. Each sum
// takes its terms in the same order there and here.
template <typename Kind, bool maximum>
MORTISE_INLINE void row(const PoolLoop &pool, const typename Kind::Stored *from, typename Kind::Stored *to,
                        const int64_t *at) {
  using Sum = typename Kind::Sum;
  constexpr int64_t width = 16;
  const int64_t out = pool.out[2], stride = pool.stride[2], step = stride * pool.from.s[2];
  for (int64_t next = 0; next < out; next += width) {
    const int64_t first = std::max<int64_t>(0, std::min(next, out - width)); // the last one overlaps its neighbour
    const int64_t lanes = std::min(width, out);
    Sum sums[width];
    for (int64_t i = 0; i < width; ++i)
      sums[i] = maximum ? lowest<Kind>() : Sum(0);
    for (int64_t k0 = 0; k0 < pool.window[0]; ++k0)
      for (int64_t k1 = 0; k1 < pool.window[1]; ++k1) {
        const int64_t p0 = at[0] * pool.stride[0] - pool.low[0] + k0 * pool.dilation[0];
        const int64_t p1 = at[1] * pool.stride[1] - pool.low[1] + k1 * pool.dilation[1];
        if (p0 < 0 || p0 >= pool.in[0] || p1 < 0 || p1 >= pool.in[1])
          continue;
        for (int64_t k2 = 0; k2 < pool.window[2]; ++k2) {
          const int64_t start = first * stride - pool.low[2] + k2 * pool.dilation[2];
          const typename Kind::Stored *element =
              from + p0 * pool.from.s[0] + p1 * pool.from.s[1] + start * pool.from.s[2];
          const bool inside = lanes == width && start >= 0 && start + (width - 1) * stride < pool.in[2];
          if (inside && step == 1) // fixed distances, which become vectors
            for (int64_t i = 0; i < width; ++i)
              sums[i] = combine<maximum>(sums[i], Sum(Kind::load(element[i])));
          else if (inside && step == 2)
            for (int64_t i = 0; i < width; ++i)
              sums[i] = combine<maximum>(sums[i], Sum(Kind::load(element[2 * i])));
          else
            for (int64_t i = 0; i < lanes; ++i)
              if (const int64_t p = start + i * stride; p >= 0 && p < pool.in[2])
                sums[i] = combine<maximum>(sums[i], Sum(Kind::load(element[i * step])));
        }
      }
    for (int64_t i = 0; i < lanes; ++i)
      to[(first + i) * pool.to.s[2]] = Kind::store(sums[i]);
  }
}

// A task is one row of output positions in one block of channels.
template <typename Kind, bool maximum>
MORTISE_INLINE void rows(const PoolLoop &pool, void *const *operands, int64_t begin, int64_t end) {
  using Stored = typename Kind::Stored;
  int64_t block = pool.from.block, blocks = (pool.channels + block - 1) / block;
  for (int64_t task = begin; task < end; ++task) {
    int64_t rest = task, at[3] = {0, 0, 0};
    at[1] = rest % pool.out[1], rest /= pool.out[1];
    at[0] = rest % pool.out[0], rest /= pool.out[0];
    int64_t c = rest % blocks, n = rest / blocks, size = std::min(block, pool.channels - c * block);
    const Stored *from = static_cast<const Stored *>(operands[0]) + n * pool.from.n + c * pool.from.c;
    Stored *to = static_cast<Stored *>(operands[1]) + n * pool.to.n + c * pool.to.c + at[0] * pool.to.s[0] +
                 at[1] * pool.to.s[1];
    if (block == 1) {
      row<Kind, maximum>(pool, from, to, at);
      continue;
    }
    for (at[2] = 0; at[2] < pool.out[2]; ++at[2], to += pool.to.s[2]) {
      position<Kind, maximum>(pool, from, to, at, size);
      for (int64_t i = size; i < block; ++i)
        to[i] = 0; // the library reads padded channels as 0
    }
  }
}

template <typename Kind, bool maximum> void run(const PoolLoop &pool, void *const *operands) {
  int64_t block = pool.from.block, blocks = (pool.channels + block - 1) / block;
  forEachOnBest(pool.batch * blocks * pool.out[0] * pool.out[1], std::max<int64_t>(1, 2048 / (pool.out[2] * block + 1)),
                [&](int64_t begin, int64_t end)
                    MORTISE_INLINE_LAMBDA { rows<Kind, maximum>(pool, operands, begin, end); });
}
} // namespace

static std::function<void(void *const *)> poolLoop(const PoolLoop &pool) {
  auto bind = [&](auto kind) -> std::function<void(void *const *)> {
    using Kind = decltype(kind);
    if (pool.maximum)
      return [pool](void *const *operands) { run<Kind, true>(pool, operands); };
    return [pool](void *const *operands) { run<Kind, false>(pool, operands); };
  };
  switch (pool.dtype) {
  case MORTISE_F64:
    return bind(Lane<double>{});
  case MORTISE_F32:
    return bind(Lane<float>{});
  case MORTISE_F16:
    return bind(HalfLane{});
  case MORTISE_BF16:
    return bind(BrainLane{});
  default:
    return visitInteger(
        pool.dtype, std::function<void(void *const *)>(),
        [&](auto number) -> std::function<void(void *const *)> { return bind(Lane<decltype(number)>{}); });
  }
}

static PoolLoop readLoop(StepBuilder &builder, const Pool &pool) {
  std::span<const int64_t> x = builder.extents(pool.x), result = builder.extents(pool.result);
  PoolLoop loop;
  loop.maximum = pool.maximum;
  loop.dtype = builder.type(pool.x).dtype;
  loop.batch = x[0];
  loop.channels = x[1];
  size_t spatial = x.size() - 2;
  for (size_t d = 0; d < 3; ++d) {
    bool there = d + spatial >= 3;
    size_t from = d + spatial - 3;
    loop.in[d] = there ? x[2 + from] : 1;
    loop.out[d] = there ? result[2 + from] : 1;
    loop.window[d] = there ? pool.window[from] : 1;
    loop.stride[d] = there ? pool.strides[from] : 1;
    loop.low[d] = there ? pool.low[from] : 0;
    loop.dilation[d] = there ? pool.dilations[from] : 1;
  }
  return loop;
}

// `last`: channels lie side by side, and are one block.
static ChannelLayout stridedLayout(const FixedView &view, bool last) {
  ChannelLayout layout;
  const size_t spatial = view.dims.size() - 2;
  layout.n = view.strides[0];
  layout.c = last ? 0 : view.strides[1];
  layout.block = last ? view.dims[1] : 1;
  for (size_t i = 0; i < spatial; ++i)
    layout.s[3 - spatial + i] = view.strides[2 + i];
  return layout;
}

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Pool &pool) {
  if (builder.elements(pool.result) == 0) {
    builder.write(pool.result);
    return {};
  }
  PoolLoop loop = readLoop(builder, pool);
  const FixedView root = builder.rootOf(pool.result);
  const FixedView &view = builder.viewOf(pool.x);
  Memory &source = builder.memoryOf(view.base);
  Step step;
  step.name = (pool.maximum ? "max_pool " : "sum_pool ") + builder.typeText(pool.x);
  step.lowering = "cpu.pool";
  step.nodes = unit.nodes;
  step.bytes = static_cast<double>(builder.bytes(pool.x) + builder.bytes(pool.result));
  std::optional<memory::desc> to;
  if (source.blocked != none && builder.isWhole(view))
    to = sameKind(source.layout, root.dims);
  if (to) {
    loop.from = channelLayout(source.layout);
    loop.to = channelLayout(*to);
    Operand target{builder.allocate(to->get_size()), 0, true};
    step.operands = {{source.blocked, 0, false}, target};
    builder.memoryOf(pool.result).blocked = target.buffer;
    builder.memoryOf(pool.result).layout = *to;
  } else {
    const bool last = view.strides[1] == 1 && root.strides[1] == 1 && loop.channels > 1;
    loop.from = stridedLayout(view, last);
    loop.to = stridedLayout(root, last);
    step.operands = {builder.read(view.base, view.offset), builder.write(pool.result)};
  }
  step.action = NativeLoop{poolLoop(loop), {}};
  builder.addStep(std::move(step));
  return {};
}

static Pool readPool(const MortiseNode &node) {
  auto list = [&](const char *name) {
    std::span<const int64_t> found = intsAttribute(node, name);
    return std::vector<int64_t>(found.begin(), found.end());
  };
  return {node.operands[0]->index, node.results[0]->index, isOp(node, "mortise.max_pool"),
          list("window"),          list("strides"),        list("low"),
          list("dilations")};
}

Result<void> claimPools(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if ((!isOp(node, "mortise.max_pool") && !isOp(node, "mortise.sum_pool")) || claims.isTaken(node))
      continue;
    claims.take(node);
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {claims.viewOf(node.operands[0]->index).base};
    unit.writes = {node.results[0]->index};
    unit.work = readPool(node);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
