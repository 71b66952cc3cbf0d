// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a machine runs the loops of a plan: which of them make tasks, which run inside a task, which one runs over the
// lanes of vectors, and where the values lie that one pass keeps for the next.
#pragma once

#include "space/plan.hpp"

namespace mortise::codegen {

struct ScheduledLoop : Loop {
  bool inside = false; // runs sequentially inside a task: it is reduced, or it pays
  int64_t block = 0;   // > 0: a task runs so many steps of the loop
};

// What both families of machines have in common.
struct Schedule {
  std::vector<ScheduledLoop> loops; // those of the plan, outermost first
  unsigned lanes = 1;
  bool laneLoop = false;   // the innermost loop runs over vectors
  bool laneInside = false; // and inside a task
};

struct CpuSchedule : Schedule {
  // Per entry of LoopPlan::cache that no output keeps: bytes into scratch. `laneInside` decides about its form: one
  // element per step of the row, else one vector.
  std::vector<Dim> offsets;
  Dim scratchBytes = 0; // per thread
};
// `lanes`: elements of a 4-byte type in a vector. Errors: MORTISE_UNSUPPORTED.
Result<CpuSchedule> scheduleCpu(const LoopPlan &plan, unsigned lanes);

} // namespace mortise::codegen
