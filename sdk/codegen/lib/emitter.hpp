// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Turns a plan into one function of scf, arith, math and llvm memory ops. Values are computed on demand and memoised in
// the outermost scope (function, task, row, lane loop) in which everything they depend on is known.
#pragma once

#include "code.hpp"
#include "plan.hpp"

#include <functional>

namespace mortise::codegen {

struct EmittedKernel {
  Dim tasks = 1, grain = 1;
  std::vector<std::vector<uint32_t>> over; // Function::over
};

class Emitter {
public:
  Emitter(LoopPlan &plan, mlir::ModuleOp module, mlir::OpBuilder &builder, const Instructions &instructions);
  EmittedKernel emit(llvm::StringRef name);
  static std::optional<int> costOf(Op op); // elementwiseCost()

private:
  // An index over the lanes: scalar + step * lane, or a vector.
  struct Lanes {
    Value scalar;
    Dim step = 0;
    Value vector;
  };
  struct Scope {
    uint64_t loops = 0;              // loop counters known in this scope, as a bit set
    mlir::Operation *next = nullptr; // the op that opens the inner scope
    std::map<std::pair<ExprId, std::pair<TupleId, GuardId>>, Value> values, splats;
    std::map<std::pair<IndexId, GuardId>, Value> indices;
    std::map<std::pair<IndexId, bool>, Value> vectors;
    std::map<GuardId, Value> masks;
  };
  using Carried = llvm::SmallVector<Value>;

  // evaluate.cpp
  Value value(ExprId expr, TupleId at, GuardId guard);
  Value compute(ExprId expr, TupleId at, GuardId guard);
  void repeatScalars(const Expr &expr, TupleId at, GuardId guard, llvm::SmallVectorImpl<Value> &operands);
  size_t scopeOf(ExprId expr, TupleId at, GuardId guard);
  Value choose(ExprId expr, TupleId at, GuardId guard);
  Value constantValue(const Expr &expr, TupleId at, GuardId guard);
  Value load(Value base, int32_t dtype, IndexId address, GuardId guard, bool invariant,
             llvm::SmallVectorImpl<mlir::LLVM::LoadOp> *made = nullptr);
  void store(Value value, Value base, int32_t dtype, IndexId address, Value mask);
  Value scalarIndex(IndexId index, GuardId guard = 0);
  Value scalarAtom(AtomId atom, GuardId guard);
  Lanes laneIndex(IndexId index, GuardId guard);
  Value laneVector(IndexId index, GuardId guard, bool narrow);
  Value laneAtom(AtomId atom, GuardId guard, bool narrow);
  Value wrapIndex(Value raw, const Dim &extent);
  Value condition(const Condition &condition, GuardId outer);
  Value mask(GuardId guard, bool lanes);
  bool varies(uint64_t loops) const { return loops & laneMask; }
  size_t scopeFor(uint64_t loops, bool reductions) const;
  Value within(size_t scope, llvm::function_ref<Value()> make);
  Value pointer(Value base, mlir::Type element, Value index);

  // extents.cpp
  Value extent(const Dim &dim); // an i64 in the function's outermost scope
  Value positive(const Dim &dim);
  Value extentLike(Value shape, const Dim &dim);
  Value repeatedExtent(const Dim &dim, Type element);
  Value stepsOf(Type element, const Dim &step);
  Value laneQuotient(Value argument, const Dim &divisor);
  Value combineExtents(int32_t op, const Dim &left, Value x, const Dim &right, Value y);

  // elementwise.cpp
  struct Element;
  struct Rule;
  struct Rules;
  Value elementwise(const Expr &expr, llvm::ArrayRef<Value> x);
  Value convert(Value x, int32_t from, int32_t to);
  Value oddAbove53(Value x);
  Value floatToInt(Value x, int32_t to);
  Value intDivide(Value x, Value y, int32_t dtype, bool remainder);
  Value maximum(Value x, Value y, int32_t dtype, bool largest);
  Value shift(Value x, Value y, int32_t dtype, bool left);
  Value compare(Direction direction, Value x, Value y, int32_t dtype);

  // kernel.cpp
  Carried loop(Value low, Value high, int64_t step, mlir::ValueRange inits, uint64_t members,
               llvm::function_ref<Carried(Value, mlir::ValueRange)> body);
  void serial(size_t from, Carried &carried, llvm::function_ref<void(Carried &)> body);
  void laneLoop(Value low, Value high, llvm::function_ref<void()> body);
  Value wholeVectors(Value low, Value high, int64_t copies);
  void enterTail(Value start, Value high);
  llvm::SmallVector<const Loop *> taskLoops() const;
  void runTasks(Value begin, Value end, uint64_t members);
  void task(llvm::ArrayRef<Value> digits);
  void row();
  void storePass(int number);
  void putRow();
  void keep(int pass);
  void reducePass(llvm::ArrayRef<const Reduction *> all, int pass);
  Carried initial(const Reduction &reduction, bool vector);
  Carried accumulate(const Reduction &reduction, Carried sum);
  Carried combine(const Expr &expr, Carried x, Carried y);
  Carried across(const Expr &expr, Carried x);
  Value neutral(const Expr &expr, mlir::Type type);
  Dim laneExtent() const { return plan.loops.empty() ? Dim(1) : plan.loops.back().extent; }
  uint64_t chooseTasks(EmittedKernel &kernel);
  std::vector<std::vector<uint32_t>> writableInputs();
  void setCounter(const Loop &loop, Value counter);
  void enterLanes(Value start);

  LoopPlan &plan;
  mlir::ModuleOp module;
  mlir::OpBuilder &b;
  Code c;
  std::vector<Scope> scopes;
  size_t rowScope = 0;
  bool shortRows = false; // rows of fewer than manyVectors vectors
  static constexpr int64_t manyVectors = 8;
  uint64_t laneMask = 0;
  std::map<uint32_t, Value> counters; // by loop number
  struct Read {
    uint32_t slot;
    int32_t dtype;
    IndexId address;
    GuardId guard;
    llvm::SmallVector<mlir::LLVM::LoadOp, 1> loads; // unmasked ones, which may be marked invariant
  };
  std::vector<Read> reads;         // all reads of inputs
  bool lastVectorOverlaps = false; // and recomputes elements that its neighbour has stored
  std::vector<Value> inputs, outputs;
  Value scratch, symbols;
  Value blockStart; // the start of the block, for the one loop that runs by blocks
  std::map<Dim, Value> extents;
  std::map<std::pair<Dim, const void *>, Value> repeatedExtents, extentSteps, inverses;
  Value tailMask;                                      // lanes that exist, when the row is shorter than a vector
  Value uncountedLanes;                                // lanes not yet counted, when the last vector overlaps its
                                                       // neighbour
  std::map<std::pair<ExprId, TupleId>, Value> running; // cumulative sum or product so far
  int currentPass = 0;
  int64_t chunk = 1; // steps of the lane loop per task, when tasks share it
  Dim chunks = 1;
};

} // namespace mortise::codegen
