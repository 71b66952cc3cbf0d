// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of a loaded plan that depends neither on a call's pointers nor on the constants nor on the symbols' values.
#pragma once

#include "kernels.hpp"
#include "tensors.hpp"

#include <memory>
#include <vector>

namespace mortise::runtime {

constexpr uint32_t none = UINT32_MAX;

// One instruction of the plan: an enqueue of a region, or a copy.
struct Operation {
  uint32_t region = none; // the region of an enqueue; none for a copy, which the members below describe
  uint32_t source = none, target = none;
  const Device *device = nullptr; // the device that runs the work; NULL for a copy within host memory
  bool toDevice = false;          // true: a copy from the host to the device; false: from the device to the host
  uint32_t stream = none;         // number among Layout::streams
  uint32_t waitFirst = none;      // a stream to wait for before this operation
  uint32_t inputSlots = 0, outputSlots = 0; // where the region's pointers start in a context's lists
};

struct MemorySpace {
  const Device *device = nullptr; // NULL: host memory
  size_t alignment = 64;
};

// A slot of a context's lists that receives a buffer's address.
struct Patch {
  uint32_t slot, buffer;
};

struct Layout {
  std::shared_ptr<const plan::PlanT> plan;
  Regions regions;
  std::vector<Operation> operations;
  std::vector<MemorySpace> spaces;
  std::vector<const Device *> streams;            // one stream of each in every context
  uint32_t lastStream = none;                     // the stream to wait for at the end of a run
  std::vector<uint32_t> callBuffers;              // Input and Output buffers whose address comes with each call
  std::vector<uint32_t> constantBuffers;          // Input buffers whose address comes with a binding
  std::vector<Patch> inputPatches, outputPatches; // slots whose addresses come from callBuffers or constantBuffers
  std::vector<Patch> fixedInputs, fixedOutputs;   // all other slots, filled when a context switches to a specialisation
  uint32_t inputSlots = 0, outputSlots = 0;       // lengths of the lists
  std::vector<Block> literals;
  std::vector<const std::byte *> literalData; // per buffer; NULL for a buffer that is no literal
  std::vector<TensorSpec> inputs, outputs;    // symbolic extents are MORTISE_DYNAMIC

  static Result<std::unique_ptr<Layout>> make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry);

  // The memory space of a device: 0 is the host's. `none` when the plan has no space for the device.
  uint32_t spaceOf(const Device &device) const;
};

// The inputs' specs, with extents computed from `values`. Errors: MORTISE_INVALID_ARGUMENT.
Result<std::vector<TensorSpec>> inputSpecs(const Layout &layout, std::span<const int64_t> values);

} // namespace mortise::runtime
