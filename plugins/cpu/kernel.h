// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A schedule made ready to run: bound constants, and the state of calls in flight.
#pragma once

#include "schedule.h"

#include <mortise/plugin.hpp>

#include <atomic>

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

struct Constants;

struct Kernel {
  Schedule schedule;
  StepList steps;
  ConstantExpr workspace;
  std::vector<bool> keptAtRunTime;  // per buffer: a kept buffer that calls read
  std::unique_ptr<Constants> empty; // for regions without constants
  bool hasConstants = false;
  int threads = 1; // that the library's calls were made for: their scratch memory holds no more

  Result<Packed<Constants>> bind(const void *const *inputs) const;
  Result<void> run(const Constants &constants, const MortiseEnqueueArgs &args) const;
};

struct Block; // packed memory, shared by all constants whose contents and packing are equal

// A kernel's constants: pointers to the host's, memory of our own for those packed, and idle call states.
struct Constants {
  std::vector<void *> pointers; // per buffer; NULL for what a call provides
  std::vector<std::shared_ptr<Block>> blocks;
  uint64_t bytes = 0; // of blocks that nobody had before
  CallState *lease(const Kernel &kernel) const;
  void release(CallState *state) const;
  ~Constants();

private:
  static constexpr size_t slots = 64;
  mutable std::atomic<CallState *> idle[slots] = {};
};

std::unique_ptr<CallState> makeState(const Schedule &schedule, const std::vector<Step> &steps);
// Points every step at its operands.
void resolve(const std::vector<Step> &steps, CallState &state);
// `stepTimes` and `only` (which steps to run) may be null.
Result<void> runSteps(const std::vector<Step> &steps, CallState &state, uint64_t *stepTimes,
                      const std::vector<bool> *only);

Result<std::unique_ptr<Kernel>> compileKernel(const MortiseGraph &region, const Options &options);

} // namespace mortise::cpu
