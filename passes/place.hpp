// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dispatcher: which device runs which nodes. Links no LLVM.
#pragma once

#include "propose.hpp"

#include <memory>

namespace mortise::passes {

struct Lost { // a refusal of a composite that was decomposed since
  std::string op;
  Refusal refusal; // its node is UINT32_MAX
};

struct Placement {
  std::vector<Candidate> regions;  // disjoint; producers before users
  std::vector<uint32_t> literals;  // constants in no region: the host hands them out
  std::vector<uint32_t> uncovered; // nodes that nobody takes; empty is success
  std::vector<Refusal> refusals;   // the plugins', and MORTISE_REASON_COST for what was not chosen
  double costNs = 0;               // regions, transfers and the fixed cost of each region
};

// The cheapest set of disjoint candidates that covers the graph and whose regions form no cycle: exact while the search
// is small, else greedy with improvements. What is left over is proposed again as graphs of their own. The same
// answers of the plugins give the same placement.
// `hasParts`, one for each node unless it is empty: nodes that the caller can replace by others. Where every target
// refuses some of them by number, those are answered as uncovered at once: placing the rest would be for nothing.
Placement place(const MortiseGraph &graph, const std::vector<Target> &targets, const std::vector<bool> &hasParts = {});

// "95% on cpu": at least that share of the nodes. "" asks for nothing.
Result<void> checkRequirement(const std::string &require, const MortiseGraph &graph, const Placement &placement,
                              const std::vector<Target> &targets);

// Every target's answer for every uncovered node, by node, then by target.
std::vector<Uncovered> uncoveredNodes(const MortiseGraph &graph, const Placement &placement,
                                      const std::vector<Target> &targets);

// The message for these: the first nodes with op, operand types, location and every plugin's reason.
Error uncoveredError(const MortiseGraph &graph, const std::vector<Uncovered> &uncovered);

} // namespace mortise::passes
