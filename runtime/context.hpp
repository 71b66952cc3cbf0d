// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one call in flight needs: arenas, streams and argument blocks that only change their pointers from call to call.
#pragma once

#include "ready.hpp"

#include <atomic>
#include <mutex>

namespace mortise::runtime {

class Context {
public:
  static Result<std::unique_ptr<Context>> create(const Layout &layout);
  ~Context();

  // One pointer per plan input and output. `ready` belongs to `bound`. On an error all work has ended. Allocates only
  // for values that it has not run lately, and then only when they need more memory than those before.
  Result<void> execute(const Bound &bound, const Ready &ready, const void *const *inputs, void *const *outputs,
                       bool profile);

  uint64_t lastReady() const { return readyNumber; }

  // Nanoseconds per clock (Ready::clocks) of the last profiled run.
  std::span<const uint64_t> clocks() const { return nanoseconds; }

  // For checked runs: pointers under way, and copies of inputs that are not dense.
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
  std::vector<Block> staging;

private:
  explicit Context(const Layout &layout);
  Result<void> createStreams();
  Result<void> take(const Bound &bound, const Ready &ready);
  Result<void> allocate(size_t space, uint64_t bytes);
  Result<void> grow(size_t space, uint64_t bytes);
  void freeSpace(size_t space);
  Result<void> executeAll(const Ready &ready, bool profile);
  Result<void> enqueue(size_t number, const Ready &ready, bool profile);
  Result<void> copy(const Operation &operation, uint64_t bytes);
  Result<void> wait(uint32_t stream);
  void abandon(); // after an error: nothing may still run on the caller's memory

  const Layout &layout;
  std::vector<Block> hostMemory;
  std::vector<void *> spaceMemory;
  std::vector<uint64_t> spaceBytes;
  std::vector<void *> address; // per buffer
  std::vector<const void *> inputSlots;
  std::vector<void *> outputSlots;
  std::vector<MortiseStream *> streams;
  std::vector<MortiseEnqueueArgs> enqueues; // per operation; unused for copies
  std::vector<uint64_t> nanoseconds;
  uint64_t readyNumber = 0; // of the values that the lists above are set for
};

} // namespace mortise::runtime
