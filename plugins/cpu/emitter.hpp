// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Makes a schedule from a Scheduler's decisions and the values of the region's symbols: steps, the library's
// descriptions, and buffers; planMemory() then says where those are. Generates no code. One use, one thread.
#pragma once

#include "scheduler.hpp"

namespace mortise::cpu {

// Where a value's elements are.
struct Memory {
  BufferId dense = none;     // laid out as the Scheduler's rootOf() says
  int64_t offset = 0;        // bytes, of `dense`
  BufferId blocked = none;   // in the library's own layout
  dnnl::memory::desc layout; // of `blocked`
};

class Emitter {
public:
  Emitter(const Scheduler &plan, Values values);
  Result<Schedule> run();

  const Scheduler &plan;
  const MortiseGraph &graph;
  const Options &options;
  const Values values;

  // ---- Questions about the graph, in numbers
  const MortiseValue &value(uint32_t index) const { return *graph.values[index]; }
  const MortiseType &type(uint32_t index) const { return *graph.values[index]->type; }
  std::span<const int64_t> extents(uint32_t value);
  int64_t elements(uint32_t value) { return elementCount(extents(value)); }
  size_t bytes(uint32_t value) { return (static_cast<size_t>(elements(value)) * dtypeBits(type(value).dtype) + 7) / 8; }
  std::string typeText(uint32_t value); // "f32[2, 16]"
  const FixedView &viewOf(uint32_t value);
  bool isConstant(uint32_t value) const { return plan.isConstant(value); }

  // ---- Memory and steps
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
  void addGroup(size_t number);
  bool binding = false; // steps made now run once, at bind time
  // By a unit not yet emitted, `unit` aside.
  bool readLater(uint32_t value, const Unit &unit) const {
    return binding ? plan.lastRead[value] >= 0 : plan.lastRead[value] > unit.order;
  }
  // Nobody reads the value's memory after `unit`, and it is in the workspace.
  bool diesAt(uint32_t value, const Unit &unit) const;
  bool hasOutputMemory(uint32_t value) const { return plan.outputHome[value] != none; } // written to an output directly

  Schedule schedule;

private:
  void copyOutputs();
  Result<void> checkWritten();
  Result<void> makePrimitives();
  BufferId addBuffer(Buffer buffer);
  BufferId inputBuffer(uint32_t value);
  BufferId literalBuffer(const MortiseNode &node);

  struct Reorder {
    dnnl::memory::desc from, to;
    dnnl::reorder::primitive_desc description;
  };
  std::vector<Reorder> reorders; // those made, to be used again
  std::vector<Memory> memory;
  std::vector<std::optional<std::vector<int64_t>>> extentsOf;
  std::vector<std::optional<FixedView>> views;
  uint32_t unit = 0; // under way, over bindUnits and units; steps remember it
};

} // namespace mortise::cpu
