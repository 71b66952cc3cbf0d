// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "space/plan.hpp"

#include <algorithm>

namespace mortise::codegen {

// A value of the row that costs more than this to recompute is kept for the later passes.
static constexpr double keepAbove = 2.5;

std::vector<AtomId> LoopPlan::atomsOf(IndexId index) const {
  std::vector<AtomId> atoms;
  for (const auto &[atom, factor] : space.index(index).terms)
    atoms.push_back(atom);
  return atoms;
}

Result<std::unique_ptr<LoopPlan>> LoopPlan::make(Dag dag, const FuseTarget &target) {
  auto plan = std::make_unique<LoopPlan>(std::move(dag));
  if (auto done = plan->chooseSpace(target); !done)
    return done.error();
  if (auto done = plan->isPut()       ? plan->placePut()
                  : plan->isScatter() ? plan->placeScatter()
                  : plan->isSort()    ? plan->placeSort()
                                      : plan->placeRoots();
      !done)
    return done.error();
  plan->walkPasses();
  plan->merge();
  plan->findRereads();
  plan->findProduct();
  // What a schedule may have to keep of each row has to be an extent, too.
  const Dim kept = floorDiv(plan->rowLength * 512 + 63, 64) * static_cast<int64_t>(64 * plan->cache.size());
  bool valid = kept.isValid() && !plan->space.overflows();
  for (const Loop &loop : plan->loops)
    valid &= loop.extent.isValid();
  if (!valid)
    return Error{MORTISE_UNSUPPORTED, "the extents of a group make expressions that are too large"};
  return plan;
}

static bool refines(const std::vector<Dim> &fine, const std::vector<Dim> &coarse) {
  size_t next = 0;
  for (const Dim &dim : coarse) {
    if (next == fine.size())
      return false;
    Dim product = fine[next++];
    while (!(product == dim) && next < fine.size())
      product *= fine[next++];
    if (!(product == dim))
      return false;
  }
  return next == fine.size() && fine.size() > coarse.size();
}

// Keeps the dimensions apart that a reshape below merges, if the innermost is long enough for vectors: reads below the
// reshape then need no division and no gather.
std::vector<Dim> LoopPlan::apart(std::vector<Dim> shape, const std::vector<bool> &live, unsigned worthwhile) const {
  for (size_t i = dag.exprs.size(); i-- > 0;) {
    if (!live[i] || dag.exprs[i].op != Op::Reshape || dag.exprs[i].dims != shape)
      continue;
    const std::vector<Dim> &below = dag.exprs[dag.exprs[i].operands[0]].dims;
    if (refines(below, shape) && (below.back() == shape.back() || typical(below.back()) >= worthwhile))
      shape = below;
  }
  return shape;
}

Result<void> LoopPlan::chooseSpace(const FuseTarget &target) {
  std::vector<bool> live(dag.exprs.size());
  for (ExprId root : dag.roots)
    live[root] = true;
  ExprId anchor = ~0u;
  for (size_t i = dag.exprs.size(); i-- > 0;) {
    if (!live[i])
      continue;
    const Expr &expr = dag.exprs[i];
    for (ExprId operand : expr.operands)
      live[operand] = true;
    if (codegen::isUpdate(expr.op) && (dag.roots.size() != 1 || dag.roots[0] != i))
      return Error{MORTISE_UNSUPPORTED, "an update stands alone at the end of its group"};
    scan |= isRunning(expr.op);
    if (isReduction(expr.op) || isRunning(expr.op))
      if (anchor == ~0u || typical(elementCount(dag.exprs[expr.operands[0]].dims)) >
                               typical(elementCount(dag.exprs[dag.exprs[anchor].operands[0]].dims)))
        anchor = i;
  }
  const Expr &root = dag.exprs[dag.roots[0]];
  if (isUpdate()) {
    if (anchor != ~0u)
      return Error{MORTISE_UNSUPPORTED, "an update does not share a group with reductions"};
    dims = dag.exprs[root.operands[2]].dims;
    chooseUpdates(target);
  } else if (isSort()) {
    dims = dag.exprs[root.operands[0]].dims;
  } else {
    dims = anchor == ~0u ? apart(root.dims, live, target.lanes) : dag.exprs[dag.exprs[anchor].operands[0]].dims;
  }
  reduced.assign(dims.size(), false);
  if (root.op == Op::ScatterAlong)
    reduced.assign(dims.size(), true);
  else if (root.op == Op::ScatterNd)
    std::fill_n(reduced.begin(), dag.exprs[root.operands[3]].dims.size(), true);
  else if (root.op == Op::Put)
    reduced[root.axes[0]] = !isPutConsecutive;
  else if (isSort())
    reduced[root.axes[0]] = true;
  else if (anchor != ~0u)
    for (int64_t axis : dag.exprs[anchor].axes)
      reduced[axis] = true;
  std::vector<IndexId> rowAt;
  std::vector<Dim> rowDims;
  for (size_t i = 0; i < dims.size(); ++i) {
    counters.push_back(space.loop(i, dims[i]));
    if (reduced[i]) {
      reducedMask |= uint64_t(1) << i;
      rowAt.push_back(counters[i]);
      rowDims.push_back(dims[i]);
      rowLength *= dims[i];
    }
  }
  rowIndex = space.linearise(rowAt, rowDims);
  identityTuple = space.tuple(counters);
  return {};
}

// Where an output of as many elements as the space has is written: transposed if its operand has the dimensions of the
// space.
std::vector<IndexId> LoopPlan::positionsIn(const Expr &root) {
  if (root.op != Op::Transpose || dag.exprs[root.operands[0]].dims != dims)
    return space.reshape(counters, dims, root.dims);
  std::vector<IndexId> at;
  for (int64_t axis : root.axes)
    at.push_back(counters[axis]);
  return at;
}

Result<void> LoopPlan::placeRoots() {
  std::vector<IndexId> keptAt;
  std::vector<Dim> keptDims;
  for (size_t i = 0; i < dims.size(); ++i)
    if (!reduced[i]) {
      keptAt.push_back(counters[i]);
      keptDims.push_back(dims[i]);
    }
  Dim total = elementCount(dims), kept = elementCount(keptDims);
  int top = 0;
  for (size_t i = 0; i < dag.roots.size(); ++i) {
    const ExprId id = dag.roots[i];
    const Expr &expr = dag.exprs[id];
    Root root{id, 0};
    if (elementCount(expr.dims) == total) {
      root.at = space.tuple(positionsIn(expr));
    } else if (elementCount(expr.dims) == kept) {
      root.at = space.tuple(space.reshape(keptAt, keptDims, expr.dims));
      root.row = true;
    } else {
      return Error{MORTISE_UNSUPPORTED, "the outputs of a group do not share a loop nest"};
    }
    root.address = space.dot(std::vector<IndexId>(space.tuple(root.at)), dag.rootStrides[i], 0);
    int found = level(id, root.at, 0);
    if (found < 0)
      return Error{MORTISE_UNSUPPORTED, failure};
    top = std::max(top, found);
    roots.push_back(root);
  }
  passes = top + 1;
  for (Root &root : roots)
    root.pass = top;
  return {};
}

int LoopPlan::reduction(ExprId expr, TupleId at) const {
  auto found = reductionIds.find({expr, at});
  return found == reductionIds.end() ? -1 : found->second;
}

const Cached *LoopPlan::cached(ExprId expr, TupleId at) const {
  for (const Cached &entry : cache)
    if (entry.expr == expr && entry.at == at)
      return &entry;
  return nullptr;
}

std::vector<Access> LoopPlan::accesses(ExprId id, TupleId atId, GuardId guard) {
  const Expr &expr = dag.exprs[id];
  if (isElementwise(expr.op) || expr.op == Op::Position) {
    std::vector<Access> all;
    for (ExprId operand : expr.operands)
      all.push_back({operand, atId, guard});
    return all;
  }
  if (expr.operands.empty())
    return {};
  std::vector<IndexId> at = space.tuple(atId);
  const std::vector<Dim> &from = dag.exprs[expr.operands[0]].dims;
  std::vector<IndexId> inner(from.size());
  auto one = [&](GuardId g) { return std::vector<Access>{{expr.operands[0], space.tuple(inner), g}}; };
  auto indexRead = [&](ExprId indices, std::vector<IndexId> where, const Dim &extent) {
    return space.loaded(indices, space.tuple(std::move(where)), extent, dag.exprs[indices].reductions);
  };
  switch (expr.op) {
  case Op::Reshape:
    inner = space.reshape(at, expr.dims, from);
    return one(guard);
  case Op::Transpose:
    for (size_t i = 0; i < at.size(); ++i)
      inner[expr.axes[i]] = at[i];
    return one(guard);
  case Op::Broadcast:
    for (size_t i = 0; i < from.size(); ++i)
      inner[i] = space.scale(at[expr.axes[i]], simplify(repetition(from[i], expr.dims[expr.axes[i]]), dag.symbols));
    return one(guard);
  case Op::Window:
    for (size_t i = 0; i < from.size(); ++i) {
      inner[i] = space.scale(at[expr.axes[2 * i]], expr.steps[2 * i]);
      if (expr.axes[2 * i + 1] >= 0)
        inner[i] = space.add(inner[i], at[expr.axes[2 * i + 1]], expr.steps[2 * i + 1]);
    }
    return one(guard);
  case Op::Slice:
    for (size_t i = 0; i < at.size(); ++i)
      inner[i] = space.add(space.constant(expr.starts[i]), at[i], expr.steps[i]);
    return one(guard);
  case Op::Reverse:
    inner = at;
    for (int64_t axis : expr.axes)
      inner[axis] = space.add(space.constant(from[axis] - 1), at[axis], -1);
    return one(guard);
  case Op::Pad: {
    GuardId inside = guard;
    for (size_t i = 0; i < at.size(); ++i) {
      IndexId moved = space.add(at[i], space.constant(Dim(0) - expr.starts[i]));
      int64_t step = expr.steps[i] + 1;
      if (step > 1) {
        inside = space.guard(inside, moved, 0, from[i] * step);
        inside = space.guard(inside, space.remainder(moved, step), 0, 1);
      }
      inner[i] = space.quotient(moved, step);
      inside = space.guard(inside, inner[i], 0, from[i]);
    }
    std::vector<Access> all = one(inside);
    all.push_back({expr.operands[1], space.tuple(std::vector<IndexId>{}), guard});
    return all;
  }
  case Op::Concatenate: {
    std::vector<Access> all;
    int64_t axis = expr.axes[0];
    Dim start = 0;
    for (ExprId operand : expr.operands) {
      const Dim &extent = dag.exprs[operand].dims[axis];
      if (!(extent == 0)) {
        inner = at;
        inner[axis] = space.add(at[axis], space.constant(Dim(0) - start));
        all.push_back({operand, space.tuple(inner), space.guard(guard, at[axis], start, start + extent)});
      }
      start += extent;
    }
    return all;
  }
  case Op::RandomBits: {
    const TupleId scalar = space.tuple(std::vector<IndexId>{});
    return {{expr.operands[0], scalar, guard}, {expr.operands[1], scalar, guard}};
  }
  case Op::Take: {
    size_t axis = expr.axes[0], rank = dag.exprs[expr.operands[1]].dims.size();
    std::vector<IndexId> where(at.begin() + axis, at.begin() + axis + rank);
    for (size_t i = 0; i < from.size(); ++i)
      inner[i] = i < axis ? at[i] : i == axis ? indexRead(expr.operands[1], where, from[axis]) : at[i + rank - 1];
    return one(guard);
  }
  case Op::TakeAlong:
    inner = at;
    inner[expr.axes[0]] = indexRead(expr.operands[1], at, from[expr.axes[0]]);
    return one(guard);
  case Op::TakeNd: {
    const std::vector<Dim> &indexDims = dag.exprs[expr.operands[1]].dims;
    size_t batch = indexDims.size() - 1, depth = static_cast<size_t>(*indexDims.back().number());
    for (size_t i = 0; i < from.size(); ++i) {
      if (i >= depth) {
        inner[i] = at[batch + i - depth];
        continue;
      }
      std::vector<IndexId> where(at.begin(), at.begin() + batch);
      where.push_back(space.constant(i));
      inner[i] = indexRead(expr.operands[1], where, from[i]);
    }
    return one(guard);
  }
  default:
    return {};
  }
}

int LoopPlan::level(ExprId id, TupleId at, GuardId guard) {
  Key key{id, {at, guard}};
  if (auto found = levels.find(key); found != levels.end())
    return found->second;
  const Expr &expr = dag.exprs[id];
  int result = 0;
  auto below = [&](ExprId operand, TupleId where, GuardId g) {
    int found = result < 0 ? -1 : level(operand, where, g);
    result = found < 0 ? -1 : std::max(result, found);
  };
  if (isReduction(expr.op)) {
    result = reductionLevel(id, at, guard);
  } else if (isRunning(expr.op)) {
    const std::vector<IndexId> &where = space.tuple(at);
    bool fits = guard == 0 && expr.dims[expr.axes[0]] == rowLength && where[expr.axes[0]] == rowIndex;
    for (size_t i = 0; i < where.size(); ++i)
      fits &= static_cast<int64_t>(i) == expr.axes[0] || !(space.loops(where[i]) & reducedMask);
    if (!fits) {
      failure = "a running sum is read in another order than it is computed";
      result = -1;
    } else {
      below(expr.operands[0], at, guard);
      if (std::find(runs.begin(), runs.end(), std::make_pair(id, at)) == runs.end())
        runs.emplace_back(id, at);
    }
  } else if (codegen::isUpdate(expr.op) || codegen::isSort(expr.op)) {
    failure = "updates and sorts stand alone at the end of their groups";
    result = -1;
  } else {
    for (const Access &access : accesses(id, at, guard)) {
      below(access.expr, access.at, access.guard);
      const std::vector<Condition> &conditions = space.guard(access.guard);
      if (conditions.size() > 1 && std::any_of(conditions.begin(), conditions.end(),
                                               [&](const Condition &check) { return space.reads(check.index); })) {
        failure = "padding of gathered padding needs memory between";
        result = -1;
      }
      for (IndexId index : std::vector<IndexId>(space.tuple(access.at)))
        for (AtomId atomId : atomsOf(index)) {
          Atom atom = space.atom(atomId);
          if (atom.kind == Atom::Loaded)
            below(atom.expr, atom.at, access.guard);
        }
    }
  }
  return levels[key] = result;
}

int LoopPlan::reductionLevel(ExprId id, TupleId at, GuardId guard) {
  const Expr &expr = dag.exprs[id];
  const std::vector<Dim> &from = dag.exprs[expr.operands[0]].dims;
  if (guard != 0 || (space.loops(at, 0) & reducedMask) || scan) {
    failure = "a reduction is read at positions that depend on what it reduces";
    return -1;
  }
  std::vector<IndexId> rowAt, inner;
  std::vector<Dim> rowDims, mine;
  for (int64_t axis : expr.axes)
    mine.push_back(from[axis]);
  for (size_t i = 0; i < dims.size(); ++i)
    if (reduced[i]) {
      rowAt.push_back(counters[i]);
      rowDims.push_back(dims[i]);
    }
  if (!(elementCount(mine) == rowLength)) {
    failure = "reductions over different extents do not share a group";
    return -1;
  }
  std::vector<IndexId> rowIndices = space.reshape(rowAt, rowDims, mine), kept = space.tuple(at);
  for (size_t i = 0, k = 0, r = 0; i < from.size(); ++i)
    inner.push_back(r < expr.axes.size() && expr.axes[r] == static_cast<int64_t>(i) ? rowIndices[r++] : kept[k++]);
  Reduction reduction{id, at, space.tuple(inner)};
  int below = level(expr.operands[0], reduction.operandAt, 0);
  if (below < 0)
    return -1;
  reduction.level = below + 1;
  reductionIds[{id, at}] = reductions.size();
  reductions.push_back(reduction);
  return reduction.level;
}

void LoopPlan::use(IndexId index) {
  if (!used.insert(index).second)
    return;
  for (AtomId atomId : atomsOf(index)) {
    Atom atom = space.atom(atomId);
    if (atom.kind == Atom::Quotient || atom.kind == Atom::Remainder)
      use(atom.argument);
    else if (atom.kind == Atom::Loaded)
      visit(atom.expr, atom.at, 0, passes - 1);
  }
}

void LoopPlan::useTuple(TupleId at) {
  for (IndexId index : std::vector<IndexId>(space.tuple(at)))
    use(index);
}

void LoopPlan::useGuard(GuardId guard) {
  for (const Condition &condition : std::vector<Condition>(space.guard(guard)))
    use(condition.index);
}

// Returns the cost of the subtree. Adds to costPerPoint, and records the indices in use and the row values that a later
// pass needs again.
double LoopPlan::visit(ExprId id, TupleId at, GuardId guard, int pass) {
  Key key{id, {at, guard}};
  const Expr &expr = dag.exprs[id];
  bool row = dependsOnRow(at, guard);
  if (auto found = visited.find(key); found != visited.end()) {
    auto [first, price] = found->second;
    if (!row || first == pass || visitedNow.count(key))
      return first != pass && row && cached(id, at) ? 1 : price;
    if (guard == 0 && price > keepAbove) {
      if (!cached(id, at))
        cache.push_back({id, at, first});
      visitedNow.insert(key);
      costPerPoint += 1;
      return 1;
    }
  }
  visitedNow.insert(key);
  double price = isReduction(expr.op) || expr.op == Op::Input ? 1 : cost(expr);
  if (row || passes == 1)
    costPerPoint += price;
  useGuard(guard);
  if (expr.op == Op::Input) {
    IndexId address = space.dot(std::vector<IndexId>(space.tuple(at)), expr.strides, expr.offset);
    use(address);
    loads.insert(address);
  } else if (expr.op == Op::Constant && expr.data) {
    use(space.linearise(std::vector<IndexId>(space.tuple(at)), expr.dims));
  } else if (expr.op == Op::Iota) {
    use(space.tuple(at)[expr.axes[0]]);
  } else if (isRunning(expr.op)) {
    price += visit(expr.operands[0], at, guard, pass);
  } else if (!isReduction(expr.op)) {
    for (const Access &access : accesses(id, at, guard)) {
      for (IndexId index : std::vector<IndexId>(space.tuple(access.at)))
        for (AtomId atomId : atomsOf(index))
          if (Atom atom = space.atom(atomId); atom.kind == Atom::Loaded)
            visit(atom.expr, atom.at, access.guard, pass);
      price += visit(access.expr, access.at, access.guard, pass);
    }
  }
  if (!row)
    price = passes > 1 ? 0 : price;
  visited.emplace(key, std::make_pair(pass, price));
  return price;
}

void LoopPlan::walkPasses() {
  use(rowIndex);
  if (isPut()) {
    const Expr &put = dag.exprs[dag.roots[0]];
    use(putAddress), use(putCopyAddress);
    use(space.linearise(std::vector<IndexId>(counters), dims));
    costPerPoint += 2;
    visit(put.operands[2], identityTuple, 0, 0);
    visit(put.operands[0], putCopyAt, 0, 0);
    if (isPutConsecutive)
      visit(put.operands[1], putFirstAt, 0, 0);
    return;
  }
  if (isScatter()) {
    const Expr &update = dag.exprs[dag.roots[0]];
    use(scatterColumn);
    use(space.linearise(std::vector<IndexId>(counters), dims));
    constexpr double scatterCost = 64; // of the sort
    costPerPoint += scatterCost;
    visit(update.operands[2], identityTuple, 0, 0);
    visit(update.operands[3], scatterPlaceAt, 0, 0);
    visit(update.operands[0], scatterCopyAt, 0, 0);
    return;
  }
  if (isSort()) {
    for (const Root &root : roots)
      use(root.address);
    constexpr double sortCost = 64; // comparisons of an element, and more where rows are long
    costPerPoint += sortCost;
    visit(dag.exprs[dag.roots[0]].operands[0], identityTuple, 0, 0);
    return;
  }
  for (int pass = 0; pass < passes; ++pass) {
    visitedNow.clear();
    for (size_t i = 0; i < reductions.size(); ++i)
      if (reductions[i].level == pass + 1) {
        costPerPoint += 1;
        visit(dag.exprs[reductions[i].expr].operands[0], reductions[i].operandAt, 0, pass);
      }
    if (pass == passes - 1)
      for (const Root &root : roots) {
        use(root.address);
        costPerPoint += root.row ? 0 : 1;
        visit(root.expr, root.at, 0, pass);
      }
  }
  // A kept value that is also an output is read back from there, except in f16 and bf16, where the output is rounded.
  for (Cached &entry : cache)
    for (size_t i = 0; i < roots.size(); ++i)
      if (int32_t dtype = dag.exprs[entry.expr].dtype;
          roots[i].expr == entry.expr && roots[i].at == entry.at && dtype != MORTISE_F16 && dtype != MORTISE_BF16) {
        entry.root = i;
        roots[i].pass = entry.pass;
      }
}

} // namespace mortise::codegen
