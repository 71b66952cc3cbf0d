// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks plugins for candidates and validates every answer.
#pragma once

#include "node_set.hpp"

#include <mortise/passes/compile.hpp> // reasonName
#include <mortise/passes/prices.hpp>
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/registry.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mortise::passes {

class Layouts;
class Measurements;

// What a plugin offered, and could not compile.
struct RefusedOffer {
  std::string lowering;
  std::shared_ptr<const Graph> region; // in its canonical form
  std::string reason;
};

std::shared_ptr<Layouts> makeLayouts();

struct Target { // a device to place on, with what it is told about this compilation
  const runtime::Device *device = nullptr;
  std::vector<runtime::Setting> options; // the plugin's own
  MortiseCompileOptions asked{.struct_size = sizeof(MortiseCompileOptions)};
  std::vector<runtime::PlaceRule> closed;     // the rules that keep nodes off the device
  std::vector<RefusedOffer> refused;          // are not taken again
  std::optional<uint64_t> memoryLimit;        // by the estimate of memory_use.hpp
  std::shared_ptr<Measurements> measurements; // in the mode max-autotune, otherwise NULL
  double bias =
      1; // by how much the plugin was too cheap where its regions were measured; its costs are multiplied by it
  std::shared_ptr<Layouts> layouts = makeLayouts();
  std::shared_ptr<const Prices> prices = std::make_shared<Prices>(); // all targets have the same

  std::vector<MortiseOption> optionViews() const { // point into `options`
    std::vector<MortiseOption> views;
    for (const runtime::Setting &setting : options)
      views.push_back({setting.key.c_str(), setting.value.c_str()});
    return views;
  }
};

struct Candidate {
  uint32_t target = 0; // index into the targets
  std::string lowering;
  std::vector<uint32_t> nodes; // ascending
  double costNs = 0, bytes = 0, flops = 0;
  std::string specialised;               // why the kernel needs numbers for the symbols; "" when it does not
  std::vector<MortiseInPlace> inPlace{}; // pairs that the plugin can run in place, as value indices of the graph
  std::vector<MortiseForm> forms{};      // of values at its border that are not plain or not in the home
  double copiesNs = 0;                   // the part of costNs that copies in the plugin's own process take
};

// The candidate for `region`, which was extracted from `nodes` of `graph`, in the numbers of `graph`.
Candidate inWhole(Candidate candidate, const MortiseGraph &graph, std::span<const uint32_t> nodes,
                  const Region &region);

std::string nsText(double ns); // "120 ns", for messages

struct Refusal {
  uint32_t node = 0;
  uint32_t target = 0;
  int32_t reason = 0; // MortiseReason
  std::string detail;
};

// A candidate that the host does not take: it is not valid, cannot be compiled, or is not in the cheapest cover.
struct Declined {
  uint32_t target = 0;
  std::string lowering;        // "" where the candidate's cannot be read
  std::vector<uint32_t> nodes; // of the graph, ascending; at least one
  double costNs = 0;
  int32_t reason = 0; // MortiseReason
  std::string detail;
};

// How the detail of a candidate begins that is not as plugin.h says.
inline const std::string ignoredCandidate = "the plugin's candidate is ignored: ";

struct Proposals {
  std::vector<Candidate> candidates; // valid: in range, ascending, convex, cost finite and >= 0, pairs as plugin.h says
  std::vector<Refusal> refusals;     // those of the plugins, and ours of nodes that were not offered to them
  std::vector<Declined> declined;    // not valid, or refused before
};

// Why a target does not run a node, as far as it concerns this node: its refusals, and the candidates with it.
std::vector<Refusal> answersFor(uint32_t node, uint32_t target, std::span<const Refusal> refusals,
                                std::span<const Declined> declined);

// Never fails: when a plugin's propose fails, every node gets a refusal with MORTISE_REASON_ERROR. A graph with symbols
// is proposed with numbers for them to a plugin that cannot see symbols, or that takes no node of the symbolic graph
// and refuses some with MORTISE_REASON_NEEDS_STATIC. Candidates that come from numbers are compiled for each set of
// values. Where rules close some nodes to a target, its plugin is asked for each run of the others as for a graph.
// Instead of an offer that was refused, the plugin is asked for both halves of its nodes, so that what it can compile
// of them is found. With `measurements` the costs are measured times.
Proposals propose(const MortiseGraph &graph, const std::vector<Target> &targets);

// The cheapest offer for all nodes of the graph with its inputs and outputs in these forms; nullopt where the plugin
// makes none.
std::optional<Candidate> proposeInForms(const MortiseGraph &graph, const Target &target,
                                        std::span<const MortiseForm> forms);

} // namespace mortise::passes
