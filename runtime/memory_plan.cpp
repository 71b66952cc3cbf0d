// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/memory_plan.hpp>

#include <algorithm>
#include <vector>

namespace mortise::runtime {
namespace {

// An interval tree of blocks over steps. A block is listed `here` at the largest nodes whose steps it covers, and
// `below` at all ancestors of those nodes, so that the blocks that overlap a range of steps are found at few nodes.
class Lifetimes {
public:
  explicit Lifetimes(std::span<const ArenaBlock> blocks) : blocks(blocks), seen(blocks.size()) {
    for (const ArenaBlock &block : blocks) {
      times.push_back(block.first);
      times.push_back(block.last);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    while (leaves < times.size())
      leaves *= 2;
    nodes.resize(2 * leaves);
  }

  void add(uint32_t block, uint64_t end) {
    visit(block, [&](Node &node) { node.here.add(block, end); }, [&](Node &node) { node.below.add(block, end); });
  }

  struct Met {
    uint64_t end = 0;  // of the block with the highest end
    size_t listed = 0; // how many entries collect() would read
  };
  Met measure(uint32_t block) {
    Met met;
    auto note = [&](const List &list) {
      met.end = std::max(met.end, list.end);
      met.listed += list.blocks.size();
    };
    visit(
        block,
        [&](Node &node) {
          note(node.here);
          note(node.below);
        },
        [&](Node &node) { note(node.here); });
    return met;
  }
  void collect(uint32_t block, std::vector<uint32_t> &into) {
    into.clear();
    ++round;
    auto take = [&](const List &list) {
      for (uint32_t other : list.blocks)
        if (seen[other] != round) {
          seen[other] = round;
          into.push_back(other);
        }
    };
    visit(
        block,
        [&](Node &node) {
          take(node.here);
          take(node.below);
        },
        [&](Node &node) { take(node.here); });
  }

private:
  struct List {
    std::vector<uint32_t> blocks;
    uint64_t end = 0;
    void add(uint32_t block, uint64_t to) {
      blocks.push_back(block);
      end = std::max(end, to);
    }
  };
  struct Node {
    List here, below;
  };

  // Calls `covered` at the largest nodes within the block's lifetime and `above` at the nodes over them.
  template <typename Covered, typename Above> void visit(uint32_t block, Covered covered, Above above) {
    const auto index = [&](uint32_t time) {
      return static_cast<size_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
    };
    descend(1, 0, leaves, index(blocks[block].first), index(blocks[block].last) + 1, covered, above);
  }
  template <typename Covered, typename Above>
  void descend(size_t node, size_t low, size_t high, size_t first, size_t end, Covered &covered, Above &above) {
    if (end <= low || high <= first)
      return;
    if (first <= low && high <= end)
      return covered(nodes[node]);
    above(nodes[node]);
    const size_t middle = (low + high) / 2;
    descend(2 * node, low, middle, first, end, covered, above);
    descend(2 * node + 1, middle, high, first, end, covered, above);
  }

  std::span<const ArenaBlock> blocks;
  std::vector<uint32_t> times; // steps at which a block begins or ends, ascending
  size_t leaves = 1;
  std::vector<Node> nodes;
  std::vector<uint32_t> seen;
  uint32_t round = 0;
};

} // namespace

uint64_t assignOffsets(std::span<ArenaBlock> blocks, uint64_t alignment) {
  constexpr uint64_t most = UINT64_C(1) << 50; // far beyond memory; keeps sums from wrapping
  std::vector<uint32_t> order(blocks.size());
  for (uint32_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    if (blocks[i].bytes > most)
      return UINT64_MAX;
  }
  const auto rounded = [&](const ArenaBlock &block) {
    return std::max<uint64_t>((block.bytes + alignment - 1) / alignment * alignment, alignment);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  });

  size_t budget = 64 * blocks.size() + (size_t(1) << 22);
  uint64_t size = 0;
  Lifetimes placed(blocks);
  std::vector<uint32_t> others;
  for (uint32_t number : order) {
    ArenaBlock &block = blocks[number];
    const uint64_t need = rounded(block);
    const auto met = placed.measure(number);
    block.offset = met.end;
    if (met.listed <= budget) {
      budget -= met.listed;
      placed.collect(number, others);
      std::sort(others.begin(), others.end(), [&](uint32_t a, uint32_t b) {
        return blocks[a].offset != blocks[b].offset ? blocks[a].offset < blocks[b].offset : a < b;
      });
      uint64_t bestGap = UINT64_MAX, end = 0;
      for (uint32_t other : others) {
        const uint64_t begin = blocks[other].offset;
        if (begin > end && begin - end >= need && begin - end < bestGap) {
          block.offset = end;
          bestGap = begin - end;
        }
        end = std::max(end, begin + rounded(blocks[other]));
      }
    }
    size = std::max(size, block.offset + need);
    if (size > most)
      return UINT64_MAX;
    placed.add(number, block.offset + need);
  }
  return size;
}

} // namespace mortise::runtime
