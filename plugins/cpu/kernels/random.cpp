// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// random_bits: Philox4x32-10 of a key and a counter. Every block depends on its own counter only, so that any split of
// the work, and any machine, gives the same bits. What is made of them (uniform, normal, dropout) is generated.
#include "../claims.hpp"
#include "../step_builder.hpp"
#include "wide.hpp"

#include <mortise/plugin.hpp>

#include <algorithm>

namespace mortise::cpu {

namespace {
constexpr int64_t together = 16;        // blocks made at once, in vectors
constexpr int64_t words = 4 * together; // of those

// The words of the blocks with counters `first`, `first` + 1, ..., in order.
MORTISE_INLINE void makeBlocks(uint64_t key, uint64_t first, uint32_t *made) {
  uint32_t c0[together], c1[together], c2[together] = {}, c3[together] = {};
  for (uint64_t i = 0; i < together; ++i) {
    c0[i] = static_cast<uint32_t>(first + i);
    c1[i] = static_cast<uint32_t>((first + i) >> 32);
  }
  auto k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int64_t i = 0; i < together; ++i) {
      uint64_t even = uint64_t(0xD2511F53) * c0[i], odd = uint64_t(0xCD9E8D57) * c2[i];
      c0[i] = static_cast<uint32_t>(odd >> 32) ^ c1[i] ^ k0;
      c1[i] = static_cast<uint32_t>(odd);
      c2[i] = static_cast<uint32_t>(even >> 32) ^ c3[i] ^ k1;
      c3[i] = static_cast<uint32_t>(even);
    }
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  for (int64_t i = 0; i < together; ++i) {
    made[4 * i] = c0[i];
    made[4 * i + 1] = c1[i];
    made[4 * i + 2] = c2[i];
    made[4 * i + 3] = c3[i];
  }
}

// Element i is word i, cut to its type; 64-bit ones are two words, the low half first.
template <typename Element> MORTISE_INLINE Element elementOf(const uint32_t *made, int64_t i) {
  if constexpr (sizeof(Element) == 8)
    return static_cast<uint64_t>(made[2 * i + 1]) << 32 | made[2 * i];
  else
    return static_cast<Element>(made[i]);
}

template <typename Element> void run(int64_t count, void *const *operands) {
  constexpr int64_t size = sizeof(Element) == 8 ? words / 2 : words; // elements of one round of blocks
  const uint64_t key = *static_cast<const uint64_t *>(operands[0]),
                 offset = *static_cast<const uint64_t *>(operands[1]);
  auto *target = static_cast<Element *>(operands[2]);
  forEachOnBest((count + size - 1) / size, 128, [=](int64_t begin, int64_t end) MORTISE_INLINE_LAMBDA {
    for (int64_t part = begin; part < end; ++part) {
      uint32_t made[words];
      makeBlocks(key, offset + static_cast<uint64_t>(part) * together, made);
      int64_t first = part * size, here = std::min(size, count - first);
      for (int64_t i = 0; i < here; ++i)
        target[first + i] = elementOf<Element>(made, i);
    }
  });
}
} // namespace

Result<void> addSteps(StepBuilder &builder, const Unit &unit, const RandomBits &bits) {
  const uint32_t result = bits.result;
  int64_t count = builder.elements(result);
  const FixedView &key = builder.viewOf(bits.key), &offset = builder.viewOf(bits.offset);
  Operand target = builder.write(result);
  if (count == 0)
    return {};
  Step step;
  step.name = "random_bits " + builder.typeText(result);
  step.lowering = "cpu.random_bits";
  step.nodes = unit.nodes;
  step.bytes = static_cast<double>(builder.bytes(result));
  step.operands = {builder.read(key.base, key.offset), builder.read(offset.base, offset.offset), target};
  auto bind = [&](auto element) {
    step.action = NativeLoop{[count](void *const *operands) { run<decltype(element)>(count, operands); }, {}};
  };
  switch (dtypeBits(builder.type(result).dtype)) {
  case 8:
    bind(uint8_t{});
    break;
  case 16:
    bind(uint16_t{});
    break;
  case 32:
    bind(uint32_t{});
    break;
  case 64:
    bind(uint64_t{});
    break;
  default:
    return Error{MORTISE_INTERNAL,
                 "expected random bits of 8, 16, 32 or 64 bits an element, found " + typeString(builder.type(result))};
  }
  builder.addStep(std::move(step));
  return {};
}

Result<void> claimRandom(Claims &claims) {
  for (size_t i = 0; i < claims.facts.graph.node_count; ++i) {
    const MortiseNode &node = *claims.facts.graph.nodes[i];
    if (!isOp(node, "mortise.random_bits"))
      continue;
    claims.take(node);
    Unit unit;
    unit.nodes = {node.index};
    unit.reads = {claims.viewOf(node.operands[0]->index).base, claims.viewOf(node.operands[1]->index).base};
    unit.writes = {node.results[0]->index};
    unit.work = RandomBits{node.operands[0]->index, node.operands[1]->index, node.results[0]->index};
    claims.units.push_back(std::move(unit));
  }
  return {};
}

} // namespace mortise::cpu
