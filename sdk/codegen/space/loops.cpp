// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of a plan: their order, which dimensions they merge, and what they say of products and traffic.
#include "space/plan.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace mortise::codegen {

Dim LoopPlan::coefficient(IndexId index, uint32_t loop) const {
  for (const auto &[atom, factor] : space.index(index).terms)
    if (space.atom(atom).kind == Atom::Loop && space.atom(atom).loop == loop)
      return factor;
  return 0;
}

// The dimensions, outermost first. A group with reductions has those of its largest operand; if most tensors lie along
// another one in memory (channels last), that one goes to the end. Without reductions, only what is written decides.
// Reduced dimensions keep their order, because the first of equal elements wins.
std::vector<uint32_t> LoopPlan::order() const {
  std::vector<uint32_t> found(dims.size());
  std::iota(found.begin(), found.end(), 0);
  const auto isLoop = [&](uint32_t i) { return !(dims[i] == 1); };
  const auto innermost = std::find_if(found.rbegin(), found.rend(), isLoop);
  if (scan || isUpdate() || isSort() || innermost == found.rend())
    return found;
  std::vector<int> votes(dims.size());
  const auto vote = [&](IndexId address) {
    const auto moves = [&](uint32_t i) { return !isLoop(i) || !(coefficient(address, i) == 0); };
    const auto along =
        std::ranges::find_if(found, [&](uint32_t i) { return isLoop(i) && coefficient(address, i) == 1; });
    if (along != found.end() && std::ranges::all_of(found, moves))
      ++votes[*along];
  };
  if (reducedMask)
    std::ranges::for_each(loads, vote);
  for (const Root &root : roots)
    vote(root.address);
  const auto best = std::ranges::max_element(votes) - votes.begin();
  const auto passed = [&](uint32_t i) { return i <= best || !reduced[best] || !reduced[i]; };
  if (votes[best] > votes[*innermost] && std::ranges::all_of(found, passed))
    std::rotate(found.begin() + best, found.begin() + best + 1, found.end());
  return found;
}

// Merges neighbouring loops if every index in use treats them as one.
void LoopPlan::merge() {
  for (const uint32_t i : order()) {
    uint64_t bit = uint64_t(1) << i;
    if (dims[i] == 1)
      continue;
    bool joins = !loops.empty() && loops.back().reduced == reduced[i] && !(dims[i] == 0) &&
                 !(loops.back().extent == 0) && !(isPut() && reduced[i]);
    if (joins)
      for (IndexId index : used)
        joins &= coefficient(index, loops.back().number) == coefficient(index, i) * dims[i];
    if (joins) {
      loops.back().extent *= dims[i];
      loops.back().number = i;
      loops.back().members |= bit;
    } else {
      loops.push_back({dims[i], reduced[i], i, bit});
    }
  }
}

void LoopPlan::collectReads(ExprId id, TupleId at, GuardId guard, Reads &reads) {
  if (!reads.met.insert({id, {at, guard}}).second)
    return;
  const Expr &expr = dag.exprs[id];
  reads.loops |= space.loops(0, guard);
  const auto add = [&](IndexId index) { reads.loops |= space.loops(index); };
  if (expr.op == Op::Input) {
    const IndexId address = space.dot(std::vector<IndexId>(space.tuple(at)), expr.strides, expr.offset);
    add(address);
    reads.addresses.insert(address);
    if (guard == 0)
      reads.unguarded.emplace(std::make_pair(expr.slot, address), expr.dtype);
  } else if (expr.op == Op::Constant && expr.data) {
    add(space.linearise(std::vector<IndexId>(space.tuple(at)), expr.dims));
  } else if (expr.op == Op::Iota) {
    add(space.tuple(at)[expr.axes[0]]);
  } else {
    for (const Access &access : accesses(id, at, guard))
      collectReads(access.expr, access.at, access.guard, reads);
  }
}

// What all rows have in common, a factor of each column say, comes from caches anyway.
void LoopPlan::findRereads() {
  if (loops.empty() || !loops.back().reduced || passes < 2)
    return;
  const bool hasRows = !std::ranges::all_of(loops, &Loop::reduced);
  std::set<std::pair<uint32_t, IndexId>> known, added;
  for (int pass = 0; pass < passes; ++pass) {
    Reads reads;
    for (const Reduction &reduction : std::vector<Reduction>(reductions))
      if (reduction.level == pass + 1)
        collectReads(dag.exprs[reduction.expr].operands[0], reduction.operandAt, 0, reads);
    for (const Root &root : roots)
      if (!root.row && root.pass == pass)
        collectReads(root.expr, root.at, 0, reads);
    for (const auto &[read, dtype] : reads.unguarded) {
      const auto [slot, address] = read;
      const bool isOfRow =
          coefficient(address, loops.back().number) == 1 && (!hasRows || (space.loops(address) & ~reducedMask));
      if (isOfRow && !known.insert(read).second && added.insert(read).second)
        rereads.push_back({slot, dtype, address});
    }
  }
}

std::optional<Product> LoopPlan::productOf(const Reduction &sum) {
  const Expr &products = dag.exprs[dag.exprs[sum.expr].operands[0]];
  if (dag.exprs[sum.expr].op != Op::ReduceSum || products.op != Op::Mul)
    return {};
  Product found{products.operands[0], products.operands[1]};
  Reads lhs, rhs;
  collectReads(found.lhs, sum.operandAt, 0, lhs);
  collectReads(found.rhs, sum.operandAt, 0, rhs);
  const auto innermost = [&](bool isReduced) {
    const auto last =
        std::find_if(loops.rbegin(), loops.rend(), [&](const Loop &loop) { return loop.reduced == isReduced; });
    return last == loops.rend() ? nullptr : &*last;
  };
  const Loop *const kept = innermost(false), *const summed = innermost(true);
  if (!kept || !summed)
    return {};
  if (lhs.loops & ~rhs.loops & kept->members) { // the product of two numbers is that of the two in the other order
    std::swap(found.lhs, found.rhs);
    std::swap(lhs, rhs);
  }
  for (const Loop &loop : loops) {
    const bool left = lhs.loops & loop.members, right = rhs.loops & loop.members;
    if (!loop.reduced && left != right)
      (left ? found.rows : found.columns) |= loop.members;
  }
  const auto isAlongSum = [&](const Reads &reads, uint64_t own) {
    const auto goes = [&](const Loop &loop) {
      return std::ranges::any_of(reads.addresses, [&](IndexId at) { return coefficient(at, loop.number) == 1; });
    };
    return goes(*summed) &&
           std::ranges::none_of(loops, [&](const Loop &loop) { return (loop.members & own) && goes(loop); });
  };
  found.lhsAlongSum = isAlongSum(lhs, found.rows), found.rhsAlongSum = isAlongSum(rhs, found.columns);
  return found.columns ? std::optional(found) : std::nullopt;
}

// Of plans that do nothing but sum products and compute something of the sums. Of a single row there may be other sums,
// which do not know the columns, like the squares of a norm: each column computes them once more.
void LoopPlan::findProduct() {
  if (passes != 2 || scan || isUpdate() || !cache.empty() || !std::ranges::all_of(roots, &Root::row))
    return;
  std::optional<Product> first;
  for (const Reduction &sum : std::vector<Reduction>(reductions)) {
    const std::optional<Product> found = productOf(sum);
    if (!found && space.loops(sum.operandAt, 0) & ~reducedMask)
      return;
    if (found && first && (found->rows != first->rows || found->columns != first->columns))
      return;
    sumsBeside |= !found;
    if (!first)
      first = found;
  }
  if (!sumsBeside || (first && !first->rows))
    product = first;
}

Dim LoopPlan::rows() const {
  Dim count = 1;
  for (const Loop &loop : loops)
    if (!loop.reduced)
      count *= loop.extent;
  return count;
}

Dim LoopPlan::extentOf(uint64_t members) const {
  Dim extent = 1;
  for (const Loop &loop : loops)
    if (loop.members & members)
      extent *= loop.extent;
  return extent;
}

bool LoopPlan::suitsTiles() const {
  constexpr double fewest = 4;
  if (!product)
    return false;
  const auto isFew = [&](const Dim &extent, bool isAlongSum) { // `isAlongSum`: of the factor that is read once
    const std::optional<int64_t> number = extent.number();
    return typical(extent) < fewest || (reducesInnermost() && isAlongSum && number && *number <= mostTogether);
  };
  return !isFew(extentOf(product->rows), product->rhsAlongSum) &&
         !isFew(extentOf(product->columns), product->lhsAlongSum);
}

Traffic LoopPlan::traffic() const {
  const int64_t perPoint = product ? 2 * static_cast<int64_t>(reductions.size()) : std::llround(costPerPoint);
  Traffic traffic{0, elementCount(dims) * perPoint};
  auto move = [&](const Dim &elements, int32_t dtype) {
    traffic.bytes += elements * static_cast<int64_t>(dtypeBits(dtype) / 8);
  };
  for (const Expr &expr : dag.exprs) {
    if (expr.op != Op::Input)
      continue;
    Dim elements = 1; // elements in memory: a repeated element counts once
    for (size_t i = 0; i < expr.dims.size(); ++i)
      elements *= expr.strides[i] == 0 ? min(expr.dims[i], Dim(1)) : expr.dims[i];
    move(elements, expr.dtype);
  }
  for (const Root &root : roots)
    move(elementCount(dag.exprs[root.expr].dims), dag.exprs[root.expr].dtype);
  return traffic;
}

} // namespace mortise::codegen
