// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Everything about a plan's runs that depends neither on the call, nor on the constants bound, nor on symbols.
#pragma once

#include "kernels.hpp"
#include "tensors.hpp"

#include <memory>
#include <vector>

namespace mortise::runtime {

constexpr uint32_t none = UINT32_MAX;

// One instruction.
struct Operation {
  uint32_t region = none; // of an enqueue; else a copy:
  uint32_t source = none, target = none;
  const Device *device = nullptr;           // that queues the work; NULL for a copy within host memory
  bool toDevice = false;                    // direction of a copy with a device
  uint32_t stream = none;                   // number among Layout::streams
  uint32_t waitFirst = none;                // a stream that has to finish before
  uint32_t inputSlots = 0, outputSlots = 0; // where the region's pointers start in a context's lists
};

struct MemorySpace {
  const Device *device = nullptr; // NULL: host memory
  size_t alignment = 64;
};

struct Patch { // a slot that a buffer's address goes into
  uint32_t slot, buffer;
};

struct Layout {
  std::shared_ptr<const plan::PlanT> plan;
  Regions regions;
  std::vector<Operation> operations;
  std::vector<MemorySpace> spaces;
  std::vector<const Device *> streams;            // one stream of each in every context
  uint32_t lastStream = none;                     // to wait for at the end
  std::vector<uint32_t> callBuffers;              // Input and Output buffers whose address comes with each call
  std::vector<uint32_t> constantBuffers;          // Input buffers whose address comes with a binding
  std::vector<Patch> inputPatches, outputPatches; // slots that read from callBuffers or constantBuffers
  std::vector<Patch> fixedInputs, fixedOutputs;   // the others, set when a context takes up a set of values
  uint32_t inputSlots = 0, outputSlots = 0;       // lengths of the lists
  std::vector<Block> literals;
  std::vector<const std::byte *> literalData; // per buffer; NULL where it is no literal
  std::vector<TensorSpec> inputs, outputs;    // symbolic extents are MORTISE_DYNAMIC

  static Result<std::unique_ptr<Layout>> make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry);

  // Space 0 is the host's; `none` when there is none for the device.
  uint32_t spaceOf(const Device &device) const;
};

// The inputs' specs with numbers for extents. Errors: MORTISE_INVALID_ARGUMENT.
Result<std::vector<TensorSpec>> inputSpecs(const Layout &layout, std::span<const int64_t> values);

} // namespace mortise::runtime
