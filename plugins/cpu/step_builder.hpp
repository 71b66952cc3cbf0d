// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What kernels/ and step_builder.cpp share while makeSchedule() turns units into steps. One use, one thread.
#pragma once

#include "schedule.hpp"

namespace mortise::cpu {

// Where a value's elements are.
struct Memory {
  BufferId dense = none;     // laid out as Units::roots says
  int64_t offset = 0;        // bytes, of `dense`
  BufferId blocked = none;   // in the library's own layout
  dnnl::memory::desc layout; // of `blocked`
};

class StepBuilder {
public:
  StepBuilder(const Units &units, Values values);
  Result<Schedule> build();

  const Units &units;
  const MortiseGraph &graph;
  const Values values; // of the symbols

  // ---- Questions about the graph, in numbers
  const MortiseValue &value(uint32_t index) const { return *graph.values[index]; }
  const MortiseType &type(uint32_t index) const { return *graph.values[index]->type; }
  std::span<const int64_t> extents(uint32_t value);
  int64_t elements(uint32_t value) { return elementCount(extents(value)); }
  size_t bytes(uint32_t value) { return (static_cast<size_t>(elements(value)) * dtypeBits(type(value).dtype) + 7) / 8; }
  std::string typeText(uint32_t value); // "f32[2, 16]"
  const FixedView &viewOf(uint32_t value);
  FixedView rootOf(uint32_t value); // in its own memory
  // The view is of all elements of its value, each where the value has it.
  bool isWhole(const FixedView &view);
  bool isConstant(uint32_t value) const { return units.constant[value]; }

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
  // `count` elements of f32 from 16 bits, or the other way round.
  void addConversion(const char *what, dnnl::memory::data_type from, Operand source, dnnl::memory::data_type to,
                     Operand target, int64_t count);
  void addCopy(std::string name, Operand source, Operand target, size_t bytes);
  bool binding = false; // steps made now run once, at bind time
  // By a unit that comes after this one.
  bool readLater(uint32_t value, const Unit &unit) const {
    return binding ? units.lastRead[value] >= 0 : units.lastRead[value] > unit.order;
  }
  // Nobody reads the value's memory after `unit`, and it is in the workspace.
  bool diesAt(uint32_t value, const Unit &unit) const;
  // `result` has the size of all that is in the memory of `view`, and no memory elsewhere: it may be written there.
  bool mayTake(const FixedView &view, uint32_t result) {
    return isDense(view) && elements(view.base) == elements(result) && !hasOutputMemory(result);
  }
  bool hasOutputMemory(uint32_t value) const {
    return units.outputHome[value] != none;
  } // written to an output directly
  // Others than the library want the value as it is laid out: in an output, or channels last.
  bool isWantedDense(uint32_t value) const { return hasOutputMemory(value) || units.roots[value]; }

  Schedule schedule;

private:
  Result<void> checkExtents();
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
  std::vector<std::optional<std::vector<int64_t>>> extentsOf; // of values whose type is not static
  std::vector<std::optional<FixedView>> views;
  uint32_t unitNumber = 0; // of the unit under way, over bindTime and then runTime; steps remember it
};

// The steps of one unit, by what it is; kernels/ has one for each, but for Generated.
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Product &product);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const MergedProduct &merged);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const QuantizedLinear &linear);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Convolution &convolution);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Pool &pool);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Update &update);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Scatter &scatter);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const RandomBits &bits);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Sort &sort);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Attention &attention);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const AttentionGradient &gradient);
Result<void> addSteps(StepBuilder &builder, const Unit &unit, const Generated &generated);

} // namespace mortise::cpu
