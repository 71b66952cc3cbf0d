// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks plugins what they would take, and believes only what can be checked.
#pragma once

#include "node_set.hpp"

#include <mortise/passes/compile.hpp> // reasonName
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/registry.hpp>

#include <string>
#include <vector>

namespace mortise::passes {

struct Target { // a device to place on, with its plugin's options for this compilation
  const runtime::Device *device = nullptr;
  std::vector<runtime::Setting> options;
};

struct Candidate {
  uint32_t target = 0; // index into the targets
  std::string lowering;
  std::vector<uint32_t> nodes; // ascending
  double costNs = 0, bytes = 0, flops = 0;
  std::string specialised;               // why its kernel wants numbers for the symbols; "" when it does not
  std::vector<MortiseInPlace> inPlace{}; // as the plugin promised, in values of the graph
};

struct Refusal {
  uint32_t node = 0;
  uint32_t target = 0;
  int32_t reason = 0; // MortiseReason
  std::string detail;
};

struct Proposals {
  std::vector<Candidate> candidates; // valid: in range, ascending, convex, cost finite and >= 0, pairs as plugin.h says
  std::vector<Refusal> refusals;     // the plugins' own, and ours of what did not validate
};

// Never fails: a plugin that does becomes refusals with MORTISE_REASON_ERROR. A graph with symbols is shown to a plugin
// that cannot see them, or takes nothing of it and refuses nodes for them, with numbers in their place; what it then
// takes is compiled for each set of values.
Proposals propose(const MortiseGraph &graph, const std::vector<Target> &targets);

} // namespace mortise::passes
