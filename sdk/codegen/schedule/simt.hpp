// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules for GPUs: loops bound to blocks, teams of threads, single threads and vectors. A team is the threads that
// share the steps of one loop and combine what they reduce.
#pragma once

#include "schedule/schedule.hpp"

namespace mortise::codegen {

struct SimtTarget;

// The lanes are the elements that one thread loads and stores at once. They divide the extent of the innermost loop, so
// that no vector is partial.
struct SimtSchedule : Schedule {
  // Each element of the loops that are not `inside`, times each vector of the lane loop where that is not inside, is
  // the work of one team.
  Dim units = 1;
  unsigned team = 1;  // threads of a team, a power of 2
  unsigned teams = 1; // of a block
  int split = -1;     // the loop, inside, whose steps the threads of a team take by turns; -1 when `team` is 1
  // > 0: each thread computes so many vectors of a row and keeps them in registers from pass to pass; 0: a loop, which
  // computes them again in each pass.
  unsigned copies = 0;
};

SimtSchedule scheduleSimt(const LoopPlan &plan, const SimtTarget &target);

} // namespace mortise::codegen
