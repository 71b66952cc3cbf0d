// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Predicted and measured time of regions: cuts the graphs of one network into pieces of all sizes, compiles each for
// the device, and runs all in turns, so that each finds the caches as the others left them. Measured are the steps
// alone: what a call costs besides them is no region's. Prints one line of JSON. Arguments: a device and graph files.
// MORTISE_* configure the rest, as everywhere.
#include "../passes/cover.hpp"
#include "../passes/measure.hpp"
#include "../tools/mortise/execution.hpp"
#include "../tools/mortise/host.hpp"
#include "get.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <set>

namespace {
using namespace mortise;
using bench::get;
using namespace mortise::tool;

constexpr size_t cutsPerSize = 6;
constexpr int rounds = 15;

struct Piece {
  std::shared_ptr<const Graph> graph;
  size_t nodes = 0;
  std::string ops; // the numbers of ops, as text
  Execution execution;
  double predictedNs = 0;
  std::vector<double> ns;
};

// Windows of consecutive nodes, which are convex, of every power of two, and the whole graph.
std::vector<std::vector<uint32_t>> windows(uint32_t count, std::mt19937_64 &random) {
  std::vector<std::vector<uint32_t>> found;
  const auto add = [&](uint32_t first, uint32_t size) {
    std::vector<uint32_t> nodes(size);
    std::iota(nodes.begin(), nodes.end(), first);
    found.push_back(std::move(nodes));
  };
  for (uint32_t size = 1; size < count; size *= 2)
    for (size_t i = 0; i < std::min<size_t>(cutsPerSize, count / size); ++i)
      add(static_cast<uint32_t>(random() % (count - size + 1)), size);
  add(0, count);
  return found;
}

Tensors plainInputs(const MortiseGraph &graph) {
  Tensors inputs;
  for (size_t i = 0; i < graph.input_count; ++i)
    inputs.push_back(passes::plainNumbers(*graph.inputs[i]->type));
  return inputs;
}

std::string opsOf(const MortiseGraph &graph) {
  std::map<std::string, int> counts;
  for (size_t n = 0; n < graph.node_count; ++n)
    ++counts[std::string(graph.nodes[n]->op).substr(8)];
  std::string text;
  for (const auto &[op, count] : counts)
    text += (text.empty() ? "" : " ") + op + (count > 1 ? "*" + std::to_string(count) : "");
  return text;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: mortise_region_costs DEVICE GRAPH...\n");
    return 2;
  }
  const Host host = get(Host::open(argv[1], ""));
  std::mt19937_64 random(1);
  std::set<std::vector<std::byte>> known; // equal layers give equal pieces
  std::vector<Piece> pieces;
  for (int i = 2; i < argc; ++i) {
    const auto whole = get(withNumbers(get(loadGraph(argv[i])), ""));
    for (const std::vector<uint32_t> &nodes : windows(static_cast<uint32_t>(whole->view().node_count), random)) {
      Region region = get(extractRegion(whole->view(), nodes));
      const auto form = get(canonical(region.graph->view()));
      if (region.outputs.empty() || !known.emplace(form->bytes().begin(), form->bytes().end()).second)
        continue;
      const MortiseGraph &view = region.graph->view();
      Piece piece{region.graph, nodes.size(), opsOf(view),
                  get(Execution::make(*region.graph, plainInputs(view), host.registry, host.config))};
      const std::vector<runtime::RegionReport> reports = piece.execution.program().report();
      for (const runtime::RegionReport &report : reports) {
        const auto device = get(host.registry->find(report.device));
        piece.predictedNs += report.predictedNs + passes::launchNs(*device.front());
      }
      if (!reports.empty()) // otherwise it is views of constants, which nothing computes
        pieces.push_back(std::move(piece));
    }
  }
  for (int round = -1; round < rounds; ++round) // the first is not counted
    for (Piece &piece : pieces) {
      const double before = passes::stepsNs(piece.execution.program()); // of all calls
      get(piece.execution.runProfiled());
      if (round >= 0)
        piece.ns.push_back(passes::stepsNs(piece.execution.program()) - before);
    }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (Piece &piece : pieces) {
    std::ranges::nth_element(piece.ns, piece.ns.begin() + rounds / 2);
    list.push_back({{"nodes", piece.nodes},
                    {"predicted_us", piece.predictedNs / 1e3},
                    {"measured_us", piece.ns[rounds / 2] / 1e3},
                    {"ops", piece.ops}});
  }
  std::cout << list.dump() << "\n";
}
