// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emit/cpu.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

static constexpr double chunkCost = 32768, grainCost = 65536;

// Decides which loops are shared out as tasks (returned as a set of counters), the number of tasks, and the grain.
uint64_t CpuKernel::chooseTasks(EmittedCpuKernel &kernel) {
  bool lanesKept = schedule.laneLoop && !schedule.laneInside;
  uint64_t members = 0;
  double cost = std::max(1.0, plan.costPerPoint);
  Dim points = 1; // points per task
  for (const ScheduledLoop &loop : schedule.loops) {
    if (loop.block) {
      cost *= static_cast<double>(loop.block);
      points *= min(loop.extent, Dim(loop.block));
      kernel.tasks *= floorDiv(loop.extent + (loop.block - 1), loop.block);
    } else if (loop.inside || (lanesKept && &loop == &schedule.loops.back())) {
      cost *= std::max(plan.typical(loop.extent), 1.0);
      points *= lanesKept && &loop == &schedule.loops.back() ? Dim(1) : loop.extent;
    } else {
      members |= loop.members;
      kernel.tasks *= loop.extent;
    }
  }
  Dim extent = laneExtent();
  // A long lane loop is split into several tasks.
  double length = std::max(plan.typical(extent), 1.0), perLane = cost / length;
  if (lanesKept && (cost > chunkCost || !extent.isNumber())) {
    chunk =
        std::max<int64_t>(schedule.lanes, static_cast<int64_t>(chunkCost / perLane) / schedule.lanes * schedule.lanes);
    if (extent.isNumber())
      chunk = std::min(chunk, static_cast<int64_t>(length));
    chunks = floorDiv(extent + (chunk - 1), chunk);
    cost = perLane * static_cast<double>(chunk);
    points *= min(extent, Dim(chunk));
  } else if (lanesKept) {
    chunk = static_cast<int64_t>(length);
    points *= extent;
  }
  kernel.tasks *= extent == 0 && lanesKept ? Dim(0) : chunks;
  if (points.isNumber()) {
    kernel.grain = std::max<int64_t>(1, static_cast<int64_t>(grainCost / cost));
  } else {
    Dim price = points * std::max<int64_t>(1, std::llround(plan.costPerPoint));
    kernel.grain = max(floorDiv(Dim(static_cast<int64_t>(grainCost)), max(price, Dim(1))), Dim(1));
  }
  return members;
}

EmittedCpuKernel CpuKernel::emit(StringRef name) {
  EmittedCpuKernel kernel;
  Type pointerType = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          {pointerType, pointerType, pointerType, pointerType, i64, i64});
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, c.loc, name, type);
  function.setPassthroughAttr(b.getArrayAttr({b.getStrArrayAttr({"prefer-vector-width", "512"})}));
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  auto load = [&](Value table, size_t i) -> Value {
    return LLVM::LoadOp::create(b, c.loc, pointerType, pointer(table, pointerType, c.i64(i)), 8, false, false, true);
  };
  for (size_t i = 0; i < inputCount(); ++i)
    inputs.push_back(load(entry->getArgument(0), i));
  for (size_t i = 0; i < plan.roots.size(); ++i)
    outputs.push_back(load(entry->getArgument(1), i));
  scratch = entry->getArgument(2), symbols = entry->getArgument(3);
  bool lanesKept = schedule.laneLoop && !schedule.laneInside;
  if (auto extent = laneExtent().number(); laneMask && extent && *extent < schedule.lanes)
    tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), c.integer(b.getI32Type(), *extent));

  uint64_t members = chooseTasks(kernel);
  scopes.push_back({0});
  auto run = [&] {
    rowScope = scopes.size() + (lanesKept ? 1 : 0);
    runTasks(entry->getArgument(4), entry->getArgument(5), members);
  };
  // Rows of symbolic length get a second version, because several accumulators do not pay for short rows.
  const int64_t least = manyVectors * static_cast<int64_t>(schedule.lanes);
  const Interval length = plan.space.facts.bounds(laneExtent());
  if (schedule.laneInside && !plan.reductions.empty() && length.low < least && length.high >= least) {
    Value isShort = c.compareI(I::slt, extent(laneExtent()), c.i64(least));
    auto branch = scf::IfOp::create(b, c.loc, isShort, true);
    scopes.back().next = branch;
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      OpBuilder::InsertionGuard keep(b);
      b.setInsertionPointToStart(block);
      scopes.push_back({0});
      shortRows = block == branch.thenBlock();
      run();
      scopes.pop_back();
    }
  } else {
    run();
  }
  LLVM::ReturnOp::create(b, c.loc, ValueRange());
  kernel.over = writableInputs(/*rows=*/true);
  return kernel;
}

// The loops that enumerate tasks, outermost first.
SmallVector<const ScheduledLoop *> CpuKernel::taskLoops() const {
  bool lanesKept = schedule.laneLoop && !schedule.laneInside;
  SmallVector<const ScheduledLoop *> kept;
  for (const ScheduledLoop &loop : schedule.loops)
    if ((!loop.inside || loop.block) && !(lanesKept && &loop == &schedule.loops.back()))
      kept.push_back(&loop);
  return kept;
}

// Splits a task's number into counters, innermost first: the chunk of the lane loop, then the loops. With symbolic
// extents the counters are incremented from task to task, because the divisions would take longer than a short task.
void CpuKernel::runTasks(Value begin, Value end, uint64_t members) {
  SmallVector<const ScheduledLoop *> kept = taskLoops();
  SmallVector<Dim> radices;
  if (!(chunks == 1) || kept.empty())
    radices.push_back(chunks);
  for (const ScheduledLoop *loop : llvm::reverse(kept))
    radices.push_back(loop->block ? floorDiv(loop->extent + (loop->block - 1), loop->block) : loop->extent);
  auto digitsOf = [&](Value number) {
    Carried digits;
    for (size_t i = 0; i + 1 < radices.size(); ++i) {
      Value radix = positive(radices[i]);
      digits.push_back(radices[i] == 1 ? c.i64(0) : c.two<arith::RemUIOp>(number, radix));
      if (!(radices[i] == 1))
        number = c.two<arith::DivUIOp>(number, radix);
    }
    digits.push_back(number);
    return digits;
  };
  bool count = llvm::any_of(ArrayRef(radices).drop_back(), [](const Dim &dim) { return !dim.isNumber(); });
  Carried first;
  if (count)
    first = digitsOf(begin);
  loop(begin, end, 1, first, members, [&](Value number, ValueRange carried) {
    Carried digits = count ? Carried(carried.begin(), carried.end()) : digitsOf(number);
    task(digits);
    if (!count)
      return Carried();
    Value carry = c.i64(1);
    for (size_t i = 0; i < digits.size(); ++i) {
      digits[i] = c.addI(digits[i], carry);
      if (i + 1 == digits.size())
        break;
      Value full = c.compareI(I::eq, digits[i], positive(radices[i]));
      digits[i] = c.select(full, c.i64(0), digits[i]);
      carry = c.resizeInt(full, b.getI64Type(), false);
    }
    return digits;
  });
}

void CpuKernel::task(ArrayRef<Value> digits) {
  SmallVector<const ScheduledLoop *> kept = taskLoops();
  const bool chunked = !(chunks == 1) || kept.empty();
  for (size_t i = 0; i < kept.size(); ++i) {
    const ScheduledLoop &loop = *kept[kept.size() - 1 - i];
    if (loop.block)
      blockStart = c.mulI(digits[i + chunked], c.i64(loop.block));
    else
      setCounter(loop, digits[i + chunked]);
  }
  if (!schedule.laneLoop || schedule.laneInside)
    return row();
  if (chunks == 1)
    return laneLoop(c.i64(0), extent(laneExtent()), [&] { row(); });
  Value low = c.mulI(digits[0], c.i64(chunk));
  Value high = c.two<arith::MinSIOp>(c.addI(low, c.i64(chunk)), extent(laneExtent()));
  laneLoop(low, high, [&] { row(); });
}

// Sets the lane counter when the number of lanes is static. The last partial vector overlaps its neighbour, so that
// loads need no mask; reductions then exclude the lanes already counted. Puts and rows shorter than a vector use masks.
void CpuKernel::enterLanes(Value start) {
  uncountedLanes = Value();
  int64_t lanes = schedule.lanes;
  if (auto number = laneExtent().number(); number && lanes > 1 && *number > lanes && *number % lanes) {
    int64_t extent = *number;
    if (plan.isPut()) {
      Value left = c.resizeInt(c.subI(c.i64(extent), start), b.getI32Type(), true);
      tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), left);
    } else {
      Value clamped = c.two<arith::MinSIOp>(start, c.i64(extent - lanes));
      lastVectorOverlaps = true;
      if (schedule.laneInside) {
        Value seen = c.resizeInt(c.subI(start, clamped), b.getI32Type(), true);
        uncountedLanes = c.compareI(I::sge, c.steps(b.getI32Type(), 1), seen);
      }
      start = clamped;
    }
  }
  setCounter(schedule.loops.back(), start);
}

// Sets the lane counter for the last vector of a symbolic number of lanes, which may be partial.
void CpuKernel::enterTail(Value start, Value high) {
  Value left = c.resizeInt(c.subI(high, start), b.getI32Type(), true);
  tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), left);
  uncountedLanes = Value();
  setCounter(schedule.loops.back(), start);
}

// The end of the steps of `copies` whole vectors that fit into [low, high).
Value CpuKernel::wholeVectors(Value low, Value high, int64_t copies) {
  return c.addI(low, c.andI(c.subI(high, low), c.i64(-copies * int64_t(schedule.lanes))));
}

void CpuKernel::laneLoop(Value low, Value high, llvm::function_ref<void()> body) {
  Value outerTail = tailMask;
  const Dim extent = laneExtent();
  if (extent == 0)
    return;
  bool tail = schedule.lanes > 1 && !extent.isNumber() && !plan.space.facts.isMultiple(extent, schedule.lanes);
  uint64_t members = schedule.loops.back().members;
  Value whole = tail ? wholeVectors(low, high, 1) : high;
  if (!tail || plan.space.facts.bounds(extent).high >= schedule.lanes)
    loop(low, whole, schedule.lanes, {}, members, [&](Value i, ValueRange) {
      enterLanes(i);
      body();
      return Carried();
    });
  if (tail)
    loop(whole, high, schedule.lanes, {}, members, [&](Value i, ValueRange) {
      enterTail(i, high);
      body();
      return Carried();
    });
  tailMask = outerTail;
  uncountedLanes = Value();
}

void CpuKernel::row() {
  if (plan.isPut())
    return putRow();
  for (int number = 0; number < plan.passes; ++number) {
    currentPass = number;
    if (number + 1 == plan.passes) {
      storePass(number);
    } else {
      SmallVector<const Reduction *> all;
      for (const Reduction &reduction : plan.reductions)
        if (reduction.level == number + 1)
          all.push_back(&reduction);
      reducePass(all, number);
    }
  }
  currentPass = 0;
}

// Stores the values that later passes read again.
void CpuKernel::keep(int number) {
  for (const Cached &entry : plan.cache) {
    if (entry.pass != number)
      continue;
    int32_t dtype = plan.dag.exprs[entry.expr].dtype;
    Value kept = value(entry.expr, entry.at, 0);
    if (entry.root >= 0) {
      store(kept, outputs[entry.root], dtype, plan.roots[entry.root].address, Value());
      continue;
    }
    dtype = isNarrowFloat(dtype) ? int32_t(MORTISE_F32) : dtype;
    Value place = keptPlace(entry);
    if (!schedule.laneInside && schedule.lanes > 1) {
      Value element = pointer(place, c.memoryType(dtype), scalarIndex(plan.space.scale(plan.rowIndex, schedule.lanes)));
      LLVM::StoreOp::create(b, c.loc, c.toMemory(c.splat(kept), dtype), element);
    } else {
      store(kept, place, dtype, plan.rowIndex, Value());
    }
  }
}

void CpuKernel::storePass(int number) {
  Carried carried = startRuns();
  if (storesElements(number))
    serial(0, carried, [&](Carried &inner) {
      if (schedule.laneInside)
        laneLoop(c.i64(0), extent(laneExtent()), [&] { storeElements(number, inner); });
      else
        storeElements(number, inner);
    });
  storeRows();
}

// A pass that does little work per element uses several accumulators, combined in a fixed order.
void CpuKernel::reducePass(ArrayRef<const Reduction *> all, int number) {
  int64_t lanes = schedule.lanes;
  const Dim length = schedule.laneInside ? laneExtent() : Dim(0);
  const bool symbolic = !length.isNumber();
  int64_t vectors = plan.space.facts.bounds(length).high / lanes;
  bool cheap = plan.costPerPoint < 10.0 * plan.passes;
  int64_t unroll = shortRows ? 1 : vectors >= manyVectors && cheap ? 4 : vectors >= 4 && lanes > 1 ? 2 : 1;
  Carried carried;
  for (int64_t u = 0; u < unroll; ++u)
    for (const Reduction *reduction : all)
      carried.append(initial(*reduction, true));
  size_t perCopy = carried.size() / unroll;
  // One step of copy `u`: accumulates all reductions of the pass at the current counters.
  auto step = [&](Carried &sums, size_t u) {
    size_t at = u * perCopy;
    for (const Reduction *reduction : all) {
      size_t size = isArg(plan.dag.exprs[reduction->expr].op) ? 2 : 1;
      Carried next = accumulate(*reduction, Carried(sums.begin() + at, sums.begin() + at + size));
      std::copy(next.begin(), next.end(), sums.begin() + at);
      at += size;
    }
  };
  serial(0, carried, [&](Carried &sums) {
    if (!schedule.laneInside) {
      step(sums, 0);
      return keep(number);
    }
    auto run = [&](Value low, Value high, int64_t copies, bool tail = false) {
      Value outerTail = tailMask;
      sums = loop(low, high, lanes * copies, sums, schedule.loops.back().members, [&](Value i, ValueRange arguments) {
        Carried inner(arguments.begin(), arguments.end());
        const uint64_t known = scopes.back().loops;
        Value &counter = counters[schedule.loops.back().number];
        std::vector<std::pair<Scope, Value>> done;
        for (int64_t u = 0; u < copies; ++u) {
          scopes.back() = Scope{known};
          Value start = u ? c.addI(i, c.i64(u * lanes)) : i;
          tail ? enterTail(start, high) : enterLanes(start);
          step(inner, u);
          done.emplace_back(std::move(scopes.back()), counter);
        }
        // Stores come last: LLVM does not move the loads of the next copy above them, and the copies would run one
        // after another.
        for (auto &[scope, start] : done) {
          scopes.back() = std::move(scope);
          counter = start;
          keep(number);
        }
        return inner;
      });
      uncountedLanes = Value();
      tailMask = outerTail;
    };
    Value zero = c.i64(0), end = extent(length);
    if (symbolic) {
      Value unrolled = unroll > 1 ? wholeVectors(zero, end, unroll) : zero, whole = wholeVectors(zero, end, 1);
      if (unroll > 1)
        run(zero, unrolled, unroll);
      run(unrolled, whole, 1);
      if (!plan.space.facts.isMultiple(length, lanes))
        run(whole, end, 1, true);
      return;
    }
    int64_t number = *length.number(), whole = unroll > 1 ? number / (lanes * unroll) * (lanes * unroll) : 0;
    if (whole)
      run(zero, c.i64(whole), unroll);
    if (whole < number)
      run(c.i64(whole), end, 1);
  });
  size_t at = 0;
  for (const Reduction *reduction : all) {
    const Expr &expr = plan.dag.exprs[reduction->expr];
    size_t size = isArg(expr.op) ? 2 : 1;
    Carried total(carried.begin() + at, carried.begin() + at + size);
    for (int64_t u = 1; u < unroll; ++u)
      total =
          combine(expr, total, Carried(carried.begin() + u * perCopy + at, carried.begin() + u * perCopy + at + size));
    if (schedule.laneInside && lanes > 1)
      total = across(expr, total);
    at += size;
    Value result = isArg(expr.op) ? c.resizeInt(total[1], b.getI64Type(), true) : total[0];
    scopes[rowScope].values[{reduction->expr, {reduction->at, 0}}] = result;
  }
}

Value CpuKernel::symbol(uint32_t number) {
  return LLVM::LoadOp::create(b, c.loc, b.getI64Type(), pointer(symbols, b.getI64Type(), c.i64(number)), 8, false,
                              false, true);
}

Emitter::Bounds CpuKernel::boundsOf(const ScheduledLoop &level) {
  Value low = level.block ? blockStart : c.i64(0), high = extent(level.extent);
  if (level.block)
    high = c.two<arith::MinSIOp>(c.addI(low, c.i64(level.block)), high);
  return {low, high, c.i64(1)};
}

Value CpuKernel::keptPlace(const Cached &entry) {
  return pointer(scratch, b.getI8Type(), extent(cpuSchedule.offsets[&entry - plan.cache.data()]));
}

Value CpuKernel::readKept(const Cached &entry) {
  int32_t dtype = plan.dag.exprs[entry.expr].dtype;
  dtype = isNarrowFloat(dtype) ? int32_t(MORTISE_F32) : dtype;
  Value place = keptPlace(entry);
  if (schedule.laneInside || schedule.lanes == 1)
    return load(place, dtype, plan.rowIndex, 0, false);
  Value element = pointer(place, c.memoryType(dtype), scalarIndex(plan.space.scale(plan.rowIndex, schedule.lanes)));
  return c.fromMemory(LLVM::LoadOp::create(b, c.loc, c.vectorOf(c.memoryType(dtype)), element), dtype);
}

} // namespace mortise::codegen
