// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which device each node should run on, from what the nodes cost one by one: minimum cuts.
#pragma once

#include "propose.hpp"

#include <functional>
#include <vector>

namespace mortise::passes {

// What a value costs on its way between two memories, 0 where they are the same. Numbers of targets; `hostSpace` is the
// host.
using MoveNs = std::function<double(const MortiseValue &value, uint32_t from, uint32_t to)>;

struct AssignmentProblem {
  const MortiseGraph &graph;
  std::vector<std::vector<double>> ns;   // per target and node; infinite where the target does not take the node
  std::vector<uint32_t> spaces;          // per target: the number of its memory
  std::vector<uint32_t> inputs, outputs; // per graph input and output: the number of its memory
  MoveNs move;                           // by numbers of memories
};

// Improves `targets` (per node the number of its target) until no exchange between two targets of any set of nodes
// makes the sum of nodes and moves smaller: each such exchange is a minimum cut (Boykov, Veksler, Zabih: Fast
// approximate energy minimization via graph cuts, 2001, section 3). Two memories: the result is optimal for this sum.
void improveAssignment(const AssignmentProblem &problem, std::vector<uint32_t> &targets);

// Divides the nodes into runs of one target each, producers before users: from what was run before, the target that can
// run most. Literals lie in the run of their users, or in none.
struct Run {
  uint32_t target = 0;
  std::vector<uint32_t> nodes; // ascending, convex
};
std::vector<Run> runsOf(const MortiseGraph &graph, const std::vector<uint32_t> &targets);

} // namespace mortise::passes
