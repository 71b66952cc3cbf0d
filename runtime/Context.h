// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What one call in flight needs: arenas, streams and argument blocks that only change their pointers from call to call.
#pragma once

#include "Kernels.h"
#include "Tensors.h"

#include <atomic>
#include <memory>
#include <mutex>

namespace mortise::runtime {

constexpr uint32_t none = UINT32_MAX;

// One instruction, with everything that does not change between calls worked out.
struct Operation {
  uint32_t region = none; // of an enqueue; else a copy:
  uint32_t source = none, target = none;
  uint64_t bytes = 0;
  const Device *device = nullptr; // that queues the work; NULL for a copy within host memory
  bool toDevice = false;          // direction of a copy with a device
  uint32_t stream = none;         // number among Layout::streams
  uint32_t waitFirst = none;      // a stream that has to finish before
  uint32_t inputSlots = 0, outputSlots = 0,
           clocks = 0; // where the region's pointers and step clocks start in a context's lists
};

struct MemorySpace {
  const Device *device = nullptr; // NULL: host memory
  uint64_t bytes = 0;             // workspaces included
  uint64_t workspace = 0;         // where they start
  size_t alignment = 64;
};

struct Patch { // a slot that a caller's pointer goes into
  uint32_t slot, buffer;
};

// How a plan runs; the same for every context.
struct Layout {
  std::shared_ptr<const plan::PlanT> plan;
  Kernels kernels;
  std::vector<Operation> operations;
  std::vector<MemorySpace> spaces;
  std::vector<const Device *> streams;                  // one stream of each in every context
  uint32_t lastStream = none;                           // to wait for at the end
  std::vector<uint32_t> callBuffers;                    // Input and Output buffers whose address comes with each call
  std::vector<uint32_t> constantBuffers;                // Input buffers whose address comes with a binding
  std::vector<Patch> inputPatches, outputPatches;       // slots that read from callBuffers or constantBuffers
  std::vector<Patch> fixedInputs, fixedOutputs;         // the others, set once in a context
  uint32_t inputSlots = 0, outputSlots = 0, clocks = 0; // lengths of the lists
  std::vector<Block> literals;
  std::vector<const std::byte *> literalData; // per buffer; NULL where it is no literal
  std::vector<TensorSpec> inputs, outputs;

  static Result<std::unique_ptr<Layout>> make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry);
};

class Context {
public:
  static Result<std::unique_ptr<Context>> create(const Layout &layout);
  ~Context();

  // One pointer per plan input and output. On an error all work has ended.
  Result<void> execute(const Bound *bound, const void *const *inputs, void *const *outputs, bool profile);

  // Nanoseconds per clock of the last profiled run.
  std::span<const uint64_t> clocks() const { return nanoseconds; }

  // For checked runs: pointers under way, and copies of inputs that are not dense.
  std::vector<const void *> inputPointers;
  std::vector<void *> outputPointers;
  std::vector<Block> staging;

private:
  explicit Context(const Layout &layout);
  Result<void> allocate();
  void prepare();
  Result<void> executeAll(bool profile);
  Result<void> enqueue(size_t number, bool profile);
  Result<void> copy(const Operation &operation);
  Result<void> wait(uint32_t stream);
  void abandon(); // after an error: nothing may still run on the caller's memory

  const Layout &layout;
  std::vector<Block> hostMemory;
  std::vector<void *> spaceMemory;
  std::vector<void *> address; // per buffer
  std::vector<const void *> inputSlots;
  std::vector<void *> outputSlots;
  std::vector<MortiseStream *> streams;
  std::vector<MortiseEnqueueArgs> enqueues; // per operation; unused for copies
  std::vector<uint64_t> nanoseconds;
  uint64_t boundNumber = 0;
};

} // namespace mortise::runtime
