// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One loaded plan: its kernels, a binding of its constants, and the calls in flight. Program documents what is the same
// in both.
#pragma once

#include "context.hpp"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace mortise::runtime {

// What a call that failed tells beside its error.
struct Ending {
  std::optional<RefusedRegion> refused; // what a plugin refuses; nothing of the call has happened, unless:
  bool tooLate = false;                 // memory of the caller's was written that a call reads
  bool isRetired = false;               // another executable has taken the place of this one; nothing happened
};

class Executable {
public:
  static Result<std::unique_ptr<Executable>> load(std::shared_ptr<const plan::PlanT> plan,
                                                  std::shared_ptr<const Registry> registry, const LoadOptions &options);

  // `refused`: as RefusedPlace says. After an error the constants bound before stay bound.
  Result<void> bindConstants(std::span<const Tensor> tensors, RefusedPlace refused);
  // Also true of a plan without constants.
  bool isBound() const;

  // `callers`: empty for a call that returns when its work has happened.
  Result<void> run(std::span<const Tensor> inputs, std::span<const Tensor> outputs, bool profile,
                   std::span<const CallerStream> callers, Ending &ending);
  Result<void> runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values,
                           Ending &ending);

  // A region whose kernel never runs again (Plugin::hasLost), as a call has found. Later calls end with it at once.
  std::optional<RefusedRegion> lost() const;
  // Returns when no call is in flight; later calls end at once. Contexts and constants are given back.
  void retire();

  Result<void> symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const;
  Result<std::vector<int64_t>> outputShape(size_t output, std::span<const int64_t> values) const;
  std::vector<SavedKernel> saveKernels() const { return runtime::saveKernels(*layout->plan, layout->regions); }
  const plan::PlanT &plan() const { return *layout->plan; }

  // executable_report.cpp
  uint64_t arenaBytes() const;
  std::vector<uint64_t> spaceBytes() const;
  uint64_t packedBytes() const;
  ValuesReport valuesReport() const;
  std::vector<RegionReport> report() const;

private:
  struct Flight { // a call on a caller's stream that has returned; it still uses its binding
    Binding *binding;
    std::shared_ptr<Specialisation> specialisation;
    std::unique_ptr<Context> context;
  };
  struct Clocks { // per region: step times of profiled runs of the kernel that ran last
    KernelPtr kernel;
    std::vector<StepInfo> steps;
    std::vector<uint64_t> ns;
  };
  // One call in flight: a leased context, and the binding of constants that was current when the call began.
  struct Lease {
    Executable &executable;
    Binding *binding;
    std::shared_ptr<Specialisation> specialisation;
    std::unique_ptr<Context> context;
    ~Lease() {
      if (context->isInFlight())
        executable.fly({binding, std::move(specialisation), std::move(context)});
      else
        executable.release(binding, std::move(specialisation), std::move(context));
    }
  };

  // `tensors` may be empty; otherwise they are checked before a specialisation is made for new values.
  // `callers`: empty for a call that waits for its work.
  Result<void> lease(std::optional<Lease> &place, std::span<const int64_t> values,
                     const std::span<const Tensor> *tensors, std::span<const CallersStream> callers, Ending &ending);
  const Specialisation::Queued &schedulesOn(std::span<const CallersStream> callers, Specialisation &specialisation);
  Error cannotLease(Ending &ending) const;
  void release(Binding *binding, std::shared_ptr<Specialisation> specialisation, std::unique_ptr<Context> context);
  void letGo(const Specialisation *specialisation);
  void fly(Flight flight);
  void land();
  void finish(Flight flight);
  std::unique_ptr<Context> contextFor(Binding &binding, const Specialisation &specialisation,
                                      std::span<const CallersStream> callers);
  Result<void> bind(std::unique_ptr<Binding> fresh, RefusedPlace refused);
  std::unique_ptr<Binding> exchange(std::unique_ptr<Binding> fresh);
  std::shared_ptr<Specialisation> find(Binding &binding, std::span<const int64_t> values) const;
  std::unique_ptr<Context> freeContext(uint64_t specialisation);
  Result<std::shared_ptr<Specialisation>> specialiseFor(Binding &binding, std::span<const int64_t> values,
                                                        RefusedPlace refused);
  void limitValues(Binding &binding, std::vector<std::shared_ptr<Specialisation>> &gone);
  void limitKernels();
  void findLost(const Lease &lease, const Error &error, const void *const *inputs, void *const *outputs,
                std::span<const Tensor> callers, Ending &ending);
  bool canRepeat(const Shape &shape, size_t operations, const void *const *inputs, void *const *outputs,
                 std::span<const Tensor> callers) const;
  void addClocks(const Specialisation &specialisation, const Context &context);

  std::shared_ptr<const Registry> registry;
  size_t specializeLimit = 0;
  std::unique_ptr<Layout> layout; // the members below refer to it
  bool hasConstants = false;

  std::mutex specialising; // held while a specialisation is made; locked before `mutex`; guards `specialised`
  SpecialisedKernels specialised;

  mutable std::mutex mutex; // guards the members below
  std::condition_variable idle;
  std::unique_ptr<Binding> current;
  std::vector<std::unique_ptr<Context>> free;
  std::vector<Flight> flights;
  size_t contexts = 0;
  uint64_t readies = 0, dropped = 0, compiled = 0;
  mutable uint64_t uses = 0;
  uint64_t largestArena = 0;
  std::vector<uint32_t> compiledByRegion;
  std::vector<Clocks> clocks;
  std::optional<RefusedRegion> lostRegion;
  bool isRetired = false;
};

} // namespace mortise::runtime
