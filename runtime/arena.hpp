// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A block of host memory for arenas, literals and staging.
#pragma once

#include <mortise/result.hpp>

#include <cstddef>
#include <cstdint>

namespace mortise::runtime {

class Block {
public:
  // Never NULL, also for 0 bytes. Large blocks request huge pages, because page faults dominate the first pass over
  // fresh memory, and take less than `rounding` more than was asked for. Errors: MORTISE_OUT_OF_MEMORY.
  static Result<Block> allocate(uint64_t bytes, size_t alignment);
  static constexpr uint64_t rounding = UINT64_C(64) << 10; // a multiple of the size of pages on any machine

  Block() = default;
  Block(Block &&other) noexcept;
  Block &operator=(Block &&other) noexcept;
  ~Block();

  std::byte *data() const { return start; }
  uint64_t size() const { return bytes; }

private:
  std::byte *start = nullptr;
  uint64_t bytes = 0;
  uint64_t mapped = 0; // length of the mapping; 0 when it came from the heap
};

} // namespace mortise::runtime
