// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A block has the queries of one head that its subgroups share out, 16 to each, and goes through the keys 64 at a time.
// Their rows of k and v lie in the block's memory, in the order in which they are columns and terms of the products.
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
        keyStride(shape.depthSteps * 8 + 4), valueStride(code.width % 16 ? code.width / 2 : code.width / 2 + 4),
        keyItems(keysAtOnce * code.depth / vectorElements), valueItems(keysAtOnce * code.width / vectorElements),
        words(keyItems % threads || valueItems % threads ? ~0U : (keyItems + valueItems) * vectorWords / threads),
        readsAhead(code.readsAhead && words <= mostWordsAhead) {}

private:
  struct Item { // a vector of a row
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
  Values readItem(const Tensor &tensor, Value first, const Item &item);
  Value placeOf(const Item &item, unsigned stride);
  void shareKey(const Item &item, ArrayRef<Value> words);
  void shareValue(Value first, const Item &item, ArrayRef<Value> words);
  Values readShare(Value first);
  Values readShareByRows(Value first);
  void share(Value first, ArrayRef<Value> words);
  void readAndShare(Value first);
  bool hides() const { return code.mask == AttentionCode::Mask::Hides; }
  Values maskAhead(Value first); // of no use where there is no tile
  Values readAhead(Value first); // likewise
  Value tileSeen(bool last, Value count, Value none);
  void findSeen();
  Value isSeenByBlock(Value first, Value seen);

  // Words of 2 elements from one row to the next; 4 times an odd number, so that rows that are read at once have other
  // banks.
  const unsigned keyStride, valueStride;
  const unsigned keyItems, valueItems; // of a tile
  const unsigned words;                // of a thread's items; ~0: threads have different numbers of them
  const bool readsAhead;
  Value hasRows;                  // whether this subgroup has queries: the last block of a head may have few
  SmallVector<Values> fragments;  // of the queries
  Value sharedKeys, sharedValues; // in the block's memory
  Value keyWord, valueWord;       // there: of the row that this thread names in a read, i32
  Value notFinite;                // there: where the last tile begins that has a value that is not finite
  // There, only with a mask of i1: whether each subgroup sees something of a tile, of two tiles by turns, and where the
  // keys that it sees something of begin and end.
  Value sharedSeen;
  Value begin, behind; // of the keys that some row of the block sees: i32, the first of a tile
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
  Value firstRow = c.addI(firstQuery, c.mulI(subgroup, number(AttentionCode::tileRows)));
  hasRows = c.compareI(I::slt, firstRow, all);
  Value mine = c.addI(firstRow, group);
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
  sharedValues = machine.sharedArray(c, module, prefix + "_values", i32, size_t(keysAtOnce) * valueStride);
  // Of two tiles of keys two halves of 8 terms each, and two halves of 8 keys of two tiles of columns.
  Value row = c.andI(lane, number(7));
  Value odd = shifted(c.andI(lane, number(8)), 3, false), high = shifted(lane, 4, false);
  keyWord = c.addI(c.mulI(c.addI(row, c.mulI(high, number(8))), number(keyStride)), c.mulI(odd, number(4)));
  valueWord = c.addI(c.mulI(c.addI(row, c.mulI(odd, number(8))), number(valueStride)), c.mulI(high, number(4)));
  notFinite = machine.sharedArray(c, module, prefix + "_not_finite", i32, 1);
  if (hides())
    sharedSeen = machine.sharedArray(c, module, prefix + "_seen", i32, size_t(4) * code.subgroups);
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
AttentionKernel::Values SplitQueries::readItem(const Tensor &tensor, Value first, const Item &item) {
  return readVector(moved(rowOfKey(tensor, c.addI(first, item.row)), wide(c.mulI(item.vector, number(vectorBytes)))));
}

// Row r of a tile is the column, or term, 8 T + 2 t + o where r = 16 t + 2 T + o, with o < 2 and T < 8.
Value SplitQueries::placeOf(const Item &item, unsigned stride) {
  Value tile = c.andI(shifted(item.row, 1, false), number(7)), own = shifted(item.row, 4, false);
  Value column = c.addI(c.addI(c.mulI(tile, number(8)), c.mulI(own, number(2))), c.andI(item.row, number(1)));
  return c.addI(c.mulI(column, number(stride)), c.mulI(item.vector, number(vectorWords)));
}

void SplitQueries::shareKey(const Item &item, ArrayRef<Value> words) {
  LLVM::StoreOp::create(b, c.loc, vectorOf(words), place(sharedKeys, placeOf(item, keyStride)), vectorBytes);
}

void SplitQueries::shareValue(Value first, const Item &item, ArrayRef<Value> words) {
  const SmallVector<Type> types(words.size(), b.getI32Type());
  const Values finite = choose(
      c.compareI(I::ne, notFiniteAmong(words), number(0)), types,
      [&] {
        LLVM::StoreOp::create(b, c.loc, first, notFinite);
        return onlyFinite(words);
      },
      [&] { return Values(words); });
  LLVM::StoreOp::create(b, c.loc, vectorOf(finite), place(sharedValues, placeOf(item, valueStride)), vectorBytes);
}

// All words of this thread. Where each has as many, and all rows are inside, its rows lie equally far apart.
AttentionKernel::Values SplitQueries::readShare(Value first) {
  const std::pair<const Tensor *, unsigned> tensors[] = {{&k, code.depth / vectorElements},
                                                         {&v, code.width / vectorElements}};
  if (llvm::any_of(tensors,
                   [&](const auto &each) { return threads % each.second || keysAtOnce * each.second % threads; }))
    return readShareByRows(first);
  const SmallVector<Type> types(words, b.getI32Type());
  return choose(
      c.compareI(I::sle, add(first, keysAtOnce), keys), types,
      [&] {
        Values all;
        for (const auto &[tensor, vectors] : tensors) {
          const Item item = itemOf(thread, vectors * vectorElements);
          Value at = moved(rowOf(*tensor, c.addI(first, item.row)), wide(c.mulI(item.vector, number(vectorBytes))));
          Value apart = c.mulI(tensor->row, c.i64(threads / vectors));
          for (unsigned i = 0; i < keysAtOnce * vectors / threads; ++i) {
            at = i ? moved(at, apart) : at;
            all.append(readVector(at));
          }
        }
        return all;
      },
      [&] { return readShareByRows(first); });
}
AttentionKernel::Values SplitQueries::readShareByRows(Value first) {
  Values all;
  forShare(keyItems, keyItems, [&](ArrayRef<Value> items) {
    for (Value item : items)
      all.append(readItem(k, first, itemOf(item, code.depth)));
  });
  forShare(valueItems, valueItems, [&](ArrayRef<Value> items) {
    for (Value item : items)
      all.append(readItem(v, first, itemOf(item, code.width)));
  });
  return all;
}
void SplitQueries::share(Value first, ArrayRef<Value> words) {
  forShare(keyItems, keyItems, [&](ArrayRef<Value> items) {
    for (Value item : items) {
      shareKey(itemOf(item, code.depth), words.take_front(vectorWords));
      words = words.drop_front(vectorWords);
    }
  });
  forShare(valueItems, valueItems, [&](ArrayRef<Value> items) {
    for (Value item : items) {
      shareValue(first, itemOf(item, code.width), words.take_front(vectorWords));
      words = words.drop_front(vectorWords);
    }
  });
}

// The same, some at a time.
void SplitQueries::readAndShare(Value first) {
  forShare(keyItems, atOnce, [&](ArrayRef<Value> items) {
    SmallVector<std::pair<Item, Values>> all;
    for (Value number : items) {
      const Item item = itemOf(number, code.depth);
      all.emplace_back(item, readItem(k, first, item));
    }
    for (const auto &[item, words] : all)
      shareKey(item, words);
  });
  forShare(valueItems, atOnce, [&](ArrayRef<Value> items) {
    SmallVector<std::pair<Item, Values>> all;
    for (Value number : items) {
      const Item item = itemOf(number, code.width);
      all.emplace_back(item, readItem(v, first, item));
    }
    for (const auto &[item, words] : all)
      shareValue(first, item, words);
  });
}

// ---- A tile, and the end

AttentionKernel::Values SplitQueries::keyWords(unsigned step, unsigned tile) {
  Value at = add(keyWord, int64_t(tile) * 8 * keyStride + int64_t(step) * 8);
  return machine.readMatrices(c, place(sharedKeys, at), /*transposed=*/false);
}

AttentionKernel::Values SplitQueries::valueWords(unsigned step, unsigned tile) {
  Value at = add(valueWord, int64_t(step) * 16 * valueStride + int64_t(tile) * 4);
  if (tile + 1 == shape.tiles) // there is no other
    at = c.subI(at, c.mulI(shifted(c.andI(thread, number(16)), 4, false), number(4)));
  return machine.readMatrices(c, place(sharedValues, at), /*transposed=*/true);
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

// The number of the first or last tile that this subgroup's rows see something of, among so many that can be read as
// vectors; `none` where there is none. Some at a time, because each look at the mask is a wait for memory.
Value SplitQueries::tileSeen(bool last, Value count, Value none) {
  const int64_t together = last ? 8 : 2; // most masks let a row see the first keys
  return forEach(number(0), count, number(together), none, [&](Value done, ValueRange before) {
    return choose(
        c.compareI(I::ne, before[0], none), b.getI32Type(), [&] { return Values{before[0]}; },
        [&] {
          SmallVector<std::pair<Value, Values>> tiles; // the one that is looked for first stands behind the others
          for (int64_t i = together; i-- > 0;) {
            Value tile = last ? c.two<arith::MaxSIOp>(c.subI(add(count, -1 - i), done), number(0))
                              : c.two<arith::MinSIOp>(add(done, i), add(count, -1));
            tiles.emplace_back(tile, maskVectors(c.mulI(tile, number(keysAtOnce))));
          }
          Value found = none;
          for (const auto &[tile, mask] : tiles)
            found = c.select(seesAny(mask), tile, found);
          return Values{found};
        });
  })[0];
}

// A causal mask, a cache that is not full and a sliding window hide tiles in front of all that are seen, or behind
// them: sets `begin` and `behind`. Where a mask is not read as vectors, that would take as long as it saves. A barrier.
void SplitQueries::findSeen() {
  Type i32 = b.getI32Type();
  const unsigned log = llvm::Log2_32(keysAtOnce);
  Value count = shifted(add(behind, keysAtOnce - 1), log, false);
  Value whole = c.two<arith::MinSIOp>(count, shifted(keys, log, false));
  const Values mine = choose(
      isAnywhere(c.resizeInt(c.notI(isMaskInVectors), i32, false)), {i32, i32},
      [&] { return Values{number(0), count}; },
      [&] {
        Value seesRest = choose(
            c.compareI(I::slt, whole, count), b.getI1Type(),
            [&] { return Values{seesAny(maskWords(c.mulI(whole, number(keysAtOnce))))}; },
            [&] { return Values{c.truth(false)}; })[0];
        return Values{tileSeen(false, whole, c.select(seesRest, whole, count)),
                      add(tileSeen(true, whole, c.select(seesRest, whole, number(-1))), 1)};
      });
  const auto flag = [&](unsigned which, Value of) {
    return place(sharedSeen, add(of, (int64_t(2) + which) * code.subgroups));
  };
  onlyIf(c.compareI(I::eq, c.orI(group, pair), number(0)), [&] {
    for (const unsigned which : {0, 1})
      LLVM::StoreOp::create(b, c.loc, mine[which], flag(which, subgroup));
  });
  machine.barrier(c);
  Value first = count, end = number(0);
  for (unsigned i = 0; i < code.subgroups; ++i) {
    const auto read = [&](unsigned which) -> Value {
      return LLVM::LoadOp::create(b, c.loc, i32, flag(which, number(i)));
    };
    first = c.two<arith::MinSIOp>(first, read(0));
    end = c.two<arith::MaxSIOp>(end, read(1));
  }
  begin = c.mulI(first, number(keysAtOnce));
  behind = c.two<arith::MinSIOp>(behind, c.mulI(end, number(keysAtOnce)));
}

AttentionKernel::State SplitQueries::allTiles(State state) {
  fragments = readQueries();
  clearPadding();
  begin = number(0), behind = end();
  if (hides())
    findSeen();
  if (readsAhead) {
    if (hides())
      state.mask = maskAhead(begin);
    state.ahead = readAhead(begin);
  }
  return state.like(forEach(begin, behind, number(keysAtOnce), state.list(),
                            [&](Value first, ValueRange before) { return tile(first, state.like(before)).list(); }));
}

AttentionKernel::Values SplitQueries::maskAhead(Value first) {
  const SmallVector<Type> types(keyTiles, b.getI32Type());
  return choose(
      c.compareI(I::slt, first, behind), types, [&] { return maskWords(first); },
      [&] { return Values(types.size(), number(0)); });
}
AttentionKernel::Values SplitQueries::readAhead(Value first) {
  const SmallVector<Type> types(words, b.getI32Type());
  return choose(
      c.compareI(I::slt, first, behind), types, [&] { return readShare(first); },
      [&] { return Values(words, number(0)); });
}

// What no row of the block sees is not shared. The next tile's mask is on its way meanwhile.
AttentionKernel::State SplitQueries::tile(Value first, State state) {
  Value seen;
  if (hides()) {
    seen = seenOf(first, readsAhead ? state.mask : maskWords(first));
    if (readsAhead)
      state.mask = maskAhead(add(first, keysAtOnce));
  }
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
    state.ahead = readAhead(add(first, keysAtOnce));
  return attendIf(seen ? c.andI(hasRows, isSeen(seen)) : hasRows, first, seen, state);
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
