// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Running ops along a row that a team of threads shares. At each step the team has as many elements as threads, side by
// side. Threads of a subgroup find what the elements up to theirs come to by exchanges with the thread whose number
// differs by one bit: it has what all those of the other half come to (Hillis and Steele's scan, Data parallel
// algorithms, 1986, over a butterfly). Subgroups meet in the block's memory. What the whole team has is carried to the
// next step, so that the order of combinations depends on the length only.
//
// A unit may have parts, one behind the other (SimtSchedule::parts). One kernel finds what each part comes to, a second
// one folds them into what those before each part come to, and a third one goes through each part from there.
#include "emit/simt.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

void SimtKernel::scanRow(Value unit) {
  const ScheduledLoop &along = simt.loops.back();
  if (along.extent == 0)
    return;
  Value low = c.i64(0), high = extent(along.extent);
  if (hasPart()) {
    Value size = extent(ceilDiv(along.extent, Dim(simt.parts)));
    low = c.mulI(part, size), high = c.two<arith::MinSIOp>(high, c.addI(low, size));
  }
  Value last = c.two<arith::MaxSIOp>(c.subI(high, c.i64(1)), c.i64(0));
  const Carried totals =
      loop(low, high, simt.team, runsBefore(unit), along.members, [&](Value first, ValueRange before) {
        Value position = c.addI(first, c.resizeInt(member, b.getI64Type(), false));
        isInRow = c.compareI(I::slt, position, high);
        setCounter(along, c.two<arith::MinSIOp>(position, last)); // all threads take part in exchanges
        setRuns(Carried(before.begin(), before.end()));
        SmallVector<Value> values;
        for (const Root &root : plan.roots)
          if (role != Role::Parts)
            values.push_back(value(root.expr, root.at, 0));
        Carried next = takeRuns();
        if (role != Role::Parts)
          onlyIf(isInRow, [&] {
            for (size_t i = 0; i < values.size(); ++i)
              store(values[i], outputs[i], plan.dag.exprs[plan.roots[i].expr].dtype, plan.roots[i].address, Value());
          });
        return next;
      });
  isInRow = Value();
  if (role == Role::Parts)
    onlyIf(c.compareI(I::eq, member, c.integer(b.getI32Type(), 0)), [&] { storeTotals(totals, part, unit); });
}

// What the elements of a part come to, which a thread goes through alone.
void SimtKernel::scanPart(Value unit) {
  Carried totals = startRuns();
  serial(0, totals, [&](Carried &run) {
    setRuns(run);
    run = takeRuns();
  });
  storeTotals(totals, part, unit);
}

void SimtKernel::storeTotals(const Carried &totals, Value number, Value unit) {
  for (const auto &[i, total] : llvm::enumerate(totals)) {
    Value stored = inScratch(total);
    LLVM::StoreOp::create(b, c.loc, stored, partPlace(i, stored.getType(), number, unit));
  }
}

Emitter::Carried SimtKernel::loadTotals(Value number, Value unit) {
  Carried totals;
  for (const auto &[i, like] : llvm::enumerate(startRuns())) {
    const Type type = inScratchType(like.getType());
    Value stored = LLVM::LoadOp::create(b, c.loc, type, partPlace(i, type, number, unit));
    totals.push_back(fromScratch(stored, like.getType()));
  }
  return totals;
}

// In place of what each part of a unit comes to, what those before it come to.
void SimtKernel::foldParts(Value unit) {
  const Expr &running = plan.dag.exprs[plan.runs[0].first];
  onlyIf(c.compareI(I::ult, unit, extent(simt.units)), [&] {
    loop(c.i64(0), c.i64(simt.parts), 1, startRuns(), 0, [&](Value number, ValueRange carried) {
      const Carried before(carried.begin(), carried.end()), total = loadTotals(number, unit);
      storeTotals(before, number, unit);
      return combineRuns(running, before, total);
    });
  });
}

Emitter::Carried SimtKernel::runsBefore(Value unit) {
  return plan.scan && role == Role::Combine ? loadTotals(part, unit) : startRuns();
}

Emitter::Carried SimtKernel::advance(const Expr &running, Carried &run, Carried element) {
  if (!simt.scans)
    return Emitter::advance(running, run, std::move(element));
  const Type i32 = b.getI32Type();
  const Carried none = startOf(running);
  const auto choose = [&](Value condition, const Carried &x, const Carried &y) {
    Carried all;
    for (const auto &[one, other] : llvm::zip(x, y))
      all.push_back(c.select(condition, one, other));
    return all;
  };
  // Of the threads whose numbers differ from this one's in the bits so far: of all, and of those up to this one.
  Carried all = choose(isInRow, element, none), mine = all;
  for (unsigned mask = 1; mask < std::min(simt.team, machine.subgroup()); mask *= 2) {
    Carried other;
    for (Value part : all)
      other.push_back(exchange(part, mask));
    Value isBehind = c.compareI(I::ne, c.andI(member, c.integer(i32, mask)), c.integer(i32, 0));
    mine = choose(isBehind, combineRuns(running, other, mine), mine);
    all = combineRuns(running, choose(isBehind, other, all), choose(isBehind, all, other));
  }
  if (const unsigned subgroups = simt.team / machine.subgroup(); subgroups > 1) {
    const unsigned total = subgroups * simt.teams;
    SmallVector<Value> arrays;
    for (Value part : all)
      arrays.push_back(shared(inScratchType(part.getType()), total));
    const auto place = [&](size_t i, Value number) -> Value {
      return LLVM::GEPOp::create(b, c.loc, arrays[i].getType(), inScratchType(all[i].getType()), arrays[i],
                                 ValueRange{number});
    };
    Value own = arith::ShRUIOp::create(b, c.loc, member, c.integer(i32, llvm::Log2_32(machine.subgroup())));
    Value first = c.mulI(team, c.integer(i32, subgroups));
    Value lane = c.andI(member, c.integer(i32, machine.subgroup() - 1));
    machine.barrier(c); // all have read what the step before left
    onlyIf(c.compareI(I::eq, lane, c.integer(i32, 0)), [&] {
      for (size_t i = 0; i < all.size(); ++i)
        LLVM::StoreOp::create(b, c.loc, inScratch(all[i]), place(i, c.addI(first, own)));
    });
    machine.barrier(c);
    Carried before = none;
    all = none;
    for (unsigned number = 0; number < subgroups; ++number) {
      Carried part;
      for (size_t i = 0; i < arrays.size(); ++i) {
        Value stored = LLVM::LoadOp::create(b, c.loc, inScratchType(none[i].getType()),
                                            place(i, c.addI(first, c.integer(i32, number))));
        part.push_back(fromScratch(stored, none[i].getType()));
      }
      all = combineRuns(running, all, part);
      Value isBefore = c.compareI(I::ult, c.integer(i32, number), own);
      before = choose(isBefore, combineRuns(running, before, part), before);
    }
    mine = combineRuns(running, before, mine);
  }
  mine = combineRuns(running, run, mine);
  run = combineRuns(running, run, all);
  return mine;
}

} // namespace mortise::codegen
