// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A block has the queries of one head that its subgroups share out, 16 to each, and goes through the keys 64 at a time.
// Their rows of k and v lie in the block's memory.
#include "tiles/attention_kernel.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

namespace {

constexpr unsigned atOnce = 8; // vectors that a thread reads before it stores them
// Of a tile, in registers of a thread: as many may be read before it waits for the others to have done with the tile
// before, and as many a tile ahead.
constexpr unsigned mostWords = 64, mostWordsAhead = 32;

class SplitQueries final : public AttentionKernel {
public:
  SplitQueries(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
               unsigned alignment, ModuleOp module, OpBuilder &builder)
      : AttentionKernel(code, machine, instructions, alignment, module, builder,
                        {(code.depth + 15) / 16, code.width / 8}),
        keyStride(shape.depthSteps * 8 + 4), valueStride(code.width % 16 ? code.width : code.width + 8),
        keyItems(keysAtOnce * code.depth / vectorElements), valueItems(keysAtOnce / 2 * code.width / vectorElements),
        words(keyItems % threads || valueItems % threads ? ~0U : (keyItems * 4 + valueItems * 8) / threads),
        readsAhead(code.readsAhead && words <= mostWordsAhead) {}

private:
  struct Item { // a vector of a row of k, or of two neighbouring rows of v
    Value row, vector;
  };
  void findRows(Value block) override;
  void prepareMemory(const std::string &prefix) override;
  Values queryWords(Value row) override;
  State allTiles(State state) override;
  void store(const State &state) override;
  Values queries(unsigned step) override { return fragments[step]; }
  Values keyWords(unsigned step, unsigned tile) override;
  Values valueWords(unsigned step, unsigned tile) override;
  Value hasNotFinite(Value first) override;
  Value elementOf(Value row, unsigned tile, unsigned odd) override {
    return moved(moved(row, wide(shifted(pair, 1, true))), int64_t(tile) * 16 + int64_t(odd) * 2);
  }
  State tile(Value first, State state);
  void forShare(unsigned items, unsigned most, llvm::function_ref<void(ArrayRef<Value>)> body);
  void clearPadding();
  Item itemOf(Value number, unsigned rowElements);
  Values readKey(Value first, const Item &item);
  void shareKey(const Item &item, ArrayRef<Value> words);
  Values readValues(Value first, const Item &item);
  void shareValues(Value first, const Item &item, ArrayRef<Value> words);
  Values readShare(Value first);
  void share(Value first, ArrayRef<Value> words);
  void readAndShare(Value first);
  bool hides() const { return code.mask == AttentionCode::Mask::Hides; }
  Value isSeenByBlock(Value first, Value seen);

  const unsigned keyStride;   // words of 2 elements; 4 times an odd number, so that threads of a read have other banks
  const unsigned valueStride; // words, each of which has the elements of two neighbouring keys; 8 times an odd number
  const unsigned keyItems, valueItems; // of a tile
  const unsigned words;                // of a thread's items; ~0: threads have different numbers of them
  const bool readsAhead;
  SmallVector<Values> fragments;  // of the queries
  Value sharedKeys, sharedValues; // in the block's memory
  Value notFinite;                // there: where the last tile begins that has a value that is not finite
  // There, only with a mask of i1: whether each subgroup sees something of a tile, of two tiles by turns.
  Value sharedSeen;
};

// The last queries of a head come first: with `causal` they see the most keys.
void SplitQueries::findRows(Value block) {
  Value all = number32(AttentionNumber::Queries), heads = number32(AttentionNumber::Heads);
  Value perBlock = number(code.blockQueries());
  Value blocks = c.two<arith::DivUIOp>(add(all, code.blockQueries() - 1), perBlock); // of a head
  Value fromBehind = c.two<arith::RemUIOp>(block, blocks), headNumber = c.two<arith::DivUIOp>(block, blocks);
  firstQuery = c.mulI(add(c.subI(blocks, fromBehind), -1), perBlock);
  endQuery = add(firstQuery, code.blockQueries());
  Value head = c.two<arith::RemUIOp>(headNumber, heads);
  batch = c.two<arith::DivUIOp>(headNumber, heads);
  keyHead = c.two<arith::DivUIOp>(head, number32(AttentionNumber::HeadsPerKey));
  Value mine = c.addI(firstQuery, c.addI(c.mulI(subgroup, number(AttentionCode::tileRows)), group));
  for (size_t i = 0; i < rows.size(); ++i) {
    Value query = add(mine, static_cast<int64_t>(i) * 8);
    rows[i].head = head;
    rows[i].isInside = c.compareI(I::slt, query, all);
    rows[i].query = c.two<arith::MinSIOp>(query, add(all, -1));
  }
}

void SplitQueries::prepareMemory(const std::string &prefix) {
  Type i32 = b.getI32Type();
  sharedKeys = machine.sharedArray(c, module, prefix + "_keys", i32, size_t(keysAtOnce) * keyStride);
  sharedValues = machine.sharedArray(c, module, prefix + "_values", i32, size_t(keysAtOnce) / 2 * valueStride);
  notFinite = machine.sharedArray(c, module, prefix + "_not_finite", i32, 1);
  if (hides())
    sharedSeen = machine.sharedArray(c, module, prefix + "_seen", i32, size_t(2) * code.subgroups);
  onlyIf(c.compareI(I::eq, thread, number(0)),
         [&] { LLVM::StoreOp::create(b, c.loc, number(-1), notFinite); }); // a barrier follows
}

AttentionKernel::Values SplitQueries::queryWords(Value row) {
  Values words;
  for (unsigned column = 0; column < shape.depthSteps * 16; column += 8)
    words.push_back(column < code.depth ? readPair(elementOf(row, column / 8, 0)) : number(0));
  return words;
}

// ---- What the threads share

// Gives the body this thread's numbers of all items, some at a time.
void SplitQueries::forShare(unsigned items, unsigned most, llvm::function_ref<void(ArrayRef<Value>)> body) {
  const unsigned rounds = items / threads; // without the last, in which not all threads have an item
  const auto some = [&](Value first, unsigned count) {
    Values mine;
    for (unsigned i = 0; i < count; ++i)
      mine.push_back(add(first, int64_t(i) * threads));
    body(mine);
  };
  const unsigned whole = rounds / most * most;
  if (whole > most)
    forEach(number(0), number(int64_t(whole) * threads), number(int64_t(most) * threads), {},
            [&](Value first, ValueRange) {
              some(c.addI(first, thread), most);
              return Values();
            });
  else if (whole)
    some(thread, most);
  if (rounds > whole)
    some(add(thread, int64_t(whole) * threads), rounds - whole);
  if (items % threads)
    onlyIf(c.compareI(I::ult, thread, number(items % threads)),
           [&] { some(add(thread, int64_t(rounds) * threads), 1); });
}

// Where the depth is no multiple of 16, the elements behind it are 0.
void SplitQueries::clearPadding() {
  if (code.depth % 16 == 0)
    return;
  forShare(keysAtOnce, 1, [&](ArrayRef<Value> rows) {
    for (unsigned word = code.depth / 2; word < shape.depthSteps * 8; ++word)
      LLVM::StoreOp::create(b, c.loc, number(0), place(sharedKeys, add(c.mulI(rows[0], number(keyStride)), word)));
  });
}

SplitQueries::Item SplitQueries::itemOf(Value item, unsigned rowElements) {
  const unsigned vectors = rowElements / vectorElements;
  return {c.two<arith::DivUIOp>(item, number(vectors)), c.two<arith::RemUIOp>(item, number(vectors))};
}

// Rows behind the last one are copies of it: their scores are not used, and their weights are 0.
AttentionKernel::Values SplitQueries::readKey(Value first, const Item &item) {
  return readVector(moved(rowOfKey(k, c.addI(first, item.row)), wide(c.mulI(item.vector, number(vectorBytes)))));
}

void SplitQueries::shareKey(const Item &item, ArrayRef<Value> words) {
  Value to = c.addI(c.mulI(item.row, number(keyStride)), c.mulI(item.vector, number(4)));
  LLVM::StoreOp::create(b, c.loc, vectorOf(words), place(sharedKeys, to), vectorBytes);
}

AttentionKernel::Values SplitQueries::readValues(Value first, const Item &item) {
  Values words;
  for (const unsigned odd : {0, 1}) {
    Value key = c.addI(first, add(shifted(item.row, 1, true), odd));
    words.append(readVector(moved(rowOfKey(v, key), wide(c.mulI(item.vector, number(vectorBytes))))));
  }
  return words;
}

void SplitQueries::shareValues(Value first, const Item &item, ArrayRef<Value> words) {
  Values pairs = pairsOf(words.take_front(4), words.drop_front(4));
  const SmallVector<Type> types(pairs.size(), b.getI32Type());
  pairs = choose(
      c.compareI(I::ne, notFiniteAmong(pairs), number(0)), types,
      [&] {
        LLVM::StoreOp::create(b, c.loc, first, notFinite);
        return onlyFinite(pairs);
      },
      [&] { return pairs; });
  Value to = c.addI(c.mulI(item.row, number(valueStride)), c.mulI(item.vector, number(vectorElements)));
  for (const unsigned half : {0, 1})
    LLVM::StoreOp::create(b, c.loc, vectorOf(ArrayRef(pairs).slice(size_t(half) * 4, 4)),
                          place(sharedValues, add(to, half * 4)), vectorBytes);
}

// All words of this thread, and where they belong.
AttentionKernel::Values SplitQueries::readShare(Value first) {
  Values all;
  forShare(keyItems, keyItems, [&](ArrayRef<Value> items) {
    for (Value item : items)
      all.append(readKey(first, itemOf(item, code.depth)));
  });
  forShare(valueItems, valueItems, [&](ArrayRef<Value> items) {
    for (Value item : items)
      all.append(readValues(first, itemOf(item, code.width)));
  });
  return all;
}
void SplitQueries::share(Value first, ArrayRef<Value> words) {
  forShare(keyItems, keyItems, [&](ArrayRef<Value> items) {
    for (Value item : items) {
      shareKey(itemOf(item, code.depth), words.take_front(4));
      words = words.drop_front(4);
    }
  });
  forShare(valueItems, valueItems, [&](ArrayRef<Value> items) {
    for (Value item : items) {
      shareValues(first, itemOf(item, code.width), words.take_front(8));
      words = words.drop_front(8);
    }
  });
}

// The same, some at a time.
void SplitQueries::readAndShare(Value first) {
  forShare(keyItems, atOnce, [&](ArrayRef<Value> items) {
    SmallVector<std::pair<Item, Values>> all;
    for (Value number : items) {
      const Item item = itemOf(number, code.depth);
      all.emplace_back(item, readKey(first, item));
    }
    for (const auto &[item, words] : all)
      shareKey(item, words);
  });
  forShare(valueItems, atOnce / 2, [&](ArrayRef<Value> items) {
    SmallVector<std::pair<Item, Values>> all;
    for (Value number : items) {
      const Item item = itemOf(number, code.width);
      all.emplace_back(item, readValues(first, item));
    }
    for (const auto &[item, words] : all)
      shareValues(first, item, words);
  });
}

// ---- A tile, and the end

AttentionKernel::Values SplitQueries::keyWords(unsigned step, unsigned tile) {
  Value at = c.addI(c.mulI(group, number(keyStride)), shifted(pair, 1, false));
  Values words;
  for (const unsigned half : {0, 1})
    words.push_back(LLVM::LoadOp::create(
        b, c.loc, b.getI32Type(), place(sharedKeys, add(at, int64_t(tile) * 8 * keyStride + step * 8 + half * 4))));
  return words;
}

AttentionKernel::Values SplitQueries::valueWords(unsigned step, unsigned tile) {
  Value at = c.addI(c.mulI(shifted(pair, 1, false), number(valueStride)), group);
  Values words;
  for (const unsigned half : {0, 1})
    words.push_back(LLVM::LoadOp::create(
        b, c.loc, b.getI32Type(),
        place(sharedValues, add(at, int64_t(step * 8 + half * 4) * valueStride + int64_t(tile) * 8))));
  return words;
}

Value SplitQueries::hasNotFinite(Value first) {
  Value last = LLVM::LoadOp::create(b, c.loc, b.getI32Type(), notFinite);
  return c.compareI(I::eq, last, first);
}

// Whether a row of the block sees something of a tile, which `seen` (seenOf) says of this subgroup's rows. A barrier.
Value SplitQueries::isSeenByBlock(Value first, Value seen) {
  Value turn = c.andI(c.two<arith::DivUIOp>(first, number(keysAtOnce)), number(1));
  Value flags = place(sharedSeen, c.mulI(turn, number(code.subgroups))), is = isAnywhere(seen);
  onlyIf(c.compareI(I::eq, c.orI(group, pair), number(0)),
         [&] { LLVM::StoreOp::create(b, c.loc, c.resizeInt(is, b.getI32Type(), false), place(flags, subgroup)); });
  machine.barrier(c);
  Value any = number(0);
  for (unsigned i = 0; i < code.subgroups; ++i)
    any = c.orI(any, LLVM::LoadOp::create(b, c.loc, b.getI32Type(), place(flags, number(i))));
  return c.compareI(I::ne, any, number(0));
}

AttentionKernel::State SplitQueries::allTiles(State state) {
  fragments = readQueries();
  clearPadding();
  if (readsAhead) {
    const SmallVector<Type> types(words, b.getI32Type());
    state.ahead = choose(
        c.compareI(I::sgt, keys, number(0)), types, [&] { return readShare(number(0)); },
        [&] { return Values(words, number(0)); });
  }
  return state.like(forEach(number(0), end(), number(keysAtOnce), state.list(),
                            [&](Value first, ValueRange before) { return tile(first, state.like(before)).list(); }));
}

// What no row of the block sees, as half of a causal mask and the unused part of a cache, is not shared.
AttentionKernel::State SplitQueries::tile(Value first, State state) {
  Value seen = hides() ? seenOf(first) : Value();
  if (words <= mostWords && !readsAhead)
    state.ahead = readShare(first);
  const auto shareAll = [&] {
    words <= mostWords ? share(first, state.ahead) : readAndShare(first);
    machine.barrier(c);
  };
  if (hides()) { // all have done with the tile before
    onlyIf(isSeenByBlock(first, seen), shareAll);
  } else {
    machine.barrier(c);
    shareAll();
  }
  state.ahead.clear();
  if (readsAhead)
    state.ahead = readShare(add(first, keysAtOnce)); // behind the end the last row
  return attendIf(isSeen(seen), first, seen, state);
}

// A query that no mask lets see a key has the result 0; one whose scores are all -inf has a total of 0, which gives
// NaN.
void SplitQueries::store(const State &state) {
  Type i32 = b.getI32Type();
  for (unsigned row = 0; row < 2; ++row) {
    Value total = acrossQuadF(state.totals[row], [&](Value x, Value y) { return c.add(x, y); });
    Value factor = c.div(float32(1), total), sees = c.compareI(I::sgt, keys, number(0));
    if (state.sees[row]) {
      Value any = acrossQuad(c.resizeInt(state.sees[row], i32, false), [&](Value x, Value y) { return c.orI(x, y); });
      sees = c.compareI(I::ne, any, number(0));
    }
    onlyIf(rows[row].isInside, [&] {
      Value to = rowOf(resultOf(rows[row].head), rows[row].query);
      for (unsigned tile = 0; tile < shape.tiles; ++tile) {
        std::array<Value, 2> halves;
        for (unsigned i = 0; i < 2; ++i)
          halves[i] = resultBits(state.sums[tile * 4 + row * 2 + i], factor, sees);
        if (isAligned) {
          Value word = c.orI(c.resizeInt(halves[0], i32, false), shifted(c.resizeInt(halves[1], i32, false), 16, true));
          LLVM::StoreOp::create(b, c.loc, word, elementOf(to, tile, 0), 4);
          continue;
        }
        for (unsigned i = 0; i < 2; ++i)
          LLVM::StoreOp::create(b, c.loc, halves[i], elementOf(to, tile, i), 2);
      }
    });
  }
}

} // namespace

std::unique_ptr<AttentionKernel> splitQueries(const AttentionCode &code, const SimtMachine &machine,
                                              const Instructions &instructions, unsigned alignment, ModuleOp module,
                                              OpBuilder &builder) {
  return std::make_unique<SplitQueries>(code, machine, instructions, alignment, module, builder);
}

} // namespace mortise::codegen
