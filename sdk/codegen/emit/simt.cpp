// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emit/simt.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

EmittedSimtKernel SimtKernel::emit(StringRef name) {
  Type pointerType = LLVM::LLVMPointerType::get(b.getContext()), i32 = b.getI32Type(), i64 = b.getI64Type();
  SmallVector<Type> types(inputCount() + plan.roots.size(), pointerType);
  types.append(plan.dag.usedSymbols.size(), i64);
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, c.loc, name,
                                           LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types));
  const unsigned threads = simt.team * simt.teams;
  machine.makeKernel(function, threads);
  Block *entry = function.addEntryBlock(b);
  b.setInsertionPointToStart(entry);
  for (BlockArgument argument : entry->getArguments()) {
    auto &list = !isa<LLVM::LLVMPointerType>(argument.getType()) ? symbols
                 : inputs.size() < inputCount()                  ? inputs
                                                                 : outputs;
    list.push_back(argument);
  }
  scopes.push_back({0});

  // The fastest number is the one whose neighbours touch neighbouring memory: the member's where the team shares a row,
  // else the team's.
  Value thread = machine.thread(c);
  auto lowBits = [&](unsigned size) { return c.andI(thread, c.integer(i32, size - 1)); };
  auto highBits = [&](unsigned size) -> Value {
    return arith::ShRUIOp::create(b, c.loc, thread, c.integer(i32, llvm::Log2_32(size)));
  };
  const bool memberFirst = simt.laneInside;
  member = simt.team == 1 ? c.integer(i32, 0) : memberFirst ? lowBits(simt.team) : highBits(simt.teams);
  team = simt.teams == 1 ? c.integer(i32, 0) : memberFirst ? highBits(simt.team) : lowBits(simt.teams);

  // A grid has less than 2^31 blocks, so that the number of a unit fits i32 only where the units do.
  const bool narrow = isNarrow(simt.units);
  Type number = narrow ? i32 : i64;
  Value unit = c.addI(c.mulI(c.resizeInt(machine.block(c), number, false), c.integer(number, simt.teams)),
                      c.resizeInt(team, number, false));
  Value count = c.resizeInt(extent(simt.units), number, false);
  const bool exact = plan.space.facts.isMultiple(simt.units, simt.teams);
  rowScope = 1;
  auto body = [&](Value mine) {
    enterUnit(mine);
    row();
  };
  if (simt.team > 1) {
    // Threads of a team that has no unit compute the last one once more, because barriers and exchanges need them all.
    // They store what its own team stores.
    if (!exact)
      unit = c.two<arith::MinUIOp>(unit, c.subI(count, c.integer(number, 1)));
    scopes.push_back({0});
    body(unit);
    scopes.pop_back();
  } else if (exact) {
    scopes.push_back({0});
    body(unit);
    scopes.pop_back();
  } else {
    onlyIf(c.compareI(I::ult, unit, count), [&] { body(unit); });
  }
  LLVM::ReturnOp::create(b, c.loc, ValueRange());
  return {usesAlignment, writableInputs()};
}

// Splits the number of a unit into counters, innermost first.
void SimtKernel::enterUnit(Value unit) {
  struct Digit {
    const ScheduledLoop *loop;
    Dim radix;
    int64_t step;
  };
  SmallVector<Digit> digits;
  for (size_t i = simt.loops.size(); i-- > 0;) {
    const ScheduledLoop &loop = simt.loops[i];
    if (loop.inside)
      continue;
    const bool lanes = i + 1 == simt.loops.size() && simt.laneLoop;
    digits.push_back({&loop, lanes ? floorDiv(loop.extent, simt.lanes) : loop.extent, lanes ? int64_t(simt.lanes) : 1});
  }
  for (size_t i = 0; i < digits.size(); ++i) {
    const auto &[loop, radix, step] = digits[i];
    Value digit = unit;
    if (i + 1 < digits.size()) {
      Value size = c.resizeInt(positive(radix), unit.getType(), false);
      digit = c.two<arith::RemUIOp>(unit, size);
      unit = c.two<arith::DivUIOp>(unit, size);
    }
    digit = c.resizeInt(digit, b.getI64Type(), false);
    setCounter(*loop, step == 1 ? digit : c.mulI(digit, c.i64(step)));
    scopes.back().loops |= loop->members;
  }
}

Value SimtKernel::symbol(uint32_t number) {
  return symbols[llvm::lower_bound(plan.dag.usedSymbols, number) - plan.dag.usedSymbols.begin()];
}

Emitter::Bounds SimtKernel::boundsOf(const ScheduledLoop &loop) {
  if (simt.split >= 0 && &loop == &simt.loops[simt.split])
    return {c.resizeInt(member, b.getI64Type(), false), extent(loop.extent), c.i64(simt.team)};
  return {c.i64(0), extent(loop.extent), c.i64(1)};
}

// All terms of the address have to be multiples of the lanes, where a counter of the lane loop counts as one.
unsigned SimtKernel::alignmentOf(int32_t dtype, IndexId address) {
  const unsigned element = dtypeBits(dtype) / 8;
  const unsigned whole = std::min(alignment, element * simt.lanes);
  if (whole <= element)
    return element;
  const int64_t needed = whole / element;
  const Index &index = plan.space.index(address);
  bool aligned = plan.space.facts.isMultiple(index.constant, needed);
  for (const auto &[atom, factor] : index.terms) {
    const Atom &term = plan.space.atom(atom);
    const bool isLane = term.kind == Atom::Loop && term.loop == simt.loops.back().number;
    aligned &= isLane || plan.space.facts.isMultiple(factor, needed);
  }
  usesAlignment |= aligned;
  return aligned ? whole : element;
}

void SimtKernel::row() {
  if (plan.isPut())
    return putRow();
  for (unsigned i = 0; i < simt.copies; ++i) {
    Value vector = c.addI(member, c.integer(b.getI32Type(), int64_t(i) * simt.team));
    Value start = c.mulI(c.resizeInt(vector, b.getI64Type(), false), c.i64(simt.lanes));
    Copy copy;
    const int64_t extent = *laneExtent().number();
    if (int64_t(i + 1) * simt.team * simt.lanes > extent) {
      copy.isInside = c.compareI(I::slt, start, c.i64(extent));
      start = c.select(copy.isInside, start, c.i64(0)); // loads have to stay inside, too
    }
    copy.start = start;
    copy.scope = Scope{scopes.back().loops | simt.loops.back().members};
    rowCopies.push_back(std::move(copy));
  }
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

// Runs the body for each of the thread's steps inside a unit.
void SimtKernel::forVectors(Carried &carried, llvm::function_ref<void(Carried &)> body) {
  serial(0, carried, [&](Carried &inner) {
    if (!simt.laneInside)
      return body(inner);
    if (laneExtent() == 0)
      return;
    const ScheduledLoop &lanes = simt.loops.back();
    for (Copy &copy : rowCopies) {
      scopes.back().next = nullptr;
      scopes.push_back(std::move(copy.scope));
      setCounter(lanes, copy.start);
      active = copy.isInside;
      body(inner);
      active = Value();
      copy.scope = std::move(scopes.back());
      scopes.pop_back();
    }
    if (!rowCopies.empty())
      return;
    Value low = c.mulI(c.resizeInt(member, b.getI64Type(), false), c.i64(simt.lanes));
    const int64_t step = int64_t(simt.team) * simt.lanes;
    inner = loop(low, extent(laneExtent()), step, inner, lanes.members, [&](Value i, ValueRange arguments) {
      setCounter(lanes, i);
      Carried values(arguments.begin(), arguments.end());
      body(values);
      return values;
    });
  });
}

// Stores the values of this pass that an output keeps for later ones.
void SimtKernel::keep(int number) {
  const auto stores = [&](const Cached &entry) { return entry.pass == number && entry.root >= 0; };
  if (llvm::none_of(plan.cache, stores))
    return;
  auto body = [&] {
    for (const Cached &entry : plan.cache)
      if (stores(entry))
        store(value(entry.expr, entry.at, 0), outputs[entry.root], plan.dag.exprs[entry.expr].dtype,
              plan.roots[entry.root].address, Value());
  };
  active ? onlyIf(active, body) : body();
}

void SimtKernel::storePass(int number) {
  Carried carried = startRuns();
  if (storesElements(number))
    forVectors(carried, [&](Carried &inner) {
      auto body = [&] { storeElements(number, inner); };
      active ? onlyIf(active, body) : body();
    });
  const bool any = llvm::any_of(plan.roots, [](const Root &root) { return root.row; });
  if (any && simt.team > 1)
    onlyIf(c.compareI(I::eq, member, c.integer(b.getI32Type(), 0)), [&] { storeRows(); });
  else
    storeRows();
}

void SimtKernel::reducePass(ArrayRef<const Reduction *> all, int number) {
  Carried carried;
  for (const Reduction *reduction : all)
    carried.append(initial(*reduction, true));
  auto sizeOf = [&](const Reduction *reduction) { return isArg(plan.dag.exprs[reduction->expr].op) ? 2 : 1; };
  forVectors(carried, [&](Carried &sums) {
    size_t at = 0;
    for (const Reduction *reduction : all) {
      const size_t size = sizeOf(reduction);
      Carried before(sums.begin() + at, sums.begin() + at + size), next = accumulate(*reduction, before);
      for (size_t i = 0; i < size; ++i)
        sums[at + i] = active ? c.select(active, next[i], before[i]) : next[i];
      at += size;
    }
    keep(number);
  });
  size_t at = 0;
  for (const Reduction *reduction : all) {
    const Expr &expr = plan.dag.exprs[reduction->expr];
    const size_t size = sizeOf(reduction);
    Carried total(carried.begin() + at, carried.begin() + at + size);
    at += size;
    if (simt.laneInside && simt.lanes > 1)
      total = across(expr, total);
    if (simt.team > 1)
      total = combineTeam(expr, total);
    Value result = isArg(expr.op) ? c.resizeInt(total[1], b.getI64Type(), true) : total[0];
    scopes[rowScope].values[{reduction->expr, {reduction->at, 0}}] = result;
  }
}

// The value that the thread with another number holds. Exchanges move 32 bits.
Value SimtKernel::exchange(Value part, unsigned mask) {
  const unsigned width = part.getType().getIntOrFloatBitWidth();
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value bits = isa<FloatType>(part.getType()) ? c.intBits(part) : part;
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

// An array in the block's memory.
Value SimtKernel::shared(Type type, size_t count) {
  const std::string name = "shared" + std::to_string(sharedArrays++);
  {
    OpBuilder::InsertionGuard keep(b);
    b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(b, c.loc, LLVM::LLVMArrayType::get(type, count), false, LLVM::Linkage::Internal, name,
                           Attribute(), 16, machine.sharedSpace());
  }
  return LLVM::AddressOfOp::create(b, c.loc, LLVM::LLVMPointerType::get(b.getContext(), machine.sharedSpace()), name);
}

// Combines the `count` partial results of a team in the order of their numbers. This thread's is number `mine`. Result
// number n of a team lies at n * side + at. Every array is used once, so that one barrier suffices.
Emitter::Carried SimtKernel::combineShared(const Expr &expr, Carried parts, unsigned count, Value mine, unsigned side,
                                           Value at) {
  Type i32 = b.getI32Type();
  SmallVector<Value> arrays;
  auto place = [&](Value array, Type type, Value number) -> Value {
    Value index = c.addI(c.mulI(number, c.integer(i32, side)), at);
    return LLVM::GEPOp::create(b, c.loc, array.getType(), type, array, ValueRange{index});
  };
  auto memory = [&](Type type) -> Type { // booleans take a byte
    return getElementTypeOrSelf(type).isInteger(1) ? c.like(parts[0], b.getI8Type()) : type;
  };
  SmallVector<Type> types;
  for (Value part : parts) {
    types.push_back(memory(part.getType()));
    arrays.push_back(shared(types.back(), size_t(count) * simt.teams));
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    Value bits = types[i] == parts[i].getType() ? parts[i] : c.resizeInt(parts[i], b.getI8Type(), false);
    LLVM::StoreOp::create(b, c.loc, bits, place(arrays[i], types[i], mine));
  }
  machine.barrier(c);
  Carried total;
  for (unsigned number = 0; number < count; ++number) {
    Carried next;
    for (size_t i = 0; i < parts.size(); ++i) {
      Value read = LLVM::LoadOp::create(b, c.loc, types[i], place(arrays[i], types[i], c.integer(i32, number)));
      next.push_back(types[i] == parts[i].getType() ? read : c.resizeInt(read, b.getI1Type(), false));
    }
    total = number ? combine(expr, total, next) : next;
  }
  return total;
}

Emitter::Carried SimtKernel::combineTeam(const Expr &expr, Carried parts) {
  Type i32 = b.getI32Type();
  if (!simt.laneInside)
    return combineShared(expr, parts, simt.team, member, simt.teams, team);
  const unsigned near = std::min(simt.team, machine.subgroup());
  for (unsigned mask = near / 2; mask >= 1; mask /= 2) {
    Carried other;
    for (Value part : parts)
      other.push_back(exchange(part, mask));
    parts = combine(expr, parts, other);
  }
  if (simt.team == near)
    return parts;
  // The threads of a subgroup hold, and store, the same.
  Value mine = arith::ShRUIOp::create(b, c.loc, member, c.integer(i32, llvm::Log2_32(near)));
  const unsigned subgroups = simt.team / near;
  Value first = c.mulI(team, c.integer(i32, subgroups)); // of the team
  return combineShared(expr, parts, subgroups, mine, 1, first);
}

} // namespace mortise::codegen
