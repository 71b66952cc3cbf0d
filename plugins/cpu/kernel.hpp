// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region made ready to run: its program, bound constants, and the state of calls in flight. Where a region has
// symbols, its kernel keeps the decisions and the machine code, and an instance has the program for one set of values.
#pragma once

#include "emitter.hpp"
#include "repeat.hpp"

#include <mortise/plugin.hpp>

#include <atomic>
#include <mutex>

namespace mortise::cpu {

// What one call writes while it runs: pointers, and the library's memory objects with their handles. Leased by one call
// at a time.
struct CallState {
  std::vector<void *> pointers;                    // per buffer
  std::vector<void *> operands;                    // of all steps, in order
  std::vector<dnnl_memory_t> memories;             // likewise; null where the step is no library call
  std::vector<std::vector<dnnl_exec_arg_t>> calls; // per step
  CallState *next = nullptr;
  ~CallState();
};

struct Bound;

// What decides a region's programs: a Scheduler of the region, or of one with fewer equal layers.
struct Plan {
  const MortiseGraph *region = nullptr;
  std::vector<std::unique_ptr<ShortGraph>> shorter; // of the region, then each of the one before
  std::unique_ptr<Scheduler> scheduler;

  static Result<std::unique_ptr<Plan>> make(const MortiseGraph &region, const Options &options, bool mayShorten);
};

// A schedule, and what its callers are told.
struct Program {
  Schedule schedule;
  StepList steps;
  ConstantExpr workspace;
  std::vector<bool> keptAtRunTime; // per buffer: a kept buffer that calls read
  std::vector<uint32_t> slots;     // per step: where its time goes, counted in another program's steps; empty: its own
  int threads = 1;                 // that the library's calls were made for: their scratch memory holds no more

  // NULL when the plan is of a shorter graph whose layers were not scheduled alike.
  static Result<std::unique_ptr<Program>> make(const Plan &plan, Values values);
  // Times go to the steps of `other`, for the same units.
  void timeAs(const Program &other);
  Result<void> run(const Bound &bound, const MortiseEnqueueArgs &args) const;
};

struct Block; // packed memory, shared by all constants whose contents and packing are equal

// 128 bits that stand for contents.
struct Key {
  uint64_t a = 0, b = 0;
  auto operator<=>(const Key &) const = default;
};

// The constant inputs of a region as the host gave them.
class Inputs {
public:
  explicit Inputs(std::vector<const void *> pointers) : pointers(std::move(pointers)), known(this->pointers.size()) {}
  const void *operator[](size_t number) const { return pointers[number]; }
  Key contents(size_t number, size_t bytes) const; // read once

private:
  std::vector<const void *> pointers;
  struct Known {
    size_t bytes;
    Key key;
  };
  mutable std::mutex mutex;
  mutable std::vector<std::optional<Known>> known;
};

// A program's constants: pointers to the host's, memory of our own for those packed, and idle call states.
struct Bound {
  std::vector<void *> pointers; // per buffer; NULL for what a call provides
  std::vector<std::shared_ptr<Block>> blocks;
  uint64_t bytes = 0; // of blocks that nobody had before
  CallState *lease(const Program &program) const;
  void release(CallState *state) const;
  ~Bound();

private:
  static constexpr size_t slots = 64;
  mutable std::atomic<CallState *> idle[slots] = {};
};
Result<std::unique_ptr<Bound>> bind(const Program &program, const Inputs &inputs);

struct Constants {
  explicit Constants(std::vector<const void *> pointers) : inputs(std::move(pointers)) {}
  Inputs inputs;
  std::unique_ptr<Bound> bound; // of the kernel's own program
};

// The program of a region with symbols for one set of values.
struct Instance {
  std::unique_ptr<Program> program;
  std::unique_ptr<Bound> bound;
};

struct Kernel {
  std::unique_ptr<Plan> plan;       // without its Scheduler where the region has no symbols
  std::unique_ptr<Program> program; // where it has, for typical values: what it takes, and weights packed early
  std::unique_ptr<Constants> empty; // for regions without constants
  bool hasConstants = false;
  const MortiseGraph *region = nullptr; // lives until the kernel is destroyed
  Options options;

  Result<std::unique_ptr<Program>> makeProgram(const Values &values) const;
  void dropSchedulers() { plan->scheduler.reset(), whole.reset(); } // steps may point to nodes of a short graph
  Result<std::unique_ptr<Constants>> bindConstants(const void *const *inputs) const;
  Result<std::unique_ptr<Instance>> instantiate(const Constants *constants, const int64_t *symbols) const;
  Result<void> run(const Constants *constants, const Instance *instance, const MortiseEnqueueArgs &args) const;

private:
  mutable std::mutex mutex;
  mutable std::unique_ptr<Plan> whole; // made when the shorter plan's layers turn out to differ
};

std::unique_ptr<CallState> makeState(const Schedule &schedule, const std::vector<Step> &steps);
// Points every step at its operands.
void resolve(const std::vector<Step> &steps, CallState &state);
// `stepTimes` may be null; `slots` may be empty.
Result<void> runSteps(const std::vector<Step> &steps, CallState &state, const int64_t *symbols, uint64_t *stepTimes,
                      const std::vector<uint32_t> &slots);

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options);

} // namespace mortise::cpu
