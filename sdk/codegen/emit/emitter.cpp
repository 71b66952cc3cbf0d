// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops and scopes, and what a step of a pass stores.
#include "emit/emitter.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

Emitter::Emitter(LoopPlan &plan, const Schedule &schedule, ModuleOp module, OpBuilder &builder,
                 const Instructions &instructions)
    : plan(plan), schedule(schedule), module(module), b(builder),
      c(builder, builder.getUnknownLoc(), schedule.lanes, instructions) {
  if (schedule.laneLoop && schedule.lanes > 1)
    laneMask = schedule.loops.back().members;
}

size_t Emitter::inputCount() const {
  size_t count = 0;
  for (const Expr &expr : plan.dag.exprs)
    if (expr.op == Op::Input)
      count = std::max<size_t>(count, expr.slot + 1);
  return count;
}

Emitter::Carried Emitter::loop(Value low, Value high, Value step, ValueRange inits, uint64_t members,
                               llvm::function_ref<Carried(Value, ValueRange)> body) {
  auto op = scf::ForOp::create(b, c.loc, low, high, step, inits);
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

Emitter::Carried Emitter::loopWhile(Carried state, llvm::function_ref<Value(ValueRange)> condition,
                                    llvm::function_ref<Carried(ValueRange)> step) {
  // What both find out of outer scopes stands in front of this op, since the loop is none before it has its bodies.
  scopes.back().next = arith::ConstantOp::create(b, c.loc, b.getBoolAttr(true));
  const auto inScope = [&](auto body) {
    scopes.push_back({scopes.back().loops});
    auto made = body();
    scopes.pop_back();
    return made;
  };
  return c.repeat(
      state, [&](ValueRange current) { return inScope([&] { return condition(current); }); },
      [&](ValueRange current) { return inScope([&] { return step(current); }); });
}

void Emitter::onlyIf(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, c.loc, condition, false);
  OpBuilder::InsertionGuard keep(b);
  scopes.back().next = branch;
  scopes.push_back({scopes.back().loops});
  b.setInsertionPointToStart(branch.thenBlock());
  body();
  scopes.pop_back();
}

void Emitter::steps(const ScheduledLoop &level, Carried &carried, llvm::function_ref<void(Carried &)> body) {
  if (level.extent == 0) // its counter is the constant 0, so a load could be hoisted out of the loop, and an empty
                         // tensor has no memory
    return;
  const Bounds bounds = boundsOf(level);
  carried = loop(bounds.low, bounds.high, bounds.step, carried, level.members, [&](Value i, ValueRange arguments) {
    setCounter(level, i);
    Carried inner(arguments.begin(), arguments.end());
    body(inner);
    return inner;
  });
}

// Runs the loops inside a task other than the lane loop, outermost first.
void Emitter::serial(size_t from, Carried &carried, llvm::function_ref<void(Carried &)> body) {
  while (from < schedule.loops.size() &&
         (!schedule.loops[from].inside || (schedule.laneInside && from + 1 == schedule.loops.size())))
    ++from;
  if (from == schedule.loops.size())
    return body(carried);
  steps(schedule.loops[from], carried, [&](Carried &inner) { serial(from + 1, inner, body); });
}

Emitter::Carried Emitter::startRuns() {
  Carried carried;
  for (const auto &[expr, at] : plan.runs)
    carried.append(startOf(plan.dag.exprs[expr]));
  return carried;
}

void Emitter::storeElements(int pass, Carried &carried) {
  setRuns(carried);
  SmallVector<std::pair<size_t, Value>> values; // all reads before the first write, as Function::over requires
  for (size_t i = 0; i < plan.roots.size(); ++i)
    if (const Root &root = plan.roots[i]; !root.row && root.pass == pass)
      values.emplace_back(i, value(root.expr, root.at, 0));
  for (auto [i, computed] : values)
    store(computed, outputs[i], plan.dag.exprs[plan.roots[i].expr].dtype, plan.roots[i].address, Value());
  carried = takeRuns();
}

bool Emitter::storesElements(int pass) const {
  return !plan.runs.empty() ||
         llvm::any_of(plan.roots, [&](const Root &root) { return !root.row && root.pass == pass; });
}

void Emitter::storeRows() {
  for (size_t i = 0; i < plan.roots.size(); ++i)
    if (const Root &root = plan.roots[i]; root.row)
      store(value(root.expr, root.at, 0), outputs[i], plan.dag.exprs[root.expr].dtype, root.address, Value());
}

void Emitter::putRow() {
  const Expr &put = plan.dag.exprs[plan.dag.roots[0]];
  const Expr &operand = plan.dag.exprs[put.operands[0]];
  const uint32_t copyLoop = plan.dims.size();
  const auto copyElement = [&] {
    store(value(put.operands[0], plan.putCopyAt, 0), outputs[0], put.dtype, plan.putCopyAddress, Value());
  };
  const auto copy = [&] {
    loop(c.i64(0), extent(plan.putExtent), 1, {}, uint64_t(1) << copyLoop, [&](Value j, ValueRange) {
      counters[copyLoop] = j;
      copyElement();
      return Carried();
    });
  };
  const auto copyShare = [&] {
    Value first = c.resizeInt(value(put.operands[1], plan.putFirstAt, 0), b.getI64Type(), true);
    Value count = extent(plan.putCount());
    Value mine = scalarIndex(plan.space.tuple(plan.identity())[put.axes[0]]);
    loop(mine, extent(plan.putExtent), count, {}, uint64_t(1) << copyLoop, [&](Value j, ValueRange) {
      counters[copyLoop] = j;
      Value update = c.subI(j, first), wrapped = c.subI(update, extent(plan.putExtent));
      onlyIf(c.andI(c.compareI(I::uge, update, count), c.compareI(I::uge, wrapped, count)), copyElement);
      return Carried();
    });
  };
  if (operand.op == Op::Input) {
    onlyIf(LLVM::ICmpOp::create(b, c.loc, LLVM::ICmpPredicate::ne, inputs[operand.slot], outputs[0]),
           [&] { plan.isPutConsecutive ? copyShare() : copy(); });
  } else {
    plan.isPutConsecutive ? copyShare() : copy();
  }
  Carried none;
  serial(0, none, [&](Carried &) {
    TupleId at = plan.space.tuple(std::vector<IndexId>{plan.space.tuple(plan.identity())[put.axes[0]]});
    Value raw = value(put.operands[1], at, 0);
    raw = c.resizeInt(raw, b.getI64Type(), true);
    Value valid = c.andI(c.compareI(I::sge, raw, extent(Dim(0) - plan.putExtent)),
                         c.compareI(I::slt, raw, extent(plan.putExtent)));
    onlyIf(valid, [&] {
      Value update = value(put.operands[2], plan.identity(), 0);
      if (put.mode == UpdateMode::Add)
        update = combineUpdates(put.mode, load(outputs[0], put.dtype, plan.putAddress, 0, false), update, put.dtype);
      store(update, outputs[0], put.dtype, plan.putAddress, Value());
    });
  });
}

// Only kernels qualify in which each step of the loops has elements of its own. Loads from such inputs are no longer
// marked invariant.
std::vector<std::vector<uint32_t>> Emitter::writableInputs(bool rows) {
  std::vector<std::vector<uint32_t>> over(plan.roots.size());
  const bool isPointwise = plan.passes == 1 && plan.reductions.empty() && plan.cache.empty();
  if (plan.isUpdate() || plan.isSort() || plan.scan || !(isPointwise || rows) || lastVectorOverlaps)
    return over;
  auto isOwn = [&](const Root &root) {
    const uint64_t loops = plan.space.loops(root.address);
    const bool isLate = root.pass + 1 == plan.passes && // an output in which a pass keeps values is written earlier
                        llvm::none_of(plan.cache, [&](const Cached &entry) {
                          return entry.root == static_cast<int>(&root - plan.roots.data());
                        });
    return !root.row && isLate && elementCount(plan.dag.exprs[root.expr].dims) == elementCount(plan.dims) &&
           llvm::all_of(schedule.loops, [&](const ScheduledLoop &loop) {
             const bool isInTask = loop.inside && !loop.block;
             return (isPointwise ? !loop.inside : isInTask || !loop.reduced) &&
                    (loop.extent == 0 || loop.extent == 1 || loops & loop.members);
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

} // namespace mortise::codegen
