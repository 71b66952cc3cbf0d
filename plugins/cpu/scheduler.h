// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a graph into a schedule. Library products, convolutions, pools and updates in place claim their nodes first,
// with what they can fuse (kernels/*.cpp); what depends on constants only moves to bind time; generated groups compute
// the rest. One use, one thread.
#pragma once

#include "schedule.h"

namespace mortise::cpu {

// Something that becomes one or several steps, and what it needs first.
struct Unit {
  std::vector<uint32_t> nodes;         // ascending
  std::vector<uint32_t> reads, writes; // values that have memory
  std::function<Result<void>(const Unit &)> emit;
  bool late = false;  // an update in place: after every other reader of what it overwrites
  int32_t order = -1; // position once sorted
};

// Where a value's elements are.
struct Memory {
  BufferId dense = none;     // laid out as rootOf() says
  int64_t offset = 0;        // bytes, of `dense`
  BufferId blocked = none;   // in the library's own layout
  dnnl::memory::desc layout; // of `blocked`
};

class Scheduler {
public:
  Scheduler(const MortiseGraph &graph, const Options &options);
  Result<Schedule> run();

  const MortiseGraph &graph;
  const Options &options;

  // ---- Questions about the graph
  const MortiseValue &value(uint32_t index) const { return *graph.values[index]; }
  const MortiseType &type(uint32_t index) const { return *graph.values[index]->type; }
  bool isOutput(uint32_t value) const { return !outputsOf[value].empty(); }
  // The node that uses a value, when that is its one use and it is not an output of the region.
  const MortiseNode *soleUser(uint32_t value) const;
  bool isConstant(uint32_t value) const { return constant[value]; } // depends on constants and literals only
  // A value as a view of one that has memory.
  const View &viewOf(uint32_t value);
  // Extents and strides in the value's own memory; dense unless setRoot said otherwise.
  View rootOf(uint32_t value) const;
  void setRoot(uint32_t value, View view) { roots[value] = std::move(view); }
  // The one element of a literal that is the same everywhere.
  std::optional<double> splat(uint32_t value);

  bool isTaken(const MortiseNode &node) const { return taken[node.index]; }
  void take(const MortiseNode &node) { taken[node.index] = true; }
  void addUnit(Unit unit) { units.push_back(std::move(unit)); }

  // ---- While steps are made
  // Dense memory of a value, made from the library's layout if that is all there is. `offset` in elements.
  Operand read(uint32_t value, int64_t offset = 0);
  Operand write(uint32_t value); // allocates
  Memory &memoryOf(uint32_t value) { return memory[value]; }
  BufferId allocate(size_t bytes); // in the workspace, or kept while binding
  BufferId keep(size_t bytes);
  Step &addStep(Step step); // to the calls' steps, or to binding
  Step &addLibraryStep(std::string name, const char *lowering, dnnl::primitive_desc_base description,
                       std::vector<int> arguments, std::vector<dnnl::memory::desc> layouts,
                       std::vector<Operand> operands);
  void reorder(const char *what, const dnnl::memory::desc &from, Operand source, const dnnl::memory::desc &to,
               Operand target);
  void addCopy(std::string name, Operand source, Operand target, size_t bytes);
  bool binding = false;                                   // steps made now run once, at bind time
  bool readLater(uint32_t value, const Unit &unit) const; // by a unit not yet emitted, `unit` aside
  bool copiedAtEnd(uint32_t value);                       // an output is copied from its memory after the last unit
  // Nobody reads the value's memory after `unit`, and it is in the workspace.
  bool diesAt(uint32_t value, const Unit &unit);
  bool hasOutputMemory(uint32_t value) const {
    return outputHome[value] != none;
  } // it is written to an output directly
  bool overwrites(uint32_t result,
                  uint32_t input) const; // the region says that `result` is written to `input`'s memory

  Schedule schedule;

private:
  void analyse();
  Result<void> claim();
  Result<void> addGroups(std::vector<bool> taken, const std::vector<bool> &materialise, std::vector<Unit> &into);
  std::vector<bool> bindTimeNodes(std::vector<bool> &needed);
  Result<void> emitAll(std::vector<Unit> &list);
  void assignOutputs();
  void copyOutputs();
  BufferId inputBuffer(uint32_t value);
  BufferId literalBuffer(const MortiseNode &node);

  std::vector<std::vector<uint32_t>> users;     // per value: nodes, once for each use as an operand
  std::vector<std::vector<uint32_t>> outputsOf; // per value: positions among the outputs
  std::vector<bool> constant, taken;
  std::vector<std::optional<View>> roots, views;
  std::vector<Unit> units, bindUnits;
  std::vector<Memory> memory;
  std::vector<uint32_t> outputHome;                  // per value: the output whose memory it is written to, or none
  std::vector<std::pair<uint32_t, uint32_t>> copies; // output position, value
  std::vector<codegen::Group> groups;                // all generated ones
  std::vector<std::pair<bool, size_t>> groupSteps;   // where each one's step is: binding?, index
  friend Result<void> compileGroups(Scheduler &scheduler);
};

// kernels/: each claims its nodes, before groups are made.
Result<void> claimMergedProducts(Scheduler &scheduler); // before the others: decides how they read
Result<void> claimProducts(Scheduler &scheduler);
Result<void> claimConvolutions(Scheduler &scheduler);
Result<void> claimPools(Scheduler &scheduler);
Result<void> claimUpdates(Scheduler &scheduler);

// codegen.cpp: machine code for the generated steps; the target of this machine.
Result<void> compileGroups(Scheduler &scheduler);
const codegen::Target &target();

// Loops of our own, for what the library lacks (f64, integers, empty sums). kernels/loops.cpp
struct ProductLoop {
  int32_t dtype = 0;
  std::vector<Axis> batch, m, n, k;
  bool empty = false; // no terms: the sum is 0
};
std::function<void(void *const *)> productLoop(ProductLoop loop); // operands: a, b, c

} // namespace mortise::cpu
