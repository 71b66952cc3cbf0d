// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows: what of one stays in registers or in the block's memory, and the ends of rows whose vectors begin later.
#include "emit/simt.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

void SimtKernel::row(Value unit) {
  if (plan.isPut())
    return putRow();
  if (simt.scans)
    return scanRow(unit);
  if (plan.scan && role == Role::Parts)
    return scanPart(unit);
  if (simt.peeled)
    peel();
  for (unsigned i = 0; i < simt.copies; ++i)
    rowCopies.push_back(copyOf(i));
  if (awaits) {
    for (Copy &copy : rowCopies)
      inCopy(copy, [&] {
        for (unsigned i = 0; i < simt.results(); ++i)
          forResult(i, [&] {
            for (const Reduction &reduction : std::vector<Reduction>(plan.reductions))
              readWeights(copy, plan.dag.exprs[reduction.expr].operands[0], reduction.operandAt, 0);
          });
      });
    await();
  }
  if (simt.keepsRow)
    fetchRow();
  if (plan.product && role == Role::Whole)
    inResult([&] {
      for (const Root &root : plan.roots)
        readAhead(root.expr, root.at, 0);
    });
  for (int number = 0; number < plan.passes; ++number) {
    currentPass = number;
    if (number + 1 == plan.passes) {
      if (role == Role::Whole || plan.scan)
        storePass(number, unit);
    } else {
      SmallVector<const Reduction *> all;
      for (const Reduction &reduction : plan.reductions)
        if (reduction.level == number + 1)
          all.push_back(&reduction);
      reducePass(all, number, unit);
    }
  }
  currentPass = 0;
}

// What follows a product reads its operands beside those of the sum, not behind the last barrier, where the whole
// device may wait for them.
void SimtKernel::readAhead(ExprId id, TupleId at, GuardId guard) {
  const std::vector<IndexId> indices = plan.space.tuple(at);
  if (guard || llvm::any_of(indices, [&](IndexId index) { return plan.space.reductions(index); }))
    return;
  if (plan.dag.exprs[id].op == Op::Input) {
    value(id, at, guard);
    return;
  }
  for (const Access &access : plan.accesses(id, at, guard)) // reductions have none
    readAhead(access.expr, access.at, access.guard);
}

// Results that differ only along loops of which the address knows nothing read the same.
SimtKernel::Ahead SimtKernel::aheadOf(uint32_t slot, IndexId address) const {
  unsigned first = 0, stride = 1, number = resultAtHand;
  for (const SimtSchedule::Neighbours &each : simt.together) {
    if (plan.space.loops(address) & simt.loops[each.loop].members)
      first += number % each.count * stride;
    number /= each.count, stride *= each.count;
  }
  return {slot, address, first};
}

// The weights of a product are under way while this kernel waits for those before it. They are widened behind the wait,
// which would else wait for them.
void SimtKernel::readWeights(Copy &copy, ExprId id, TupleId at, GuardId guard) {
  const Expr &expr = plan.dag.exprs[id];
  if (expr.op == Op::Input) {
    const IndexId address = plan.space.dot(plan.space.tuple(at), expr.strides, expr.offset);
    if (expr.stays && guard == 0 && !copy.ahead.contains(aheadOf(expr.slot, address)))
      copy.ahead[aheadOf(expr.slot, address)] = readRaw(expr.slot, expr.dtype, address, guard);
    return;
  }
  for (const Access &access : plan.accesses(id, at, guard))
    readWeights(copy, access.expr, access.at, access.guard);
}

// Of this thread's vectors of the row.
SimtKernel::Copy SimtKernel::copyOf(unsigned number) {
  Value vector = c.addI(member, c.integer(b.getI32Type(), int64_t(number) * simt.team));
  Value start = c.mulI(c.resizeInt(vector, b.getI64Type(), false), c.i64(simt.lanes));
  Value first = simt.peeled ? vectorsBegin : c.i64(0);
  start = c.addI(start, first);
  Copy copy;
  const int64_t extent = *laneExtent().number(), mostHead = simt.peeled ? simt.lanes - 1 : 0;
  if (int64_t(number + 1) * simt.team * simt.lanes + mostHead > extent) {
    copy.isInside = c.compareI(I::sle, start, c.i64(extent - simt.lanes));
    start = c.select(copy.isInside, start, first); // loads have to stay inside, too
  }
  copy.start = start;
  copy.scope = Scope{scopes.back().loops | simt.loops.back().members};
  return copy;
}

// The block's memory for the rows of its teams: `count` elements of a type.
Value SimtKernel::rowArray(Type type, int64_t count) {
  if (!machine.launchesRows())
    return shared(type, count);
  const std::string name = entry + "_rows";
  auto known = module.lookupSymbol<LLVM::GlobalOp>(name);
  Type pointerType = LLVM::LLVMPointerType::get(b.getContext(), machine.sharedSpace());
  Value base = known ? LLVM::AddressOfOp::create(b, c.loc, pointerType, name).getResult()
                     : machine.sharedArray(c, module, name, b.getI8Type(), 0);
  Value mine = LLVM::GEPOp::create(b, c.loc, pointerType, b.getI8Type(), base,
                                   ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(sharedBytes)});
  sharedBytes += static_cast<unsigned>(llvm::alignTo(bytesOf(type) * count, 16));
  return mine;
}

// Brings what several passes read of the row into the block's memory. A thread reads there what it has brought itself.
void SimtKernel::fetchRow() {
  const int64_t vectors = simt.keptElements() / simt.lanes;
  const auto arrayOf = [&](Type element) {
    Type type = simt.lanes > 1 ? c.vectorOf(element) : element;
    return KeptRow{type, rowArray(type, vectors * simt.teams)};
  };
  for (const Reread &read : plan.rereads)
    keptReads.emplace_back(read, arrayOf(c.memoryType(read.dtype)));
  for (const Cached &entry : plan.cache)
    if (simt.keeps(entry))
      keptValues.emplace(&entry, arrayOf(inScratchType(c.registerType(plan.dag.exprs[entry.expr].dtype))));
  const bool isAside = machine.copiesAside() && llvm::all_of(keptReads, [&](const auto &each) {
                         const auto &[read, row] = each;
                         return bytesOf(row.type) == 16 && alignmentOf(read.dtype, read.address) == 16;
                       });
  const unsigned last = static_cast<unsigned>((vectors + simt.team - 1) / simt.team) + simt.copies;
  for (unsigned number = simt.copies; number < last; number += SimtSchedule::fetchedAtOnce) {
    std::vector<Copy> copies;
    for (unsigned i = number; i < std::min(last, number + SimtSchedule::fetchedAtOnce); ++i)
      copies.push_back(copyOf(i));
    isAside ? copyAside(copies) : copyThroughRegisters(copies);
  }
  if (isAside)
    machine.awaitCopies(c);
}

void SimtKernel::copyAside(MutableArrayRef<Copy> vectors) {
  const auto ask = [&] {
    for (const auto &[read, row] : keptReads)
      machine.copyAside(c, placeInRow(row),
                        pointer(inputs[read.slot], c.memoryType(read.dtype), scalarIndex(read.address)));
  };
  for (Copy &vector : vectors)
    inCopy(vector, [&] { active ? onlyIf(active, ask) : ask(); });
}

// All loads come before the first store.
void SimtKernel::copyThroughRegisters(MutableArrayRef<Copy> vectors) {
  SmallVector<Value> loaded;
  for (Copy &vector : vectors)
    inCopy(vector, [&] {
      for (const auto &[read, row] : keptReads)
        loaded.push_back(readRaw(read.slot, read.dtype, read.address, 0));
    });
  size_t at = 0;
  const auto keep = [&] {
    for (const auto &[read, row] : keptReads)
      LLVM::StoreOp::create(b, c.loc, loaded[at++], placeInRow(row), alignmentIn(row));
  };
  for (Copy &vector : vectors)
    inCopy(vector, [&] { active ? onlyIf(active, keep) : keep(); });
}

// Of the vector at hand.
Value SimtKernel::placeInRow(const KeptRow &row) {
  Value first = c.i64(int64_t(simt.copies) * simt.team * simt.lanes);
  if (simt.peeled)
    first = c.addI(first, vectorsBegin);
  Type i32 = b.getI32Type();
  Value at = c.resizeInt(c.subI(counters[simt.loops.back().number], first), i32, true);
  at = arith::ShRUIOp::create(b, c.loc, at, c.integer(i32, llvm::Log2_32(simt.lanes)));
  if (simt.teams > 1)
    at = c.addI(at, c.mulI(team, c.integer(i32, simt.keptElements() / simt.lanes)));
  return LLVM::GEPOp::create(b, c.loc, row.array.getType(), row.type, row.array, ValueRange{at});
}

unsigned SimtKernel::alignmentIn(const KeptRow &row) { return std::min(16U, bytesOf(row.type)); }

Value SimtKernel::loadKept(const KeptRow &row) {
  return LLVM::LoadOp::create(b, c.loc, row.type, placeInRow(row), alignmentIn(row));
}

Value SimtKernel::readKept(const Cached &entry) {
  const auto found = keptValues.find(&entry);
  if (found == keptValues.end() || isInCopy)
    return {};
  Value raw = loadKept(found->second);
  return isBool(plan.dag.exprs[entry.expr].dtype) ? c.resizeInt(raw, b.getI1Type(), false) : raw;
}

Value SimtKernel::read(const Expr &input, IndexId address, GuardId guard) {
  if (copyAtHand && guard == 0)
    if (const auto found = copyAtHand->ahead.find(aheadOf(input.slot, address)); found != copyAtHand->ahead.end())
      return c.fromMemory(found->second, input.dtype);
  if (!isInCopy && guard == 0)
    for (const auto &[read, row] : keptReads)
      if (read.slot == input.slot && read.address == address)
        return c.fromMemory(loadKept(row), input.dtype);
  return Emitter::read(input, address, guard);
}

// The elements in front of the row's first aligned vector and those behind its last go to threads one by one.
void SimtKernel::peel() {
  const ScheduledLoop &lane = simt.loops.back();
  IndexId rowStart = *simt.peeled;
  for (const auto &[atom, factor] : Index(plan.space.index(rowStart)).terms)
    if (plan.space.atom(atom).kind == Atom::Loop && plan.space.atom(atom).loop == lane.number)
      rowStart = plan.space.add(rowStart, plan.space.atomIndex(atom), -1);
  Value length = extent(lane.extent), rest = c.i64(simt.lanes - 1);
  Value mine = c.resizeInt(member, b.getI64Type(), false);
  vectorsBegin = c.andI(c.subI(c.i64(0), scalarIndex(rowStart)), rest);
  Value behind = c.andI(c.subI(length, vectorsBegin), rest);
  vectorsEnd = c.subI(length, behind);
  Value element =
      c.select(c.compareI(I::slt, mine, vectorsBegin), mine, c.addI(vectorsEnd, c.subI(mine, vectorsBegin)));
  edge.isInside = c.compareI(I::slt, element, length);
  if (role == Role::Parts)
    edge.isInside = c.andI(edge.isInside, c.compareI(I::eq, part, c.i64(0)));
  edge.start = c.select(edge.isInside, element, c.i64(0));
  edge.scope = Scope{scopes.back().loops | lane.members};
}

void SimtKernel::inCopy(Copy &copy, llvm::function_ref<void()> body) {
  scopes.back().next = nullptr;
  scopes.push_back(std::move(copy.scope));
  setCounter(simt.loops.back(), copy.start);
  active = copy.isInside;
  isInCopy = true;
  copyAtHand = &copy;
  body();
  copyAtHand = nullptr;
  isInCopy = false;
  active = Value();
  copy.scope = std::move(scopes.back());
  scopes.pop_back();
}

// What the body emits is for one element.
void SimtKernel::onEdge(llvm::function_ref<void()> body) {
  if (!simt.peeled)
    return;
  const uint64_t mask = std::exchange(laneMask, 0);
  const unsigned lanes = std::exchange(c.lanes, 1);
  inCopy(edge, body);
  laneMask = mask, c.lanes = lanes;
}

} // namespace mortise::codegen
