// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "schedule/schedule.hpp"

#include <algorithm>

namespace mortise::codegen {

// Chooses which loops run inside a task, where neither reductions nor running sums decide it.
static void arrangePointwise(const LoopPlan &plan, CpuSchedule &schedule) {
  std::vector<ScheduledLoop> &loops = schedule.loops;
  ScheduledLoop &last = loops.back();
  // A transposed read: the loop that is contiguous in the operand runs inside the task, to use whole cache lines.
  for (IndexId address : plan.loads) {
    Dim step = plan.coefficient(address, last.number);
    if (step == 0 || step == 1)
      continue;
    for (ScheduledLoop &loop : loops)
      if (&loop != &last && plan.coefficient(address, loop.number) == 1) {
        loop.inside = true;
        loop.block = loop.extent.isNumber() ? 0 : 64;
        return;
      }
  }
  // Short rows: several to a task.
  double inside = std::max(1.0, plan.costPerPoint) * plan.typical(last.extent);
  for (size_t outer = loops.size() - 1; outer > 0; --outer) {
    ScheduledLoop &loop = loops[outer - 1];
    double extent = plan.typical(loop.extent);
    if (inside >= 4096 || (loop.extent.isNumber() && inside * extent > 131072))
      return;
    inside *= extent;
    loop.inside = last.inside = schedule.laneInside = true;
    if (!loop.extent.isNumber()) { // it may be long, so a task takes a block of it
      loop.block = std::max<int64_t>(2, static_cast<int64_t>(16384 / (inside / extent)));
      return;
    }
  }
}

Result<CpuSchedule> scheduleCpu(const LoopPlan &plan, unsigned lanes) {
  CpuSchedule schedule;
  for (const Loop &loop : plan.loops)
    schedule.loops.push_back({loop, loop.reduced});
  const bool inOrder = plan.scan || plan.isPut(); // their innermost loop carries a value or may write twice
  schedule.laneLoop = !plan.loops.empty() && !(inOrder && plan.reducesInnermost());
  if (schedule.laneLoop) {
    // Lanes of a put that lie along its axis would write anywhere.
    const bool scatters = plan.isPut() && plan.loops.back().members >> plan.dag.exprs[plan.dag.roots[0]].axes[0] & 1;
    schedule.lanes = scatters ? 1 : std::max(1u, lanes);
    schedule.laneInside = plan.reducesInnermost();
  }
  if (schedule.laneLoop && !inOrder) {
    if (plan.reductions.empty()) {
      arrangePointwise(plan, schedule);
    } else if (!schedule.laneInside) {
      // Columns: several vectors side by side, so that memory is read in longer pieces.
      const Dim &extent = plan.loops.back().extent;
      while (schedule.lanes > 1 && schedule.lanes < 64 &&
             plan.space.facts.atLeast(extent, 2 * static_cast<int64_t>(schedule.lanes)))
        schedule.lanes *= 2;
    }
  }
  for (const Cached &entry : plan.cache) {
    schedule.offsets.push_back(schedule.scratchBytes);
    if (entry.root < 0)
      schedule.scratchBytes += floorDiv(plan.rowLength * (schedule.laneInside ? 8 : 8 * schedule.lanes) + 63, 64) * 64;
  }
  if (!schedule.scratchBytes.isValid())
    return Error{MORTISE_UNSUPPORTED, "the extents of a group make expressions that are too large"};
  return schedule;
}

} // namespace mortise::codegen
