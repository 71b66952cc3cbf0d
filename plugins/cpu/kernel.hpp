// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled: its executable, bound constants, and the state of calls in flight. Where a region has symbols, its
// kernel keeps the units, and an instance has the executable for one set of values.
#pragma once

#include "schedule.hpp"
#include "sharing.hpp"

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

// A schedule, and what its callers are told.
struct Executable {
  Schedule schedule;
  StepList steps;
  ConstantExpr workspace;
  std::vector<uint32_t> slots; // per step: where its time goes, counted in another executable's steps; empty: its own
  int threads = 1;             // that the library's calls were made for: their scratch memory holds no more

  static Result<std::unique_ptr<Executable>> make(const Units &units, Values values);
  // Times go to the steps of `other`, for the same units.
  void timeAs(const Executable &other);
  Result<void> run(const Bound &bound, const MortiseEnqueueArgs &args) const;
};

// The constant inputs of a region as the host gave them.
class Inputs {
public:
  Inputs(std::vector<const void *> pointers, uint32_t hashBits)
      : hashBits(hashBits), pointers(std::move(pointers)), known(this->pointers.size()) {}
  const void *operator[](size_t number) const { return pointers[number]; }
  std::shared_ptr<const Recipe> contents(size_t number, size_t bytes) const; // read once
  const uint32_t hashBits;

private:
  std::vector<const void *> pointers;
  const std::shared_ptr<const void> lent = std::make_shared<char>(); // goes when the host may take its tensors back
  mutable std::mutex mutex;
  mutable std::vector<std::shared_ptr<const Recipe>> known;
};

// An executable's constants: pointers to the host's, memory of our own for those packed, and idle call states.
struct Bound {
  std::vector<void *> pointers; // per buffer; NULL for what a call provides
  std::vector<std::shared_ptr<Block>> blocks;
  uint64_t bytes = 0; // of blocks that nobody had before
  CallState *lease(const Executable &executable) const;
  void release(CallState *state) const;
  ~Bound();

private:
  static constexpr size_t slots = 64;
  mutable std::atomic<CallState *> idle[slots] = {};
};
Result<std::unique_ptr<Bound>> bind(const Executable &executable, const Inputs &inputs);

struct Constants {
  Constants(std::vector<const void *> pointers, uint32_t hashBits) : inputs(std::move(pointers), hashBits) {}
  Inputs inputs;
  std::unique_ptr<Bound> bound; // of the kernel's own executable; NULL where extents of constants are symbols
};

// The executable of a region with symbols for one set of values.
struct Instance {
  std::unique_ptr<Executable> executable;
  std::unique_ptr<Bound> bound;
};

struct Kernel {
  std::unique_ptr<Units> units;           // where the region has symbols
  std::unique_ptr<Executable> executable; // where it has, for typical values: what it takes, and weights packed early
  std::unique_ptr<Constants> empty;       // for regions without constants
  bool hasConstants = false;
  uint32_t hashBits = 128;
  const MortiseGraph *region = nullptr; // lives until the kernel is destroyed

  Result<std::unique_ptr<Constants>> bindConstants(const MortiseAddress *inputs) const;
  Result<std::unique_ptr<Instance>> instantiate(const Constants *constants, const int64_t *symbols) const;
  Result<void> run(const Constants *constants, const Instance *instance, const MortiseEnqueueArgs &args) const;
};

std::unique_ptr<CallState> makeState(const Schedule &schedule, const std::vector<Step> &steps);
// Points every step at its operands.
void resolve(const std::vector<Step> &steps, CallState &state);
// `stepTimes` may be null; `slots` may be empty.
Result<void> runSteps(const std::vector<Step> &steps, CallState &state, const int64_t *symbols, uint64_t *stepTimes,
                      const std::vector<uint32_t> &slots);

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options);
// Its generated code. What the library generates is not kept: the library makes it in every process.
Result<std::vector<std::byte>> saveKernel(const Kernel &kernel);

} // namespace mortise::cpu
