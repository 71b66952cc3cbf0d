// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scheduled plan to structured MLIR (scf, arith, math, and LLVM for memory). Values are computed on demand, each in
// the outermost scope in which it is known. `Emitter` has what all machines share; CpuKernel (cpu.hpp) and SimtKernel
// (simt.hpp) make the function, its loops and what combines lanes or threads.
#pragma once

#include "emit/code.hpp"
#include "schedule/schedule.hpp"

namespace mortise::codegen {

class Emitter {
public:
  static std::optional<int> costOf(Op op); // elementwiseCost()

protected:
  Emitter(LoopPlan &plan, const Schedule &schedule, mlir::ModuleOp module, mlir::OpBuilder &builder,
          const Instructions &instructions);
  virtual ~Emitter() = default;

  // The value of a symbol of the graph, an i64. Called at the function's outermost scope.
  virtual Value symbol(uint32_t number) = 0;
  struct Bounds {
    Value low, high, step;
  };
  virtual Bounds boundsOf(const ScheduledLoop &loop) = 0; // of a loop inside a task
  // A value that an earlier pass has kept where no output keeps it; null where it is computed again.
  virtual Value readKept(const Cached &entry) = 0;
  // The element, or elements, of an input at this address.
  virtual Value read(const Expr &input, IndexId address, GuardId guard);
  // The alignment in bytes that a load or store of all lanes at this address can count on.
  virtual unsigned alignmentOf(int32_t dtype, IndexId address) = 0;
  // Whether the index is a multiple of `divisor` at the first lane of every vector.
  virtual bool startsAtMultiples(IndexId, int64_t /*divisor*/) const { return false; }

  // An index over the lanes: scalar + step * lane, or a vector.
  struct Lanes {
    Value scalar;
    Dim step = 0;
    Value vector;
  };
  struct Scope {
    uint64_t loops = 0; // loop counters known in this scope, as a bit set
    // The op that opens the inner scope; null where the inner scope stands in the same block.
    mlir::Operation *next = nullptr;
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
  Value randomBits(const Expr &expr, TupleId at, GuardId guard); // random.cpp
  // As it is in memory.
  Value loadRaw(Value base, int32_t dtype, IndexId address, GuardId guard, bool invariant,
                llvm::SmallVectorImpl<mlir::LLVM::LoadOp> *made = nullptr);
  Value load(Value base, int32_t dtype, IndexId address, GuardId guard, bool invariant) {
    return c.fromMemory(loadRaw(base, dtype, address, guard, invariant), dtype);
  }
  Value readRaw(uint32_t slot, int32_t dtype, IndexId address, GuardId guard);
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
  Value combineUpdates(UpdateMode mode, Value old, Value update, int32_t dtype);

  // running.cpp: what is carried from element to element of a running op, several values one behind the other.
  Carried startOf(const Expr &running); // behind no element; of `lanes` elements
  Carried elementOf(const Expr &running, TupleId at);
  Carried combineRuns(const Expr &running, Carried x, Carried y); // y has the later elements
  Value resultOf(const Expr &running, const Carried &run);
  // Takes the element at hand. Returns what there is up to it, and changes `run` to what the next step begins with.
  virtual Carried advance(const Expr &running, Carried &run, Carried element);
  void setRuns(const Carried &carried);
  Carried takeRuns();

  // reduce.cpp
  Carried initial(const Reduction &reduction, bool vector);
  Carried first(const Reduction &reduction);                   // the element at hand
  Carried accumulate(const Reduction &reduction, Carried sum); // and what has been combined before it
  Carried combine(const Expr &expr, Carried x, Carried y, bool isBehind = false); // y has the larger index, if any
  Carried across(const Expr &expr, Carried x);                                    // the lanes
  Value neutral(const Expr &expr, mlir::Type type);

  // A loop with its own scope, which knows the counters `members`.
  Carried loop(Value low, Value high, Value step, mlir::ValueRange inits, uint64_t members,
               llvm::function_ref<Carried(Value, mlir::ValueRange)> body);
  Carried loop(Value low, Value high, int64_t step, mlir::ValueRange inits, uint64_t members,
               llvm::function_ref<Carried(Value, mlir::ValueRange)> body) {
    return loop(low, high, c.i64(step), inits, members, body);
  }
  // Replaces the state by `step` of it while `condition` of it holds; both have scopes of their own.
  Carried loopWhile(Carried state, llvm::function_ref<Value(mlir::ValueRange)> condition,
                    llvm::function_ref<Carried(mlir::ValueRange)> step);
  // What runs if `condition` holds, in a scope of its own. Makes no values.
  void onlyIf(Value condition, llvm::function_ref<void()> body);
  void setCounter(const Loop &loop, Value counter) { counters[loop.number] = counter; }
  Dim laneExtent() const { return schedule.loops.empty() ? Dim(1) : schedule.loops.back().extent; }
  size_t inputCount() const;
  // Runs the body for the steps of a loop inside a task.
  virtual void steps(const ScheduledLoop &level, Carried &carried, llvm::function_ref<void(Carried &)> body);
  // Runs the loops inside a task, from number `from` on, but not the lane loop.
  void serial(size_t from, Carried &carried, llvm::function_ref<void(Carried &)> body);
  // Copies the operand's row, then updates it. Of consecutive positions: makes one update, and copies its share of the
  // elements that have none.
  void putRow();
  // Stores what the pass computes for each element. `carried`: the running sums so far, which it brings up to date.
  void storeElements(int pass, Carried &carried);
  bool storesElements(int pass) const;
  Carried startRuns();
  void storeRows(); // stores the values that a row has one of
  // Function::over. `rows`: a task runs the passes over a row one after the other, so that the last one may write over
  // what all have read.
  std::vector<std::vector<uint32_t>> writableInputs(bool rows);

  LoopPlan &plan;
  const Schedule &schedule;
  mlir::ModuleOp module;
  mlir::OpBuilder &b;
  Code c;
  std::vector<Scope> scopes;
  size_t rowScope = 0;
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
  std::map<Dim, Value> extents;
  std::map<std::pair<Dim, const void *>, Value> repeatedExtents, extentSteps, inverses;
  Value tailMask;                                        // lanes that exist, when the row is shorter than a vector
  Value uncountedLanes;                                  // lanes not yet counted, when the last vector overlaps its
                                                         // neighbour
  std::map<std::pair<ExprId, TupleId>, Carried> running; // what running ops carry to the element at hand, and from it
  std::map<std::pair<ExprId, TupleId>, Carried> reached; // what they come to at it
  int currentPass = 0;
  bool inputsStay = true;       // as they are from the kernel's beginning on
  std::string tables = "table"; // how the names of constants in memory begin
};

} // namespace mortise::codegen
