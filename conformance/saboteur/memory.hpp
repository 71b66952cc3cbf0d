// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The memory of the device saboteur-queue.
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <map>
#include <mutex>

namespace saboteur {
using mortise::Error;
using mortise::Result;

class Memory {
public:
  static constexpr uint64_t limit = UINT64_C(1) << 30;

  Result<uint64_t> allocate(uint64_t bytes);                  // OUT_OF_MEMORY beyond the limit
  Result<void> check(uint64_t address, uint64_t bytes) const; // INVALID_ARGUMENT: does not lie in one allocation
  // Takes an allocation out of those that there are; `release` gives the bytes back.
  Result<uint64_t> remove(uint64_t address); // its bytes
  static void release(uint64_t address, uint64_t bytes);

private:
  mutable std::mutex mutex;
  std::map<uint64_t, uint64_t> live; // bytes by address
  uint64_t used = 0;
};

Memory &memory();

} // namespace saboteur
