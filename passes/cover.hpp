// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Chooses among candidates by cost alone. place.cpp supplies the candidates.
#pragma once

#include "propose.hpp"

#include <mortise/passes/compile.hpp>
#include <mortise/passes/prices.hpp>

#include <optional>

namespace mortise::passes {

struct Hop;

struct Cover {
  std::vector<uint32_t> chosen; // indices into the candidates, in execution order
  double costNs = 0;
  bool complete = false; // every node that is no literal is in a chosen candidate
};

class CoverSearch {
public:
  CoverSearch(const MortiseGraph &graph, const std::vector<Target> &targets, const std::vector<Candidate> &candidates,
              const Homes &homes);

  // The cheapest complete cover, found by branch and bound within a fixed number of steps. The result is not `complete`
  // when no complete cover exists or the steps ran out before one was found.
  Cover best();
  // Takes each candidate for which `allowed` holds, in the order of cost per node, when it is disjoint from those taken
  // and forms no cycle with them.
  Cover greedy(const std::vector<bool> &allowed);
  // Cost in ns of disjoint candidates, transfers between them included; infinite when they form a cycle. `order`,
  // unless NULL, receives them in execution order.
  double cost(const std::vector<uint32_t> &chosen, std::vector<uint32_t> *order = nullptr) const;

  // The memories of targets, graph inputs and graph outputs, by number, and what moving a value between two costs.
  const std::vector<uint32_t> &targetSpaces() const { return spaces; }
  const std::vector<uint32_t> &spacesOfInputs() const { return inputSpaces; }
  const std::vector<uint32_t> &spacesOfOutputs() const { return outputSpaces; }
  double moveNs(const MortiseValue &value, uint32_t from, uint32_t to) const;

private:
  void descend(uint32_t node, double floor);
  bool fits();
  bool acyclic(const std::vector<uint32_t> &chosen, std::vector<uint32_t> *order) const;
  double transfers(const std::vector<uint32_t> &chosen) const;
  double hopNs(const MortiseValue &value, const Hop &hop) const;
  double bytesOf(const MortiseValue &value) const;              // with typical values of the symbols
  const CopyPrice &copyPrice(uint32_t from, uint32_t to) const; // between two spaces

  const MortiseGraph &graph;
  const std::vector<Target> &targets;
  const std::vector<Candidate> &candidates;
  NodeGraph nodes;
  std::vector<uint32_t> spaces;                        // of each target: its memory space
  std::vector<uint32_t> inputSpaces, outputSpaces;     // of each graph input and output
  mutable std::optional<std::vector<int64_t>> typical; // values of the symbols; computed on first use
  std::vector<NodeSet> sets;                           // of each candidate
  std::vector<CopyPrice> copies;                       // between the spaces of any two targets, and the host's
  std::vector<double> price;                           // cost of each candidate and of starting it
  std::vector<double> share;                           // its price per node that needs covering
  std::vector<std::vector<uint32_t>> byNode;           // candidates with the node, cheapest share first
  std::vector<uint32_t> byShare;
  std::vector<double> cheapest; // smallest share of each node: the bound

  NodeSet covered;
  std::vector<uint32_t> stack;
  double spent = 0;
  int64_t steps = 0;
  Cover found;
};

} // namespace mortise::passes
