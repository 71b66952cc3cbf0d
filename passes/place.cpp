// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "place.hpp"

#include "assign.hpp"
#include "cover.hpp"
#include "memory_use.hpp"

#include <mortise/graph.hpp>
#include <mortise/portable/graph.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>

namespace mortise::passes {
namespace {

constexpr int maxDepth = 4;       // how often uncovered nodes are proposed again
constexpr size_t maxTrials = 8;   // single candidates that `improve` tries as fixed regions
constexpr size_t mostLosers = 64; // of each target, that a report lists
constexpr double infinite = std::numeric_limits<double>::infinity();

struct PartialPlacement { // a placement under construction; node numbers are those of one graph
  std::vector<Candidate> regions;
  std::vector<uint32_t> uncovered;
  double costNs = 0;

  bool betterThan(const PartialPlacement &other) const {
    if (uncovered.size() != other.uncovered.size())
      return uncovered.size() < other.uncovered.size();
    return costNs < other.costNs * (1 - 1e-9);
  }
};

// Divides the nodes outside the fixed regions into levels. A node's level is the largest number of times that a path to
// it leaves a fixed region. Each level is convex, and levels and fixed regions together form no cycle.
std::vector<std::vector<uint32_t>> levels(const MortiseGraph &graph, const std::vector<Candidate> &fixed) {
  std::vector<uint32_t> group(graph.node_count, UINT32_MAX);
  for (uint32_t i = 0; i < fixed.size(); ++i)
    for (uint32_t node : fixed[i].nodes)
      group[node] = i;
  uint32_t count = static_cast<uint32_t>(fixed.size());
  for (uint32_t &g : group)
    if (g == UINT32_MAX)
      g = count++;
  std::vector<std::vector<uint32_t>> members(count);
  for (uint32_t node = 0; node < graph.node_count; ++node)
    members[group[node]].push_back(node);
  const NodeGraph nodes(graph);
  std::vector<uint32_t> level(count, 0);
  std::vector<std::vector<uint32_t>> result;
  for (uint32_t g : nodes.order(group, count)) {
    const bool region = g < fixed.size();
    for (uint32_t node : members[g])
      for (uint32_t producer : nodes.before(node)) {
        const uint32_t from = group[producer];
        const bool isFixed = from < fixed.size();
        if (from != g && (isFixed || !isLiteral(*graph.nodes[producer]))) // a literal of a region is its result
          level[g] = std::max(level[g], level[from] + (isFixed && !region ? 1 : 0));
      }
    if (region || isLiteral(*graph.nodes[members[g][0]]))
      continue;
    if (result.size() <= level[g])
      result.resize(level[g] + 1);
    result[level[g]].push_back(members[g][0]);
  }
  std::erase_if(result, [](const auto &nodes) { return nodes.empty(); });
  for (auto &nodes : result)
    std::sort(nodes.begin(), nodes.end());
  return result;
}

class Placer {
public:
  Placer(const MortiseGraph &whole, const std::vector<Target> &targets, const Homes &homes)
      : whole(whole), targets(targets), homes(homes) {}

  PartialPlacement solve(const MortiseGraph &graph, int depth, const std::vector<Candidate> &candidates) {
    CoverSearch search(graph, targets, candidates, homesOf(graph));

    Cover exact = search.best();
    PartialPlacement plan =
        exact.complete
            ? pick(candidates, exact)
            : complete(graph, pick(candidates, search.greedy(std::vector<bool>(candidates.size(), true))), depth);
    // At the outermost level only, because every trial proposes all remaining nodes again.
    if (candidates.size() > 1 && depth == 0) {
      improve(graph, candidates, search, plan, depth);
      if (targets.size() > 1)
        cut(graph, candidates, search, plan, depth);
    }
    return plan;
  }

  // The same placement, but with the nodes that a device has no memory for moved to others: the last ones, so that the
  // device keeps the beginning of the graph. `placement` gets the reason for each, and the use of memory.
  PartialPlacement withinLimits(PartialPlacement plan, const std::vector<Candidate> &candidates, Placement &placement) {
    std::vector<bool> full(targets.size());
    std::vector<std::vector<double>> prices;
    for (uint32_t target = 0; target < targets.size();) {
      const std::vector<uint32_t> there = nodesBeside(target, plan);
      const size_t fits = full[target] || !targets[target].memoryLimit
                              ? there.size()
                              : countThatFits(whole, there, *targets[target].memoryLimit, callersOn(target));
      if (fits == there.size()) {
        ++target;
        continue;
      }
      const runtime::Device &owner = targets[target].device->owner();
      for (uint32_t t = 0; t < targets.size(); ++t)
        full[t] = full[t] || targets[t].device->sharesMemory(owner);
      if (prices.empty())
        prices = nodePrices(whole, candidates);
      std::vector<uint32_t> assigned(whole.node_count);
      for (const Candidate &region : plan.regions)
        for (uint32_t node : region.nodes)
          assigned[node] = region.target;
      for (uint32_t node : std::span(there).subspan(fits)) {
        placement.refusals.push_back({node, assigned[node], MORTISE_REASON_MEMORY,
                                      "the setting memory_limit gives device '" + owner.name() + "' " +
                                          std::to_string(owner.memoryLimit) +
                                          " bytes, and the nodes before it need them"});
        assigned[node] = cheapestOther(prices, node, full);
      }
      plan = follow(whole, assigned, 0);
      target = 0; // the nodes may have gone to one that had room before
    }
    for (uint32_t target = 0; target < targets.size(); ++target)
      placement.memoryUse.push_back(
          targets[target].memoryLimit ? memoryUse(whole, nodesBeside(target, plan), callersOn(target)) : 0);
    return plan;
  }

private:
  // The nodes that a placement runs in the memory of a target, in execution order.
  std::vector<uint32_t> nodesBeside(uint32_t target, const PartialPlacement &plan) const {
    std::vector<uint32_t> nodes;
    for (const Candidate &region : plan.regions)
      if (targets[region.target].device->sharesMemory(*targets[target].device))
        std::ranges::copy_if(region.nodes, std::back_inserter(nodes),
                             [&](uint32_t node) { return !isLiteral(*whole.nodes[node]); });
    return nodes;
  }
  // Whether the caller keeps a graph input in the memory of a target.
  std::function<bool(uint32_t input)> callersOn(uint32_t target) const {
    return [this, target](uint32_t input) {
      return input < homes.inputs.size() && homes.inputs[input] &&
             homes.inputs[input]->sharesMemory(*targets[target].device);
    };
  }

  uint32_t nowhere() const { return static_cast<uint32_t>(targets.size()); }

  // The target that runs the node for the least, of those that still have memory.
  uint32_t cheapestOther(const std::vector<std::vector<double>> &prices, uint32_t node,
                         const std::vector<bool> &full) const {
    uint32_t best = nowhere();
    for (uint32_t t = 0; t < targets.size(); ++t)
      if (!full[t] && prices[t][node] < (best == nowhere() ? infinite : prices[best][node]))
        best = t;
    return best;
  }

  // What is left of a graph counts as the host's: its values come from, and go to, regions that are not known yet.
  const Homes &homesOf(const MortiseGraph &graph) const {
    static const Homes host;
    return &graph == &whole ? homes : host;
  }

  static PartialPlacement pick(const std::vector<Candidate> &candidates, const Cover &cover) {
    PartialPlacement plan;
    for (uint32_t c : cover.chosen)
      plan.regions.push_back(candidates[c]);
    plan.costNs = cover.costNs;
    return plan;
  }

  // Proposes the nodes that `fixed` leaves uncovered, each level as a graph of its own, and adds the resulting regions.
  PartialPlacement complete(const MortiseGraph &graph, PartialPlacement fixed, int depth) {
    std::vector<Candidate> all = fixed.regions;
    for (const std::vector<uint32_t> &rest : levels(graph, fixed.regions)) {
      // Without fixed regions the rest is the whole graph, for which the plugins would give the same answers.
      Result<Region> region =
          depth >= maxDepth || fixed.regions.empty() ? Result<Region>(Error{}) : extractRegion(graph, rest);
      if (!region) {
        fixed.uncovered.insert(fixed.uncovered.end(), rest.begin(), rest.end());
        continue;
      }
      add(graph, rest, *region, depth, propose(region->graph->view(), targets).candidates, all, fixed.uncovered);
    }
    return assemble(graph, std::move(all), std::move(fixed.uncovered));
  }

  // Places `region`, which was extracted from `nodes` of `graph`, and adds what that gives, with the graph's numbers.
  void add(const MortiseGraph &graph, const std::vector<uint32_t> &nodes, const Region &region, int depth,
           const std::vector<Candidate> &candidates, std::vector<Candidate> &regions,
           std::vector<uint32_t> &uncovered) {
    PartialPlacement part = solve(region.graph->view(), depth + 1, candidates);
    for (Candidate &candidate : part.regions)
      regions.push_back(inWhole(std::move(candidate), graph, nodes, region));
    for (uint32_t node : part.uncovered)
      uncovered.push_back(nodes[node]);
  }

  // What a target asks for a region, in the numbers of `targets`.
  std::vector<Candidate> offersOf(const MortiseGraph &graph, uint32_t target) const {
    std::vector<Candidate> found = propose(graph, {targets[target]}).candidates;
    for (Candidate &candidate : found)
      candidate.target = target;
    return found;
  }

  // What the nodes cost on each target: offers for single nodes, scaled so that they add up to the offer for a region
  // of them. Infinite where the target does not take the node.
  std::vector<std::vector<double>> nodePrices(const MortiseGraph &graph,
                                              const std::vector<Candidate> &candidates) const {
    std::vector<std::vector<double>> ns(targets.size(), std::vector<double>(graph.node_count, infinite));
    for (uint32_t n = 0; n < graph.node_count; ++n) {
      if (isLiteral(*graph.nodes[n]))
        continue;
      const Result<Region> region = extractRegion(graph, {&n, 1});
      for (uint32_t target = 0; region && target < targets.size(); ++target)
        for (const Candidate &offer : offersOf(region->graph->view(), target))
          ns[target][n] = std::min(ns[target][n], offer.costNs);
    }
    for (uint32_t target = 0; target < targets.size(); ++target) {
      std::vector<const Candidate *> largest(graph.node_count);
      for (const Candidate &candidate : candidates)
        for (uint32_t node : candidate.nodes)
          if (candidate.target == target && (!largest[node] || largest[node]->nodes.size() < candidate.nodes.size()))
            largest[node] = &candidate;
      std::map<const Candidate *, double> sums;
      const auto priced = [&](uint32_t n) { return largest[n] && ns[target][n] < infinite; };
      for (uint32_t n = 0; n < graph.node_count; ++n)
        if (priced(n))
          sums[largest[n]] += ns[target][n];
      for (uint32_t n = 0; n < graph.node_count; ++n)
        if (priced(n) && sums[largest[n]] > 0)
          ns[target][n] *= largest[n]->costNs / sums[largest[n]];
        else if (largest[n] && !isLiteral(*graph.nodes[n])) // the target takes it only together with others
          ns[target][n] = largest[n]->costNs / static_cast<double>(largest[n]->nodes.size());
    }
    return ns;
  }

  // Tries placements by minimum cuts: from what `plan` has, and from each target that takes nodes.
  void cut(const MortiseGraph &graph, const std::vector<Candidate> &candidates, const CoverSearch &search,
           PartialPlacement &plan, int depth) {
    AssignmentProblem problem{
        graph,
        nodePrices(graph, candidates),
        search.targetSpaces(),
        search.spacesOfInputs(),
        search.spacesOfOutputs(),
        [&](const MortiseValue &value, uint32_t from, uint32_t to) { return search.moveNs(value, from, to); }};
    const auto count = static_cast<uint32_t>(targets.size());
    std::vector<uint32_t> cheapest(graph.node_count);
    for (uint32_t n = 0; n < graph.node_count; ++n)
      for (uint32_t target = 1; target < count; ++target)
        if (problem.ns[target][n] < problem.ns[cheapest[n]][n])
          cheapest[n] = target;
    std::set<std::vector<uint32_t>> starts, tried;
    std::vector<uint32_t> current = cheapest;
    for (const Candidate &region : plan.regions)
      for (uint32_t node : region.nodes)
        current[node] = region.target;
    starts.insert(std::move(current));
    for (uint32_t target = 0; target < count; ++target) {
      std::vector<uint32_t> start = cheapest;
      for (uint32_t n = 0; n < graph.node_count; ++n)
        if (problem.ns[target][n] < infinite)
          start[n] = target;
      starts.insert(std::move(start));
    }
    for (std::vector<uint32_t> assigned : starts) {
      improveAssignment(problem, assigned);
      if (!tried.insert(assigned).second)
        continue;
      if (PartialPlacement trial = follow(graph, assigned, depth); trial.betterThan(plan))
        plan = std::move(trial);
    }
  }

  // The placement in which each node runs on the target that it is assigned to, where that takes it.
  PartialPlacement follow(const MortiseGraph &graph, const std::vector<uint32_t> &assigned, int depth) {
    std::vector<Candidate> all;
    std::vector<uint32_t> uncovered;
    for (const Run &run : runsOf(graph, assigned)) {
      const Result<Region> region = run.target == nowhere() ? Result<Region>(Error{}) : extractRegion(graph, run.nodes);
      if (region)
        add(graph, run.nodes, *region, depth, offersOf(region->graph->view(), run.target), all, uncovered);
      else
        uncovered.insert(uncovered.end(), run.nodes.begin(), run.nodes.end());
    }
    return assemble(graph, std::move(all), std::move(uncovered));
  }

  // Puts the regions into execution order and computes the total cost.
  PartialPlacement assemble(const MortiseGraph &graph, std::vector<Candidate> regions,
                            std::vector<uint32_t> uncovered) {
    CoverSearch search(graph, targets, regions, homesOf(graph));
    std::vector<uint32_t> every(regions.size()), order;
    for (uint32_t i = 0; i < every.size(); ++i)
      every[i] = i;
    PartialPlacement plan;
    plan.costNs = search.cost(every, &order);
    plan.uncovered = std::move(uncovered);
    std::vector<bool> ordered(regions.size());
    for (uint32_t i : order)
      ordered[i] = true;
    for (uint32_t i : every)
      if (!ordered[i]) // it waits for itself
        for (uint32_t node : regions[i].nodes)
          if (!isLiteral(*graph.nodes[node]))
            plan.uncovered.push_back(node);
    for (uint32_t i : order)
      plan.regions.push_back(std::move(regions[i]));
    std::sort(plan.uncovered.begin(), plan.uncovered.end());
    return plan;
  }

  // One small candidate, or all candidates of one lowering, may be cheaper than the part of a large region that they
  // replace. Each trial fixes such candidates and proposes the rest again.
  void improve(const MortiseGraph &graph, const std::vector<Candidate> &candidates, CoverSearch &search,
               PartialPlacement &plan, int depth) {
    std::set<std::pair<uint32_t, std::string>> chosen;
    for (const Candidate &region : plan.regions)
      chosen.emplace(region.target, region.lowering);
    std::vector<std::vector<bool>> trials;
    std::map<std::pair<uint32_t, std::string>, std::vector<bool>> byLowering;
    size_t singles = 0;
    for (uint32_t c = 0; c < candidates.size(); ++c) {
      const auto key = std::make_pair(candidates[c].target, candidates[c].lowering);
      if (chosen.count(key) || candidates[c].nodes.size() == graph.node_count)
        continue;
      byLowering.try_emplace(key, candidates.size(), false).first->second[c] = true;
      if (singles++ < maxTrials) {
        trials.emplace_back(candidates.size(), false);
        trials.back()[c] = true;
      }
    }
    for (auto &[key, allowed] : byLowering)
      if (std::count(allowed.begin(), allowed.end(), true) > 1)
        trials.push_back(std::move(allowed));
    for (const std::vector<bool> &allowed : trials) {
      PartialPlacement fixed = pick(candidates, search.greedy(allowed));
      // The fixed regions alone cost as much as the current plan, so the rest cannot make it cheaper.
      if (fixed.regions.empty() || (plan.uncovered.empty() && fixed.costNs >= plan.costNs))
        continue;
      PartialPlacement trial = complete(graph, std::move(fixed), depth);
      if (trial.betterThan(plan))
        plan = std::move(trial);
    }
  }

  const MortiseGraph &whole;
  const std::vector<Target> &targets;
  const Homes &homes;
};

// Declines each candidate that was not chosen, and names the regions that took its nodes; of each target the first
// ones, and how many more there are.
void explainLosers(const MortiseGraph &graph, const std::vector<Target> &targets, std::vector<Candidate> &candidates,
                   Placement &placement) {
  std::vector<const Candidate *> taker(graph.node_count);
  for (const Candidate &region : placement.regions)
    for (uint32_t node : region.nodes)
      taker[node] = &region;
  std::vector<size_t> listed(targets.size());
  for (Candidate &candidate : candidates) {
    std::set<const Candidate *> seen;
    std::vector<const Candidate *> winners; // in the order of the nodes
    for (uint32_t node : candidate.nodes)
      if (taker[node] && seen.insert(taker[node]).second)
        winners.push_back(taker[node]);
    if (winners.size() == 1 && winners[0]->target == candidate.target && winners[0]->lowering == candidate.lowering &&
        winners[0]->nodes == candidate.nodes)
      continue;
    if (listed[candidate.target]++ >= mostLosers) {
      ++placement.unlisted[candidate.target];
      continue;
    }
    std::string text = "the cheapest cover costs " + nsText(placement.costNs);
    constexpr size_t named = 3;
    for (size_t i = 0; i < std::min(winners.size(), named); ++i)
      text += (i ? ", " : "; its nodes are in ") + winners[i]->lowering + " on " +
              targets[winners[i]->target].device->name() + " at " + nsText(winners[i]->costNs);
    if (winners.size() > named)
      text += " and " + std::to_string(winners.size() - named) + " more";
    placement.declined.push_back({candidate.target, std::move(candidate.lowering), std::move(candidate.nodes),
                                  candidate.costNs, MORTISE_REASON_COST, std::move(text)});
  }
}

// The nodes of `canDecompose` that every target refused and no candidate contains. In a graph with symbols, a refusal
// for MORTISE_REASON_NEEDS_STATIC does not count: such a node is proposed again, undecomposed and with numbers for the
// symbols, when the other nodes have been placed.
std::vector<uint32_t> refusedByAll(const MortiseGraph &graph, size_t targetCount, const Proposals &proposals,
                                   const std::vector<bool> &canDecompose) {
  std::vector<std::set<uint32_t>> refusals(graph.node_count); // the targets that refused the node
  const auto note = [&](uint32_t node, uint32_t target, int32_t reason) {
    if (canDecompose[node] && (graph.symbol_count == 0 || reason != MORTISE_REASON_NEEDS_STATIC))
      refusals[node].insert(target);
  };
  for (const Refusal &refusal : proposals.refusals)
    note(refusal.node, refusal.target, refusal.reason);
  for (const Declined &candidate : proposals.declined)
    for (uint32_t node : candidate.nodes)
      note(node, candidate.target, candidate.reason);
  for (const Candidate &candidate : proposals.candidates)
    for (uint32_t node : candidate.nodes)
      refusals[node].clear();
  std::vector<uint32_t> result;
  for (uint32_t node = 0; node < graph.node_count; ++node)
    if (refusals[node].size() == targetCount && targetCount != 0)
      result.push_back(node);
  return result;
}

} // namespace

Placement place(const MortiseGraph &graph, const std::vector<Target> &targets, const std::vector<bool> &canDecompose,
                const Homes &homes) {
  Placement placement;
  Proposals proposals = propose(graph, targets);
  if (!canDecompose.empty())
    placement.uncovered = refusedByAll(graph, targets.size(), proposals, canDecompose);
  placement.refusals = std::move(proposals.refusals);
  placement.declined = std::move(proposals.declined);
  if (!placement.uncovered.empty())
    return placement;
  Placer placer(graph, targets, homes);
  PartialPlacement plan =
      placer.withinLimits(placer.solve(graph, 0, proposals.candidates), proposals.candidates, placement);
  placement.regions = std::move(plan.regions);
  placement.uncovered = std::move(plan.uncovered);
  placement.costNs = plan.costNs;
  NodeSet inside(graph.node_count);
  for (const Candidate &region : placement.regions)
    inside.add(setOf(region.nodes, graph.node_count));
  for (uint32_t node = 0; node < graph.node_count; ++node)
    if (isLiteral(*graph.nodes[node]) && !inside.contains(node))
      placement.literals.push_back(node);
  explainLosers(graph, targets, proposals.candidates, placement);
  return placement;
}

Result<void> checkRequirement(const std::string &require, const MortiseGraph &graph, const Placement &placement,
                              const std::vector<Target> &targets) {
  if (require.empty())
    return {};
  double percent = 0;
  const auto [end, error] = std::from_chars(require.data(), require.data() + require.size(), percent);
  const std::string_view tail(end, static_cast<size_t>(require.data() + require.size() - end));
  if (error != std::errc() || tail.substr(0, 5) != "% on " || tail.size() == 5 || !(percent >= 0 && percent <= 100))
    return Error{MORTISE_INVALID_ARGUMENT,
                 "require: expected \"PERCENT% on DEVICE\" (\"95% on cpu\"), found \"" + require + "\""};
  const std::string_view device = tail.substr(5);
  size_t total = 0, there = 0;
  for (const Candidate &region : placement.regions) {
    const runtime::Device &on = *targets[region.target].device;
    for (uint32_t node : region.nodes)
      if (!isLiteral(*graph.nodes[node])) {
        ++total;
        there += on.name() == device || device == on.info.kind;
      }
  }
  const double share = total ? 100.0 * static_cast<double>(there) / static_cast<double>(total) : 100;
  if (share + 1e-9 >= percent)
    return {};
  return Error{MORTISE_UNSUPPORTED, "required " + require + ", found " + std::to_string(there) + " of " +
                                        std::to_string(total) +
                                        " nodes there; see the refusals in the report of a program "
                                        "compiled without `require`, or ask for less"};
}

std::vector<Uncovered> uncoveredNodes(const MortiseGraph &graph, const Placement &placement,
                                      const std::vector<Target> &targets) {
  std::vector<Uncovered> answers;
  for (uint32_t number : placement.uncovered) {
    const MortiseNode &node = *graph.nodes[number];
    for (uint32_t t = 0; t < targets.size(); ++t) {
      const runtime::Device &device = *targets[t].device;
      const Uncovered answer{number, node.op, node.location ? node.location : "", device.name(), device.plugin->name,
                             0,      ""};
      const std::vector<Refusal> reasons = answersFor(number, t, placement.refusals, placement.declined);
      for (const Refusal &refusal : reasons) {
        answers.push_back(answer);
        answers.back().reason = refusal.reason;
        answers.back().detail = refusal.detail;
      }
      if (reasons.empty()) {
        answers.push_back(answer);
        answers.back().detail = "the plugin proposed nothing for it and gave no reason";
      }
    }
  }
  return answers;
}

Error uncoveredError(const MortiseGraph &graph, const std::vector<Uncovered> &uncovered) {
  constexpr size_t shown = 8;
  size_t nodes = 0;
  std::string listed;
  for (size_t i = 0; i < uncovered.size(); ++i) {
    const Uncovered &answer = uncovered[i];
    const bool first = i == 0 || uncovered[i - 1].node != answer.node;
    nodes += first;
    if (nodes > shown)
      continue;
    if (first) {
      const MortiseNode &node = *graph.nodes[answer.node];
      listed += "\n  " + answer.op + "(";
      for (size_t o = 0; o < node.operand_count; ++o)
        listed += (o ? ", " : "") + (node.operands[o] ? typeString(*node.operands[o]->type) : std::string("none"));
      listed += ")" + (answer.location.empty() ? "" : " at " + answer.location);
    }
    listed += "\n    " + answer.device + ": " + (answer.reason ? reasonName(answer.reason) : "") +
              (answer.reason && !answer.detail.empty() ? ": " : "") + answer.detail;
  }
  if (nodes > shown)
    listed += "\n  and " + std::to_string(nodes - shown) + " more";
  return {MORTISE_UNSUPPORTED, std::to_string(nodes) + " of " + std::to_string(graph.node_count) +
                                   " nodes run on no chosen device:" + listed +
                                   "\nchoose another device, or install a plugin that takes these"};
}

} // namespace mortise::passes
