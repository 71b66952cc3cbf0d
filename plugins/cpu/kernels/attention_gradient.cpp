// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The gradients of attention, whose weights are computed again from the logarithms of their sums and stay in the cache
// (Dao et al., FlashAttention, arXiv:2205.14135, algorithm 4). A thread takes all queries that read a head of keys, and
// adds up what they give to a block of its keys. Blocks of queries that a causal mask hides from it are left out.
#include "../claims.hpp"
#include "../device.hpp"
#include "attention.hpp"

#include <mortise/plugin.hpp>

namespace mortise::cpu {

namespace {
struct GradientLoop : Scores {
  using Scores::Scores;
  HeadStrides result, gradient;
  std::vector<int64_t> sums;
  int64_t parts = 1;   // that threads take
  bool copies = false; // rows into memory of a part's own, in f32

  int64_t tasks() const { return batch * heads / headsPerKey; }
  // Numbers in f32 that a part has room for.
  int64_t room() const {
    const int64_t own = 2 * blockQueries * blockKeys + blockKeys * (depth + width) + headsPerKey * queries * depth;
    return own + (copies ? blockQueries * (depth + 2 * width) + blockKeys * (depth + width) : 0);
  }
};

// What a thread has of a block of keys, and of all queries that read them.
struct Block {
  float *weights, *changes;                                                               // blockKeys a row
  float *ofK, *ofV, *ofQ;                                                                 // gradients, added up
  float *q = nullptr, *k = nullptr, *v = nullptr, *result = nullptr, *gradient = nullptr; // copies
  Block(const GradientLoop &loop, float *memory) {
    const auto take = [&](int64_t count) { return std::exchange(memory, memory + count); };
    weights = take(blockQueries * blockKeys), changes = take(blockQueries * blockKeys);
    ofK = take(blockKeys * loop.depth), ofV = take(blockKeys * loop.width);
    ofQ = take(loop.headsPerKey * loop.queries * loop.depth);
    if (loop.copies) {
      q = take(blockQueries * loop.depth), k = take(blockKeys * loop.depth), v = take(blockKeys * loop.width);
      result = take(blockQueries * loop.width), gradient = take(blockQueries * loop.width);
    }
  }
};

MORTISE_INLINE float inner(const float *a, const float *b, int64_t count) {
  const int64_t whole = count / lanes * lanes;
  Floats sums{};
  for (int64_t i = 0; i < whole; i += lanes)
    sums += load(a + i) * load(b + i);
  float sum = 0;
  for (int lane = 0; lane < lanes; ++lane)
    sum += sums[lane];
  for (int64_t i = whole; i < count; ++i)
    sum += a[i] * b[i];
  return sum;
}

// Scores of a query become weights, and products of its gradient with values the changes of its scores. Rows have room
// for whole vectors, so that what lies behind the last key is computed, too, and not read.
MORTISE_INLINE void weigh(float *weights, float *changes, int64_t count, float logarithm, float share, float scale) {
  for (int64_t j = 0; j < count; j += lanes) {
    const Floats weight = exponential(load(weights + j) - logarithm, 0);
    save(weights + j, weight);
    save(changes + j, weight * (load(changes + j) - share) * scale);
  }
}

enum Operands { Q, K, V, Output, Sums, Gradient, OfQ, OfK, OfV, Room, MaskOf };

template <typename Element>
MORTISE_INLINE void attend(const GradientLoop &loop, void *const *operands, float *memory, int64_t task) {
  const int64_t keyHeads = loop.heads / loop.headsPerKey, batch = task / keyHeads, keyHead = task % keyHeads;
  const Block block(loop, memory);
  const auto of = [&](Operands operand, const HeadStrides &strides, int64_t head, int64_t row) {
    return static_cast<const Element *>(operands[operand]) + strides.at(batch, head, row);
  };
  // Dense rows of what was added up.
  const auto give = [&](Operands operand, int64_t first, const float *from, int64_t count) {
    Element *to = static_cast<Element *>(operands[operand]) + first;
    for (int64_t i = 0; i < count; ++i)
      store(to + i, from[i]);
  };
  const int64_t queries = loop.headsPerKey * loop.queries, depth = loop.depth, width = loop.width;
  const void *const mask = loop.mask == Mask::None ? nullptr : operands[MaskOf];
  std::fill_n(block.ofQ, queries * depth, 0.0F);
  for (int64_t key = 0; key < loop.keys; key += blockKeys) {
    const int64_t count = std::min(blockKeys, loop.keys - key);
    const Rows k = rowsOf(of(K, loop.k, keyHead, key), loop.k, count, depth, block.k);
    const Rows v = rowsOf(of(V, loop.v, keyHead, key), loop.v, count, width, block.v);
    std::fill_n(block.ofK, count * depth, 0.0F);
    std::fill_n(block.ofV, count * width, 0.0F);
    for (int64_t turn = 0; turn < loop.headsPerKey * loop.blocks(); ++turn) {
      const int64_t head = keyHead * loop.headsPerKey + turn / loop.blocks(),
                    first = turn % loop.blocks() * blockQueries, rows = std::min(blockQueries, loop.queries - first);
      const int64_t seen = loop.seen(key, count, first + rows);
      if (seen == 0)
        continue;
      const Rows q = rowsOf(of(Q, loop.q, head, first), loop.q, rows, depth, block.q);
      const Rows result = rowsOf(of(Output, loop.result, head, first), loop.result, rows, width, block.result);
      const Rows gradient =
          rowsOf(of(Gradient, loop.gradient, head, first), loop.gradient, rows, width, block.gradient);
      const Rows weights{block.weights, blockKeys}, changes{block.changes, blockKeys};
      headProduct(false, true, rows, seen, depth, loop.scale, q, k, 0, block.weights, blockKeys);
      headProduct(false, true, rows, seen, width, 1, gradient, v, 0, block.changes, blockKeys);
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t query = first + i;
        applyMask<Element>(loop, mask, loop.maskRow(batch, head, query), block.weights + i * blockKeys, query, key,
                           seen);
        const float logarithm = static_cast<const float *>(
            operands[Sums])[batch * loop.sums[0] + head * loop.sums[1] + query * loop.sums[2]];
        const float share = inner(gradient.first + i * gradient.stride, result.first + i * result.stride, width);
        weigh(block.weights + i * blockKeys, block.changes + i * blockKeys, seen, logarithm, share, loop.scale);
      }
      headProduct(true, false, seen, width, rows, 1, weights, gradient, 1, block.ofV, width);
      headProduct(true, false, seen, depth, rows, 1, changes, q, 1, block.ofK, depth);
      headProduct(false, false, rows, depth, seen, 1, changes, k, 1,
                  block.ofQ + (turn / loop.blocks() * loop.queries + first) * depth, depth);
    }
    give(OfK, (task * loop.keys + key) * depth, block.ofK, count * depth);
    give(OfV, (task * loop.keys + key) * width, block.ofV, count * width);
  }
  give(OfQ, task * queries * depth, block.ofQ, queries * depth);
}

template <typename Element> void run(const GradientLoop &loop, void *const *operands) {
  forEachOnBest(loop.parts, 1, [&](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t task = part; task < loop.tasks(); task += loop.parts)
        attend<Element>(loop, operands, static_cast<float *>(operands[Room]) + part * loop.room(), task);
  });
}
} // namespace

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const AttentionGradient &of) {
  const FixedView q = builder.values(of.q), k = builder.values(of.k), v = builder.values(of.v),
                  result = builder.values(of.result), sums = builder.values(of.sums),
                  gradient = builder.values(of.gradient);
  const Operand ofQ = builder.write(of.ofQ), ofK = builder.write(of.ofK), ofV = builder.write(of.ofV);
  GradientLoop loop(q, k, v);
  if (loop.batch * loop.heads == 0)
    return {};
  loop.result = HeadStrides(result), loop.gradient = HeadStrides(gradient), loop.sums = sums.strides;
  loop.causal = of.causal, loop.scale = static_cast<float>(of.scale);
  loop.parts = std::min<int64_t>(threadCount(), loop.tasks());
  const bool isBrain = builder.type(q.base).dtype == MORTISE_BF16;
  loop.copies = isBrain || !loop.q.suit(loop.depth) || !loop.k.suit(loop.depth) || !loop.v.suit(loop.width) ||
                !loop.result.suit(loop.width) || !loop.gradient.suit(loop.width);
  Step step;
  step.name = "attention_gradient " + builder.typeText(of.ofQ) + " over " + std::to_string(loop.keys);
  step.lowering = "cpu.attention_gradient";
  step.nodes = unit.nodes;
  step.flops = 2 * loop.pairs() * static_cast<double>(3 * loop.depth + 2 * loop.width);
  const auto read = [&](const FixedView &view) { return builder.read(view.base, view.offset); };
  step.operands = {read(q), read(k), read(v), read(result), read(sums), read(gradient), ofQ, ofK, ofV};
  step.operands.push_back({builder.allocate(static_cast<size_t>(loop.parts * loop.room()) * sizeof(float)), 0, true});
  if (of.mask) {
    const FixedView mask = builder.values(*of.mask);
    loop.setMask(mask, builder.type(mask.base).dtype);
    step.operands.push_back(read(mask));
  }
  step.action = NativeLoop{[loop = std::move(loop), run = isBrain ? run<uint16_t> : run<float>](void *const *operands) {
                             run(loop, operands);
                           },
                           {}};
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimAttentionGradients(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, Op::AttentionGradient))
      continue;
    claims.take(node);
    Unit unit;
    unit.nodes = {node.index};
    const auto placed = [&](size_t operand) {
      const View view = claims.viewOf(node.operands[operand]->index);
      unit.reads.push_back(view.base);
      return view;
    };
    AttentionGradient of;
    of.q = placed(0), of.k = placed(1), of.v = placed(2);
    of.result = placed(3), of.sums = placed(4), of.gradient = placed(5);
    if (node.operand_count > 6 && node.operands[6])
      of.mask = placed(6);
    of.ofQ = node.results[0]->index, of.ofK = node.results[1]->index, of.ofV = node.results[2]->index;
    of.scale = findAttribute(node, "scale")->f64;
    of.causal = intAttribute(node, "causal") != 0;
    unit.writes = {of.ofQ, of.ofK, of.ofV};
    unit.work = std::move(of);
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
