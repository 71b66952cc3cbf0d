// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan as a function of a CPU, Function::Entry (codegen.hpp): tasks, vectors of lanes, passes over rows.
#pragma once

#include "emit/emitter.hpp"

namespace mortise::codegen {

struct EmittedCpuKernel {
  Dim tasks = 1, grain = 1;
  std::vector<std::vector<uint32_t>> over; // Function::over
};

class CpuKernel : Emitter {
public:
  CpuKernel(LoopPlan &plan, const CpuSchedule &schedule, mlir::ModuleOp module, mlir::OpBuilder &builder,
            const Instructions &instructions)
      : Emitter(plan, schedule, module, builder, instructions), cpuSchedule(schedule) {}
  EmittedCpuKernel emit(llvm::StringRef name);

private:
  Value symbol(uint32_t number) override;
  Bounds boundsOf(const ScheduledLoop &loop) override;
  Value readKept(const Cached &entry) override;
  unsigned alignmentOf(int32_t dtype, IndexId) override { return dtypeBits(dtype) / 8; }

  uint64_t chooseTasks(EmittedCpuKernel &kernel);
  llvm::SmallVector<const ScheduledLoop *> taskLoops() const;
  void runTasks(Value begin, Value end, uint64_t members);
  void task(llvm::ArrayRef<Value> digits);
  void row();
  void laneLoop(Value low, Value high, llvm::function_ref<void()> body);
  Value wholeVectors(Value low, Value high, int64_t copies);
  void enterLanes(Value start);
  void enterTail(Value start, Value high);
  void storePass(int number);
  void reducePass(llvm::ArrayRef<const Reduction *> all, int pass);
  void keep(int pass);
  Value keptPlace(const Cached &entry);

  const CpuSchedule &cpuSchedule;
  bool shortRows = false; // rows of fewer than manyVectors vectors
  static constexpr int64_t manyVectors = 8;
  Value scratch, symbols;
  Value blockStart;  // the start of the block, for the one loop that runs by blocks
  int64_t chunk = 1; // steps of the lane loop per task, when tasks share it
  Dim chunks = 1;
};

} // namespace mortise::codegen
