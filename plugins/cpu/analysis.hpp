// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first value of the pipeline (README.md): facts of a region's graph, for all values of its symbols. Extents are
// expressions here, and equal only when they are so for all values; `sample` has typical values, which only weigh
// costs, order axes and ask the library what it takes.
#pragma once

#include "views.hpp"

namespace mortise::cpu {

inline constexpr uint32_t none = UINT32_MAX;

// "add" for a node of mortise.add.
inline std::string_view opName(const MortiseNode &node) { return std::string_view(node.op).substr(8); }

struct Options {
  bool fuseActivations = true; // library calls may turn an infinity into NaN in a fused activation
  bool packWeights = true;
  enum class Stamping { No, Yes, Required } stamping = Stamping::Yes; // equal layers are decided once
  uint32_t hashBits = 128;                                            // of the hash by which packed constants are found
};

// Values are indices into MortiseGraph::values. Made by analyse() and not changed afterwards.
struct Analysis {
  const MortiseGraph &graph;
  const Options options;
  const Values sample;
  std::vector<SymbolRange> ranges;              // per symbol
  std::vector<std::vector<Dim>> extentsOf;      // per value
  std::vector<std::vector<uint32_t>> users;     // per value: nodes, once for each use as an operand
  std::vector<std::vector<uint32_t>> outputsOf; // per value: positions among the outputs
  std::vector<bool> constant;                   // per value: depends on constants, literals and symbols only

  const MortiseValue &value(uint32_t index) const { return *graph.values[index]; }
  const MortiseType &type(uint32_t index) const { return *graph.values[index]->type; }
  std::span<const Dim> extents(uint32_t value) const { return extentsOf[value]; }
  View denseView(uint32_t value) const { return mortise::denseView(*graph.values[value]); }
  bool isConstant(uint32_t value) const { return constant[value]; }
  bool isOutput(uint32_t value) const { return !outputsOf[value].empty(); }
  bool isRead(uint32_t value) const { return !users[value].empty(); } // by a node; outputs aside
  // The node that uses a value, when that is its one use and it is not an output of the region.
  const MortiseNode *soleUser(uint32_t value) const;
  bool overwrites(uint32_t result, uint32_t input) const; // the region writes `result` to `input`'s memory
  // Never 0, for any values of the symbols.
  bool isPositive(const Dim &dim) const { return bounds(dim, ranges).low > 0; }
  int64_t sampleBytes(uint32_t value) const;
};

// `graph` has to outlive the result. Errors: MORTISE_NEEDS_STATIC when an extent has no value for `sample`.
Result<Analysis> analyse(const MortiseGraph &graph, const Options &options, Values sample);

} // namespace mortise::cpu
