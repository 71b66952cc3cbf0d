// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan made ready for one set of the symbols' values. A plan without symbols has one set, the empty one.
#pragma once

#include "layout.hpp"

namespace mortise::runtime {

// What follows from the values alone.
struct Shape {
  Values values;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<uint64_t> bytes, offsets; // per buffer; offsets of arena buffers
  std::vector<uint64_t> arenas;         // per memory space, without workspaces

  // The values have passed checkValues. Errors: MORTISE_INVALID_ARGUMENT (an extent that is no size),
  // MORTISE_OUT_OF_MEMORY.
  static Result<Shape> make(const Layout &layout, std::span<const int64_t> values);
};

struct Ready {
  Shape shape;
  uint64_t number = 0;                         // tells them apart, for contexts that remember the last one
  uint64_t lastUse = 0;                        // guarded by the program's mutex
  std::vector<KernelPtr> kernels;              // per region
  std::vector<MortiseConstants *> constants;   // per region
  std::vector<bool> ownsConstants;             // per region: packed for these values' kernel
  std::vector<MortiseInstance *> instances;    // per region, or NULL
  std::vector<std::vector<StepInfo>> ownSteps; // per region: what its instance says; else empty
  std::vector<uint32_t> clocks;                // per region: where its step clocks start
  uint32_t clockCount = 0;
  std::vector<uint64_t> workspaces, spaceBytes; // per memory space: where workspaces start; arena and workspaces
  std::vector<bool> needsWorkspace;             // per region
  uint64_t packedBytes = 0;                     // held by plugins for these values only

  const std::vector<StepInfo> &steps(size_t region) const {
    return ownSteps[region].empty() ? kernels[region]->steps : ownSteps[region];
  }

  Ready() = default;
  Ready(const Ready &) = delete;
  Ready &operator=(const Ready &) = delete;
  ~Ready();
};

// Kernels compiled for sets of values. Whoever uses it holds the program's lock for making things ready.
class SpecialisedKernels {
public:
  // One kernel per region of `which`; compiles those that are missing.
  Result<std::vector<KernelPtr>> get(const Layout &layout, std::span<const uint32_t> which,
                                     std::span<const int64_t> values);
  void forget(std::span<const int64_t> values);
  size_t setCount() const { return sets.size(); }
  const Values &oldest() const { return sets.front().values; }
  uint64_t compiled = 0;                  // ever
  std::vector<uint32_t> compiledByRegion; // ever; regions that share a kernel count at the first

private:
  struct Set {
    Values values;
    std::vector<std::pair<uint32_t, KernelPtr>> kernels;
  };
  std::vector<Set> sets; // in the order of their making
};

Result<std::shared_ptr<Ready>> makeReady(const Layout &layout, const Bound &bound, std::span<const int64_t> values,
                                         SpecialisedKernels &specialised);

} // namespace mortise::runtime
