// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the targets for GPUs share: groups become kernels in parallel (SimtCompiler), and a plan becomes one or two
// functions.
#pragma once

#include "emit/simt.hpp"

#include <mortise/codegen/simt.hpp>

namespace mortise::codegen {

struct SimtCode {
  std::string code; // as SimtFunction::code
  std::vector<SimtLaunch> launches;
  std::vector<std::string> constants; // as SimtFunction::constants; arguments behind all others
  bool hasTable = false;              // as SimtFunction::hasTable
  bool usesAlignment = false;         // the code for a smaller alignment is another
  std::vector<std::vector<uint32_t>> over;
};

struct ScheduledPlan {
  std::unique_ptr<LoopPlan> plan;
  SimtSchedule schedule;
};

// Scheduled plans to code. One object per thread.
class SimtBackend {
public:
  virtual ~SimtBackend() = default;
  // Of several plans, those of a bundle, which share a launch. `alignment` of the addresses of all inputs and outputs
  // in bytes; 1: that of their elements.
  virtual Result<SimtCode> compile(std::span<const ScheduledPlan> plans, const std::string &entry,
                                   unsigned alignment) = 0;
  // Errors: MORTISE_UNSUPPORTED, for a target without matrices.
  virtual Result<SimtCode> compile(const AttentionCode &code, const std::string &entry, unsigned alignment);
};

// Emits the kernels of a plan, or that of several, into the module; what is returned lacks the code.
SimtCode emitKernels(std::span<const ScheduledPlan> plans, const SimtTarget &target, const SimtMachine &machine,
                     const Instructions &instructions, const std::string &entry, unsigned alignment,
                     mlir::ModuleOp module);
// The symbols that the plans' kernels are given, ascending.
std::vector<uint32_t> symbolsOf(std::span<const ScheduledPlan> plans);

} // namespace mortise::codegen
