// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of many queries, whose scores stay in the cache: a thread takes a block of queries of a head through blocks
// of keys, and scales what it has added up when a larger score comes (Dao et al., FlashAttention, arXiv:2205.14135).
// Keys behind a causal block's last query are left out. The products are the library's, of f32; bf16 is widened block
// by block, where the library has no products of bf16 itself (no AVX-512). Rows that it does not read as they lie are
// copied, too.
//
// A weight is e^(score - largest), so that a sum of many large values may leave the range of f32 where their mean does
// not. A block with a result that is not finite is computed again with weights times 2^-shift, 2^shift being at least
// the number of keys. Others are not, since values may be subnormal.
#include "../device.hpp"
#include "bf16.hpp"
#include "product.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace mortise::cpu {

namespace {
constexpr int64_t blockQueries = 64, blockKeys = 512;
constexpr float none = -std::numeric_limits<float>::infinity();

struct Strides {
  int64_t batch = 0, head = 0, row = 0, element = 0;
  explicit Strides(const FixedView &view)
      : batch(view.strides[0]), head(view.strides[1]), row(view.strides[2]),
        element(view.dims[3] == 1 ? 1 : view.strides[3]) {}
  int64_t at(int64_t inBatch, int64_t ofHead, int64_t first) const {
    return inBatch * batch + ofHead * head + first * row;
  }
  // Whether the library reads rows of so many elements as they lie.
  bool suit(int64_t length) const { return element == 1 && row >= length; }
};

enum class Mask { None, Hides, Adds };

struct AttentionLoop {
  int64_t batch, heads, headsPerKey, queries, keys, depth, width;
  Strides q, k, v, result;
  Mask mask = Mask::None;
  std::vector<int64_t> maskStrides; // of all four dimensions
  bool causal = false;
  float scale = 1;
  int64_t parts = 1;   // that threads take
  bool copies = false; // rows into memory of a part's own, in f32

  bool leavesOut() const { return causal && mask != Mask::Adds; } // a NaN score stays NaN with -inf added
  int64_t blocks() const { return (queries + blockQueries - 1) / blockQueries; }
  int64_t tasks() const { return batch * heads * blocks(); }
  // Numbers in f32 that a part has room for.
  int64_t room() const {
    const int64_t own = blockQueries * (blockKeys + width + 3);
    return own + (copies ? blockQueries * depth + blockKeys * (depth + width) : 0);
  }
};

constexpr int lanes = 8;
using Floats = float __attribute__((vector_size(lanes * sizeof(float))));
using Integers = int32_t __attribute__((vector_size(lanes * sizeof(int32_t))));

MORTISE_INLINE Floats load(const float *from) {
  Floats vector;
  std::memcpy(&vector, from, sizeof vector);
  return vector;
}
MORTISE_INLINE void save(float *to, Floats vector) { std::memcpy(to, &vector, sizeof vector); }

// 2^-shift e^x for x <= 0, within 2 units in the last place; NaN for NaN. By Cody and Waite's reduction, and Taylor's
// polynomial for what is left, at most log(2) / 2.
MORTISE_INLINE Floats exponential(Floats x, int32_t shift) {
  constexpr float least = -120, high = 0.693359375F, low = -2.12194440e-4F, rounder = 0x1.8p23F;
  x = x < least ? Floats{} + least : x;
  const Floats whole = (x * 1.44269504F + rounder) - rounder;
  const Floats rest = (x - whole * high) - whole * low;
  Floats sum = rest * (1.0F / 5040) + 1.0F / 720;
  for (const float term : {1.0F / 120, 1.0F / 24, 1.0F / 6, 0.5F, 1.0F, 1.0F})
    sum = sum * rest + term;
  // In two steps, since the number may be subnormal, or 0, as it is for `least`.
  const Integers exponent = __builtin_convertvector(whole, Integers) - shift, half = exponent / 2;
  const auto power = [](Integers by) MORTISE_INLINE_LAMBDA {
    const Integers bits = (by + 127) << 23;
    Floats made;
    std::memcpy(&made, &bits, sizeof made);
    return made;
  };
  return sum * power(half) * power(exponent - half);
}

// What a thread has of a block of queries.
struct Block {
  float *scores, *sums, *largest, *totals;        // scores: blockKeys a row
  float *seen;                                    // 1 where the row sees a key, else 0
  float *q = nullptr, *k = nullptr, *v = nullptr; // copies
  Block(const AttentionLoop &loop, float *memory) {
    const auto take = [&](int64_t count) { return std::exchange(memory, memory + count); };
    scores = take(blockQueries * blockKeys), sums = take(blockQueries * loop.width);
    largest = take(blockQueries), totals = take(blockQueries), seen = take(blockQueries);
    if (loop.copies)
      q = take(blockQueries * loop.depth), k = take(blockKeys * loop.depth), v = take(blockKeys * loop.width);
  }
};

// Rows as the library reads them: as they lie, or copied into `memory`.
struct Rows {
  const float *first;
  int64_t stride;
};
template <typename Element>
MORTISE_INLINE Rows rowsOf(const Element *first, const Strides &strides, int64_t count, int64_t length, float *memory) {
  if constexpr (std::is_same_v<Element, float>)
    if (!memory)
      return {first, strides.row};
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < length; ++j)
      memory[i * length + j] = number(first[i * strides.row + j * strides.element]);
  return {memory, length};
}

// Hides or adds to the scores of a query, for keys from `first` on. Whether it sees one.
template <typename Element>
MORTISE_INLINE bool applyMask(const AttentionLoop &loop, const void *mask, int64_t row, float *scores, int64_t query,
                              int64_t first, int64_t count) {
  const int64_t visible = loop.causal ? std::clamp<int64_t>(query + 1 - first, 0, count) : count;
  const int64_t stride = loop.mask == Mask::None ? 0 : loop.maskStrides[3];
  bool sees = loop.mask == Mask::None && visible > 0;
  if (loop.mask == Mask::Hides) {
    const auto *is = static_cast<const uint8_t *>(mask) + row + first * stride;
    for (int64_t j = 0; j < visible; ++j) {
      sees |= is[j * stride] != 0;
      scores[j] = is[j * stride] ? scores[j] : none;
    }
  } else if (loop.mask == Mask::Adds) {
    const auto *added = static_cast<const Element *>(mask) + row + first * stride;
    for (int64_t j = 0; j < visible; ++j) {
      const float term = number(added[j * stride]);
      sees |= term != none;
      scores[j] += term;
    }
    for (int64_t j = visible; j < count; ++j)
      scores[j] += none;
    return sees;
  }
  std::fill(scores + visible, scores + count, none);
  return sees;
}

// Scores become weights, and what was added up before is scaled to the largest score so far.
MORTISE_INLINE void weigh(const AttentionLoop &loop, const Block &block, int64_t row, int64_t count, int shift) {
  float *scores = block.scores + row * blockKeys;
  const int64_t whole = count / lanes * lanes;
  Floats most = Floats{} + none;
  for (int64_t j = 0; j < whole; j += lanes) {
    const Floats each = load(scores + j);
    most = each > most ? each : most; // NaN is seen in the total
  }
  float largest = block.largest[row];
  for (int lane = 0; lane < lanes; ++lane)
    largest = most[lane] > largest ? most[lane] : largest;
  for (int64_t j = whole; j < count; ++j)
    largest = scores[j] > largest ? scores[j] : largest;
  const float base = largest == none ? 0 : largest; // where there is no score but -inf, weights are 0
  Floats totals{};
  for (int64_t j = 0; j < whole; j += lanes) {
    const Floats weights = exponential(load(scores + j) - base, shift);
    save(scores + j, weights);
    totals += weights;
  }
  if (whole < count) {
    Floats last = Floats{} + none;
    std::memcpy(&last, scores + whole, static_cast<size_t>(count - whole) * sizeof(float));
    last = exponential(last - base, shift);
    std::memcpy(scores + whole, &last, static_cast<size_t>(count - whole) * sizeof(float));
    totals += last;
  }
  const float factor = exponential(Floats{} + (block.largest[row] - base), 0)[0];
  float total = block.totals[row] * factor;
  for (int lane = 0; lane < lanes; ++lane)
    total += totals[lane];
  block.totals[row] = total, block.largest[row] = largest;
  if (factor != 1)
    for (int64_t e = 0; e < loop.width; ++e)
      block.sums[row * loop.width + e] *= factor;
}

// to = alpha a b + beta to, where b may be transposed. Slowly where the library has no memory for its own copies.
void product(bool transposed, int64_t m, int64_t n, int64_t k, float alpha, const Rows &a, const Rows &b, float beta,
             float *to, int64_t stride) {
  if (dnnl::sgemm('N', transposed ? 'T' : 'N', m, n, k, alpha, a.first, a.stride, b.first, b.stride, beta, to,
                  stride) == dnnl::status::success)
    return;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += a.first[i * a.stride + l] * (transposed ? b.first[j * b.stride + l] : b.first[l * b.stride + j]);
      to[i * stride + j] = alpha * sum + (beta != 0 ? beta * to[i * stride + j] : 0);
    }
}

// operands: q, k, v, the result, room for each part, and the mask where there is one. Whether all results are finite.
// With a shift, only those are written that were not.
template <typename Element>
MORTISE_INLINE bool attend(const AttentionLoop &loop, void *const *operands, float *memory, int64_t task, int shift) {
  const int64_t first = task % loop.blocks() * blockQueries, head = task / loop.blocks() % loop.heads,
                batch = task / loop.blocks() / loop.heads, keyHead = head / loop.headsPerKey;
  const int64_t rows = std::min(blockQueries, loop.queries - first);
  const Block block(loop, memory);
  std::fill_n(block.sums, rows * loop.width, 0.0F);
  std::fill_n(block.largest, rows, none);
  std::fill_n(block.totals, rows, 0.0F);
  std::fill_n(block.seen, rows, 0.0F);
  const auto of = [&](size_t operand, const Strides &strides, int64_t ofHead, int64_t row) {
    return static_cast<Element *>(operands[operand]) + strides.at(batch, ofHead, row);
  };
  const Rows q = rowsOf(of(0, loop.q, head, first), loop.q, rows, loop.depth, block.q);
  const int64_t end = loop.leavesOut() ? std::min(loop.keys, first + rows) : loop.keys;
  for (int64_t key = 0; key < end; key += blockKeys) {
    const int64_t count = std::min(blockKeys, end - key);
    const Rows k = rowsOf(of(1, loop.k, keyHead, key), loop.k, count, loop.depth, block.k);
    product(true, rows, count, loop.depth, loop.scale, q, k, 0, block.scores, blockKeys);
    for (int64_t i = 0; i < rows; ++i) {
      int64_t maskRow = 0;
      if (loop.mask != Mask::None)
        maskRow = batch * loop.maskStrides[0] + head * loop.maskStrides[1] + (first + i) * loop.maskStrides[2];
      if (applyMask<Element>(loop, loop.mask == Mask::None ? nullptr : operands[5], maskRow,
                             block.scores + i * blockKeys, first + i, key, count))
        block.seen[i] = 1;
      weigh(loop, block, i, count, shift);
    }
    const Rows v = rowsOf(of(2, loop.v, keyHead, key), loop.v, count, loop.width, block.v);
    product(false, rows, loop.width, count, 1, {block.scores, blockKeys}, v, 1, block.sums, loop.width);
  }
  bool areFinite = true;
  for (int64_t i = 0; i < rows; ++i) {
    Element *to = of(3, loop.result, head, first + i);
    for (int64_t e = 0; e < loop.width; ++e) {
      const float result = block.seen[i] != 0 ? block.sums[i * loop.width + e] / block.totals[i] : 0;
      areFinite &= std::isfinite(result);
      if (Element *at = to + e * loop.result.element; shift == 0 || !std::isfinite(number(*at)))
        store(at, result);
    }
  }
  return areFinite;
}

// Parts take tasks by turns, since of a causal attention each block of queries sees more keys than the one before.
template <typename Element> void run(const AttentionLoop &loop, void *const *operands) {
  forEachOnBest(loop.parts, 1, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t task = part; task < loop.tasks(); task += loop.parts)
        if (float *room = static_cast<float *>(operands[4]) + part * loop.room();
            !attend<Element>(loop, operands, room, task, 0))
          attend<Element>(loop, operands, room, task, std::bit_width(static_cast<uint64_t>(loop.keys)));
  });
}

std::vector<int64_t> maskStrides(const FixedView &view) {
  std::vector<int64_t> strides = view.strides;
  for (size_t i = 0; i < strides.size(); ++i)
    strides[i] = view.dims[i] == 1 ? 0 : strides[i]; // repeated
  return strides;
}
} // namespace

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Attention &attention) {
  const FixedView q = builder.values(attention.q), k = builder.values(attention.k), v = builder.values(attention.v),
                  result = builder.values(attention.result);
  Operand target = builder.write(attention.target);
  if (elementCount(std::span<const int64_t>(result.dims)) == 0)
    return {};
  AttentionLoop loop{.batch = q.dims[0],
                     .heads = q.dims[1],
                     .headsPerKey = q.dims[1] / k.dims[1],
                     .queries = q.dims[2],
                     .keys = k.dims[2],
                     .depth = q.dims[3],
                     .width = v.dims[3],
                     .q = Strides(q),
                     .k = Strides(k),
                     .v = Strides(v),
                     .result = Strides(result)};
  loop.causal = attention.causal, loop.scale = static_cast<float>(attention.scale);
  loop.parts = std::min<int64_t>(threadCount(), loop.tasks());
  const int32_t dtype = builder.type(q.base).dtype;
  const bool isBrain = dtype == MORTISE_BF16;
  loop.copies = isBrain || !loop.q.suit(loop.depth) || !loop.k.suit(loop.depth) || !loop.v.suit(loop.width);
  target.offset += result.offset * static_cast<int64_t>(dtypeBits(dtype) / 8);
  Step step;
  step.name = "attention " + builder.typeText(attention.value) + " over " + std::to_string(loop.keys);
  step.lowering = "cpu.attention";
  step.nodes = unit.nodes;
  step.flops = 2.0 *
               static_cast<double>(loop.batch * loop.heads * loop.queries * loop.keys * (loop.depth + loop.width)) /
               (loop.leavesOut() ? 2 : 1);
  step.operands = {builder.read(q.base, q.offset),
                   builder.read(k.base, k.offset),
                   builder.read(v.base, v.offset),
                   target,
                   {builder.allocate(static_cast<size_t>(loop.parts * loop.room()) * sizeof(float)), 0, true}};
  if (attention.mask) {
    const FixedView mask = builder.values(*attention.mask);
    loop.mask = builder.type(mask.base).dtype == MORTISE_I1 ? Mask::Hides : Mask::Adds;
    loop.maskStrides = maskStrides(mask);
    step.operands.push_back(builder.read(mask.base, mask.offset));
  }
  step.action = NativeLoop{[loop = std::move(loop), run = isBrain ? run<uint16_t> : run<float>](void *const *operands) {
                             run(loop, operands);
                           },
                           {}};
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimAttentions(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, Op::Attention))
      continue;
    const auto placed = [&](size_t operand) { return claims.viewOf(node.operands[operand]->index); };
    Attention attention;
    attention.value = node.results[0]->index;
    attention.q = placed(0), attention.k = placed(1), attention.v = placed(2);
    if (node.operand_count > 3 && node.operands[3])
      attention.mask = placed(3);
    attention.scale = findAttribute(node, "scale")->f64;
    attention.causal = intAttribute(node, "causal") != 0;
    attention.target = attention.value, attention.result = claims.layout.rootOf(attention.value);
    Unit unit;
    unit.nodes = {node.index};
    storeThroughViews(claims, attention.target, attention.result, unit.nodes);
    std::ranges::sort(unit.nodes);
    for (const uint32_t taken : unit.nodes)
      claims.take(*claims.facts.graph.nodes[taken]);
    unit.reads = {attention.q.base, attention.k.base, attention.v.base};
    if (attention.mask)
      unit.reads.push_back(attention.mask->base);
    unit.writes = {attention.target};
    unit.work = std::move(attention);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
