// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Decides, once for all values of a region's symbols, what computes it: library products, convolutions, pools and
// updates in place claim their nodes first, with what they can fuse (kernels/*.cpp); what depends on constants only
// moves to bind time; generated groups compute the rest. Extents are expressions here, and equal only when they are so
// for all values; `sample` only weighs costs, orders axes and asks the library what it takes. What an Emitter then
// makes from the decisions depends on numbers. One thread; immutable once plan() has returned.
#pragma once

#include "schedule.hpp"

namespace mortise::cpu {

class Emitter;

// Something that becomes one or several steps, and what it needs first.
struct Unit {
  std::vector<uint32_t> nodes;         // ascending
  std::vector<uint32_t> reads, writes; // values that have memory
  std::function<Result<void>(Emitter &, const Unit &)> emit;
  bool late = false;  // an update in place: after every other reader of what it overwrites
  int32_t order = -1; // position once sorted
};

class Scheduler {
public:
  Scheduler(const MortiseGraph &graph, const Options &options, Values sample);
  Result<void> plan(); // decides everything, and has the generated groups compiled

  const MortiseGraph &graph;
  const Options options;
  const Values sample;

  // ---- Questions about the graph
  const MortiseValue &value(uint32_t index) const { return *graph.values[index]; }
  const MortiseType &type(uint32_t index) const { return *graph.values[index]->type; }
  std::span<const Dim> extents(uint32_t value) const { return extentsOf[value]; }
  bool isOutput(uint32_t value) const { return !outputsOf[value].empty(); }
  // The node that uses a value, when that is its one use and it is not an output of the region.
  const MortiseNode *soleUser(uint32_t value) const;
  bool isRead(uint32_t value) const { return !users[value].empty(); } // by a node; outputs aside
  bool isConstant(uint32_t value) const { return constant[value]; }   // depends on constants, literals and symbols only
  // Extents and strides in the value's own memory; dense unless setRoot said otherwise.
  View rootOf(uint32_t value) const;
  bool overwrites(uint32_t result, uint32_t input) const; // the region writes `result` to `input`'s memory
  bool isTaken(const MortiseNode &node) const { return taken[node.index]; }
  // Never 0, for any values.
  bool isPositive(const Dim &dim) const { return bounds(dim, ranges).low > 0; }

  // ---- While claims are made
  // A value as a view of one that has memory.
  const View &viewOf(uint32_t value);
  View denseView(uint32_t value) const;
  void setRoot(uint32_t value, View view) { roots[value] = std::move(view); }
  // The one element of a literal that is the same everywhere.
  std::optional<double> splat(uint32_t value);
  void take(const MortiseNode &node) { taken[node.index] = true; }
  void addUnit(Unit unit) { units.push_back(std::move(unit)); }

  // ---- Decisions, for an Emitter
  const View &finalView(uint32_t value) const { return *views[value]; }
  std::vector<Unit> units, bindUnits; // in an order in which what is read comes before
  std::vector<codegen::Group> groups; // all generated ones
  std::vector<codegen::Function> functions;
  std::vector<bool> groupHasSymbols;
  std::vector<uint32_t> outputHome;                  // per value: the output whose memory it is written to, or none
  std::vector<std::pair<uint32_t, uint32_t>> copies; // output position, value
  std::vector<int32_t> lastRead;                     // per value: order of the last of `units` that reads it, or -1
  // Per value that was to have memory of its own: the dense part of another's that it turned out to be.
  std::vector<std::optional<View>> held;
  std::vector<bool> copied; // per value: an output is copied from its memory at the end
  std::shared_ptr<codegen::Compiler> code;

private:
  Result<void> analyse();
  Result<void> claim();
  Result<void> addGroups(std::vector<bool> taken, const std::vector<bool> &materialise, std::vector<Unit> &into);
  std::vector<bool> bindTimeNodes(std::vector<bool> &needed);
  void chooseMaterialised(std::vector<bool> &materialise);
  void dropDead(std::vector<bool> &skip, const std::vector<bool> &materialise) const;
  void assignOutputs();
  int64_t sampleBytes(uint32_t value) const;

  std::vector<SymbolRange> ranges;
  std::vector<std::vector<Dim>> extentsOf;
  std::vector<std::vector<uint32_t>> users;     // per value: nodes, once for each use as an operand
  std::vector<std::vector<uint32_t>> outputsOf; // per value: positions among the outputs
  std::vector<bool> constant, taken;
  std::vector<std::optional<View>> roots, views;
};

// kernels/: each claims its nodes, before groups are made.
Result<void> claimMergedProducts(Scheduler &scheduler); // before the others: decides how they read
Result<void> claimProducts(Scheduler &scheduler);
Result<void> claimConvolutions(Scheduler &scheduler);
Result<void> claimPools(Scheduler &scheduler);
Result<void> claimUpdates(Scheduler &scheduler);
Result<void> claimRandom(Scheduler &scheduler);
Result<void> claimSorts(Scheduler &scheduler);
bool hasOrder(int32_t dtype); // elements that claimSorts can order

// codegen.cpp: machine code for the generated groups; the target of this machine.
Result<void> compileGroups(Scheduler &scheduler);
const codegen::Target &target();

} // namespace mortise::cpu
