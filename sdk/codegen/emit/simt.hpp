// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan as a kernel of a GPU: one-dimensional blocks of threads, teams that combine what they reduce.
#pragma once

#include "emit/emitter.hpp"
#include "schedule/simt.hpp"

namespace mortise::codegen {

// What differs between the instruction sets of GPUs. Numbers of threads and blocks are i32.
class SimtMachine {
public:
  virtual ~SimtMachine() = default;
  // `resident`: SimtSchedule::resident. `cluster`: blocks that run at once; a grid is a multiple of them.
  virtual void makeKernel(mlir::LLVM::LLVMFuncOp function, unsigned threads, unsigned resident,
                          unsigned cluster) const = 0;
  virtual Value thread(Code &c) const = 0; // its number in the block
  virtual Value block(Code &c) const = 0;
  virtual void barrier(Code &c) const = 0; // of the block; orders shared memory
  // The i32 of the thread whose number in the subgroup differs by the bit `mask`. All threads of the subgroup call it.
  virtual Value exchange(Code &c, Value bits, unsigned mask) const = 0;
  // Whether the condition holds in some thread of the subgroup.
  virtual Value any(Code &c, Value condition) const {
    Value bits = c.resizeInt(condition, c.b.getI32Type(), false);
    for (unsigned mask = 1; mask < subgroup(); mask *= 2)
      bits = c.orI(bits, exchange(c, bits, mask));
    return c.compareI(mlir::arith::CmpIPredicate::ne, bits, c.integer(c.b.getI32Type(), 0));
  }
  virtual unsigned sharedSpace() const = 0; // LLVM's number of the address space of a block's memory
  // An array in the block's memory, with 16-byte alignment. Of 0 elements: what the launch asks for.
  virtual Value sharedArray(Code &c, mlir::ModuleOp module, const std::string &name, Type type, size_t count) const;
  // Of a kernel with clusters: the same array in the memory of the block with this number (i32) in the cluster, and a
  // barrier of all threads of the cluster, which orders the memory of its blocks. No block may end before the others
  // have read its memory. Only up to SimtTarget::cluster.
  virtual Value ofBlock(Code &, Value /*array*/, Value /*number*/) const {
    llvm_unreachable("a machine without clusters");
  }
  virtual void clusterBarrier(Code &) const { llvm_unreachable("a machine without clusters"); }
  virtual unsigned subgroup() const = 0;
  // Whether a launch has to ask for the memory of rows (SimtLaunch::sharedBytes), since code declares less than a block
  // may have.
  virtual bool launchesRows() const { return false; }
  // Whether a kernel may begin while the one before it ends: releaseNext lets the next one begin, and awaitKernels ends
  // when all before this one have ended.
  virtual bool overlapsKernels() const { return false; }
  virtual void releaseNext(Code &) const { llvm_unreachable("a machine whose kernels do not overlap"); }
  virtual void awaitKernels(Code &) const { llvm_unreachable("a machine whose kernels do not overlap"); }
  // Has 16 bytes copied into the block's memory, both addresses multiples of 16, while the thread goes on; awaitCopies
  // ends when all that the thread has asked for are done. Only where copiesAside.
  virtual bool copiesAside() const { return false; }
  virtual void copyAside(Code &, Value /*to*/, Value /*from*/) const { llvm_unreachable("a machine without copies"); }
  virtual void awaitCopies(Code &) const { llvm_unreachable("a machine without copies"); }
  // sums + lhs rhs, for matrices of f16 or bf16, and sums of f32, that the threads of a subgroup hold together as
  // SimtTarget::matrices says. Sums are what this thread has of them; lhs and rhs are what readFactors gives, or parts
  // of that where it is for several products. Those of mmaLayout are words (i32) with two numbers side by side along
  // the terms, the first one in the low half: 4 of lhs, 2 of rhs (tiles/attention_kernel.hpp says who has what). All
  // threads of the subgroup call it. Only where SimtTarget::matrices.
  virtual llvm::SmallVector<Value> multiply(Code &, int32_t /*dtype*/, llvm::ArrayRef<Value> /*lhs*/,
                                            llvm::ArrayRef<Value> /*rhs*/, llvm::ArrayRef<Value> /*sums*/) const {
    llvm_unreachable("a machine without matrices");
  }
  // Factors in the block's memory, where a line's terms lie side by side.
  struct Factors {
    // This thread's piece, a multiple of twice as many bytes as MatrixLayout::Edge::piece (of 16 where that is 0); the
    // matrix's first number where MatrixLayout::isOpaque.
    Value first;
    bool areRows;    // lhs, else rhs
    int32_t dtype;   // f16 or bf16
    unsigned stride; // numbers from line to line
  };
  // What `multiply` takes of them. All threads of the subgroup call it. Only where SimtTarget::matrices.
  virtual llvm::SmallVector<Value> readFactors(Code &, const Factors &) const {
    llvm_unreachable("a machine without matrices");
  }
  // Sums of f32: of zeros; of two matrices of them, number by number; and as this thread's numbers, row by row. The
  // last may go through `memory`, the subgroup's own in the block's, of so many f32 as a matrix has numbers, where
  // MatrixLayout::isOpaque. All threads of the subgroup call them. Only where SimtTarget::matrices.
  virtual llvm::SmallVector<Value> zeroSums(Code &c, const MatrixLayout &layout) const {
    return {layout.resultsPerThread(), c.constant(c.b.getF32Type(), 0)};
  }
  virtual llvm::SmallVector<Value> addSums(Code &c, llvm::ArrayRef<Value> x, llvm::ArrayRef<Value> y) const {
    llvm::SmallVector<Value> sums;
    for (const auto &[left, right] : llvm::zip_equal(x, y))
      sums.push_back(c.add(left, right));
    return sums;
  }
  virtual llvm::SmallVector<Value> numbersOf(Code &, llvm::ArrayRef<Value> sums, Value /*memory*/) const {
    return llvm::SmallVector<Value>(sums);
  }
  // Four matrices of 8 x 8 numbers of 16 bits in the block's memory, as words of what `multiply` takes: thread number
  // 4 g + t has numbers 2 t and 2 t + 1 of row g of each matrix, or, `transposed`, those of column g. Thread 8 m + r
  // says where row r of matrix m begins, a multiple of 16 bytes. All threads of the subgroup call it. Only where
  // SimtTarget::matrices is mmaLayout.
  virtual llvm::SmallVector<Value> readMatrices(Code &, Value /*row*/, bool /*transposed*/) const {
    llvm_unreachable("a machine without matrices");
  }
};

// Of a number or a vector of them.
inline unsigned bytesOf(Type type) {
  const auto vector = mlir::dyn_cast<mlir::VectorType>(type);
  return mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8 * (vector ? vector.getDimSize(0) : 1);
}

// What a kernel's body is given.
struct SimtArguments {
  std::vector<Value> inputs, outputs;
  std::vector<Value> symbols; // of Dag::usedSymbols
  Value scratch, block;       // the number of the block, among those of the body: i32
  bool awaits = false;        // the body has to wait for the kernels before it
};

struct EmittedSimtKernel {
  unsigned sharedBytes = 0;   // SimtLaunch::sharedBytes
  bool usesAlignment = false; // some access counts on addresses that are multiples of `alignment`
  bool awaits = false;        // SimtLaunch::awaits
  std::vector<std::vector<uint32_t>> over;
};

class SimtKernel : Emitter {
public:
  // Whole: all of a unit. Parts, Combine: the two kernels of SimtSchedule::parts, the second with combineSchedule.
  // Of running ops, Fold stands between them. Merge, Write, Copy, Apply: those of SimtSchedule::sort behind the first
  // one.
  enum class Role { Whole, Parts, Fold, Combine, Merge, Write, Copy, Apply };

  // `alignment`: that the addresses of all inputs and outputs have, in bytes; 1: that of their elements. `merges`: that
  // have happened, for the roles of a sort.
  SimtKernel(LoopPlan &plan, const SimtSchedule &schedule, Role role, const SimtMachine &machine, unsigned alignment,
             mlir::ModuleOp module, mlir::OpBuilder &builder, const Instructions &instructions, unsigned merges = 0)
      : Emitter(plan, schedule, module, builder, instructions), simt(schedule), role(role), machine(machine),
        alignment(alignment), merges(merges) {}
  // The arguments are the addresses of the inputs, of the outputs and, where the schedule has it, of the scratch
  // memory, then the values of Dag::usedSymbols.
  EmittedSimtKernel emit(llvm::StringRef name);
  // Only what the kernel does, at the builder's place. `name`: of what it declares.
  EmittedSimtKernel emitBody(llvm::StringRef name, SimtArguments arguments);
  bool overlaps() const { return simt.isShort && machine.overlapsKernels(); }
  Value countOfBlocks(const SimtArguments &arguments); // i32; before the body is emitted
  using Emitter::inputCount;
  const LoopPlan &loops() const { return plan; }
  const SimtSchedule &ofUnits() const { return simt; }

private:
  Value symbol(uint32_t number) override;
  Bounds boundsOf(const ScheduledLoop &loop) override;
  void steps(const ScheduledLoop &level, Carried &carried, llvm::function_ref<void(Carried &)> body) override;
  Value readKept(const Cached &entry) override;
  Value read(const Expr &input, IndexId address, GuardId guard) override;
  unsigned alignmentOf(int32_t dtype, IndexId address) override;
  bool startsAtMultiples(IndexId index, int64_t divisor) const override;

  using Ahead = std::tuple<uint32_t, IndexId, unsigned>; // the input, the address, and the first result that reads it
  struct Copy {                                          // a vector of the row that stays in registers
    Value start;                                         // its first element
    Value isInside;                                      // null where it always is
    Scope scope;                                         // what is known of it
    std::map<Ahead, Value> ahead;                        // what has been read before the kernel waited
  };
  bool isNarrow(const Dim &dim) const { return plan.space.facts.isNarrow(dim * 2); }
  struct Digit { // of a number that counts over several loops: the loop, how many there are, and how far each goes
    const ScheduledLoop *loop;
    Dim radix;
    int64_t step = 1;
  };
  void setCounters(Value number, llvm::ArrayRef<Digit> innermostFirst);
  // The quotient and the rest, i64, of a natural number that is less than `below`.
  std::pair<Value, Value> divide(Value number, const Dim &divisor, const Dim &below);
  void enterUnit(Value unit);
  void row(Value unit);
  void scanRow(Value unit);
  void scanPart(Value unit);
  Carried runsBefore(Value unit);
  void foldParts(Value unit);
  void storeTotals(const Carried &totals, Value number, Value unit);
  Carried loadTotals(Value number, Value unit);
  bool hasPart() const { return role == Role::Parts || (role == Role::Combine && plan.scan); }
  Carried advance(const Expr &running, Carried &run, Carried element) override;
  void peel();
  Copy copyOf(unsigned number);
  void fetchRow();
  void copyAside(llvm::MutableArrayRef<Copy> vectors);
  void copyThroughRegisters(llvm::MutableArrayRef<Copy> vectors);
  struct KeptRow { // an array in the block's memory (SimtSchedule::keepsRow)
    Type type;     // of its elements: vectors
    Value array;
  };
  Value rowArray(Type type, int64_t count);
  Value placeInRow(const KeptRow &row);
  static unsigned alignmentIn(const KeptRow &row);
  Value loadKept(const KeptRow &row);
  Carried firstSteps(unsigned first, unsigned count, llvm::function_ref<void(unsigned, Carried &)> step);
  void combineParts(Value unit);
  Carried neutrals(llvm::ArrayRef<const Reduction *> all, bool vectors);
  Carried combineAll(llvm::ArrayRef<const Reduction *> all, Carried x, Carried y);
  Carried acrossAll(llvm::ArrayRef<const Reduction *> all, Carried parts);
  void forResult(unsigned number, llvm::function_ref<void()> body);
  void inResult(llvm::function_ref<void()> body);
  Value partPlace(size_t value, Type type, Value part, Value unit);
  Type inScratchType(Type type);
  Value inScratch(Value value);
  Value fromScratch(Value stored, Type type);
  void forVectors(Carried &carried, llvm::function_ref<void(Carried &)> body);
  void reducePass(llvm::ArrayRef<const Reduction *> all, int pass, Value unit);
  size_t valuesOf(const Reduction &reduction) const;
  void setResult(const Reduction &reduction, const Carried &total);
  void storePass(int pass, Value unit);
  void keep(int pass);
  using Reductions = llvm::ArrayRef<const Reduction *>; // whose results lie one behind the other
  Carried combineTeam(Reductions all, Carried parts);
  Carried combineShared(Reductions all, Carried parts, unsigned count, Value mine, unsigned side, Value at);
  Carried combinePairs(Reductions all, unsigned first, unsigned count, llvm::function_ref<Carried(unsigned)> part);
  Carried ownResult(Reductions all, const Carried &totals);
  void quietNan(Reductions all, Carried &parts);
  void readAhead(ExprId expr, TupleId at, GuardId guard);
  Ahead aheadOf(uint32_t slot, IndexId address) const;
  void readWeights(Copy &copy, ExprId expr, TupleId at, GuardId guard);
  bool readsWeightsFirst() const;
  void await();
  Value exchange(Value part, unsigned mask);
  Value shared(Type type, size_t count);

  // tiles/product.cpp
  struct Axis;
  struct Edge;
  void product(Value unit);
  Axis axisOf(unsigned step, llvm::function_ref<bool(const ScheduledLoop &)> isPart) const;
  Type typeOf(const Axis &axis);
  Value enter(const Axis &axis, Value first, Value offset);
  llvm::SmallVector<std::pair<Value, Value>> share(const Edge &edge, const Axis &terms, Value first);
  Carried numbersOf(const Edge &rows, const Edge &columns, llvm::ArrayRef<Value> sums);
  llvm::SmallVector<Value> matrixAt(const Edge &edge, unsigned number, unsigned term);
  Carried addTerms(const Edge &rows, const Edge &columns, unsigned terms, mlir::ValueRange sums);
  Carried addMatrices(const Edge &rows, const Edge &columns, unsigned terms, mlir::ValueRange sums);
  void storeTile(const Edge &rows, const Edge &columns, llvm::ArrayRef<Value> sums);

  // tiles/sort.cpp
  using Words = llvm::SmallVector<Value, 2>; // SortSchedule::words
  void sort(Value block);
  void sortChunks(Value block);
  void exchangePairs(llvm::ArrayRef<Value> arrays, Value stage, Value distance);
  void mergeRuns(Value item);
  void writeSorted(Value item);
  void copyOperand(Value item);
  void applyUpdates(Value item);
  Value updateOf(const Words &words, Value column);
  Words sortedArrays();
  void enterElement(Value row, Value place, llvm::function_ref<void()> body);
  Words wordsOf(Value row, Value place, Value isInside);
  Value keyOf(Value element);
  Value isBefore(const Words &x, const Words &y);
  Value keyIn(const Words &words);
  Value positionIn(const Words &words);
  void writeElement(Value row, Value place, const Words &words);
  Value itemOf(Value block);
  Value rowLength() { return extent(plan.rowLength); }

  const SimtSchedule &simt;
  const Role role;
  const SimtMachine &machine;
  const unsigned alignment;
  const unsigned merges;
  bool usesAlignment = false;
  std::string entry;
  std::vector<Value> symbols;
  Value scratch;
  Value part;         // the number of the part: i64
  Value member, team; // the thread's number in its team, and the team's in the block: i32
  std::vector<Copy> rowCopies;
  void inCopy(Copy &copy, llvm::function_ref<void()> body);
  // Of a peeled row: where its vectors begin and end, and this thread's element outside of them.
  Value vectorsBegin, vectorsEnd;
  Copy edge;
  void onEdge(llvm::function_ref<void()> body);
  std::vector<std::pair<Reread, KeptRow>> keptReads;
  std::map<const Cached *, KeptRow> keptValues;
  bool isInCopy = false;
  Copy *copyAtHand = nullptr;
  bool awaits = false; // the kernels before this one, still
  // SimtSchedule::together: the counters of a unit's first result, the number of this thread's result (i32), and what
  // is known of it.
  std::vector<Value> firstResult;
  Value resultNumber;
  unsigned resultAtHand = 0; // of forResult
  Scope result;
  unsigned sharedBytes = 0;
  llvm::ArrayRef<const Reduction *> reducing; // of the pass at hand
  bool startsSum = false;                     // a step has nothing to add to
  Value isInRow;                              // of scanRow: whether the element at hand is
  Value active;                               // whether the vector at hand is inside the row; null where it always is
  size_t sharedArrays = 0;
};

// One kernel for several bodies: each has blocks of its own, one behind the other. They have equally many threads, no
// parts, and their rows need no memory of the block. Addresses come as of one kernel: all inputs, then all outputs.
EmittedSimtKernel emitBundle(llvm::ArrayRef<std::unique_ptr<SimtKernel>> bodies, llvm::StringRef name,
                             llvm::ArrayRef<uint32_t> symbols, const SimtMachine &machine, mlir::ModuleOp module,
                             Code &c);

} // namespace mortise::codegen
