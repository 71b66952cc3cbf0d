// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A group as an iteration space: its loops, the passes over a row, and the values kept between passes. Works on
// symbolic indices only, and knows no machine. `fuse` makes plans to find out whether nodes can share a group.
#pragma once

#include "graph/expr.hpp"
#include "graph/index.hpp"

#include <optional>
#include <set>

namespace mortise::codegen {

// One read of an operand: its indices, and the condition under which they are inside the operand.
struct Access {
  ExprId expr;
  TupleId at;
  GuardId guard;
};

struct Loop {
  Dim extent = 1;
  bool reduced = false; // over what the group's reductions combine
  uint32_t number = 0;  // the member whose counter the merged loop drives; those of the other members stay 0
  uint64_t members = 0;
};

struct Reduction {
  ExprId expr;
  TupleId at, operandAt;
  int level = 0; // computed in pass level - 1
};

struct Root {
  ExprId expr;
  TupleId at;
  bool row = false; // one element per row
  int pass = 0;     // the pass that stores it
  IndexId address = 0;
};

// A value of pass `pass` that later ones need again, and that costs more to compute than to keep.
struct Cached {
  ExprId expr;
  TupleId at;
  int pass = 0;
  int root = -1; // >= 0: it is kept in this output; else where the schedule says
};

// What several passes read of each row in an input, one element after the other.
struct Reread {
  uint32_t slot;
  int32_t dtype;
  IndexId address;
};

// A sum of products of two factors, one of which depends on loops that the other does not: results share what they
// read. Sets of loops are those of members.
struct Product {
  ExprId lhs = 0, rhs = 0;
  uint64_t rows = 0, columns = 0; // kept loops on which only lhs depends, and only rhs, which has the innermost one
  // Whether a step of the innermost reduced loop goes to the next element in memory.
  bool lhsAlongSum = false, rhsAlongSum = false;
};

// What one run moves and computes.
struct Traffic {
  Dim bytes, flops;
};

class LoopPlan {
public:
  explicit LoopPlan(Dag graph) : dag(std::move(graph)), space({dag.symbols}) {}
  // Errors: MORTISE_UNSUPPORTED when the roots do not fit one loop nest.
  static Result<std::unique_ptr<LoopPlan>> make(Dag dag, const FuseTarget &target);

  std::vector<Access> accesses(ExprId expr, TupleId at, GuardId guard);
  TupleId identity() const { return identityTuple; }
  // The reduction that computes `expr` at `at`; -1 when it is not registered.
  int reduction(ExprId expr, TupleId at) const;
  const Cached *cached(ExprId expr, TupleId at) const;
  // Whether the innermost loop is one over what reductions combine.
  bool reducesInnermost() const { return !loops.empty() && loops.back().reduced; }
  Dim coefficient(IndexId index, uint32_t loop) const; // of the loop's counter in the index
  bool dependsOnRow(TupleId at, GuardId guard) const { return space.loops(at, guard) & reducedMask; }
  double typical(const Dim &dim) const { return space.facts.typical(dim); }
  Traffic traffic() const;
  Dim extentOf(uint64_t members) const; // of the loops that have some of these members, together
  // Whether the results of a product share what they read in tiles. With few rows or columns, it is one factor that is
  // read, once, and threads share the sums.
  bool suitsTiles() const;
  static constexpr int64_t mostTogether = 4; // results that share one factor without a tile
  bool isUpdate() const { return codegen::isUpdate(dag.exprs[dag.roots[0]].op); }
  bool isPut() const { return isUpdate() && !sortsUpdates; }
  bool isScatter() const { return isUpdate() && sortsUpdates; }
  bool isSort() const { return codegen::isSort(dag.exprs[dag.roots[0]].op); }

  Dag dag;
  IndexSpace space;
  std::vector<Dim> dims; // of the iteration space
  std::vector<bool> reduced;
  uint64_t reducedMask = 0;
  IndexId rowIndex = 0; // linear position within a row
  Dim rowLength = 1;
  std::vector<Loop> loops; // merged, outermost first
  std::vector<Reduction> reductions;
  std::vector<Root> roots;
  std::vector<Cached> cache;
  std::set<IndexId> loads; // the addresses of inputs
  std::vector<Reread> rereads;
  int passes = 1;
  // Where all reductions are sums of products over the same rows and columns, or, of one row, sums that do not know the
  // columns: the first product.
  std::optional<Product> product;
  bool sumsBeside = false; // product: there are such other sums
  bool scan = false;
  std::vector<std::pair<ExprId, TupleId>> runs; // running sums, operands first
  double costPerPoint = 0;
  // put: whether its positions are consecutive numbers, so that each update has an element of its own and all of them
  // may happen at once; else those of a row happen in order.
  bool isPutConsecutive = false;
  TupleId putFirstAt = 0; // of the first position
  IndexId putAddress = 0; // of an update's element
  TupleId putCopyAt = 0;
  IndexId putCopyAddress = 0;
  Dim putExtent = 0;
  // Whether updates are sorted by the elements that they go to, so that each of these has those that are its own, in
  // their order. The updates are then the loops over a row, and an update's elements those that are kept.
  bool sortsUpdates = false;
  IndexId scatterColumn = 0;  // of an update's element, behind its place
  TupleId scatterPlaceAt = 0; // of an update's place
  TupleId scatterCopyAt = 0;  // of the result's element that is copied
  std::vector<Loop> scatterCopyLoops;
  Dim putCount() const { return dag.exprs[dag.exprs[dag.roots[0]].operands[1]].dims[0]; } // of updates in a row
  // sort, top_k: the loops are those of the operand; the roots are written at the counters of kept loops, and the place
  // in the order as that of the row.
  Dim rows() const; // the product of the loops that are kept
  // What is sorted: rows, or the updates of a scatter; and how many elements of a row are wanted.
  Dim sortedRows() const { return isScatter() ? Dim(1) : rows(); }
  Dim sortedCount() const {
    const Expr &root = dag.exprs[dag.roots[0]];
    return isScatter() ? rowLength : root.dims[root.axes[0]];
  }

private:
  using Key = std::pair<ExprId, std::pair<TupleId, GuardId>>;
  struct Reads {        // of one value, up to the results of reductions
    uint64_t loops = 0; // that it depends on
    std::set<IndexId> addresses;
    std::map<std::pair<uint32_t, IndexId>, int32_t> unguarded; // by slot and address: element types
    std::set<Key> met;
  };

  Result<void> chooseSpace(const FuseTarget &target);
  void chooseUpdates(const FuseTarget &target);
  std::vector<Dim> apart(std::vector<Dim> shape, const std::vector<bool> &live, unsigned worthwhile) const;
  std::vector<IndexId> positionsIn(const Expr &root);
  Result<void> placeRoots();
  Result<void> placePut();
  Result<void> placeSort();
  Result<void> placeScatter();
  // Whether the elements of a one-dimensional expression are all equal (0), or each one more than the one before (1).
  std::optional<int> slope(ExprId expr) const;
  bool findConsecutive(const Expr &put) const;
  // Registers the reductions that the expression depends on. Returns its level (the first pass that can compute
  // it), or -1 and sets `failure`.
  int level(ExprId expr, TupleId at, GuardId guard);
  int reductionLevel(ExprId expr, TupleId at, GuardId guard);
  void walkPasses();
  double visit(ExprId expr, TupleId at, GuardId guard, int pass);
  std::vector<AtomId> atomsOf(IndexId index) const; // a copy, because visiting interns new indices
  void use(IndexId index);
  void useTuple(TupleId at);
  void useGuard(GuardId guard);
  std::vector<uint32_t> order() const;
  void merge();
  void collectReads(ExprId expr, TupleId at, GuardId guard, Reads &reads);
  void findRereads();
  std::optional<Product> productOf(const Reduction &sum);
  void findProduct();

  TupleId identityTuple = 0;
  std::vector<IndexId> counters;
  std::map<Key, int> levels;
  std::map<std::pair<ExprId, TupleId>, int> reductionIds;
  std::map<Key, std::pair<int, double>> visited; // first pass, cost of the subtree
  std::set<Key> visitedNow;
  std::set<IndexId> used;
  std::string failure;
};

} // namespace mortise::codegen
