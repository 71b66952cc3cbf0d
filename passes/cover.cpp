// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cover.hpp"

#include "layouts.hpp"
#include "symbols.hpp"

#include <mortise/symbols.hpp>

#include <algorithm>
#include <limits>
#include <set>

namespace mortise::passes {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr int64_t searchWork = 10'000'000; // nodes that the search may visit: some tens of milliseconds

constexpr uint32_t hostSpace = UINT32_MAX;

// The memory space of a device: the number of the first target with the same memory. `hostSpace` stands for the host's,
// and for that of a device that is no target, from which values pass through the host in most cases.
uint32_t spaceOf(const std::vector<Target> &targets, const runtime::Device *device) {
  if (device && !device->inHostMemory())
    for (uint32_t target = 0; target < targets.size(); ++target)
      if (targets[target].device->sharesMemory(*device))
        return target;
  return hostSpace;
}

} // namespace

CoverSearch::CoverSearch(const MortiseGraph &graph, const std::vector<Target> &targets,
                         const std::vector<Candidate> &candidates, const Homes &homes)
    : graph(graph), targets(targets), candidates(candidates), nodes(graph), byNode(graph.node_count),
      cheapest(graph.node_count, infinite), covered(graph.node_count) {
  for (const Target &target : targets)
    spaces.push_back(spaceOf(targets, target.device));
  inputSpaces.assign(graph.input_count, hostSpace);
  outputSpaces.assign(graph.output_count, hostSpace);
  for (size_t i = 0; i < homes.inputs.size() && i < graph.input_count; ++i)
    inputSpaces[i] = spaceOf(targets, homes.inputs[i]);
  for (size_t i = 0; i < homes.outputs.size() && i < graph.output_count; ++i)
    outputSpaces[i] = spaceOf(targets, homes.outputs[i]);
  for (size_t i = 0; i < graph.alias_count; ++i)
    if (const MortiseAlias &alias = *graph.aliases[i]; inRange(graph, alias))
      outputSpaces[alias.output] = inputSpaces[alias.input];
  std::vector<const runtime::Device *> memories; // of the spaces; NULL for the host's
  for (uint32_t target = 0; target < targets.size(); ++target)
    memories.push_back(spaces[target] == target ? &targets[target].device->owner() : nullptr);
  memories.push_back(nullptr);
  for (const runtime::Device *from : memories)
    for (const runtime::Device *to : memories)
      copies.push_back(from == to ? CopyPrice() : targets[0].prices->copy(from, to));
  for (uint32_t c = 0; c < candidates.size(); ++c) {
    const Candidate &candidate = candidates[c];
    sets.push_back(setOf(candidate.nodes, graph.node_count));
    size_t needed = 0;
    for (uint32_t node : candidate.nodes)
      needed += !isLiteral(*graph.nodes[node]);
    price.push_back(candidate.costNs + launchNs(*targets[candidate.target].device));
    share.push_back(needed ? price.back() / static_cast<double>(needed) : infinite);
    if (needed)
      byShare.push_back(c);
  }
  std::sort(byShare.begin(), byShare.end(), [&](uint32_t a, uint32_t b) {
    if (share[a] != share[b])
      return share[a] < share[b];
    if (candidates[a].nodes.size() != candidates[b].nodes.size())
      return candidates[a].nodes.size() > candidates[b].nodes.size();
    return a < b;
  });
  for (uint32_t c : byShare)
    for (uint32_t node : candidates[c].nodes) {
      byNode[node].push_back(c);
      cheapest[node] = std::min(cheapest[node], share[c]);
    }
}

bool CoverSearch::acyclic(const std::vector<uint32_t> &chosen, std::vector<uint32_t> *order) const {
  std::vector<uint32_t> group(graph.node_count, UINT32_MAX);
  for (uint32_t i = 0; i < chosen.size(); ++i)
    for (uint32_t node : candidates[chosen[i]].nodes)
      group[node] = i;
  uint32_t count = static_cast<uint32_t>(chosen.size());
  for (uint32_t &g : group)
    if (g == UINT32_MAX)
      g = count++;
  const std::vector<uint32_t> sorted = nodes.order(group, count);
  if (order) {
    order->clear();
    for (uint32_t g : sorted)
      if (g < chosen.size())
        order->push_back(chosen[g]);
  }
  return sorted.size() == count;
}

double CoverSearch::bytesOf(const MortiseValue &value) const {
  if (!typical)
    typical = typicalValues(graph);
  return bytesAt(*value.type, *typical);
}

const CopyPrice &CoverSearch::copyPrice(uint32_t from, uint32_t to) const {
  const size_t count = targets.size() + 1; // the last one is the host's
  return copies[std::min<size_t>(from, targets.size()) * count + std::min<size_t>(to, targets.size())];
}

double CoverSearch::moveNs(const MortiseValue &value, uint32_t from, uint32_t to) const {
  return copyPrice(from, to).of(bytesOf(value));
}

double CoverSearch::hopNs(const MortiseValue &value, const Hop &hop) const {
  if (hop.conversion)
    return hop.conversion->candidate.costNs + launchNs(*targets[hop.target].device);
  return targets[0].prices->copy(hop.from.memory, hop.to.memory).of(bytesOf(value));
}

double CoverSearch::transfers(const std::vector<uint32_t> &chosen) const {
  std::vector<uint32_t> space(graph.node_count, hostSpace); // literals and uncovered nodes are in host memory
  std::vector<const Candidate *> region(graph.node_count);
  std::vector<bool> formed(graph.value_count); // values that a region wants or gives in a form
  const auto isHosts = [](uint32_t space) { return space == hostSpace; };
  bool host = std::ranges::all_of(inputSpaces, isHosts) && std::ranges::all_of(outputSpaces, isHosts);
  for (uint32_t c : chosen) {
    for (uint32_t node : candidates[c].nodes) {
      space[node] = spaces[candidates[c].target];
      region[node] = &candidates[c];
      host = host && space[node] == hostSpace;
    }
    for (const MortiseForm &form : candidates[c].forms)
      formed[form.value] = true;
    host = host && candidates[c].forms.empty();
  }
  if (host)
    return 0;
  double total = 0;
  std::set<std::pair<uint32_t, uint32_t>> moved; // value, space
  const auto move = [&](const MortiseValue *value, uint32_t from, uint32_t to) {
    if (moved.emplace(value->index, to).second)
      total += moveNs(*value, from, to);
  };
  const auto use = [&](const MortiseValue *value, uint32_t to) {
    const uint32_t from = value->producer ? space[value->producer->index] : inputSpaces[value->result_index];
    if (from == to || (value->flags & MORTISE_VALUE_CONSTANT))
      return;
    if (moved.contains({value->index, to}) || !copyPrice(from, to).overHost)
      return move(value, from, to);
    if (!moved.emplace(value->index, hostSpace).second) // it is in the host's memory by now
      return move(value, hostSpace, to);
    move(value, from, to);
  };
  std::set<std::pair<uint32_t, Place>> arrived; // values in forms that are not plain
  const auto placeIn = [&](const Candidate *user, uint32_t value, uint32_t space) -> Place {
    if (user)
      return placeOf(targets, *user, value);
    return {space == hostSpace ? nullptr : &targets[space].device->owner()};
  };
  const auto useFormed = [&](const MortiseValue *value, const Candidate *user, uint32_t to) {
    const Candidate *producer = value->producer ? region[value->producer->index] : nullptr;
    if (user && user == producer)
      return;
    const uint32_t from = value->producer ? hostSpace : inputSpaces[value->result_index];
    const auto arrives = [&](const Place &place) {
      const bool plain = place.layout == MORTISE_PLAIN_LAYOUT && place.space == 0;
      return plain ? moved.emplace(value->index, spaceOf(targets, place.memory)).second
                   : arrived.emplace(value->index, place).second;
    };
    const std::vector<Hop> hops =
        route(graph, *value->type, targets, placeIn(producer, value->index, from), placeIn(user, value->index, to));
    for (size_t i = 0; i < hops.size(); ++i) {
      if (!arrives(hops[i].to))
        continue;
      if (leadsOverHost(hops, i) && arrives(hops[i + 1].to)) {
        total += hopNs(*value, {hops[i].from, hops[i + 1].to});
        ++i;
      } else {
        total += hopNs(*value, hops[i]);
      }
    }
  };
  for (size_t n = 0; n < graph.node_count; ++n)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseValue *value = graph.nodes[n]->operands[i])
        formed[value->index] ? useFormed(value, region[n], hostSpace) : use(value, space[n]);
  for (size_t i = 0; i < graph.output_count; ++i)
    if (const MortiseValue *value = graph.outputs[i]; formed[value->index])
      useFormed(value, nullptr, outputSpaces[i]);
    else
      use(value, outputSpaces[i]);
  return total;
}

double CoverSearch::cost(const std::vector<uint32_t> &chosen, std::vector<uint32_t> *order) const {
  if (!acyclic(chosen, order))
    return infinite;
  double total = transfers(chosen);
  for (uint32_t c : chosen)
    total += price[c];
  return total;
}

// Whether the last candidate on the stack forms no cycle with the others. Edges lead to nodes with higher numbers, so
// only regions whose ranges of nodes overlap can form a cycle.
bool CoverSearch::fits() {
  steps -= static_cast<int64_t>(stack.size());
  const std::vector<uint32_t> &last = candidates[stack.back()].nodes;
  for (size_t i = 0; i + 1 < stack.size(); ++i) {
    const std::vector<uint32_t> &other = candidates[stack[i]].nodes;
    if (other.front() < last.back() && last.front() < other.back()) {
      steps -= static_cast<int64_t>(graph.node_count) * 8;
      return acyclic(stack, nullptr);
    }
  }
  return true;
}

// `floor` is a lower bound for the cost of covering the nodes from `node` on.
void CoverSearch::descend(uint32_t node, double floor) {
  while (node < graph.node_count && (covered.contains(node) || isLiteral(*graph.nodes[node])))
    ++node;
  if (node == graph.node_count) {
    std::vector<uint32_t> order;
    steps -= static_cast<int64_t>(graph.node_count) * 8;
    const double total = cost(stack, &order);
    if (total < found.costNs)
      found = {std::move(order), total, true};
    return;
  }
  for (uint32_t c : byNode[node]) {
    steps -= static_cast<int64_t>(candidates[c].nodes.size()) + 1;
    if (steps < 0)
      return;
    if (sets[c].intersects(covered))
      continue;
    double rest = floor;
    for (uint32_t n : candidates[c].nodes)
      if (!isLiteral(*graph.nodes[n]))
        rest -= cheapest[n];
    if (spent + price[c] + rest * (1 - 1e-9) >= found.costNs)
      continue;
    stack.push_back(c);
    if (fits()) {
      covered.add(sets[c]);
      spent += price[c];
      descend(node + 1, rest);
      spent -= price[c];
      covered.remove(sets[c]);
    }
    stack.pop_back();
  }
}

Cover CoverSearch::best() {
  double floor = 0;
  for (size_t n = 0; n < graph.node_count; ++n)
    if (!isLiteral(*graph.nodes[n])) {
      if (byNode[n].empty())
        return {};
      floor += cheapest[n];
    }
  found = {};
  found.costNs = infinite;
  steps = searchWork;
  spent = 0;
  descend(0, floor);
  return found;
}

Cover CoverSearch::greedy(const std::vector<bool> &allowed) {
  Cover result;
  NodeSet taken(graph.node_count);
  stack.clear();
  const auto collect = [&](bool check) {
    for (uint32_t c : byShare) {
      if (!allowed[c] || sets[c].intersects(taken))
        continue;
      stack.push_back(c);
      if (!check || fits())
        taken.add(sets[c]);
      else
        stack.pop_back();
    }
  };
  collect(false); // regions of one plugin seldom form a cycle: check once for all, not for each
  if (!acyclic(stack, nullptr)) {
    stack.clear();
    taken = NodeSet(graph.node_count);
    collect(true);
  }
  result.chosen = std::move(stack);
  stack.clear();
  std::vector<uint32_t> order;
  result.costNs = cost(result.chosen, &order);
  result.chosen = std::move(order);
  result.complete = true;
  for (uint32_t n = 0; n < graph.node_count; ++n)
    result.complete = result.complete && (taken.contains(n) || isLiteral(*graph.nodes[n]));
  return result;
}

} // namespace mortise::passes
