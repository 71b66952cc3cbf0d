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
  bool ofConstant = false;        // a copy of a constant or a literal to a device, on which the binding has it, too
  const Device *device = nullptr; // the device that runs the work; NULL for a copy within host memory
  uint32_t stream = none;         // number among Layout::streams; none: the work is done when the call returns
  uint32_t inputSlots = 0, outputSlots = 0; // where the region's addresses start in a context's lists
};

// What a queue of a device carries. Copies that other work of the device can run beside have queues of their own, one
// for each direction, so that copy engines run at the same time as kernels.
enum class Lane { Work, CopiesIn, CopiesOut };

// One queue of work. Every context has a stream of its own for it.
struct StreamPlace {
  const Device *device = nullptr;
  Lane lane = Lane::Work;
  uint32_t timeline = 0; // number among Layout::timelines
};

struct MemorySpace {
  const Device *device = nullptr; // that allocates and copies (Device::owner); NULL: host memory
  uint32_t number = 0;            // among the device's spaces; the home is 0
  size_t alignment = 64;
};

// A slot of a context's lists that receives a buffer's address.
struct Patch {
  uint32_t slot, buffer;
};

struct Layout {
  std::shared_ptr<const plan::PlanT> plan;
  const OpenedKernelCache *cache = nullptr; // the registry's
  Regions regions;
  std::vector<Operation> operations;
  std::vector<MemorySpace> spaces;
  std::vector<StreamPlace> streams;
  // Work on one timeline happens in the order of the calls. Each has the number of the stream whose events mark it; the
  // others are imports of that stream by op-packs.
  std::vector<uint32_t> timelines;
  std::vector<const Device *> hostCopiers;        // devices that copy from or to the host's arena, and register memory
  std::vector<uint32_t> callBuffers;              // Input and Output buffers whose address comes with each call
  std::vector<uint32_t> constantBuffers;          // Input buffers whose address comes with a binding
  std::vector<Patch> inputPatches, outputPatches; // slots whose addresses come from callBuffers or constantBuffers
  std::vector<Patch> fixedInputs, fixedOutputs;   // all other slots, filled when a context switches to a specialisation
  uint32_t inputSlots = 0, outputSlots = 0;       // lengths of the lists
  std::vector<Block> literals;
  std::vector<const std::byte *> literalData; // per buffer; NULL for a buffer that is no literal
  std::vector<TensorSpec> inputs, outputs;    // symbolic extents are MORTISE_DYNAMIC

  static Result<std::unique_ptr<Layout>> make(std::shared_ptr<const plan::PlanT> plan, const Registry &registry,
                                              const LoadOptions &options);

  // The memory space of a device's home: 0 is the host's. `none` when the plan has no space for the device.
  uint32_t spaceOf(const Device &device) const;
  uint32_t timelineOf(const Operation &operation) const { // none: the host's own
    return operation.stream == none ? none : streams[operation.stream].timeline;
  }
  // Whether a call may run on a caller's stream in place of this timeline's: it is for more than copies, a caller's
  // tensor lies in the memory of its device, and no op-pack shares the timeline.
  bool isCallers(uint32_t timeline) const;
  bool needsOnHost(size_t input) const;                 // whether anything reads this constant input in host memory
  uint32_t callersTimeline(const Device &device) const; // that of a caller's stream on this device, or none
  // Has a binding keep on devices what operations copy there of constants, which is then copied within the device.
  Result<void> bringCopiedConstants(Binding &binding) const;
  // The device in whose memory a buffer lies; NULL for host memory.
  const Device *home(uint32_t buffer) const;
};

// The inputs' specs, with extents computed from `values`. Errors: MORTISE_INVALID_ARGUMENT.
Result<std::vector<TensorSpec>> inputSpecs(const Layout &layout, std::span<const int64_t> values);

} // namespace mortise::runtime
