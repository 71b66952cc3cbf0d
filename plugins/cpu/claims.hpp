// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The second value of the pipeline: the nodes that library calls and loops of the plugin's own compute, with what they
// can fuse. Each family of ops has a claim function in kernels/, which reads the facts and adds units.
#pragma once

#include "kernels/channels.hpp"
#include "units.hpp"

namespace mortise::cpu {

// Where values are: each is a view of one that has memory.
class Layout {
public:
  explicit Layout(const MortiseGraph &graph) : graph(&graph), roots(graph.value_count), views(graph.value_count) {}
  const View &viewOf(uint32_t value);
  // Extents and strides in the value's own memory; dense unless setRoot said otherwise.
  View rootOf(uint32_t value) const;
  bool ownsRoot(uint32_t value) const { return cpu::ownsRoot(*graph->values[value], roots[value]); }
  // Views of what is behind the value are asked for again; a claimed unit keeps those that it has read.
  void setRoot(uint32_t value, View view);
  void makeDense(uint32_t value); // with memory of its own, whatever it was a view of
  const std::vector<std::optional<View>> &allRoots() const { return roots; }

private:
  void forgetBehind(uint32_t value);

  const MortiseGraph *graph;
  std::vector<std::optional<View>> roots, views;
};

// Filled by the claim functions, in the order that claim() gives; not changed afterwards.
struct Claims {
  explicit Claims(const Analysis &facts) : facts(facts), layout(facts.graph), taken(facts.graph.node_count) {}
  const Analysis &facts;
  Layout layout;
  std::vector<bool> taken; // per node
  std::vector<Unit> units;

  const View &viewOf(uint32_t value) { return layout.viewOf(value); }
  // Where an operand lies, if nothing lies between its elements; else it has to have dense memory of its own.
  View denseViewOf(const MortiseNode &node, size_t operand) {
    const uint32_t value = node.operands[operand]->index;
    const View &view = viewOf(value);
    return isDense(view) ? view : facts.denseView(value);
  }
  bool isTaken(const MortiseNode &node) const { return taken[node.index]; }
  // Whether a claimed unit reads the value's memory, so that it has to stay where it lies.
  bool isReadByUnit(uint32_t value) const;
  void take(const MortiseNode &node) { taken[node.index] = true; }
  // The one element of an f32 literal that is the same everywhere.
  std::optional<double> splat(uint32_t value);
};

// Sets roots: which images are not row-major. Runs before the claims. layouts.cpp
void chooseLayouts(const Analysis &facts, Layout &layout);

// Runs the claim functions below. `facts` has to outlive the result.
Result<Claims> claim(const Analysis &facts);

// Those come first that decide where others read.
Result<void> claimConvolutionGradients(Claims &claims);
Result<void> claimMergedProducts(Claims &claims);
Result<void> claimProducts(Claims &claims);
Result<void> claimConvolutions(Claims &claims);
Result<void> claimPools(Claims &claims);
Result<void> claimUpdates(Claims &claims);
Result<void> claimScatters(Claims &claims);
Result<void> claimQuantizedLinears(Claims &claims);
Result<void> claimRandom(Claims &claims);
Result<void> claimSorts(Claims &claims);
Result<void> claimAttentions(Claims &claims);
Result<void> claimAttentionGradients(Claims &claims);
bool hasOrder(int32_t dtype);                   // elements that claimSorts can order
inline constexpr int64_t mostQuantizedRows = 4; // that claimQuantizedLinears takes
bool canScatter(int32_t dtype);                 // elements that claimScatters can combine

} // namespace mortise::cpu
