// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dispatcher: which device runs which nodes. Links no LLVM.
#pragma once

#include "propose.hpp"

#include <mortise/passes/compile.hpp>

#include <map>
#include <memory>

namespace mortise::passes {

struct DecomposedRefusal { // a refusal of a composite that was then decomposed
  std::string op;
  Refusal refusal; // refusal.node is UINT32_MAX
};

struct Placement {
  std::vector<Candidate> regions;        // disjoint; producers before users
  std::vector<uint32_t> literals;        // constants outside all regions, which the host supplies
  std::vector<uint32_t> uncovered;       // nodes that no plugin takes; empty on success
  std::vector<Refusal> refusals;         // of nodes
  std::vector<Declined> declined;        // candidates, with MORTISE_REASON_COST for those that lost
  std::map<uint32_t, uint32_t> unlisted; // by target: how many more candidates lost
  std::vector<uint64_t> memoryUse;       // per target, as estimated; 0 where it has no limit
  double costNs = 0;                     // regions, transfers and the fixed cost of each region
};

// The cheapest set of disjoint candidates that covers the graph and whose regions form no cycle: exact while the search
// is small, else greedy with improvements. Uncovered nodes are proposed again as graphs of their own. The placement is
// deterministic: it depends only on the answers of the plugins.
// `canDecompose` is empty or has one element for each node, true where the caller can decompose it. When every target
// refuses some of those nodes, place returns at once with these as `uncovered`, since a placement of the rest would be
// discarded.
Placement place(const MortiseGraph &graph, const std::vector<Target> &targets,
                const std::vector<bool> &canDecompose = {}, const Homes &homes = {});

// "95% on cpu": at least that share of the nodes runs on that device. "" is always met. Errors: INVALID_ARGUMENT for
// another form of `require`, UNSUPPORTED when it is not met.
Result<void> checkRequirement(const std::string &require, const MortiseGraph &graph, const Placement &placement,
                              const std::vector<Target> &targets);

// Every target's answer for every uncovered node, by node, then by target.
std::vector<Uncovered> uncoveredNodes(const MortiseGraph &graph, const Placement &placement,
                                      const std::vector<Target> &targets);

// The error for these nodes. Its message lists the first ones with op, operand types, location and every plugin's
// reason.
Error uncoveredError(const MortiseGraph &graph, const std::vector<Uncovered> &uncovered);

} // namespace mortise::passes
