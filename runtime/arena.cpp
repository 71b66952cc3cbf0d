// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "arena.hpp"

#include "host_uses.hpp"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <utility>

namespace mortise::runtime {

constexpr uint64_t hugePage = UINT64_C(2) << 20;

Result<Block> Block::allocate(uint64_t bytes, size_t alignment) {
  const Error failed{MORTISE_OUT_OF_MEMORY, "cannot allocate " + std::to_string(bytes) +
                                                " bytes of host memory; use smaller shapes or free memory"};
  alignment = std::max<size_t>(alignment, 64);
  Block block;
  if (bytes > (UINT64_C(1) << 47))
    return failed;
  if (bytes < hugePage) {
    block.bytes = std::max<uint64_t>((bytes + alignment - 1) / alignment * alignment, alignment);
    block.start = static_cast<std::byte *>(std::aligned_alloc(alignment, block.bytes));
    return block.start ? Result<Block>(std::move(block)) : failed;
  }
  const uint64_t step = std::max<uint64_t>(alignment, hugePage);
  block.bytes = (bytes + rounding - 1) / rounding * rounding; // the rest of a huge page would be memory of no use
  const uint64_t reserved = block.bytes + step;
  void *mapping = mmap(nullptr, reserved, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED)
    return failed;
  // Unmap the parts before and after the aligned block.
  auto *base = static_cast<std::byte *>(mapping);
  const uint64_t skip = (step - reinterpret_cast<uintptr_t>(base) % step) % step;
  if (skip)
    munmap(base, skip);
  if (const uint64_t rest = reserved - skip - block.bytes)
    munmap(base + skip + block.bytes, rest);
  block.start = base + skip;
  block.mapped = block.bytes;
  madvise(block.start, block.bytes, MADV_HUGEPAGE); // advice only: a failure does no harm
  return block;
}

Block::Block(Block &&other) noexcept
    : start(std::exchange(other.start, nullptr)), bytes(std::exchange(other.bytes, 0)),
      mapped(std::exchange(other.mapped, 0)) {}

Block &Block::operator=(Block &&other) noexcept {
  std::swap(start, other.start);
  std::swap(bytes, other.bytes);
  std::swap(mapped, other.mapped);
  return *this;
}

Block::~Block() {
  if (start)
    hostUses(start, bytes, true);
  if (mapped)
    munmap(start, mapped);
  else
    std::free(start);
}

} // namespace mortise::runtime
