// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan with one set of values in place of its symbols: extents, arena offsets, kernels and instances. A plan without
// symbols has one specialisation, of the empty set.
#pragma once

#include "schedule.hpp"

namespace mortise::runtime {

// The sizes that follow from the symbols' values alone, without kernels.
struct Shape {
  Values values;
  std::vector<TensorSpec> inputs, outputs;
  std::vector<uint64_t> bytes, offsets; // per buffer; offsets of arena buffers
  std::vector<uint64_t> arenas;         // per memory space, without workspaces

  // `values` have passed checkValues. Errors: MORTISE_INVALID_ARGUMENT (an extent is negative or overflows),
  // MORTISE_OUT_OF_MEMORY.
  static Result<Shape> make(const Layout &layout, std::span<const int64_t> values);
};

// A stream of the caller's, in place of a timeline's own (Layout::isCallers).
struct CallersStream {
  uint32_t timeline = 0;
  MortiseStream *stream = nullptr;
  bool operator==(const CallersStream &) const = default;
};

struct Specialisation {
  Shape shape;
  uint64_t number = 0;                       // unique in the program: contexts compare it with that of their last run
  uint64_t lastUse = 0;                      // guarded by the program's mutex
  bool dropped = false;                      // likewise: not in its binding's list any more
  std::vector<KernelPtr> kernels;            // per region
  std::vector<Upload> uploads;               // for kernels of these values only
  std::vector<MortiseConstants *> constants; // per region
  std::vector<bool> ownsConstants;           // per region: packed for a kernel of these values only
  std::vector<MortiseInstance *> instances;  // per region, or NULL
  std::vector<std::vector<StepInfo>>
      ownSteps;                 // per region: the steps that its instance reports; empty without an instance
  std::vector<uint32_t> clocks; // per region: position of its first step clock
  uint32_t clockCount = 0;
  std::vector<uint64_t> workspaces, spaceBytes; // per memory space: offset of the workspaces; total bytes
  std::vector<uint64_t> workspaceBytes;         // per region
  Schedule schedule; // of a call that ends when all its work has happened; one item per operation
  // Of a call on callers' streams, each of which stands for a timeline: a begin for each stream, operations, the end of
  // what uses the host's tensors, an end for each stream.
  struct Queued {
    std::vector<uint32_t> timelines; // in the order of the begins and ends; not empty
    Schedule idle;                   // in a context whose last call has happened
    Schedule behind; // in a context whose last call, with the same values on the same streams, is still in flight
  };
  // For the sets of timelines that calls have used. Only grows; the program's mutex guards it.
  std::vector<std::unique_ptr<const Queued>> queued;
  const Queued *queuedOn(std::span<const CallersStream> callers) const; // NULL: not made yet
  uint64_t packedBytes = 0;                                             // held by plugins for these values only

  const std::vector<StepInfo> &steps(size_t region) const {
    return ownSteps[region].empty() ? kernels[region]->steps : ownSteps[region];
  }

  Specialisation() = default;
  Specialisation(const Specialisation &) = delete;
  Specialisation &operator=(const Specialisation &) = delete;
  ~Specialisation();
};

// Kernels compiled for sets of symbol values. The caller holds Program::Impl::specialising.
class SpecialisedKernels {
public:
  // Returns one kernel per region of `which`; compiles the kernels that do not exist yet.
  Result<std::vector<KernelPtr>> get(const Layout &layout, std::span<const uint32_t> which,
                                     std::span<const int64_t> values, RefusedPlace refused);
  void forget(std::span<const int64_t> values);
  size_t setCount() const { return sets.size(); }
  const Values &oldest() const { return sets.front().values; }
  uint64_t compiled = 0; // since the program was loaded
  // By region, since load; a kernel that regions share counts for the first of them.
  std::vector<uint32_t> compiledByRegion;

private:
  struct Set {
    Values values;
    std::vector<std::pair<uint32_t, KernelPtr>> kernels;
  };
  std::vector<Set> sets; // oldest first
};

Result<std::shared_ptr<Specialisation>> makeSpecialisation(const Layout &layout, const Binding &binding,
                                                           std::span<const int64_t> values,
                                                           SpecialisedKernels &specialised, RefusedPlace refused);

// Per memory space what a plan without symbols takes in a call, workspaces included.
Result<std::vector<uint64_t>> fixedSpaceBytes(const Layout &layout);

} // namespace mortise::runtime
