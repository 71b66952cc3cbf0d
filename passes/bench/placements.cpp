// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far placements are from the best ones, and how long they take: mortise_placements COUNT OPS. Places COUNT random
// graphs of few nodes on three devices and compares the cost with that of the cheapest placement, which it finds by
// going through all of them; then places one graph of OPS nodes. Prints one line of JSON.
#include "../test/fixture.hpp"

#include "../cover.hpp"
#include <mortise/plugin.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <string_view>

namespace {
using namespace mortise;
using namespace mortise::passes;
using namespace mortise::passes::test;

constexpr size_t deviceCount = 3;
constexpr double infinite = std::numeric_limits<double>::infinity();

// A graph, and what each device asks for each node.
struct Problem {
  GraphMaker maker;
  int64_t extents[1] = {};
  MortiseType type{sizeof(MortiseType), nullptr, MORTISE_F32, 1, extents, nullptr, nullptr};
  std::vector<std::array<double, deviceCount>> ns; // per node; infinite where the device refuses it
  std::array<bool, deviceCount> single{};          // the device offers single nodes beside whole regions
};

// The node's number in the whole graph: a region that is proposed again keeps locations.
size_t numberOf(const MortiseNode &node) {
  const std::string_view location = node.location;
  return std::strtoul(location.substr(location.find(':') + 1).data(), nullptr, 10) - 1;
}

MortiseStatus *answer(const Problem &problem, size_t device, const Offer &offer) {
  const MortiseGraph &graph = offer.graph();
  std::vector<bool> supported(graph.node_count);
  for (uint32_t n = 0; n < graph.node_count; ++n) {
    supported[n] = problem.ns[numberOf(*graph.nodes[n])][device] < infinite;
    if (!supported[n])
      offer.refuse(n, MORTISE_REASON_OP, "");
  }
  for (const std::vector<uint32_t> &region : convexRegions(graph, supported)) {
    double ns = 0;
    for (uint32_t node : region)
      ns += problem.ns[numberOf(*graph.nodes[node])][device];
    offer.add(region, ns);
  }
  if (problem.single[device])
    for (uint32_t n = 0; n < graph.node_count; ++n)
      if (supported[n])
        offer.add({n}, problem.ns[numberOf(*graph.nodes[n])][device], "fake.single");
  return nullptr;
}

// Nodes read from the few nodes before them, so that the graph is about as deep as it is long.
void fill(Problem &problem, size_t count, std::mt19937_64 &random) {
  const auto uniform = [&](double low, double high) { return std::uniform_real_distribution(low, high)(random); };
  problem.extents[0] = int64_t(1) << (4 + random() % 17); // up to 4 MB
  const double typical = std::exp(uniform(std::log(500), std::log(200'000)));
  std::vector<uint32_t> values;
  for (int i = 0; i < 2; ++i)
    values.push_back(problem.maker.input());
  std::vector<bool> used;
  for (size_t n = 0; n < count; ++n) {
    const auto pick = [&] { return values[values.size() - 1 - random() % std::min<size_t>(values.size(), 5)]; };
    values.push_back(random() % 2 ? problem.maker.node("mortise.exp", {pick()})
                                  : problem.maker.node("mortise.add", {pick(), pick()}));
    std::array<double, deviceCount> asked{};
    for (double &ns : asked)
      ns = uniform(0, 1) < 0.8 ? typical * std::exp(uniform(-1.5, 1.5)) : infinite;
    if (std::ranges::none_of(asked, [](double ns) { return ns < infinite; }))
      asked[random() % deviceCount] = typical;
    problem.ns.push_back(asked);
  }
  for (bool &single : problem.single)
    single = random() % 2;
  for (uint32_t value : values)
    problem.maker.retype(value, problem.type);
  const MortiseGraph &before = problem.maker.view();
  for (size_t n = 0; n < before.node_count; ++n)
    if (before.nodes[n]->results[0]->use_count == 0)
      problem.maker.output(before.nodes[n]->results[0]->index);
}

// Devices 1 and 2 have memory of their own. Values pass between them through the host.
struct Devices {
  explicit Devices(const Problem &problem)
      : plugins{FakePlugin("host", [&](const Offer &offer) { return answer(problem, 0, offer); }),
                FakePlugin(
                    "near", [&](const Offer &offer) { return answer(problem, 1, offer); }, false),
                FakePlugin("far", [&](const Offer &offer) { return answer(problem, 2, offer); }, false)} {
    for (const FakePlugin &plugin : plugins)
      targets.push_back(plugin.target());
  }
  std::array<FakePlugin, deviceCount> plugins;
  std::vector<Target> targets;
};

using Assignment = std::vector<uint8_t>; // per node: its device

// Transfers and the nodes themselves, without the starts of regions. Written apart from cover.cpp, which it checks.
double costOf(const MortiseGraph &graph, const Problem &problem, const Assignment &device) {
  double total = 0;
  const double bytes = 4.0 * static_cast<double>(problem.extents[0]);
  std::set<std::pair<uint32_t, uint8_t>> there; // value, device; 0 is the host
  const auto move = [&](const MortiseValue &value, uint8_t from, uint8_t to) {
    if (from == to)
      return;
    for (const uint8_t through : {from != 0 && to != 0 ? uint8_t(0) : to, to})
      if (through != from && there.emplace(value.index, through).second)
        total += CopyPrice().of(bytes); // the devices state no price
  };
  for (size_t n = 0; n < graph.node_count; ++n) {
    total += problem.ns[n][device[n]];
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i) {
      const MortiseValue &value = *graph.nodes[n]->operands[i];
      move(value, value.producer ? device[value.producer->index] : uint8_t(0), device[n]);
    }
  }
  for (size_t i = 0; i < graph.output_count; ++i)
    move(*graph.outputs[i], device[graph.outputs[i]->producer->index], 0);
  return total;
}

// The cheapest way to start regions for this assignment: from what was run so far, each device in turn runs all that it
// can. More is never worse than less, so that no other region need be tried.
double startsOf(const MortiseGraph &graph, const std::vector<Target> &targets, const Assignment &device, double limit) {
  const uint32_t all = (uint32_t(1) << graph.node_count) - 1;
  std::vector<uint32_t> before(graph.node_count);
  for (size_t n = 0; n < graph.node_count; ++n)
    for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
      if (const MortiseNode *producer = graph.nodes[n]->operands[i]->producer)
        before[n] |= uint32_t(1) << producer->index;
  std::set<std::pair<double, uint32_t>> open{{0, 0}};
  std::set<uint32_t> closed;
  while (!open.empty()) {
    const auto [spent, done] = *open.begin();
    open.erase(open.begin());
    if (done == all || spent > limit)
      return spent;
    if (!closed.insert(done).second)
      continue;
    for (uint8_t d = 0; d < deviceCount; ++d) {
      uint32_t next = done;
      for (size_t n = 0; n < graph.node_count; ++n) // nodes are in order
        if (device[n] == d && (before[n] & ~next) == 0)
          next |= uint32_t(1) << n;
      if (next != done)
        open.emplace(spent + launchNs(*targets[d].device), next);
    }
  }
  return infinite;
}

double bestCost(const MortiseGraph &graph, const Problem &problem, const std::vector<Target> &targets) {
  double best = infinite;
  Assignment device(graph.node_count);
  while (true) {
    if (const double cost = costOf(graph, problem, device); cost < best)
      best = std::min(best, cost + startsOf(graph, targets, device, best - cost));
    size_t at = 0;
    while (at < device.size() && ++device[at] == deviceCount)
      device[at++] = 0;
    if (at == device.size())
      return best;
  }
}

[[noreturn]] void fail(const std::string &why) {
  std::fprintf(stderr, "mortise_placements: %s\n", why.c_str());
  std::exit(1);
}

// Places the problem, and checks that the placement is complete and its cost is what its regions cost.
double placedCost(const MortiseGraph &graph, const Problem &problem, const std::vector<Target> &targets) {
  const Placement placement = place(graph, targets);
  Assignment device(graph.node_count, deviceCount);
  double starts = 0;
  for (const passes::Candidate &region : placement.regions) {
    starts += launchNs(*targets[region.target].device);
    for (uint32_t node : region.nodes)
      device[node] = static_cast<uint8_t>(region.target);
  }
  if (!placement.uncovered.empty() || std::ranges::find(device, deviceCount) != device.end())
    fail("a placement is not complete");
  const double cost = costOf(graph, problem, device) + starts;
  if (std::abs(cost - placement.costNs) > 1e-6 * cost)
    fail("a placement says that it costs " + std::to_string(placement.costNs) + " ns; its regions cost " +
         std::to_string(cost));
  return cost;
}

} // namespace

int main(int argc, char **argv) {
  const long count = argc == 3 ? std::atol(argv[1]) : 0, ops = argc == 3 ? std::atol(argv[2]) : 0;
  if (count < 1 || ops < 1)
    fail("usage: mortise_placements COUNT OPS");
  constexpr size_t fewNodes = 9;
  std::mt19937_64 random(1);
  double sum = 0, worst = 0;
  int optimal = 0;
  for (long i = 0; i < count; ++i) {
    Problem problem;
    fill(problem, fewNodes, random);
    const MortiseGraph &graph = problem.maker.view();
    const Devices devices(problem);
    const double found = placedCost(graph, problem, devices.targets), best = bestCost(graph, problem, devices.targets);
    if (found < best * (1 - 1e-9))
      fail("a placement is cheaper than the cheapest");
    sum += found / best - 1;
    worst = std::max(worst, found / best - 1);
    optimal += found < best * (1 + 1e-9);
  }
  Problem large;
  fill(large, static_cast<size_t>(ops), random);
  const MortiseGraph &graph = large.maker.view();
  const Devices devices(large);
  const auto begin = std::chrono::steady_clock::now();
  placedCost(graph, large, devices.targets);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("{\"graphs\": %ld, \"optimal\": %d, \"mean_gap\": %.6f, \"worst_gap\": %.6f, \"seconds\": %.4f}\n", count,
              optimal, sum / static_cast<double>(count), worst, seconds);
}
