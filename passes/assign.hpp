// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which device each node should run on, from what the nodes cost one by one: minimum cuts.
#pragma once

#include "propose.hpp"

#include <functional>
#include <vector>

namespace mortise::passes {

// What a value costs on its way from one memory to another one.
using MoveNs = std::function<double(const MortiseValue &value, uint32_t from, uint32_t to)>;

// Memories have numbers, equal ones for targets that share their memory.
struct AssignmentProblem {
  const MortiseGraph &graph;
  std::vector<std::vector<double>> ns;   // per target and node; infinite where the target does not take the node
  std::vector<uint32_t> spaces;          // per target: its memory
  std::vector<uint32_t> inputs, outputs; // per graph input and output: the memory in which it lies
  MoveNs move;
};

// Makes the sum of nodes and moves smaller: two targets at a time exchange nodes by a minimum cut, which finds the best
// exchange of any set of nodes (Boykov, Veksler, Zabih: Fast approximate energy minimization via graph cuts, 2001,
// section 3), until no pair gains or eight rounds are done. `targets`: per node the number of its target. With two
// targets the result has the least sum.
void improveAssignment(const AssignmentProblem &problem, std::vector<uint32_t> &targets);

// Divides the nodes into runs of one target each, producers before users: from what was run before, the target that can
// run most. A literal lies in the run that alone reads it, or in none.
struct Run {
  uint32_t target = 0;
  std::vector<uint32_t> nodes; // ascending, convex
};
std::vector<Run> runsOf(const MortiseGraph &graph, const std::vector<uint32_t> &targets);

} // namespace mortise::passes
