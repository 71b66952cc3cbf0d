// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of many queries, whose scores stay in the cache: a thread takes a block of queries of a head through blocks
// of keys, and scales what it has added up when a larger score comes (Dao et al., FlashAttention, arXiv:2205.14135).
// Keys behind a causal block's last query are left out.
//
// A weight is e^(score - largest), so that a sum of many large values may leave the range of f32 where their mean does
// not. A block with a result that is not finite is computed again with weights times 2^-shift, 2^shift being at least
// the number of keys. Others are not, since values may be subnormal.
#include "attention.hpp"
#include "../device.hpp"
#include "product.hpp"

#include <mortise/plugin.hpp>

#include <bit>
#include <cmath>

namespace mortise::cpu {

void headProduct(bool transposedA, bool transposedB, int64_t m, int64_t n, int64_t k, float alpha, const Rows &a,
                 const Rows &b, float beta, float *to, int64_t stride) {
  if (dnnl::sgemm(transposedA ? 'T' : 'N', transposedB ? 'T' : 'N', m, n, k, alpha, a.first, a.stride, b.first,
                  b.stride, beta, to, stride) == dnnl::status::success)
    return;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      float sum = 0;
      for (int64_t l = 0; l < k; ++l)
        sum += (transposedA ? a.first[l * a.stride + i] : a.first[i * a.stride + l]) *
               (transposedB ? b.first[j * b.stride + l] : b.first[l * b.stride + j]);
      to[i * stride + j] = alpha * sum + (beta != 0 ? beta * to[i * stride + j] : 0);
    }
}

namespace {
struct AttentionLoop : Scores {
  using Scores::Scores;
  HeadStrides result;
  bool hasSums = false; // the logarithms of the sums are a second result, dense
  int64_t parts = 1;    // that threads take
  bool copies = false;  // rows into memory of a part's own, in f32

  int64_t tasks() const { return batch * heads * blocks(); }
  // Numbers in f32 that a part has room for.
  int64_t room() const {
    const int64_t own = blockQueries * (blockKeys + width + 3);
    return own + (copies ? blockQueries * depth + blockKeys * (depth + width) : 0);
  }
};

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

// Scores become weights, and what was added up before is scaled to the largest score so far.
MORTISE_INLINE void weigh(const AttentionLoop &loop, const Block &block, int64_t row, int64_t count, int shift) {
  float *scores = block.scores + row * blockKeys;
  const int64_t whole = count / lanes * lanes;
  Floats most = Floats{} + noScore;
  for (int64_t j = 0; j < whole; j += lanes) {
    const Floats each = load(scores + j);
    most = each > most ? each : most; // NaN is seen in the total
  }
  float largest = block.largest[row];
  for (int lane = 0; lane < lanes; ++lane)
    largest = most[lane] > largest ? most[lane] : largest;
  for (int64_t j = whole; j < count; ++j)
    largest = scores[j] > largest ? scores[j] : largest;
  const float base = largest == noScore ? 0 : largest; // where there is no score but -inf, weights are 0
  Floats totals{};
  for (int64_t j = 0; j < whole; j += lanes) {
    const Floats weights = exponential(load(scores + j) - base, shift);
    save(scores + j, weights);
    totals += weights;
  }
  if (whole < count) {
    Floats last = Floats{} + noScore;
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

// operands: q, k, v, the result, room for each part, and the mask and the logarithms of the sums, where there are any.
// Whether all results are finite. With a shift, only those are written that were not.
template <typename Element>
MORTISE_INLINE bool attend(const AttentionLoop &loop, void *const *operands, float *memory, int64_t task, int shift) {
  const int64_t first = task % loop.blocks() * blockQueries, head = task / loop.blocks() % loop.heads,
                batch = task / loop.blocks() / loop.heads, keyHead = head / loop.headsPerKey;
  const int64_t rows = std::min(blockQueries, loop.queries - first);
  const Block block(loop, memory);
  std::fill_n(block.sums, rows * loop.width, 0.0F);
  std::fill_n(block.largest, rows, noScore);
  std::fill_n(block.totals, rows, 0.0F);
  std::fill_n(block.seen, rows, 0.0F);
  const auto of = [&](size_t operand, const HeadStrides &strides, int64_t ofHead, int64_t row) {
    return static_cast<Element *>(operands[operand]) + strides.at(batch, ofHead, row);
  };
  const Rows q = rowsOf(of(0, loop.q, head, first), loop.q, rows, loop.depth, block.q);
  const void *const mask = loop.mask == Mask::None ? nullptr : operands[5];
  const int64_t end = loop.seen(0, loop.keys, first + rows);
  for (int64_t key = 0; key < end; key += blockKeys) {
    const int64_t count = std::min(blockKeys, end - key);
    const Rows k = rowsOf(of(1, loop.k, keyHead, key), loop.k, count, loop.depth, block.k);
    headProduct(false, true, rows, count, loop.depth, loop.scale, q, k, 0, block.scores, blockKeys);
    for (int64_t i = 0; i < rows; ++i) {
      if (applyMask<Element>(loop, mask, loop.maskRow(batch, head, first + i), block.scores + i * blockKeys, first + i,
                             key, count))
        block.seen[i] = 1;
      weigh(loop, block, i, count, shift);
    }
    const Rows v = rowsOf(of(2, loop.v, keyHead, key), loop.v, count, loop.width, block.v);
    headProduct(false, false, rows, loop.width, count, 1, {block.scores, blockKeys}, v, 1, block.sums, loop.width);
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
    if (loop.hasSums && shift == 0) // a total is 0 where no score is above -inf
      static_cast<float *>(
          operands[loop.mask == Mask::None ? 5 : 6])[(batch * loop.heads + head) * loop.queries + first + i] =
          block.totals[i] == 0 ? 0 : block.largest[i] + std::log(block.totals[i]);
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

} // namespace

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Attention &attention) {
  const FixedView q = builder.values(attention.q), k = builder.values(attention.k), v = builder.values(attention.v),
                  result = builder.values(attention.result);
  Operand target = builder.write(attention.target);
  if (elementCount(std::span<const int64_t>(result.dims)) == 0) { // a vector has elements, so that there are no queries
    if (attention.sums != none)
      builder.write(attention.sums);
    return {};
  }
  AttentionLoop loop(q, k, v);
  loop.result = HeadStrides(result);
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
  step.flops = 2 * loop.pairs() * static_cast<double>(loop.depth + loop.width);
  step.operands = {builder.read(q.base, q.offset),
                   builder.read(k.base, k.offset),
                   builder.read(v.base, v.offset),
                   target,
                   {builder.allocate(static_cast<size_t>(loop.parts * loop.room()) * sizeof(float)), 0, true}};
  if (attention.mask) {
    const FixedView mask = builder.values(*attention.mask);
    loop.setMask(mask, builder.type(mask.base).dtype);
    step.operands.push_back(builder.read(mask.base, mask.offset));
  }
  loop.hasSums = attention.sums != none;
  if (loop.hasSums)
    step.operands.push_back(builder.write(attention.sums));
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
    if (!isOp(node, Op::Attention, Op::AttentionForward))
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
    if (node.result_count > 1)
      unit.writes.push_back(attention.sums = node.results[1]->index);
    unit.work = std::move(attention);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
