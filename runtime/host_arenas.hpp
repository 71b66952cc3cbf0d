// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host memory that calls work in, of all programs of the process. A call that is done when it returns borrows a
// block and gives it back at its end, so that programs which do not run at once, such as the forward and backward pass
// of a training step, need as much as the largest of them. Thread-safe.
#pragma once

#include "arena.hpp"

#include <mutex>
#include <set>
#include <vector>

namespace mortise::runtime {

class HostArenas {
public:
  static HostArenas &ofProcess();

  // How large blocks are worth keeping between calls, for as long as the object exists.
  class Need {
  public:
    Need() = default;
    ~Need();
    Need(const Need &) = delete;
    Need &operator=(const Need &) = delete;
    void raiseTo(uint64_t bytes); // allocates only if that is more than before

  private:
    uint64_t bytes = 0;
  };

  // Of at least `bytes`: the block at `preferred` if it is idle, else the smallest idle one that is large enough, else
  // a new one in place of the largest idle one. Allocates nothing else once as many blocks were lent at once before.
  Result<Block> borrow(uint64_t bytes, size_t alignment, const std::byte *preferred);
  void giveBack(Block block) noexcept;

  uint64_t bytes() const; // of all blocks, lent ones included

private:
  uint64_t largestKept() const;
  void change(uint64_t before, uint64_t after);

  mutable std::mutex mutex;
  std::multiset<uint64_t> needs;
  std::vector<Block> idle;
  size_t blocks = 0;
  uint64_t total = 0;
};

} // namespace mortise::runtime
