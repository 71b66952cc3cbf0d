// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The execution context of one call in flight: arenas, streams and argument blocks. From call to call only pointers
// change.
#pragma once

#include "specialisation.hpp"

#include <atomic>
#include <mutex>

namespace mortise::runtime {

class Context {
public:
  static Result<std::unique_ptr<Context>> create(const Layout &layout);
  ~Context();

  // `inputs` and `outputs` hold one pointer per plan input and output; `specialisation` belongs to `binding`. No work
  // is in flight when the call returns an error. Allocates memory only when a specialisation differs from the context's
  // last one and needs more memory than the context has.
  Result<void> execute(const Binding &binding, const Specialisation &specialisation, const void *const *inputs,
                       void *const *outputs, bool profile);

  uint64_t lastSpecialisation() const { return specialisationNumber; }

  // Nanoseconds per clock (Specialisation::clocks) of the last profiled run.
  std::span<const uint64_t> clocks() const { return nanoseconds; }

  // Scratch of checked runs: the pointers passed to execute(), and dense copies of strided inputs.
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
  std::vector<Block> staging;

private:
  explicit Context(const Layout &layout);
  Result<void> createStreams();
  Result<void> take(const Binding &binding, const Specialisation &specialisation);
  Result<void> allocate(size_t space, uint64_t bytes);
  Result<void> grow(size_t space, uint64_t bytes);
  void freeSpace(size_t space);
  Result<void> executeAll(const Specialisation &specialisation, bool profile);
  Result<void> enqueue(size_t number, const Specialisation &specialisation, bool profile);
  Result<void> copy(const Operation &operation, uint64_t bytes);
  Result<void> wait(uint32_t stream);
  void abandon(); // waits for all streams after an error, so that no work touches the caller's memory any more

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
  uint64_t specialisationNumber = 0; // number of the specialisation for which the lists above were filled
};

} // namespace mortise::runtime
