// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emit/simt.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

static LLVM::LLVMFuncOp makeFunction(ModuleOp module, Code &c, StringRef name, size_t pointers, size_t numbers) {
  Type pointerType = LLVM::LLVMPointerType::get(c.b.getContext());
  SmallVector<Type> types(pointers, pointerType);
  types.append(numbers, c.b.getI64Type());
  c.b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(
      c.b, c.loc, name, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(c.b.getContext()), types));
  c.b.setInsertionPointToStart(function.addEntryBlock(c.b));
  return function;
}

EmittedSimtKernel SimtKernel::emit(StringRef name) {
  const size_t tensors = inputCount() + plan.roots.size();
  auto function = makeFunction(module, c, name, tensors + (simt.hasScratch() ? 1 : 0), plan.dag.usedSymbols.size());
  machine.makeKernel(function, simt.threads(), simt.resident, /*cluster=*/1);
  SimtArguments arguments;
  for (BlockArgument argument : function.getArguments()) {
    const size_t number = argument.getArgNumber();
    if (number < tensors)
      (number < inputCount() ? arguments.inputs : arguments.outputs).push_back(argument);
    else if (number < function.getNumArguments() - plan.dag.usedSymbols.size())
      arguments.scratch = argument;
    else
      arguments.symbols.push_back(argument);
  }
  arguments.block = machine.block(c);
  arguments.awaits = overlaps();
  if (arguments.awaits)
    machine.releaseNext(c);
  EmittedSimtKernel kernel = emitBody(name, std::move(arguments));
  LLVM::ReturnOp::create(b, c.loc, ValueRange());
  return kernel;
}

EmittedSimtKernel emitBundle(ArrayRef<std::unique_ptr<SimtKernel>> bodies, StringRef name, ArrayRef<uint32_t> symbols,
                             const SimtMachine &machine, ModuleOp module, Code &c) {
  size_t inputs = 0, outputs = 0;
  for (const auto &body : bodies)
    inputs += body->inputCount(), outputs += body->loops().roots.size();
  auto function = makeFunction(module, c, name, inputs + outputs, symbols.size());
  unsigned resident = bodies[0]->ofUnits().resident;
  for (const auto &body : bodies)
    resident = std::min(resident, body->ofUnits().resident);
  machine.makeKernel(function, bodies[0]->ofUnits().threads(), resident, /*cluster=*/1);
  const auto symbol = [&](uint32_t number) -> Value {
    return function.getArgument(inputs + outputs + (llvm::lower_bound(symbols, number) - symbols.begin()));
  };
  EmittedSimtKernel bundle;
  Value block = machine.block(c);
  bundle.awaits = llvm::all_of(bodies, [](const auto &body) { return body->overlaps(); });
  if (bundle.awaits)
    machine.releaseNext(c);
  size_t input = 0, output = inputs, number = 0;
  for (const auto &body : bodies) {
    SimtArguments arguments;
    const size_t firstInput = input;
    for (size_t i = 0; i < body->inputCount(); ++i)
      arguments.inputs.push_back(function.getArgument(input++));
    for (size_t i = 0; i < body->loops().roots.size(); ++i)
      arguments.outputs.push_back(function.getArgument(output++));
    for (const uint32_t used : body->loops().dag.usedSymbols)
      arguments.symbols.push_back(symbol(used));
    arguments.block = block;
    arguments.awaits = bundle.awaits;
    Value count = body->countOfBlocks(arguments);
    auto branch = scf::IfOp::create(c.b, c.loc, c.compareI(I::ult, block, count), /*withElseRegion=*/true);
    c.b.setInsertionPointToStart(branch.thenBlock());
    EmittedSimtKernel emitted = body->emitBody((name + "_" + std::to_string(number++)).str(), std::move(arguments));
    bundle.usesAlignment |= emitted.usesAlignment;
    for (std::vector<uint32_t> &over : emitted.over) {
      for (uint32_t &each : over)
        each += static_cast<uint32_t>(firstInput);
      bundle.over.push_back(std::move(over));
    }
    c.b.setInsertionPointToStart(branch.elseBlock());
    block = c.subI(block, count);
  }
  c.b.setInsertionPointToEnd(&function.getBody().front());
  LLVM::ReturnOp::create(c.b, c.loc, ValueRange());
  return bundle;
}

// Before the body is emitted.
Value SimtKernel::countOfBlocks(const SimtArguments &arguments) {
  symbols = arguments.symbols;
  scopes.push_back({0});
  Value count = c.resizeInt(extent(simt.blocks()), b.getI32Type(), true);
  scopes.clear();
  extents.clear(); // those of the body stand in the body
  return count;
}

EmittedSimtKernel SimtKernel::emitBody(StringRef name, SimtArguments arguments) {
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  entry = name.str();
  tables = entry + "_table";
  inputsStay = !overlaps(); // what is read before the kernels are awaited may be old
  c.isNarrow =
      llvm::all_of(plan.roots, [&](const Root &root) { return isNarrowFloat(plan.dag.exprs[root.expr].dtype); });
  awaits = arguments.awaits;
  if (!readsWeightsFirst())
    await();
  inputs = std::move(arguments.inputs), outputs = std::move(arguments.outputs);
  symbols = std::move(arguments.symbols), scratch = arguments.scratch;
  scopes.push_back({0});
  if (simt.sort) {
    sort(arguments.block);
    return {sharedBytes, usesAlignment, overlaps(), writableInputs(/*rows=*/false)};
  }

  if (role == Role::Fold) {
    foldParts(itemOf(arguments.block));
    return {sharedBytes, usesAlignment, overlaps(), writableInputs(/*rows=*/false)};
  }

  // The fastest number is the one whose neighbours touch neighbouring memory: the member's where the team shares a row,
  // else the team's.
  Value thread = machine.thread(c);
  auto lowBits = [&](unsigned size) { return c.andI(thread, c.integer(i32, size - 1)); };
  auto highBits = [&](unsigned size) -> Value {
    return arith::ShRUIOp::create(b, c.loc, thread, c.integer(i32, llvm::Log2_32(size)));
  };
  const bool memberFirst = simt.laneInside || simt.scans;
  member = simt.team == 1 ? c.integer(i32, 0) : memberFirst ? lowBits(simt.team) : highBits(simt.teams);
  team = simt.teams == 1 ? c.integer(i32, 0) : memberFirst ? highBits(simt.team) : lowBits(simt.teams);

  if (simt.results() > 1) {
    Value lane = lowBits(std::min(simt.team, machine.subgroup()));
    resultNumber = c.two<arith::MinUIOp>(lane, c.integer(i32, simt.results() - 1));
  }

  // A grid has less than 2^31 blocks, so that the number of a unit fits i32 only where the units do.
  const bool narrow = isNarrow(simt.units);
  Type number = narrow ? i32 : i64;
  Value block = arguments.block;
  if (hasPart()) {
    Value size = c.resizeInt(positive(simt.blocks()), i32, true);
    part = c.resizeInt(c.two<arith::DivUIOp>(block, size), i64, false);
    block = c.two<arith::RemUIOp>(block, size);
  }
  Value unit = c.addI(c.mulI(c.resizeInt(block, number, false), c.integer(number, simt.teams)),
                      c.resizeInt(team, number, false));
  Value count = c.resizeInt(extent(simt.units), number, false);
  const bool exact = plan.space.facts.isMultiple(simt.units, simt.teams);
  rowScope = 1;
  auto body = [&](Value mine) {
    if (simt.tile)
      return product(mine);
    enterUnit(mine);
    mine = c.resizeInt(mine, i64, false);
    role == Role::Combine && !plan.scan ? combineParts(mine) : row(mine);
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
  return {sharedBytes, usesAlignment, overlaps(), writableInputs(/*rows=*/false)};
}

// The number of a thread among those of all blocks, i64.
Value SimtKernel::itemOf(Value block) {
  const Type i64 = b.getI64Type();
  return c.addI(c.mulI(c.resizeInt(block, i64, false), c.i64(simt.threads())),
                c.resizeInt(machine.thread(c), i64, false));
}

// Whether all threads of a unit have read something of its row into registers before anything else is read.
bool SimtKernel::readsWeightsFirst() const {
  return plan.product && role == Role::Whole && !simt.tile && !simt.peeled && simt.team > 1 && simt.copies &&
         !simt.isLooped;
}

// Before anything is read that a kernel before this one may have written.
void SimtKernel::await() {
  if (std::exchange(awaits, false))
    machine.awaitKernels(c);
}

// Divisions of 32 bits take a fraction of the instructions.
std::pair<Value, Value> SimtKernel::divide(Value number, const Dim &divisor, const Dim &below) {
  const Type i64 = b.getI64Type(), type = isNarrow(below) && isNarrow(divisor) ? Type(b.getI32Type()) : Type(i64);
  number = c.resizeInt(number, type, false);
  Value size = c.resizeInt(positive(divisor), type, false);
  return {c.resizeInt(c.two<arith::DivUIOp>(number, size), i64, false),
          c.resizeInt(c.two<arith::RemUIOp>(number, size), i64, false)};
}

// Splits a number into the counters of loops, and makes them known in the innermost scope.
void SimtKernel::setCounters(Value number, ArrayRef<Digit> digits) {
  Dim below = 1;
  for (const Digit &digit : digits)
    below *= digit.radix;
  if (isNarrow(below))
    number = c.resizeInt(number, b.getI32Type(), false);
  for (size_t i = 0; i < digits.size(); ++i) {
    const auto &[loop, radix, step] = digits[i];
    Value digit = number;
    if (i + 1 < digits.size()) {
      Value size = radix.isNumber() ? extentLike(number, radix) : c.resizeInt(positive(radix), number.getType(), false);
      digit = c.two<arith::RemUIOp>(number, size);
      number = c.two<arith::DivUIOp>(number, size);
    }
    digit = c.resizeInt(digit, b.getI64Type(), false);
    setCounter(*loop, step == 1 ? digit : c.mulI(digit, c.i64(step)));
    scopes.back().loops |= loop->members;
  }
}

void SimtKernel::enterUnit(Value unit) {
  SmallVector<Digit> digits;
  for (size_t i = simt.loops.size(); i-- > 0;) {
    const ScheduledLoop &loop = simt.loops[i];
    if (loop.inside)
      continue;
    const bool lanes = i + 1 == simt.loops.size() && simt.laneLoop;
    const int64_t step = lanes ? simt.lanes : simt.countOf(i);
    digits.push_back({&loop, floorDiv(loop.extent, Dim(step)), step});
  }
  setCounters(unit, digits);
  for (const SimtSchedule::Neighbours &each : simt.together) { // whose counter differs from result to result
    const ScheduledLoop &loop = simt.loops[each.loop];
    firstResult.push_back(counters[loop.number]);
    scopes.back().loops &= ~loop.members;
    result.loops |= loop.members;
  }
  result.loops |= scopes.back().loops;
}

// Runs the body in a scope that knows the counters of a result of the unit.
void SimtKernel::forResult(unsigned number, llvm::function_ref<void()> body) {
  if (simt.together.empty())
    return body();
  resultAtHand = number;
  scopes.back().next = nullptr;
  scopes.push_back({scopes.back().loops | result.loops});
  for (const auto &[each, first] : llvm::zip(simt.together, firstResult)) {
    setCounter(simt.loops[each.loop], c.addI(first, c.i64(number % each.count)));
    number /= each.count;
  }
  body();
  scopes.pop_back();
  resultAtHand = 0;
}

// Likewise, of this thread's result. What one body has found out of it, the next one knows.
void SimtKernel::inResult(llvm::function_ref<void()> body) {
  if (simt.together.empty())
    return body();
  scopes.back().next = nullptr;
  scopes.push_back(std::move(result));
  Value number = c.resizeInt(resultNumber, b.getI64Type(), false);
  for (const auto &[each, first] : llvm::zip(simt.together, firstResult)) {
    Value count = c.i64(each.count);
    setCounter(simt.loops[each.loop], c.addI(first, c.two<arith::RemUIOp>(number, count)));
    number = c.two<arith::DivUIOp>(number, count);
  }
  body();
  result = std::move(scopes.back());
  scopes.pop_back();
}

Value SimtKernel::symbol(uint32_t number) {
  return symbols[llvm::lower_bound(plan.dag.usedSymbols, number) - plan.dag.usedSymbols.begin()];
}

// The threads of a team take vectors by turns, those of the part where units are shared.
Emitter::Bounds SimtKernel::boundsOf(const ScheduledLoop &loop) {
  const auto number = &loop - simt.loops.data();
  const int64_t lanes = simt.stepOf(number);
  if (number != simt.split)
    return {c.i64(0), extent(loop.extent), c.i64(lanes)};
  Value low = c.mulI(c.resizeInt(member, b.getI64Type(), false), c.i64(lanes)), high = extent(loop.extent);
  Value first = c.i64(0);
  if (simt.peeled)
    first = vectorsBegin, high = vectorsEnd;
  if (hasPart()) {
    Value size = extent(ceilDiv(loop.extent, Dim(lanes * simt.parts)) * lanes);
    first = c.addI(first, c.mulI(part, size));
    high = c.two<arith::MinSIOp>(high, c.addI(first, size));
  }
  if (simt.copies)
    first = c.addI(first, c.i64(int64_t(simt.copies) * simt.team * lanes));
  low = c.addI(low, first);
  return {low, high, c.i64(lanes * simt.team)};
}

// All terms of the index have to be multiples, where a counter of the lane loop counts as one if the divisor divides
// the lanes.
bool SimtKernel::startsAtMultiples(IndexId id, int64_t divisor) const {
  if (simt.peeled || simt.lanes % divisor != 0)
    return false;
  const Index &index = plan.space.index(id);
  return plan.space.facts.isMultiple(index.constant, divisor) && llvm::all_of(index.terms, [&](const auto &term) {
           const Atom &atom = plan.space.atom(term.first);
           const bool isLane = atom.kind == Atom::Loop && atom.loop == simt.loops.back().number;
           return isLane || plan.space.facts.isMultiple(term.second, divisor);
         });
}

// In a peeled loop, all of the address's difference to the address that is aligned has to be a multiple of the lanes.
unsigned SimtKernel::alignmentOf(int32_t dtype, IndexId address) {
  const unsigned element = dtypeBits(dtype) / 8;
  const unsigned whole = std::min(alignment, element * simt.lanes);
  if (whole <= element)
    return element;
  const int64_t needed = whole / element;
  const bool aligned =
      simt.peeled ? plan.space.isCongruent(address, *simt.peeled, needed) : startsAtMultiples(address, needed);
  usesAlignment |= aligned;
  return aligned ? whole : element;
}

// Runs the body for each of the thread's steps inside a unit, but on the edge of a peeled row.
void SimtKernel::forVectors(Carried &carried, llvm::function_ref<void(Carried &)> body) {
  serial(0, carried, [&](Carried &inner) {
    if (!simt.laneInside)
      return body(inner);
    if (laneExtent() == 0)
      return;
    const ScheduledLoop &lanes = simt.loops.back();
    for (Copy &copy : rowCopies)
      inCopy(copy, [&] { body(inner); });
    if (simt.isLooped)
      steps(lanes, inner, body);
  });
}

// The innermost loop takes `unroll` steps at once. An outer loop folds what they come to; what is left of the steps at
// its end comes by halves.
void SimtKernel::steps(const ScheduledLoop &level, Carried &carried, llvm::function_ref<void(Carried &)> body) {
  const bool isInOrder = reducing.empty() && !carried.empty(); // running sums
  if (simt.unroll == 1 || &level - simt.loops.data() != simt.innermost() || isInOrder || level.extent == 0)
    return Emitter::steps(level, carried, body);
  const Bounds bounds = boundsOf(level);
  const auto strideOf = [&](unsigned count) { return c.mulI(bounds.step, c.i64(count)); };
  // Takes `count` steps at once from `low` on, as long as there are so many, and says where the others begin.
  const auto take = [&](unsigned count, Value low, Value high, Carried &sums) {
    Value stride = strideOf(count), left = c.addI(c.subI(high, low), c.subI(bounds.step, c.i64(1)));
    Value end = c.addI(low, c.mulI(c.two<arith::DivUIOp>(left, stride), stride));
    sums = loop(low, end, stride, sums, 0, [&](Value i, ValueRange arguments) {
      const auto step = [&](unsigned number, Carried &each) {
        scopes.back().next = nullptr;
        scopes.push_back({scopes.back().loops | level.members});
        setCounter(level, c.addI(i, strideOf(number)));
        body(each);
        scopes.pop_back();
      };
      Carried before(arguments.begin(), arguments.end());
      return combineAll(reducing, before, firstSteps(0, count, step));
    });
    return end;
  };
  const auto takeAll = [&](Value low, Value high, Carried &sums) {
    for (unsigned count = simt.unroll; count >= 1; count /= 2)
      low = take(count, low, high, sums);
  };
  if (!simt.folds())
    return takeAll(bounds.low, c.two<arith::MaxSIOp>(bounds.low, bounds.high), carried);
  Value round = strideOf(simt.unroll * SimtSchedule::foldAfter);
  carried = loop(bounds.low, bounds.high, round, carried, 0, [&](Value low, ValueRange before) {
    Value high = c.two<arith::MinSIOp>(bounds.high, c.addI(low, round));
    Carried partial = neutrals(reducing, true);
    takeAll(low, high, partial);
    return combineAll(reducing, Carried(before.begin(), before.end()), partial);
  });
}

// Stores the values of this pass that an output, or the block's memory, keeps for later ones.
void SimtKernel::keep(int number) {
  if (!isInCopy)
    for (const auto &[entry, row] : keptValues)
      if (entry->pass == number) {
        Value kept = inScratch(value(entry->expr, entry->at, 0));
        LLVM::StoreOp::create(b, c.loc, simt.lanes > 1 ? c.splat(kept) : kept, placeInRow(row), alignmentIn(row));
      }
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

void SimtKernel::storePass(int number, Value unit) {
  Carried carried = runsBefore(unit);
  if (storesElements(number)) {
    const auto storeStep = [&](Carried &inner) {
      auto body = [&] { storeElements(number, inner); };
      active ? onlyIf(active, body) : body();
    };
    forVectors(carried, storeStep);
    onEdge([&] { storeStep(carried); });
  }
  const bool any = llvm::any_of(plan.roots, [](const Root &root) { return root.row; });
  if (any && simt.team > 1)
    onlyIf(c.compareI(I::ult, member, c.integer(b.getI32Type(), simt.results())),
           [&] { inResult([&] { storeRows(); }); });
  else
    storeRows();
}

Value SimtMachine::sharedArray(Code &c, ModuleOp module, const std::string &name, Type type, size_t count) const {
  {
    OpBuilder::InsertionGuard keep(c.b);
    c.b.setInsertionPointToStart(module.getBody());
    LLVM::GlobalOp::create(c.b, c.loc, LLVM::LLVMArrayType::get(type, count), false,
                           count ? LLVM::Linkage::Internal : LLVM::Linkage::External, name, Attribute(), 16,
                           sharedSpace());
  }
  return LLVM::AddressOfOp::create(c.b, c.loc, LLVM::LLVMPointerType::get(c.b.getContext(), sharedSpace()), name);
}

Value SimtKernel::shared(Type type, size_t count) {
  return machine.sharedArray(c, module, entry + "_shared" + std::to_string(sharedArrays++), type, count);
}

} // namespace mortise::codegen
