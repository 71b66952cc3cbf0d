// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host_arenas.hpp"

#include <mortise/runtime/program.hpp>

#include <algorithm>

namespace mortise::runtime {

HostArenas &HostArenas::ofProcess() {
  static HostArenas &arenas = *new HostArenas; // never destroyed: programs may end after statics
  return arenas;
}

void HostArenas::Need::raiseTo(uint64_t wanted) {
  if (wanted <= bytes)
    return;
  ofProcess().change(bytes, wanted);
  bytes = wanted;
}

HostArenas::Need::~Need() {
  if (bytes)
    ofProcess().change(bytes, 0);
}

// What borrow() may have rounded the largest need up to. `mutex` is held.
uint64_t HostArenas::largestKept() const {
  return needs.empty() ? 0 : *needs.rbegin() + *needs.rbegin() / 4 + Block::rounding;
}

void HostArenas::change(uint64_t before, uint64_t after) {
  std::vector<Block> gone; // freed without the lock
  const std::lock_guard lock(mutex);
  if (after)
    needs.insert(after);
  if (before)
    needs.erase(needs.find(before));
  const uint64_t most = largestKept();
  const auto kept = std::partition(idle.begin(), idle.end(), [&](const Block &block) { return block.size() <= most; });
  for (auto block = kept; block != idle.end(); ++block) {
    total -= block->size();
    --blocks;
    gone.push_back(std::move(*block));
  }
  idle.erase(kept, idle.end());
}

Result<Block> HostArenas::borrow(uint64_t bytes, size_t alignment, const std::byte *preferred) {
  Block replaced;
  {
    const std::lock_guard lock(mutex);
    const auto fits = [&](const Block &block) {
      return block.size() >= bytes && reinterpret_cast<uintptr_t>(block.data()) % alignment == 0;
    };
    auto best = idle.end();
    for (auto block = idle.begin(); block != idle.end(); ++block)
      if (fits(*block) && (best == idle.end() || block->data() == preferred ||
                           (best->data() != preferred && block->size() < best->size())))
        best = block;
    const bool found = best != idle.end();
    if (!found)
      best = std::ranges::max_element(idle, {}, &Block::size);
    if (best != idle.end()) {
      std::swap(*best, idle.back());
      replaced = std::move(idle.back());
      idle.pop_back();
      if (found)
        return replaced;
      --blocks;
      total -= replaced.size();
    }
  }
  // At least a quarter more than before, so that a sequence of growing calls does not allocate in each call.
  const uint64_t generous = replaced.size() + replaced.size() / 4;
  replaced = Block();
  auto made = generous > bytes ? Block::allocate(generous, alignment) : Block::allocate(bytes, alignment);
  if (!made && generous > bytes)
    made = Block::allocate(bytes, alignment);
  if (!made)
    return made.error();
  const std::lock_guard lock(mutex);
  idle.reserve(++blocks); // so that giving blocks back does not allocate
  total += made->size();
  return made;
}

void HostArenas::giveBack(Block block) noexcept {
  const std::lock_guard lock(mutex);
  if (block.size() <= largestKept())
    return idle.push_back(std::move(block)); // within what borrow() has reserved
  --blocks;
  total -= block.size();
}

uint64_t HostArenas::bytes() const {
  const std::lock_guard lock(mutex);
  return total;
}

uint64_t processArenaBytes() { return HostArenas::ofProcess().bytes(); }

} // namespace mortise::runtime
