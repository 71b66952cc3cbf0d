// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Equal layers, found in the graph. Where a graph repeats a run of nodes, a shorter graph with few copies of it is
// analysed, claimed and made into units, and the units of one copy are repeated for those left out (stamp.hpp).
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace mortise::cpu {

// Nodes [first, first + copies * period). Node n + period does in copy t + 1 what node n does in copy t: equal op,
// attributes and types; operands from outside the copies are the same, or inputs that belong to one copy each; others
// are made the same distance before.
struct Repetition {
  uint32_t first = 0, period = 0, copies = 0;
  static constexpr uint32_t none = UINT32_MAX;
  std::vector<uint32_t> next;       // per graph input: its counterpart in the next copy, or none
  std::vector<uint32_t> nextOutput; // likewise of output positions
  std::vector<uint32_t> copyOf;     // per graph input: the copy that it belongs to; none: to all, or to no copy
  std::vector<uint32_t> aliasOf;    // per output: the input that it overwrites, or none
};

// Takes the repetition that leaves the fewest nodes when `kept` copies of it stay; nullopt when too few would go.
std::optional<Repetition> findRepetition(const MortiseGraph &graph, uint32_t kept);

// `whole` with only the first `kept` copies; what follows reads the last of them. Inputs are the same. `whole` has to
// outlive it.
class ShortGraph {
public:
  ShortGraph(const MortiseGraph &whole, Repetition repetition, uint32_t kept);
  const MortiseGraph &view() const { return graph; }
  uint32_t left() const { return repetition.copies - kept; } // copies left out

  // Numbers in the whole graph. Its copies come first among equal ones, so that those kept are copies 0, 1, ... there.
  uint32_t wholeNode(uint32_t node) const { return node < cut ? node : node + left() * repetition.period; }
  uint32_t wholeValue(uint32_t value) const { return originals[value]; }
  uint32_t shortValue(uint32_t value) const { return locals[value]; } // none: of a copy left out

  const Repetition repetition;
  const uint32_t kept;
  const uint32_t cut; // first node behind the copies kept

private:
  std::vector<uint32_t> originals, locals;
  MortiseGraph graph{};
  std::vector<MortiseValue> values;
  std::vector<MortiseNode> nodes;
  std::vector<MortiseAlias> aliases;
  std::vector<const MortiseValue *> valueList, inputList, outputList, nodeValues;
  std::vector<const MortiseNode *> nodeList;
  std::vector<const MortiseAlias *> aliasList;
};

} // namespace mortise::cpu
