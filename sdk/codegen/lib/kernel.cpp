// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The loops of a function: tasks, lanes, passes over rows.
#include "emitter.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

Emitter::Emitter(LoopPlan &plan, ModuleOp module, OpBuilder &builder, const Instructions &instructions)
    : plan(plan), module(module), b(builder), c(builder, builder.getUnknownLoc(), plan.lanes, instructions) {
  if (plan.laneLoop && plan.lanes > 1)
    laneMask = plan.loops.back().members;
}

static constexpr double chunkCost = 32768, grainCost = 65536;

// Decides which loops are shared out as tasks (returned as a set of counters), the number of tasks, and the grain.
uint64_t Emitter::chooseTasks(EmittedKernel &kernel) {
  bool lanesKept = plan.laneLoop && !plan.laneReduced;
  uint64_t members = 0;
  double cost = std::max(1.0, plan.costPerPoint);
  Dim points = 1; // points per task
  for (const Loop &loop : plan.loops) {
    if (loop.block) {
      cost *= static_cast<double>(loop.block);
      points *= min(loop.extent, Dim(loop.block));
      kernel.tasks *= floorDiv(loop.extent + (loop.block - 1), loop.block);
    } else if (loop.reduced || (lanesKept && &loop == &plan.loops.back())) {
      cost *= std::max(plan.typical(loop.extent), 1.0);
      points *= lanesKept && &loop == &plan.loops.back() ? Dim(1) : loop.extent;
    } else {
      members |= loop.members;
      kernel.tasks *= loop.extent;
    }
  }
  Dim extent = laneExtent();
  // A long lane loop is split into several tasks.
  double length = std::max(plan.typical(extent), 1.0), perLane = cost / length;
  if (lanesKept && (cost > chunkCost || !extent.isNumber())) {
    chunk = std::max<int64_t>(plan.lanes, static_cast<int64_t>(chunkCost / perLane) / plan.lanes * plan.lanes);
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

EmittedKernel Emitter::emit(StringRef name) {
  EmittedKernel kernel;
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
  size_t inputCount = 0;
  for (const Expr &expr : plan.dag.exprs)
    if (expr.op == Op::Input)
      inputCount = std::max<size_t>(inputCount, expr.slot + 1);
  for (size_t i = 0; i < inputCount; ++i)
    inputs.push_back(load(entry->getArgument(0), i));
  for (size_t i = 0; i < plan.roots.size(); ++i)
    outputs.push_back(load(entry->getArgument(1), i));
  scratch = entry->getArgument(2), symbols = entry->getArgument(3);
  bool lanesKept = plan.laneLoop && !plan.laneReduced;
  if (auto extent = laneExtent().number(); laneMask && extent && *extent < plan.lanes)
    tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), c.integer(b.getI32Type(), *extent));

  uint64_t members = chooseTasks(kernel);
  scopes.push_back({0});
  auto run = [&] {
    rowScope = scopes.size() + (lanesKept ? 1 : 0);
    runTasks(entry->getArgument(4), entry->getArgument(5), members);
  };
  // Rows of symbolic length get a second version, because several accumulators do not pay for short rows.
  const int64_t least = manyVectors * static_cast<int64_t>(plan.lanes);
  const Interval length = plan.space.facts.bounds(laneExtent());
  if (plan.laneReduced && !plan.reductions.empty() && length.low < least && length.high >= least) {
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
  kernel.over = writableInputs();
  return kernel;
}

// Only pointwise kernels qualify, in which each step of the loops has elements of its own. Loads from such inputs are
// no longer marked invariant.
std::vector<std::vector<uint32_t>> Emitter::writableInputs() {
  std::vector<std::vector<uint32_t>> over(plan.roots.size());
  if (plan.isPut() || plan.scan || plan.passes != 1 || !plan.reductions.empty() || !plan.cache.empty() ||
      lastVectorOverlaps)
    return over;
  auto isOwn = [&](const Root &root) {
    const uint64_t loops = plan.space.loops(root.address);
    return !root.row && elementCount(plan.dag.exprs[root.expr].dims) == elementCount(plan.dims) &&
           llvm::all_of(plan.loops, [&](const Loop &loop) {
             return !loop.reduced && (loop.extent == 0 || loop.extent == 1 || loops & loop.members);
           });
  };
  for (size_t i = 0; i < plan.roots.size(); ++i) {
    const Root &root = plan.roots[i];
    std::map<uint32_t, bool> fits;
    for (const Read &read : reads) {
      const bool same = read.address == root.address && read.guard == 0 &&
                        dtypeBits(read.dtype) == dtypeBits(plan.dag.exprs[root.expr].dtype);
      auto [entry, fresh] = fits.try_emplace(read.slot, same);
      entry->second &= same;
    }
    for (auto [slot, same] : fits)
      if (same && isOwn(root))
        over[i].push_back(slot);
  }
  for (Read &read : reads)
    if (llvm::any_of(over, [&](const auto &slots) { return llvm::is_contained(slots, read.slot); }))
      for (LLVM::LoadOp load : read.loads)
        load.setInvariant(false);
  return over;
}

Emitter::Carried Emitter::loop(Value low, Value high, int64_t step, ValueRange inits, uint64_t members,
                               llvm::function_ref<Carried(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, c.loc, low, high, c.i64(step), inits);
  scopes.back().next = op;
  scopes.push_back({scopes.back().loops | members});
  OpBuilder::InsertionGuard keep(b);
  b.setInsertionPointToStart(op.getBody());
  Carried results = body(op.getInductionVar(), op.getRegionIterArgs());
  if (!inits.empty())
    scf::YieldOp::create(b, c.loc, results);
  scopes.pop_back();
  b.setInsertionPointAfter(op);
  return Carried(op.getResults().begin(), op.getResults().end());
}

void Emitter::setCounter(const Loop &loop, Value counter) { counters[loop.number] = counter; }

// The loops that enumerate tasks, outermost first.
SmallVector<const Loop *> Emitter::taskLoops() const {
  bool lanesKept = plan.laneLoop && !plan.laneReduced;
  SmallVector<const Loop *> kept;
  for (const Loop &loop : plan.loops)
    if ((!loop.reduced || loop.block) && !(lanesKept && &loop == &plan.loops.back()))
      kept.push_back(&loop);
  return kept;
}

// Splits a task's number into counters, innermost first: the chunk of the lane loop, then the loops. With symbolic
// extents the counters are incremented from task to task, because the divisions would take longer than a short task.
void Emitter::runTasks(Value begin, Value end, uint64_t members) {
  SmallVector<const Loop *> kept = taskLoops();
  SmallVector<Dim> radices;
  if (!(chunks == 1) || kept.empty())
    radices.push_back(chunks);
  for (const Loop *loop : llvm::reverse(kept))
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

void Emitter::task(ArrayRef<Value> digits) {
  SmallVector<const Loop *> kept = taskLoops();
  const bool chunked = !(chunks == 1) || kept.empty();
  for (size_t i = 0; i < kept.size(); ++i) {
    const Loop &loop = *kept[kept.size() - 1 - i];
    if (loop.block)
      blockStart = c.mulI(digits[i + chunked], c.i64(loop.block));
    else
      setCounter(loop, digits[i + chunked]);
  }
  if (!plan.laneLoop || plan.laneReduced)
    return row();
  if (chunks == 1)
    return laneLoop(c.i64(0), extent(laneExtent()), [&] { row(); });
  Value low = c.mulI(digits[0], c.i64(chunk));
  Value high = c.two<arith::MinSIOp>(c.addI(low, c.i64(chunk)), extent(laneExtent()));
  laneLoop(low, high, [&] { row(); });
}

// Sets the lane counter when the number of lanes is static. The last partial vector overlaps its neighbour, so that
// loads need no mask; reductions then exclude the lanes already counted. Puts and rows shorter than a vector use masks.
void Emitter::enterLanes(Value start) {
  uncountedLanes = Value();
  int64_t lanes = plan.lanes;
  if (auto number = laneExtent().number(); number && lanes > 1 && *number > lanes && *number % lanes) {
    int64_t extent = *number;
    if (plan.isPut()) {
      Value left = c.resizeInt(c.subI(c.i64(extent), start), b.getI32Type(), true);
      tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), left);
    } else {
      Value clamped = c.two<arith::MinSIOp>(start, c.i64(extent - lanes));
      lastVectorOverlaps = true;
      if (plan.laneReduced) {
        Value seen = c.resizeInt(c.subI(start, clamped), b.getI32Type(), true);
        uncountedLanes = c.compareI(I::sge, c.steps(b.getI32Type(), 1), seen);
      }
      start = clamped;
    }
  }
  setCounter(plan.loops.back(), start);
}

// Sets the lane counter for the last vector of a symbolic number of lanes, which may be partial.
void Emitter::enterTail(Value start, Value high) {
  Value left = c.resizeInt(c.subI(high, start), b.getI32Type(), true);
  tailMask = c.compareI(I::slt, c.steps(b.getI32Type(), 1), left);
  uncountedLanes = Value();
  setCounter(plan.loops.back(), start);
}

// The end of the steps of `copies` whole vectors that fit into [low, high).
Value Emitter::wholeVectors(Value low, Value high, int64_t copies) {
  return c.addI(low, c.andI(c.subI(high, low), c.i64(-copies * int64_t(plan.lanes))));
}

void Emitter::laneLoop(Value low, Value high, llvm::function_ref<void()> body) {
  Value outerTail = tailMask;
  const Dim extent = laneExtent();
  if (extent == 0)
    return;
  bool tail = plan.lanes > 1 && !extent.isNumber() && !plan.space.facts.isMultiple(extent, plan.lanes);
  uint64_t members = plan.loops.back().members;
  Value whole = tail ? wholeVectors(low, high, 1) : high;
  if (!tail || plan.space.facts.bounds(extent).high >= plan.lanes)
    loop(low, whole, plan.lanes, {}, members, [&](Value i, ValueRange) {
      enterLanes(i);
      body();
      return Carried();
    });
  if (tail)
    loop(whole, high, plan.lanes, {}, members, [&](Value i, ValueRange) {
      enterTail(i, high);
      body();
      return Carried();
    });
  tailMask = outerTail;
  uncountedLanes = Value();
}

// Runs the reduced loops other than the lane loop, outermost first.
void Emitter::serial(size_t from, Carried &carried, llvm::function_ref<void(Carried &)> body) {
  while (from < plan.loops.size() && (!plan.loops[from].reduced || (plan.laneReduced && from + 1 == plan.loops.size())))
    ++from;
  if (from == plan.loops.size())
    return body(carried);
  const Loop &level = plan.loops[from];
  if (level.extent == 0) // its counter is the constant 0, so a load could be hoisted out of the loop, and an empty
                         // tensor has no memory
    return;
  Value low = level.block ? blockStart : c.i64(0), high = extent(level.extent);
  if (level.block)
    high = c.two<arith::MinSIOp>(c.addI(low, c.i64(level.block)), high);
  carried = loop(low, high, 1, carried, level.members, [&](Value i, ValueRange arguments) {
    setCounter(level, i);
    Carried inner(arguments.begin(), arguments.end());
    serial(from + 1, inner, body);
    return inner;
  });
}

void Emitter::row() {
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
void Emitter::keep(int number) {
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
    Value place = pointer(scratch, b.getI8Type(), extent(entry.offset));
    if (!plan.laneReduced && plan.lanes > 1) {
      Value element = pointer(place, c.memoryType(dtype), scalarIndex(plan.space.scale(plan.rowIndex, plan.lanes)));
      LLVM::StoreOp::create(b, c.loc, c.toMemory(c.splat(kept), dtype), element);
    } else {
      store(kept, place, dtype, plan.rowIndex, Value());
    }
  }
}

void Emitter::storePass(int number) {
  bool any = !plan.runs.empty();
  for (const Root &root : plan.roots)
    any |= !root.row && root.pass == number;
  auto body = [&](Carried &carried) {
    for (size_t i = 0; i < plan.runs.size(); ++i)
      running[plan.runs[i]] = carried[i];
    SmallVector<std::pair<size_t, Value>> values; // all reads before the first write, as Function::over requires
    for (size_t i = 0; i < plan.roots.size(); ++i)
      if (const Root &root = plan.roots[i]; !root.row && root.pass == number)
        values.emplace_back(i, value(root.expr, root.at, 0));
    for (auto [i, computed] : values)
      store(computed, outputs[i], plan.dag.exprs[plan.roots[i].expr].dtype, plan.roots[i].address, Value());
    for (size_t i = 0; i < plan.runs.size(); ++i) {
      value(plan.runs[i].first, plan.runs[i].second, 0);
      carried[i] = running[plan.runs[i]];
    }
  };
  Carried carried;
  for (auto [expr, at] : plan.runs) {
    int32_t dtype = plan.dag.exprs[expr].dtype;
    Type type = c.registerType(dtype);
    int64_t first = plan.dag.exprs[expr].op == Op::Cumprod;
    Value start = isFloat(dtype) ? c.constant(type, static_cast<double>(first)) : c.integer(type, first);
    carried.push_back(c.splat(start));
  }
  if (any)
    serial(0, carried, [&](Carried &inner) {
      if (plan.laneReduced)
        laneLoop(c.i64(0), extent(laneExtent()), [&] { body(inner); });
      else
        body(inner);
    });
  for (size_t i = 0; i < plan.roots.size(); ++i)
    if (const Root &root = plan.roots[i]; root.row)
      store(value(root.expr, root.at, 0), outputs[i], plan.dag.exprs[root.expr].dtype, root.address, Value());
}

void Emitter::putRow() {
  const Expr &put = plan.dag.exprs[plan.dag.roots[0]];
  const Expr &operand = plan.dag.exprs[put.operands[0]];
  uint32_t copyLoop = plan.dims.size();
  auto copy = [&] {
    loop(c.i64(0), extent(plan.putExtent), 1, {}, uint64_t(1) << copyLoop, [&](Value j, ValueRange) {
      counters[copyLoop] = j;
      store(value(put.operands[0], plan.putCopyAt, 0), outputs[0], put.dtype, plan.putCopyAddress, Value());
      return Carried();
    });
  };
  if (operand.op == Op::Input) {
    Value differs = LLVM::ICmpOp::create(b, c.loc, LLVM::ICmpPredicate::ne, inputs[operand.slot], outputs[0]);
    auto branch = scf::IfOp::create(b, c.loc, differs, false);
    OpBuilder::InsertionGuard keep(b);
    scopes.back().next = branch;
    scopes.push_back({scopes.back().loops});
    b.setInsertionPointToStart(branch.thenBlock());
    copy();
    scopes.pop_back();
  } else {
    copy();
  }
  Carried none;
  serial(0, none, [&](Carried &) {
    TupleId at = plan.space.tuple(std::vector<IndexId>{plan.space.tuple(plan.identity())[put.axes[0]]});
    Value raw = value(put.operands[1], at, 0);
    raw = c.resizeInt(raw, b.getI64Type(), true);
    Value valid = c.andI(c.compareI(I::sge, raw, extent(Dim(0) - plan.putExtent)),
                         c.compareI(I::slt, raw, extent(plan.putExtent)));
    auto branch = scf::IfOp::create(b, c.loc, valid, false);
    OpBuilder::InsertionGuard keep(b);
    scopes.back().next = branch;
    scopes.push_back({scopes.back().loops});
    b.setInsertionPointToStart(branch.thenBlock());
    Value update = value(put.operands[2], plan.identity(), 0);
    if (put.add) {
      Value old = load(outputs[0], put.dtype, plan.putAddress, 0, false);
      update = isFloat(put.dtype)        ? c.add(old, update)
               : put.dtype == MORTISE_I1 ? c.orI(old, update)
                                         : c.addI(old, update);
    }
    store(update, outputs[0], put.dtype, plan.putAddress, Value());
    scopes.pop_back();
  });
}

} // namespace mortise::codegen
