// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: the partial results of a thread's steps, of the threads of a team, and of the parts of a unit.
#include "emit/simt.hpp"

#include <limits>

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

Emitter::Carried SimtKernel::neutrals(ArrayRef<const Reduction *> all, bool vectors) {
  Carried values;
  for (const Reduction *reduction : all)
    values.append(initial(*reduction, vectors));
  return values;
}

// The lanes of the results of several reductions, one behind the other.
Emitter::Carried SimtKernel::acrossAll(ArrayRef<const Reduction *> all, Carried parts) {
  Carried result;
  for (const Reduction *reduction : all) {
    const size_t from = result.size();
    result.append(across(plan.dag.exprs[reduction->expr],
                         Carried(parts.begin() + from, parts.begin() + from + valuesOf(*reduction))));
  }
  return result;
}

// Of the results of several reductions, one behind the other.
Emitter::Carried SimtKernel::combineAll(ArrayRef<const Reduction *> all, Carried x, Carried y) {
  Carried result;
  for (const Reduction *reduction : all) {
    const size_t from = result.size(), to = from + valuesOf(*reduction);
    result.append(combine(plan.dag.exprs[reduction->expr], Carried(x.begin() + from, x.begin() + to),
                          Carried(y.begin() + from, y.begin() + to)));
  }
  return result;
}

// The elements of some steps, combined in pairs.
Emitter::Carried SimtKernel::firstSteps(unsigned first, unsigned count,
                                        llvm::function_ref<void(unsigned, Carried &)> step) {
  if (count > 2) {
    Carried low = firstSteps(first, count / 2, step);
    return combineAll(reducing, low, firstSteps(first + count / 2, count / 2, step));
  }
  Carried sums = neutrals(reducing, true);
  startsSum = true;
  step(first, sums);
  startsSum = false;
  if (count == 2)
    step(first + 1, sums);
  return sums;
}

size_t SimtKernel::valuesOf(const Reduction &reduction) const {
  return isArg(plan.dag.exprs[reduction.expr].op) ? 2 : 1;
}

void SimtKernel::setResult(const Reduction &reduction, const Carried &total) {
  const bool arg = isArg(plan.dag.exprs[reduction.expr].op);
  Scope &unit = scopes[rowScope]; // which knows what all results of the unit have in common
  const bool isOfAll = simt.together.empty() || !(plan.space.loops(reduction.at, 0) & ~unit.loops);
  Scope &scope = isOfAll ? unit : result;
  scope.values[{reduction.expr, {reduction.at, 0}}] = arg ? c.resizeInt(total[1], b.getI64Type(), true) : total[0];
}

// Of a partial result in scratch memory.
static unsigned partAlignment(Type type) { return std::min(16U, bytesOf(type)); }

void SimtKernel::reducePass(ArrayRef<const Reduction *> all, int number, Value unit) {
  SmallVector<const Reduction *> ofUnit;
  for (unsigned i = 0; i < simt.results(); ++i)
    ofUnit.append(all.begin(), all.end());
  const auto accumulateStep = [&](Carried &sums) {
    size_t at = 0;
    const auto accumulateResult = [&] {
      for (const Reduction *reduction : all) {
        const size_t size = valuesOf(*reduction);
        Carried before(sums.begin() + at, sums.begin() + at + size);
        Carried next = startsSum ? first(*reduction) : accumulate(*reduction, before);
        for (size_t i = 0; i < size; ++i)
          sums[at + i] = active ? c.select(active, next[i], before[i]) : next[i];
        at += size;
      }
    };
    for (unsigned i = 0; i < simt.results(); ++i)
      forResult(i, accumulateResult);
    keep(number);
  };
  Carried totals = neutrals(ofUnit, true), onEdges = neutrals(ofUnit, false);
  reducing = ofUnit;
  forVectors(totals, accumulateStep);
  onEdge([&] { accumulateStep(onEdges); });
  reducing = {};
  if (simt.laneInside && simt.lanes > 1)
    totals = acrossAll(ofUnit, totals);
  if (simt.peeled)
    totals = combineAll(ofUnit, totals, onEdges);
  if (simt.team > 1)
    totals = combineTeam(ofUnit, totals);
  size_t at = 0;
  for (const Reduction *reduction : all) { // of this thread's result
    const Carried total(totals.begin() + at, totals.begin() + at + valuesOf(*reduction));
    if (role == Role::Whole)
      setResult(*reduction, total);
    else
      onlyIf(c.compareI(I::eq, member, c.integer(b.getI32Type(), 0)), [&] {
        for (size_t i = 0; i < total.size(); ++i) {
          Value stored = inScratch(total[i]);
          LLVM::StoreOp::create(b, c.loc, stored, partPlace(at + i, stored.getType(), part, unit),
                                partAlignment(stored.getType()));
        }
      });
    at += total.size();
  }
}

// Booleans take a byte in memory.
Type SimtKernel::inScratchType(Type type) {
  if (!getElementTypeOrSelf(type).isInteger(1))
    return type;
  auto vector = dyn_cast<VectorType>(type);
  return vector ? Type(vector.clone(b.getI8Type())) : b.getI8Type();
}
Value SimtKernel::inScratch(Value value) {
  return Code::element(value).isInteger(1) ? c.resizeInt(value, b.getI8Type(), false) : value;
}
Value SimtKernel::fromScratch(Value stored, Type type) {
  return stored.getType() == type ? stored : c.resizeInt(stored, b.getI1Type(), false);
}

// Where a partial result lies: one value of a reduction after another, each with its parts, each with all units, each
// with its lanes. A value has 8 bytes for each of its elements, and takes the first of them.
Value SimtKernel::partPlace(size_t value, Type type, Value part, Value unit) {
  const int64_t lanes = isa<VectorType>(type) ? simt.lanes : 1;
  Value number = c.addI(c.mulI(part, extent(simt.units)), unit);
  Value before = extent(simt.units * (static_cast<int64_t>(value) * simt.parts * 8 * lanes));
  const int64_t bytes = getElementTypeOrSelf(type).getIntOrFloatBitWidth() / 8;
  return pointer(scratch, b.getI8Type(), c.addI(before, c.mulI(number, c.i64(bytes * lanes))));
}

// Combines the parts of a unit, each thread of a team its share in pairs, and stores the results.
void SimtKernel::combineParts(Value unit) {
  size_t at = 0;
  Value mine = c.resizeInt(member, b.getI64Type(), false);
  for (const Reduction &reduction : plan.reductions) {
    const Carried like = initial(reduction, false);
    Carried total = combinePairs(&reduction, 0, (simt.parts + simt.team - 1) / simt.team, [&](unsigned number) {
      Value which = c.addI(mine, c.i64(int64_t(number) * simt.team)), isOne;
      if ((number + 1) * simt.team > simt.parts) {
        isOne = c.compareI(I::slt, which, c.i64(simt.parts));
        which = c.select(isOne, which, c.i64(0));
      }
      Carried part;
      for (size_t i = 0; i < like.size(); ++i) {
        Type type = inScratchType(like[i].getType());
        Value read = LLVM::LoadOp::create(b, c.loc, type, partPlace(at + i, type, which, unit), partAlignment(type));
        read = fromScratch(read, like[i].getType());
        part.push_back(isOne ? c.select(isOne, read, like[i]) : read);
      }
      return part;
    });
    if (simt.team > 1)
      total = combineTeam(&reduction, total);
    setResult(reduction, total);
    at += like.size();
  }
  currentPass = plan.passes - 1;
  storePass(currentPass, unit);
}

// Partial results first, first + 1, ... : neighbours first, which loses fewer digits than one after the other.
Emitter::Carried SimtKernel::combinePairs(Reductions all, unsigned first, unsigned count,
                                          llvm::function_ref<Carried(unsigned)> part) {
  if (count == 1)
    return part(first);
  Carried low = combinePairs(all, first, count / 2, part);
  return combineAll(all, low, combinePairs(all, first + count / 2, count - count / 2, part));
}

// The value that the thread with another number holds. Exchanges move 32 bits.
Value SimtKernel::exchange(Value part, unsigned mask) {
  const unsigned width = part.getType().getIntOrFloatBitWidth();
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value bits = c.intBits(part);
  if (width < 64) {
    bits = machine.exchange(c, c.resizeInt(bits, i32, false), mask);
    bits = c.resizeInt(bits, b.getIntegerType(width), false);
  } else {
    Value low = machine.exchange(c, c.resizeInt(bits, i32, false), mask);
    Value half = arith::ShRUIOp::create(b, c.loc, bits, c.i64(32));
    Value high = machine.exchange(c, c.resizeInt(half, i32, false), mask);
    Value moved = arith::ShLIOp::create(b, c.loc, c.resizeInt(high, i64, false), c.i64(32));
    bits = c.orI(moved, c.resizeInt(low, i64, false));
  }
  return isa<FloatType>(part.getType()) ? c.bitcast(bits, part.getType()) : bits;
}

// Combines the `count` partial results of a team in pairs. This thread's is number `mine`. Result
// number n of a team lies at n * side + at. Every array is used once, so that one barrier suffices.
Emitter::Carried SimtKernel::combineShared(Reductions all, Carried parts, unsigned count, Value mine, unsigned side,
                                           Value at) {
  Type i32 = b.getI32Type();
  SmallVector<Value> arrays;
  auto place = [&](Value array, Type type, Value number) -> Value {
    Value index = c.addI(c.mulI(number, c.integer(i32, side)), at);
    return LLVM::GEPOp::create(b, c.loc, array.getType(), type, array, ValueRange{index});
  };
  SmallVector<Type> types;
  for (Value part : parts) {
    types.push_back(inScratchType(part.getType()));
    arrays.push_back(shared(types.back(), size_t(count) * simt.teams * simt.results()));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    LLVM::StoreOp::create(b, c.loc, inScratch(parts[i]), place(arrays[i], types[i], mine));
  }
  machine.barrier(c);
  return combinePairs(all, 0, count, [&](unsigned number) {
    Carried part;
    for (size_t i = 0; i < parts.size(); ++i) {
      Value read = LLVM::LoadOp::create(b, c.loc, types[i], place(arrays[i], types[i], c.integer(i32, number)));
      part.push_back(types[i] == parts[i].getType() ? read : c.resizeInt(read, b.getI1Type(), false));
    }
    return part;
  });
}

// Of two NaN each thread may have kept its own, where hardware keeps their bits.
void SimtKernel::quietNan(Reductions all, Carried &parts) {
  size_t at = 0;
  for (const Reduction *reduction : all) {
    const Expr &expr = plan.dag.exprs[reduction->expr];
    Value &part = parts[at];
    if (isFloat(plan.dag.exprs[expr.operands[0]].dtype) && !isArg(expr.op))
      part = c.select(c.isNan(part), c.constant(part.getType(), std::numeric_limits<double>::quiet_NaN()), part);
    at += valuesOf(*reduction);
  }
}

// Of those of a unit, this thread's.
Emitter::Carried SimtKernel::ownResult(Reductions all, const Carried &totals) {
  const size_t size = totals.size() / simt.results();
  Carried own(totals.begin(), totals.begin() + size);
  for (unsigned number = 1; number < simt.results(); ++number) {
    Value isOwn = c.compareI(I::eq, resultNumber, c.integer(b.getI32Type(), number));
    for (size_t i = 0; i < size; ++i)
      own[i] = c.select(isOwn, totals[number * size + i], own[i]);
  }
  quietNan(all.take_front(all.size() / simt.results()), own);
  return own;
}

// Of all results of a unit. Returns what this thread's result comes to (resultNumber).
Emitter::Carried SimtKernel::combineTeam(Reductions all, Carried parts) {
  Type i32 = b.getI32Type();
  if (!simt.laneInside)
    return combineShared(all, parts, simt.team, member, simt.teams, team);
  const unsigned near = std::min(simt.team, machine.subgroup());
  for (unsigned mask = near / 2; mask >= 1; mask /= 2) {
    Carried other;
    for (Value part : parts)
      other.push_back(exchange(part, mask));
    parts = combineAll(all, parts, other);
  }
  parts = ownResult(all, parts);
  if (simt.team == near)
    return parts;
  // The threads of a subgroup hold, and store, the same, or one of its results each.
  Value mine = arith::ShRUIOp::create(b, c.loc, member, c.integer(i32, llvm::Log2_32(near)));
  const unsigned subgroups = simt.team / near, results = simt.results();
  Value first = c.mulI(team, c.integer(i32, subgroups * results)); // of the team
  if (results > 1)
    first = c.addI(first, resultNumber);
  return combineShared(all.take_front(all.size() / results), parts, subgroups, mine, results, first);
}

} // namespace mortise::codegen
