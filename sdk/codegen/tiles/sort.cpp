// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort and top_k. An element is a word of 64 bits, its key above its position in the row, or two words where the key
// has 64 bits: words are in the order of the elements, equal ones in that of their positions. A block sorts chunks of
// rows in its memory (Batcher's bitonic network: Sorting networks and their applications, 1968). Then kernels merge
// runs: an element finds its place by counting, in each of the other runs, what stands before it (Cole, Parallel merge
// sort, 1988, without its samples). The last kernel reads the elements where they were, so that their bits stay. Of
// runs only what can be a result is kept, so that top_k merges little.
//
// Scatters, and puts of many updates, sort the updates by the places that they go to. Then the first update of each
// place applies all of them, in their order: the last of several writes wins, and sums do not depend on the threads'
// timing.
#include "emit/simt.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

static constexpr unsigned threads = SortSchedule::threads;
static constexpr unsigned ways = SortSchedule::ways;

void SimtKernel::sort(Value block) {
  switch (role) {
  case Role::Merge:
    return mergeRuns(itemOf(block));
  case Role::Write:
    return writeSorted(itemOf(block));
  case Role::Copy:
    return copyOperand(itemOf(block));
  case Role::Apply:
    return applyUpdates(itemOf(block));
  default:
    return sortChunks(block);
  }
}

// Sets the counters of a row, or of an update's element, and of a place in the row, or of the update, for what the body
// computes.
void SimtKernel::enterElement(Value row, Value place, llvm::function_ref<void()> body) {
  SmallVector<Digit> kept, along;
  for (const ScheduledLoop &loop : llvm::reverse(simt.loops))
    (loop.reduced ? along : kept).push_back({&loop, loop.extent});
  scopes.back().next = nullptr;
  scopes.push_back({scopes.back().loops});
  setCounters(row, kept);
  setCounters(place, along);
  body();
  scopes.pop_back();
}

// A natural number whose order is that of the elements: a NaN is above all numbers and equal to another, -0 is +0.
Value SimtKernel::keyOf(Value element) {
  const int32_t dtype = plan.dag.exprs[plan.dag.exprs[plan.dag.roots[0]].operands[0]].dtype;
  const Type type = simt.sort->words > 1 ? b.getI64Type() : b.getI32Type();
  Value key;
  if (isFloat(dtype)) {
    Value bits = c.intBits(element);
    const auto number = [&](uint64_t value) { return c.integer(bits.getType(), static_cast<int64_t>(value)); };
    const unsigned width = Code::element(bits).getIntOrFloatBitWidth();
    const uint64_t sign = UINT64_C(1) << (width - 1);
    const uint64_t infinity = width == 64 ? UINT64_C(0x7ff) << 52 : UINT64_C(0xff) << 23;
    Value magnitude = c.andI(bits, number(sign - 1));
    Value isNegative = c.compareI(I::slt, bits, number(0));
    key = c.select(isNegative, c.notI(bits), c.orI(bits, number(sign)));
    key = c.select(c.compareI(I::eq, magnitude, number(0)), number(sign), key);
    key = c.select(c.compareI(I::ugt, magnitude, number(infinity)), number(UINT64_MAX), key);
    key = c.resizeInt(key, type, false);
  } else if (isUnsigned(dtype) || isBool(dtype)) {
    key = c.resizeInt(element, type, false);
  } else {
    const uint64_t sign = UINT64_C(1) << (type.getIntOrFloatBitWidth() - 1);
    key = c.resizeInt(element, type, true);
    key = c.two<arith::XOrIOp>(key, c.integer(type, static_cast<int64_t>(sign)));
  }
  return plan.dag.exprs[plan.dag.roots[0]].descending ? c.notI(key) : key;
}

// Of an element of a row, or of an update; behind all others where it is not inside. The row and the place always
// exist.
SimtKernel::Words SimtKernel::wordsOf(Value row, Value place, Value isInside) {
  const Expr &root = plan.dag.exprs[plan.dag.roots[0]];
  Value key;
  enterElement(row, place, [&] {
    key = plan.isScatter() ? value(root.operands[3], plan.scatterPlaceAt, 0)
                           : keyOf(value(root.operands[0], plan.identity(), 0));
  });
  Words words{key, place};
  if (simt.sort->words == 1)
    words = {c.orI(c.two<arith::ShLIOp>(c.resizeInt(key, b.getI64Type(), false), c.i64(32)), place)};
  for (Value &word : words)
    word = c.select(isInside, word, c.i64(-1));
  return words;
}

Value SimtKernel::isBefore(const Words &x, const Words &y) {
  Value before = c.compareI(I::ult, x.back(), y.back());
  if (x.size() > 1)
    before = c.orI(c.compareI(I::ult, x[0], y[0]), c.andI(c.compareI(I::eq, x[0], y[0]), before));
  return before;
}

Value SimtKernel::keyIn(const Words &words) {
  return words.size() > 1 ? words[0] : c.two<arith::ShRUIOp>(words[0], c.i64(32));
}

Value SimtKernel::positionIn(const Words &words) {
  return words.size() > 1 ? words[1] : c.andI(words[0], c.i64(UINT32_MAX));
}

// Stores the element with these words as a result of the row.
void SimtKernel::writeElement(Value row, Value place, const Words &words) {
  Value position = positionIn(words), element;
  enterElement(row, position,
               [&] { element = value(plan.dag.exprs[plan.dag.roots[0]].operands[0], plan.identity(), 0); });
  enterElement(row, place, [&] {
    const std::array stored = {element, position};
    for (size_t i = 0; i < plan.roots.size(); ++i)
      store(stored[i], outputs[i], plan.dag.exprs[plan.roots[i].expr].dtype, plan.roots[i].address, Value());
  });
}

static Value placeIn(Code &c, Value array, Value index) {
  return LLVM::GEPOp::create(c.b, c.loc, array.getType(), c.b.getI64Type(), array, ValueRange{index});
}

static SmallVector<Value, 2> loadAll(Code &c, ArrayRef<Value> arrays, Value index) {
  SmallVector<Value, 2> words;
  for (Value array : arrays)
    words.push_back(LLVM::LoadOp::create(c.b, c.loc, c.b.getI64Type(), placeIn(c, array, index), 8));
  return words;
}

static void storeAll(Code &c, ArrayRef<Value> arrays, Value index, ArrayRef<Value> words) {
  for (const auto &[array, word] : llvm::zip(arrays, words))
    LLVM::StoreOp::create(c.b, c.loc, word, placeIn(c, array, index), 8);
}

// The arrays of scratch memory that hold the runs behind so many merges, two by turns: one for each word.
static SmallVector<Value, 2> runsIn(Code &c, Value scratch, Value all, unsigned words, Value turn) {
  SmallVector<Value, 2> arrays;
  for (unsigned word = 0; word < words; ++word)
    arrays.push_back(placeIn(c, scratch, c.mulI(all, c.addI(c.mulI(turn, c.i64(words)), c.i64(word)))));
  return arrays;
}

// Exchanges the elements of pairs that are 2^distance apart where they are in the wrong order: in the first half of
// 2^(stage + 1) elements that is the descending one, except in the last stage.
void SimtKernel::exchangePairs(ArrayRef<Value> arrays, Value stage, Value distance) {
  const Type i32 = b.getI32Type();
  const auto number = [&](int64_t value) { return c.integer(i32, value); };
  const auto shifted = [&](Value x, Value by) { return c.two<arith::ShLIOp>(x, by); };
  Value apart = shifted(number(1), distance), low = c.subI(apart, number(1));
  Value descends = c.andI(shifted(number(2), stage), number(simt.sort->chunk - 1));
  for (unsigned i = 0; i < simt.sort->elements() / 2; i += threads) {
    Value pair = c.addI(machine.thread(c), number(i));
    Value first = c.addI(c.mulI(c.subI(pair, c.andI(pair, low)), number(2)), c.andI(pair, low));
    Value second = c.addI(first, apart);
    const Words x = loadAll(c, arrays, first), y = loadAll(c, arrays, second);
    Value ascends = c.compareI(I::eq, c.andI(first, descends), number(0));
    Value stays = c.compareI(I::eq, isBefore(x, y), ascends);
    Words left, right;
    for (const auto &[mine, other] : llvm::zip(x, y)) {
      left.push_back(c.select(stays, mine, other));
      right.push_back(c.select(stays, other, mine));
    }
    storeAll(c, arrays, first, left);
    storeAll(c, arrays, second, right);
  }
  machine.barrier(c);
}

void SimtKernel::sortChunks(Value block) {
  const SortSchedule &schedule = *simt.sort;
  const Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Words arrays;
  for (unsigned word = 0; word < schedule.words; ++word)
    arrays.push_back(shared(i64, schedule.elements()));
  // Elements of a thread lie so far apart that neighbouring threads have neighbours.
  struct Element {
    Value slot, row, place, isInside;
  };
  SmallVector<Element> mine;
  const Dim chunksOfRow = ceilDiv(plan.rowLength, Dim(schedule.chunk)), allChunks = chunksOfRow * plan.sortedRows();
  Value units = extent(allChunks), last = c.subI(rowLength(), c.i64(1));
  Value firstUnit = c.mulI(c.resizeInt(block, i64, false), c.i64(schedule.chunks));
  for (unsigned i = 0; i < schedule.elements(); i += threads) {
    Value slot = c.addI(machine.thread(c), c.integer(i32, i));
    Value chunk = c.two<arith::ShRUIOp>(slot, c.integer(i32, llvm::Log2_32(schedule.chunk)));
    Value place = c.andI(slot, c.integer(i32, schedule.chunk - 1));
    Value unit = c.addI(firstUnit, c.resizeInt(chunk, i64, false)), isInside = c.compareI(I::ult, unit, units);
    unit = c.two<arith::MinUIOp>(unit, c.subI(units, c.i64(1)));
    const auto [row, number] = divide(unit, chunksOfRow, allChunks);
    Value position = c.addI(c.mulI(number, c.i64(schedule.chunk)), c.resizeInt(place, i64, false));
    isInside = c.andI(isInside, c.compareI(I::sle, position, last));
    mine.push_back({slot, row, position, isInside});
    storeAll(c, arrays, slot, wordsOf(row, c.two<arith::MinSIOp>(position, last), isInside));
  }
  machine.barrier(c);
  loop(c.i64(0), c.i64(llvm::Log2_32(schedule.chunk)), 1, {}, 0, [&](Value stage, ValueRange) {
    loop(c.i64(0), c.addI(stage, c.i64(1)), 1, {}, 0, [&](Value step, ValueRange) {
      exchangePairs(arrays, c.resizeInt(stage, i32, false), c.resizeInt(c.subI(stage, step), i32, false));
      return Carried();
    });
    return Carried();
  });
  for (const Element &each : mine) {
    const Words words = loadAll(c, arrays, each.slot);
    if (!simt.hasScratch()) {
      Value isResult = c.compareI(I::slt, each.place, extent(plan.sortedCount()));
      onlyIf(c.andI(each.isInside, isResult), [&] { writeElement(each.row, each.place, words); });
    } else {
      Value all = c.mulI(extent(plan.sortedRows()), rowLength());
      onlyIf(each.isInside, [&] {
        storeAll(c, runsIn(c, scratch, all, schedule.words, c.i64(0)),
                 c.addI(c.mulI(each.row, rowLength()), each.place), words);
      });
    }
  }
}

// An item is an element of a run that can be a result.
void SimtKernel::mergeRuns(Value item) {
  const SortSchedule &schedule = *simt.sort;
  const int64_t length = schedule.run(merges);
  const Dim keptOfRun = min(Dim(length), plan.sortedCount()), runs = ceilDiv(plan.rowLength, Dim(length));
  const Dim allRuns = plan.sortedRows() * runs;
  Value run = c.i64(length), kept = extent(keptOfRun), all = c.mulI(extent(plan.sortedRows()), rowLength());
  onlyIf(c.compareI(I::ult, item, extent(allRuns * keptOfRun)), [&] {
    const auto [number, place] = divide(item, keptOfRun, allRuns * keptOfRun);
    const auto [row, mine] = divide(number, runs, allRuns);
    Value rowStart = c.mulI(row, rowLength());
    const auto from = runsIn(c, scratch, all, schedule.words, c.i64(merges % 2)),
               to = runsIn(c, scratch, all, schedule.words, c.i64((merges + 1) % 2));
    const auto lengthOf = [&](Value other) { // of what is kept of a run; 0 behind the last one
      Value left = c.two<arith::MaxSIOp>(c.subI(rowLength(), c.mulI(other, run)), c.i64(0));
      return c.two<arith::MinSIOp>(left, kept);
    };
    onlyIf(c.compareI(I::slt, place, lengthOf(mine)), [&] {
      Value at = c.addI(c.addI(rowStart, c.mulI(mine, run)), place);
      const Words words = loadAll(c, from, at);
      Value firstRun = c.subI(mine, c.andI(mine, c.i64(ways - 1)));
      // Of the other runs, by turns: the one behind this one comes first.
      Value before = loop(c.i64(1), c.i64(ways), 1, {place}, 0, [&](Value turn, ValueRange counted) {
        Value other = c.addI(firstRun, c.andI(c.addI(mine, turn), c.i64(ways - 1)));
        Value start = c.addI(rowStart, c.mulI(other, run));
        const Carried found = loop(c.i64(0), c.i64(llvm::Log2_64_Ceil(length) + 1), 1, {c.i64(0), lengthOf(other)}, 0,
                                   [&](Value, ValueRange ends) {
                                     Value low = ends[0], high = ends[1], isOpen = c.compareI(I::slt, low, high);
                                     Value middle = c.two<arith::ShRUIOp>(c.addI(low, high), c.i64(1));
                                     const Words there = loadAll(c, from, c.select(isOpen, c.addI(start, middle), at));
                                     Value isBelow = c.andI(isOpen, isBefore(there, words));
                                     return Carried{c.select(isBelow, c.addI(middle, c.i64(1)), low),
                                                    c.select(c.andI(isOpen, c.notI(isBelow)), middle, high)};
                                   });
        return Carried{c.addI(counted[0], found[0])};
      })[0];
      Value most = c.two<arith::MinSIOp>(c.i64(length * ways), extent(plan.sortedCount()));
      onlyIf(c.compareI(I::slt, before, most),
             [&] { storeAll(c, to, c.addI(c.addI(rowStart, c.mulI(firstRun, run)), before), words); });
    });
  });
}

// What is sorted, behind all kernels that merge: those that had nothing to merge have not run.
SimtKernel::Words SimtKernel::sortedArrays() {
  Value merged = c.i64(0);
  for (unsigned merge = 0; merge < merges; ++merge) {
    Value hasRun = c.compareI(I::sgt, rowLength(), c.i64(simt.sort->run(merge)));
    merged = c.addI(merged, c.resizeInt(hasRun, b.getI64Type(), false));
  }
  return runsIn(c, scratch, c.mulI(extent(plan.sortedRows()), rowLength()), simt.sort->words, c.andI(merged, c.i64(1)));
}

void SimtKernel::writeSorted(Value item) {
  const Dim results = plan.sortedRows() * plan.sortedCount();
  const Words from = sortedArrays();
  onlyIf(c.compareI(I::ult, item, extent(results)), [&] {
    const auto [row, place] = divide(item, plan.sortedCount(), results);
    writeElement(row, place, loadAll(c, from, c.addI(c.mulI(row, rowLength()), place)));
  });
}

// ---- Updates

// An item is an element of the result.
void SimtKernel::copyOperand(Value item) {
  const Expr &update = plan.dag.exprs[plan.dag.roots[0]], &operand = plan.dag.exprs[update.operands[0]];
  const Dim all = elementCount(update.dims);
  const auto copy = [&] {
    scopes.back().next = nullptr;
    scopes.push_back({scopes.back().loops});
    Value rest = item;
    for (size_t i = plan.scatterCopyLoops.size(); i-- > 0;) {
      const Loop &loop = plan.scatterCopyLoops[i];
      const auto [quotient, place] = divide(rest, loop.extent, all);
      setCounter(loop, i > 0 ? place : rest);
      rest = quotient;
      scopes.back().loops |= loop.members;
    }
    Value element = value(update.operands[0], plan.scatterCopyAt, 0);
    LLVM::StoreOp::create(b, c.loc, c.toMemory(element, update.dtype),
                          pointer(outputs[0], c.memoryType(update.dtype), item), dtypeBits(update.dtype) / 8);
    scopes.pop_back();
  };
  Value isInside = c.compareI(I::ult, item, extent(all));
  if (operand.op == Op::Input)
    isInside =
        c.andI(isInside, LLVM::ICmpOp::create(b, c.loc, LLVM::ICmpPredicate::ne, inputs[operand.slot], outputs[0]));
  onlyIf(isInside, copy);
}

Value SimtKernel::updateOf(const Words &words, Value column) {
  Value update;
  enterElement(column, positionIn(words),
               [&] { update = value(plan.dag.exprs[plan.dag.roots[0]].operands[2], plan.identity(), 0); });
  return update;
}

// An item is an element of an update. That of the first update of a place applies those of all.
void SimtKernel::applyUpdates(Value item) {
  const Expr &root = plan.dag.exprs[plan.dag.roots[0]];
  const Type type = c.memoryType(root.dtype);
  const unsigned alignment = dtypeBits(root.dtype) / 8;
  const Dim items = plan.rows() * plan.rowLength;
  Value all = rowLength();
  const Words from = sortedArrays();
  const auto keyAt = [&](Value number) { return keyIn(loadAll(c, from, number)); };
  onlyIf(c.compareI(I::ult, item, extent(items)), [&] {
    const auto [first, column] = divide(item, plan.rows(), items);
    Value before = c.two<arith::MaxSIOp>(c.subI(first, c.i64(1)), c.i64(0)), key = keyAt(first);
    Value isFirst = c.orI(c.compareI(I::eq, first, c.i64(0)), c.compareI(I::ne, keyAt(before), key));
    Value dropped = c.i64(simt.sort->words > 1 ? -1 : INT64_C(0xffffffff));
    onlyIf(c.andI(isFirst, c.compareI(I::ne, key, dropped)), [&] {
      Value place;
      enterElement(column, first, [&] { place = c.addI(key, scalarIndex(plan.scatterColumn)); });
      Value target = pointer(outputs[0], type, place), result;
      const auto isMine = [&](ValueRange state) {
        Value isInside = c.compareI(I::slt, state[0], all), last = c.subI(all, c.i64(1));
        return c.andI(isInside, c.compareI(I::eq, keyAt(c.two<arith::MinSIOp>(state[0], last)), key));
      };
      const auto next = [&](ValueRange state) { return c.addI(state[0], c.i64(1)); };
      if (root.mode == UpdateMode::Set) {
        const Carried end = loopWhile({first}, isMine, [&](ValueRange state) { return Carried{next(state)}; });
        result = updateOf(loadAll(c, from, c.subI(end[0], c.i64(1))), column);
      } else {
        Value old = c.fromMemory(LLVM::LoadOp::create(b, c.loc, type, target, alignment), root.dtype);
        result = loopWhile({first, old}, isMine, [&](ValueRange state) {
          Value update = updateOf(loadAll(c, from, state[0]), column);
          return Carried{next(state), combineUpdates(root.mode, state[1], update, root.dtype)};
        })[1];
      }
      LLVM::StoreOp::create(b, c.loc, c.toMemory(result, root.dtype), target, alignment);
    });
  });
}

} // namespace mortise::codegen
