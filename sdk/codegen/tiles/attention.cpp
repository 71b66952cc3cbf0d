// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A block has the queries of one head that its subgroups share out, 16 to each, and goes through the keys 64 at a time.
// Their rows of k and v lie in the block's memory; queries, sums of weighted values and all weights stay in registers,
// as SimtMachine::multiply wants them: thread number 4 g + t of a subgroup has rows g and g + 8 of a 16 x 16 or 16 x 8
// matrix, and there columns 2 t and 2 t + 1, and the same 8 columns further.
//
// Weights are 2^((score - largest so far) log2(e)), and sums are scaled down when a larger score comes. So that the
// second product is one of f32 weights, a weight is multiplied as a sum of numbers that the machine can multiply. 0
// times an infinity is NaN, though: values that are not finite are taken out of the product and added by themselves.
#include "tiles/attention.hpp"

#include <array>

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

namespace {

constexpr unsigned keysAtOnce = 64, scoresAtOnce = keysAtOnce / 2; // of a tile: keys, and scores of a thread
constexpr unsigned vectorBytes = 16, vectorElements = 8;
constexpr unsigned atOnce = 8; // vectors that a thread reads before it stores them
// Of a tile, in registers of a thread: as many may be read before it waits for the others to have done with the tile
// before, and as many a tile ahead.
constexpr unsigned mostWords = 64, mostWordsAhead = 32;
constexpr double log2e = 1.4426950408889634;

unsigned rounded(unsigned number, unsigned divisor) { return (number + divisor - 1) / divisor * divisor; }

class AttentionKernel {
public:
  AttentionKernel(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
                  unsigned alignment, ModuleOp module, OpBuilder &builder)
      : code(code), machine(machine), isAligned(alignment >= vectorBytes), module(module), b(builder),
        c(builder, builder.getUnknownLoc(), 1, instructions), threads(code.subgroups * machine.subgroup()),
        depthSteps(rounded(code.depth, 16) / 16), keyStride(depthSteps * 8 + 4), tiles(code.width / 8),
        valueStride(code.width % 16 ? code.width : code.width + 8), keyItems(keysAtOnce * code.depth / vectorElements),
        valueItems(keysAtOnce / 2 * code.width / vectorElements),
        words(keyItems % threads || valueItems % threads ? ~0U : (keyItems * 4 + valueItems * 8) / threads) {}
  void emit(StringRef name);

private:
  using Values = SmallVector<Value>;
  using PerQuery = std::array<Value, 2>; // of the thread's two
  // A query that the thread has a part of: of two rows of its subgroup's tile.
  struct Query {
    Value position; // i32; the last one where the row lies behind it
    Value isInside; // whether its result is stored
    Value mask;     // address of its row of the mask
  };
  struct Tensor {
    Value base; // address of the head's first row
    Value row;  // bytes between rows: i64
  };
  // What goes from tile to tile.
  struct State {
    Values sums;      // of weighted values: per 8 columns four, as multiply has them
    PerQuery largest; // score
    PerQuery totals;  // this thread's part of the sum of weights
    PerQuery sees;    // whether the mask lets this thread see a key; null where there is no mask
    Values ahead;     // this thread's words of the tile, where it has read them already
    Values list() const;
    State like(ValueRange values) const;
  };

  // Code.
  Value number(int64_t value) { return c.integer(b.getI32Type(), value); }
  Value add(Value x, int64_t y) { return y ? c.addI(x, number(y)) : x; }
  Value shifted(Value bits, unsigned by, bool left) {
    return left ? Value(arith::ShLIOp::create(b, c.loc, bits, c.integer(bits.getType(), by)))
                : Value(arith::ShRUIOp::create(b, c.loc, bits, c.integer(bits.getType(), by)));
  }
  Value wide(Value x) { return c.resizeInt(x, b.getI64Type(), true); }
  Value moved(Value address, Value bytes) {
    return LLVM::GEPOp::create(b, c.loc, address.getType(), b.getI8Type(), address, ValueRange{bytes});
  }
  Value moved(Value address, int64_t bytes) { return bytes ? moved(address, c.i64(bytes)) : address; }
  Value place(Value array, Value word) {
    return LLVM::GEPOp::create(b, c.loc, array.getType(), b.getI32Type(), array, ValueRange{word});
  }
  Value read(Value address, Type type, unsigned align) { // of memory that no kernel writes meanwhile
    return LLVM::LoadOp::create(b, c.loc, type, address, align, false, false, /*isInvariant=*/true);
  }
  Value exp2(Value x) {
    const Approximations *approximations = c.instructions.approximations;
    return approximations ? approximations->exp2(c, x, true) : c.exp2(x);
  }
  Value float32(double value) { return c.constant(b.getF32Type(), value); }
  Value number64(uint32_t which) { return numbers[which]; }
  Value number32(uint32_t which) { return c.resizeInt(numbers[which], b.getI32Type(), true); }
  Values forEach(Value low, Value high, Value step, ValueRange inits,
                 llvm::function_ref<Values(Value, ValueRange)> body);
  Values choose(Value condition, TypeRange types, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  void onlyIf(Value condition, llvm::function_ref<void()> body);
  Value acrossQuad(Value bits, llvm::function_ref<Value(Value, Value)> combine);
  Value acrossQuadF(Value x, llvm::function_ref<Value(Value, Value)> combine);

  void enter(Block *start, StringRef name);
  Tensor tensorOf(unsigned argument, uint32_t first, Value batch, Value head);
  Value rowOf(const Tensor &tensor, Value row) { return moved(tensor.base, c.mulI(wide(row), tensor.row)); }
  Values readVector(Value address);
  Value readPair(Value address);
  void readQueries();
  void forShare(unsigned items, unsigned most, llvm::function_ref<void(ArrayRef<Value>)> body);
  void clearPadding();
  struct Item { // a vector of a row of k, or of two neighbouring rows of v
    Value row, vector;
  };
  Item itemOf(Value number, unsigned rowElements);
  Values readKey(Value first, const Item &item);
  void shareKey(const Item &item, ArrayRef<Value> words);
  Values readValues(Value first, const Item &item);
  void shareValues(Value first, const Item &item, ArrayRef<Value> words);
  Values readShare(Value first);
  void share(Value first, ArrayRef<Value> words);
  void readAndShare(Value first);
  Values takeOutNotFinite(Values words, Value first);
  Value isHidden(const Query &query, Value key);
  Value isCut(Value first);
  Value maskAt(const Query &query, Value key, Type type);
  Value maskOf(Value first, bool inPairs);
  Value seenOf(Value first);
  Values scoresOf(Value first, Value seen, State &state);
  Values weightsOf(ArrayRef<Value> scores, PerQuery &factors, State &state);
  SmallVector<Values> partsOf(ArrayRef<Value> weights);
  void addValues(ArrayRef<Value> weights, const PerQuery &factors, State &state);
  void addNotFinite(Value first, ArrayRef<Value> weights, State &state);
  State tile(Value first, State state);
  State attend(Value first, Value seen, State state);
  void store(const State &state);

  // Of element number i of four that multiply has: query 0 or 1, and the column or key among 8.
  static unsigned queryOf(size_t i) { return i % 4 / 2; }
  Value keyOf(Value first, size_t i) { // of score number i
    return c.addI(first, add(pair, static_cast<int64_t>(i / 4 * 8 + i % 2)));
  }

  const AttentionCode &code;
  const SimtMachine &machine;
  const bool isAligned;
  ModuleOp module;
  OpBuilder &b;
  Code c;
  const unsigned threads;
  const unsigned depthSteps;  // of 16 elements
  const unsigned keyStride;   // words of 2 elements; 4 times an odd number, so that threads of a read have other banks
  const unsigned tiles;       // of 8 columns of values
  const unsigned valueStride; // words, each of which has the elements of two neighbouring keys; 8 times an odd number
  const unsigned keyItems, valueItems; // of a tile
  const unsigned words;                // of a thread's items; ~0: threads have different numbers of them

  SmallVector<Value> numbers; // i64
  Value keys, thread;         // i32
  Value group, pair;          // of a thread in its subgroup: g, and 2 t
  Value firstQuery;           // of the block
  Value scale, shift;         // f32; the second is added to exponents of weights
  Tensor q, k, v, result;
  std::array<Query, 2> queries;
  Value maskStride;              // bytes between keys: i64
  Value isMaskInPairs;           // whether two neighbouring keys of a mask of i1 can be read at once
  SmallVector<Values> fragments; // of the queries, per 16 elements
  Value keyWords, valueWords;    // in the block's memory
  Value notFinite;               // there: where the last tile begins that has a value that is not finite
};

// ---- Code

AttentionKernel::Values AttentionKernel::forEach(Value low, Value high, Value step, ValueRange inits,
                                                 llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, c.loc, low, high, step, inits);
  OpBuilder::InsertionGuard keep(b);
  b.setInsertionPointToStart(loop.getBody());
  const Values next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  if (!inits.empty()) // otherwise the op has its end
    scf::YieldOp::create(b, c.loc, next);
  return Values(loop.getResults());
}

AttentionKernel::Values AttentionKernel::choose(Value condition, TypeRange types, llvm::function_ref<Values()> then,
                                                llvm::function_ref<Values()> otherwise) {
  auto branch = scf::IfOp::create(b, c.loc, types, condition, true);
  OpBuilder::InsertionGuard keep(b);
  b.setInsertionPointToStart(branch.thenBlock());
  scf::YieldOp::create(b, c.loc, then());
  b.setInsertionPointToStart(branch.elseBlock());
  scf::YieldOp::create(b, c.loc, otherwise());
  return Values(branch.getResults());
}

void AttentionKernel::onlyIf(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, c.loc, condition, false);
  OpBuilder::InsertionGuard keep(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
}

// Of the four threads that share a query.
Value AttentionKernel::acrossQuad(Value bits, llvm::function_ref<Value(Value, Value)> combine) {
  for (const unsigned mask : {1, 2})
    bits = combine(bits, machine.exchange(c, bits, mask));
  return bits;
}
Value AttentionKernel::acrossQuadF(Value x, llvm::function_ref<Value(Value, Value)> combine) {
  return c.bitcast(acrossQuad(c.intBits(x),
                              [&](Value mine, Value other) {
                                return c.intBits(
                                    combine(c.bitcast(mine, b.getF32Type()), c.bitcast(other, b.getF32Type())));
                              }),
                   b.getF32Type());
}

// ---- The function

void AttentionKernel::emit(StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
  const bool hasMask = code.mask != AttentionCode::Mask::None;
  SmallVector<Type> types(hasMask ? 5 : 4, pointer);
  types.append(AttentionNumber::count(code), i64);
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, c.loc, name,
                                           LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types));
  machine.makeKernel(function, threads);
  Block *start = function.addEntryBlock(b);
  b.setInsertionPointToStart(start);
  enter(start, name);
  readQueries();
  clearPadding();
  State state;
  state.sums.assign(size_t(tiles) * 4, float32(0));
  if (words <= mostWordsAhead) {
    const SmallVector<Type> wordTypes(words, b.getI32Type());
    state.ahead = choose(
        c.compareI(I::sgt, keys, number(0)), wordTypes, [&] { return readShare(number(0)); },
        [&] { return Values(words, number(0)); });
  }
  state.largest.fill(float32(-std::numeric_limits<double>::infinity()));
  state.totals.fill(float32(0));
  if (hasMask)
    state.sees.fill(c.truth(false));
  Value end = keys;
  if (code.causal && code.mask != AttentionCode::Mask::Adds) // see isHidden
    end = c.two<arith::MinSIOp>(end, add(firstQuery, code.blockQueries()));
  const Values last = forEach(number(0), end, number(keysAtOnce), state.list(),
                              [&](Value first, ValueRange before) { return tile(first, state.like(before)).list(); });
  store(state.like(last));
  LLVM::ReturnOp::create(b, c.loc, ValueRange());
}

AttentionKernel::Values AttentionKernel::State::list() const {
  Values all = sums;
  all.append(largest.begin(), largest.end());
  all.append(totals.begin(), totals.end());
  if (sees[0])
    all.append(sees.begin(), sees.end());
  all.append(ahead);
  return all;
}

AttentionKernel::State AttentionKernel::State::like(ValueRange values) const {
  State state;
  state.sums.assign(values.begin(), values.begin() + static_cast<ptrdiff_t>(sums.size()));
  values = values.drop_front(sums.size());
  state.largest = {values[0], values[1]};
  state.totals = {values[2], values[3]};
  values = values.drop_front(4);
  if (sees[0]) {
    state.sees = {values[0], values[1]};
    values = values.drop_front(2);
  }
  state.ahead.assign(values.begin(), values.end());
  return state;
}

// The last queries of a head come first: with `causal` they see the most keys.
void AttentionKernel::enter(Block *start, StringRef name) {
  Type i32 = b.getI32Type();
  const unsigned addresses = code.mask == AttentionCode::Mask::None ? 4 : 5;
  for (BlockArgument argument : start->getArguments().drop_front(addresses))
    numbers.push_back(argument);
  keys = number32(AttentionNumber::Keys);
  Value all = number32(AttentionNumber::Queries), heads = number32(AttentionNumber::Heads);
  scale = c.bitcast(number32(AttentionNumber::Scale), b.getF32Type());
  thread = machine.thread(c);
  Value inSubgroup = c.andI(thread, number(machine.subgroup() - 1));
  Value subgroup = shifted(thread, llvm::Log2_32(machine.subgroup()), false);
  group = shifted(inSubgroup, 2, false);
  pair = shifted(c.andI(inSubgroup, number(3)), 1, true);

  Value block = machine.block(c), perBlock = number(code.blockQueries());
  Value blocks = c.two<arith::DivUIOp>(add(all, code.blockQueries() - 1), perBlock); // of a head
  Value fromBehind = c.two<arith::RemUIOp>(block, blocks), headNumber = c.two<arith::DivUIOp>(block, blocks);
  firstQuery = c.mulI(add(c.subI(blocks, fromBehind), -1), perBlock);
  Value head = c.two<arith::RemUIOp>(headNumber, heads), batch = c.two<arith::DivUIOp>(headNumber, heads);
  Value keyHead = c.two<arith::DivUIOp>(head, number32(AttentionNumber::HeadsPerKey));
  q = tensorOf(0, AttentionNumber::Q, batch, head);
  k = tensorOf(1, AttentionNumber::K, batch, keyHead);
  v = tensorOf(2, AttentionNumber::V, batch, keyHead);
  result = tensorOf(addresses - 1, AttentionNumber::Result, batch, head);

  Value mine = c.addI(firstQuery, c.addI(c.mulI(subgroup, number(AttentionCode::queries)), group));
  for (size_t i = 0; i < queries.size(); ++i) {
    Value position = add(mine, static_cast<int64_t>(i) * 8);
    queries[i].isInside = c.compareI(I::slt, position, all);
    queries[i].position = c.two<arith::MinSIOp>(position, add(all, -1));
    if (addresses > 4) {
      const Tensor mask = tensorOf(3, AttentionNumber::Mask, batch, head);
      queries[i].mask = rowOf(mask, queries[i].position);
      maskStride = number64(AttentionNumber::Mask + 4);
    }
  }
  if (code.mask == AttentionCode::Mask::Hides) {
    const auto bits = [&](Value address) -> Value {
      return LLVM::PtrToIntOp::create(b, c.loc, b.getI64Type(), address);
    };
    Value odd = c.orI(c.orI(bits(queries[0].mask), bits(queries[1].mask)), wide(keys));
    isMaskInPairs = c.andI(c.compareI(I::eq, c.andI(odd, c.i64(1)), c.i64(0)), c.compareI(I::eq, maskStride, c.i64(1)));
  }

  // Weights are at most 1, and their sums with values have to stay in the range of f32, also where a value is near its
  // end: weights of bf16 are at most 2^-n, for at most 2^n keys. Those of f16 have the range of f16.
  shift = float32(15);
  if (code.dtype == MORTISE_BF16) {
    Value count = arith::SIToFPOp::create(b, c.loc, b.getF32Type(), keys);
    Value exponent = shifted(c.intBits(count), 23, false);
    shift = arith::SIToFPOp::create(b, c.loc, b.getF32Type(), c.subI(number(126), exponent));
  }
  const std::string prefix = name.str();
  keyWords = sharedArray(module, c, machine, prefix + "_keys", i32, size_t(keysAtOnce) * keyStride);
  valueWords = sharedArray(module, c, machine, prefix + "_values", i32, size_t(keysAtOnce) / 2 * valueStride);
  notFinite = sharedArray(module, c, machine, prefix + "_not_finite", i32, 1);
  onlyIf(c.compareI(I::eq, thread, number(0)),
         [&] { LLVM::StoreOp::create(b, c.loc, number(-1), notFinite); }); // a barrier follows
}

AttentionKernel::Tensor AttentionKernel::tensorOf(unsigned argument, uint32_t first, Value batch, Value head) {
  Value address = b.getBlock()->getArgument(argument);
  Value bytes = c.addI(number64(first),
                       c.addI(c.mulI(wide(batch), number64(first + 1)), c.mulI(wide(head), number64(first + 2))));
  return {moved(address, bytes), number64(first + 3)};
}

// ---- What is read

// 8 elements, as 4 words.
AttentionKernel::Values AttentionKernel::readVector(Value address) {
  Type i32 = b.getI32Type();
  Values words;
  if (isAligned) {
    Value vector = read(address, VectorType::get({4}, i32), vectorBytes);
    for (int64_t i = 0; i < 4; ++i)
      words.push_back(c.extract(vector, i));
    return words;
  }
  for (int64_t i = 0; i < 4; ++i)
    words.push_back(readPair(moved(address, 4 * i)));
  return words;
}

// 2 elements, as a word.
Value AttentionKernel::readPair(Value address) {
  Type i32 = b.getI32Type();
  if (isAligned)
    return read(address, i32, 4);
  Value low = read(address, b.getI16Type(), 2), high = read(moved(address, 2), b.getI16Type(), 2);
  return c.orI(c.resizeInt(low, i32, false), shifted(c.resizeInt(high, i32, false), 16, true));
}

void AttentionKernel::readQueries() {
  for (unsigned step = 0; step < depthSteps; ++step) {
    Values words;
    for (const unsigned half : {0, 1})
      for (const Query &query : queries) {
        const unsigned column = step * 16 + half * 8;
        Value at = moved(rowOf(q, query.position), wide(shifted(pair, 1, true)));
        words.push_back(column < code.depth ? readPair(moved(at, int64_t(column) * 2)) : number(0));
      }
    fragments.push_back(std::move(words));
  }
}

// Gives the body this thread's numbers of all items, some at a time.
void AttentionKernel::forShare(unsigned items, unsigned most, llvm::function_ref<void(ArrayRef<Value>)> body) {
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
void AttentionKernel::clearPadding() {
  if (code.depth % 16 == 0)
    return;
  forShare(keysAtOnce, 1, [&](ArrayRef<Value> rows) {
    for (unsigned word = code.depth / 2; word < depthSteps * 8; ++word)
      LLVM::StoreOp::create(b, c.loc, number(0), place(keyWords, add(c.mulI(rows[0], number(keyStride)), word)));
  });
}

static Value vectorOf(Code &c, ArrayRef<Value> words) {
  Value vector = LLVM::PoisonOp::create(c.b, c.loc, VectorType::get({4}, c.b.getI32Type()));
  for (size_t i = 0; i < 4; ++i)
    vector = LLVM::InsertElementOp::create(c.b, c.loc, vector, words[i],
                                           c.integer(c.b.getI32Type(), static_cast<int64_t>(i)));
  return vector;
}

AttentionKernel::Item AttentionKernel::itemOf(Value item, unsigned rowElements) {
  const unsigned vectors = rowElements / vectorElements;
  return {c.two<arith::DivUIOp>(item, number(vectors)), c.two<arith::RemUIOp>(item, number(vectors))};
}

// Rows behind the last one are copies of it: their scores are not used, and their weights are 0.
AttentionKernel::Values AttentionKernel::readKey(Value first, const Item &item) {
  Value key = c.two<arith::MinSIOp>(c.addI(first, item.row), add(keys, -1));
  return readVector(moved(rowOf(k, key), wide(c.mulI(item.vector, number(vectorBytes)))));
}

void AttentionKernel::shareKey(const Item &item, ArrayRef<Value> words) {
  Value to = c.addI(c.mulI(item.row, number(keyStride)), c.mulI(item.vector, number(4)));
  LLVM::StoreOp::create(b, c.loc, vectorOf(c, words), place(keyWords, to), vectorBytes);
}

AttentionKernel::Values AttentionKernel::readValues(Value first, const Item &item) {
  Values words;
  for (const unsigned odd : {0, 1}) {
    Value key = c.addI(first, add(shifted(item.row, 1, true), odd));
    key = c.two<arith::MinSIOp>(key, add(keys, -1));
    words.append(readVector(moved(rowOf(v, key), wide(c.mulI(item.vector, number(vectorBytes))))));
  }
  return words;
}

void AttentionKernel::shareValues(Value first, const Item &item, ArrayRef<Value> words) {
  const ArrayRef<Value> even = words.take_front(4), odd = words.drop_front(4); // keys
  Values pairs;
  for (size_t i = 0; i < 4; ++i) {
    pairs.push_back(c.orI(c.andI(even[i], number(0xffff)), shifted(odd[i], 16, true)));
    pairs.push_back(c.orI(shifted(even[i], 16, false), c.andI(odd[i], number(0xffff0000))));
  }
  pairs = takeOutNotFinite(std::move(pairs), first);
  Value to = c.addI(c.mulI(item.row, number(valueStride)), c.mulI(item.vector, number(vectorElements)));
  for (const unsigned half : {0, 1})
    LLVM::StoreOp::create(b, c.loc, vectorOf(c, ArrayRef(pairs).slice(size_t(half) * 4, 4)),
                          place(valueWords, add(to, half * 4)), vectorBytes);
}

// All words of this thread, and where they belong.
AttentionKernel::Values AttentionKernel::readShare(Value first) {
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
void AttentionKernel::share(Value first, ArrayRef<Value> words) {
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
void AttentionKernel::readAndShare(Value first) {
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

// Sets elements that are not finite to 0, and leaves word of it. Their exponents are all ones, which carry.
AttentionKernel::Values AttentionKernel::takeOutNotFinite(Values words, Value first) {
  const int64_t exponents = code.dtype == MORTISE_BF16 ? 0x7f807f80 : 0x7c007c00,
                ones = code.dtype == MORTISE_BF16 ? 0x00800080 : 0x04000400;
  const auto carries = [&](Value word) { return c.addI(c.andI(word, number(exponents)), number(ones)); };
  Value any = carries(words[0]);
  for (Value word : ArrayRef(words).drop_front())
    any = c.orI(any, carries(word));
  Value isAny = c.compareI(I::ne, c.andI(any, number(0x80008000)), number(0));
  const SmallVector<Type> types(words.size(), b.getI32Type());
  return choose(
      isAny, types,
      [&] {
        LLVM::StoreOp::create(b, c.loc, first, notFinite);
        Values finite;
        for (Value word : words) {
          Value high = shifted(c.andI(carries(word), number(0x80008000)), 15, false); // 1 for each half
          finite.push_back(c.andI(word, c.notI(c.mulI(high, number(0xffff)))));
        }
        return finite;
      },
      [&] { return words; });
}

// ---- Scores

// Whether a key has no part in the query's result. What an added mask hides has a score, which may be NaN.
Value AttentionKernel::isHidden(const Query &query, Value key) {
  Value hidden = c.compareI(I::sge, key, keys);
  if (code.causal && code.mask != AttentionCode::Mask::Adds)
    hidden = c.orI(hidden, c.compareI(I::sgt, key, query.position));
  if (code.mask == AttentionCode::Mask::Hides)
    hidden = c.orI(hidden, c.compareI(I::eq, maskAt(query, key, b.getI8Type()), c.integer(b.getI8Type(), 0)));
  return hidden;
}

// Whether a query of the block does not see a key of the tile because of its number.
Value AttentionKernel::isCut(Value first) {
  Value end = add(first, keysAtOnce), cut = c.compareI(I::sgt, end, keys);
  return code.causal ? c.orI(cut, c.compareI(I::sgt, end, add(firstQuery, 1))) : cut;
}

Value AttentionKernel::maskAt(const Query &query, Value key, Type type) {
  Value inside = c.two<arith::MinSIOp>(key, add(keys, -1));
  return read(moved(query.mask, c.mulI(wide(inside), maskStride)), type, type.getIntOrFloatBitWidth() / 8);
}

// Bit i says whether the mask of i1 lets score number i count.
Value AttentionKernel::maskOf(Value first, bool inPairs) {
  Value bits = number(0);
  const auto set = [&](size_t i, Value condition) {
    bits = c.orI(bits, shifted(c.resizeInt(condition, b.getI32Type(), false), static_cast<unsigned>(i), true));
  };
  for (size_t i = 0; i < scoresAtOnce; i += 2) {
    const Query &query = queries[queryOf(i)];
    if (inPairs) {
      Value inside = c.two<arith::MinSIOp>(keyOf(first, i), add(keys, -2));
      Value pair = c.resizeInt(read(moved(query.mask, wide(inside)), b.getI16Type(), 2), b.getI32Type(), false);
      set(i, c.compareI(I::ne, c.andI(pair, number(0xff)), number(0)));
      set(i + 1, c.compareI(I::ugt, pair, number(0xff)));
      continue;
    }
    for (const size_t j : {i, i + 1})
      set(j, c.compareI(I::ne, maskAt(query, keyOf(first, j), b.getI8Type()), c.integer(b.getI8Type(), 0)));
  }
  return bits;
}

// Bit i says whether the query of score number i sees its key. Only for masks of i1.
Value AttentionKernel::seenOf(Value first) {
  Type i32 = b.getI32Type();
  Value mask = choose(
      isMaskInPairs, i32, [&] { return Values{maskOf(first, true)}; }, [&] { return Values{maskOf(first, false)}; })[0];
  Value inRange = choose(
      isCut(first), i32,
      [&] {
        Value bits = number(0);
        for (size_t i = 0; i < scoresAtOnce; ++i) {
          Value key = keyOf(first, i), is = c.compareI(I::slt, key, keys);
          if (code.causal)
            is = c.andI(is, c.compareI(I::sle, key, queries[queryOf(i)].position));
          bits = c.orI(bits, shifted(c.resizeInt(is, i32, false), static_cast<unsigned>(i), true));
        }
        return Values{bits};
      },
      [&] { return Values{number(-1)}; })[0];
  return c.andI(mask, inRange);
}

// Of the thread's queries and the keys of a tile: per 8 keys four, as multiply has them.
AttentionKernel::Values AttentionKernel::scoresOf(Value first, Value seen, State &state) {
  Type i32 = b.getI32Type(), f32 = b.getF32Type();
  Values scores(scoresAtOnce, float32(0));
  Value at = c.addI(c.mulI(group, number(keyStride)), shifted(pair, 1, false));
  for (unsigned step = 0; step < depthSteps; ++step)
    for (unsigned tile = 0; tile < keysAtOnce / 8; ++tile) {
      Values words;
      for (const unsigned half : {0, 1})
        words.push_back(LLVM::LoadOp::create(
            b, c.loc, i32, place(keyWords, add(at, int64_t(tile) * 8 * keyStride + step * 8 + half * 4))));
      const auto mine = MutableArrayRef(scores).slice(size_t(tile) * 4, 4);
      llvm::copy(machine.multiply(c, code.dtype, fragments[step], words, mine), mine.begin());
    }
  for (Value &score : scores)
    score = c.mul(score, scale);
  const double infinity = std::numeric_limits<double>::infinity();
  const auto withoutHidden = [&] {
    Values all = scores;
    for (size_t i = 0; i < all.size(); ++i) {
      const Query &query = queries[queryOf(i)];
      if (seen) {
        Value bit = c.andI(seen, number(int64_t(1) << i));
        all[i] = c.select(c.compareI(I::ne, bit, number(0)), all[i], float32(-infinity));
        continue;
      }
      Value key = keyOf(first, i), hidden = isHidden(query, key);
      if (code.mask == AttentionCode::Mask::Adds) {
        Value added = c.fromMemory(maskAt(query, key, c.memoryType(code.dtype)), code.dtype);
        if (code.causal)
          added = c.select(c.compareI(I::sgt, key, query.position), float32(-infinity), added);
        all[i] = c.add(all[i], added);
        Value sees = c.compare(arith::CmpFPredicate::UNE, added, -infinity);
        state.sees[queryOf(i)] = c.orI(state.sees[queryOf(i)], c.andI(c.notI(hidden), sees));
      }
      all[i] = c.select(hidden, float32(-infinity), all[i]);
    }
    return all;
  };
  if (code.mask != AttentionCode::Mask::None)
    return withoutHidden();
  const SmallVector<Type> types(scores.size(), f32);
  return choose(isCut(first), types, withoutHidden, [&] { return scores; });
}

// ---- Weights

// `factors`: of what was weighted before, because of the new largest scores.
AttentionKernel::Values AttentionKernel::weightsOf(ArrayRef<Value> scores, PerQuery &factors, State &state) {
  const double infinity = std::numeric_limits<double>::infinity();
  const auto larger = [&](Value x, Value y) { return c.two<arith::MaxNumFOp>(x, y); }; // NaN is seen in the total
  PerQuery bases;
  for (unsigned query = 0; query < 2; ++query) {
    Value largest = state.largest[query], mine;
    for (size_t i = 0; i < scores.size(); ++i)
      if (queryOf(i) == query)
        mine = mine ? larger(mine, scores[i]) : scores[i];
    mine = acrossQuadF(mine, larger);
    Value now = larger(largest, mine);
    // Where there is no score yet but -inf, weights are 0.
    bases[query] = c.select(c.compare(arith::CmpFPredicate::OEQ, now, -infinity), float32(0), now);
    factors[query] = exp2(c.mul(c.sub(largest, bases[query]), log2e));
    state.largest[query] = now;
    state.totals[query] = c.mul(state.totals[query], factors[query]);
  }
  Values weights;
  for (size_t i = 0; i < scores.size(); ++i) {
    const unsigned query = queryOf(i);
    weights.push_back(exp2(c.fma(c.sub(scores[i], bases[query]), float32(log2e), shift)));
    state.totals[query] = c.add(state.totals[query], weights.back());
  }
  return weights;
}

// What the 16 x 16 matrices of weights are a sum of: words of 2 weights, in the order of `weights`. A weight of f32 has
// 24 bits, three times those of a bf16, and one more than a sum of two f16 has, which may have different signs.
SmallVector<AttentionKernel::Values> AttentionKernel::partsOf(ArrayRef<Value> weights) {
  Type i32 = b.getI32Type();
  const bool isBrain = code.dtype == MORTISE_BF16;
  SmallVector<Values> parts(isBrain ? 3 : 2);
  for (size_t i = 0; i < weights.size(); i += 2) {
    std::array<Value, 2> rest = {weights[i], weights[i + 1]};
    for (size_t part = 0; part < parts.size(); ++part) {
      std::array<Value, 2> halves; // words whose high half (bf16), or low half, is the part
      for (size_t j = 0; j < 2; ++j) {
        Value taken;
        if (isBrain) {
          halves[j] = c.intBits(rest[j]);
          taken = c.bitcast(c.andI(halves[j], number(0xffff0000)), b.getF32Type()); // rounded towards 0
        } else {
          Value narrow = c.toMemory(rest[j], code.dtype);
          taken = c.fromMemory(narrow, code.dtype);
          halves[j] = c.resizeInt(isa<FloatType>(narrow.getType()) ? c.intBits(narrow) : narrow, i32, false);
        }
        if (part + 1 < parts.size())
          rest[j] = c.sub(rest[j], taken);
      }
      parts[part].push_back(isBrain ? c.orI(shifted(halves[0], 16, false), c.andI(halves[1], number(0xffff0000)))
                                    : c.orI(halves[0], shifted(halves[1], 16, true)));
    }
  }
  return parts;
}

// ---- Values

// The products of a tile are added to those before by an instruction that rounds to nearest: that of matrices does not,
// and its errors would add up along the keys.
void AttentionKernel::addValues(ArrayRef<Value> weights, const PerQuery &factors, State &state) {
  constexpr unsigned together = 4; // tiles, so that an instruction does not wait for the one before
  Type i32 = b.getI32Type();
  Value at = c.addI(c.mulI(shifted(pair, 1, false), number(valueStride)), group);
  SmallVector<SmallVector<Values>> parts; // per 16 keys
  for (unsigned step = 0; step < keysAtOnce / 16; ++step)
    parts.push_back(partsOf(weights.slice(size_t(step) * 8, 8)));
  for (unsigned from = 0; from < tiles; from += together) {
    const unsigned count = std::min(together, tiles - from);
    Values sums(size_t(count) * 4, float32(0));
    for (unsigned step = 0; step < parts.size(); ++step) {
      SmallVector<Values> words(count);
      for (unsigned tile = 0; tile < count; ++tile)
        for (const unsigned half : {0, 1})
          words[tile].push_back(LLVM::LoadOp::create(
              b, c.loc, i32,
              place(valueWords, add(at, int64_t(step * 8 + half * 4) * valueStride + int64_t(from + tile) * 8))));
      for (const Values &part : parts[step])
        for (unsigned tile = 0; tile < count; ++tile) {
          const auto mine = MutableArrayRef(sums).slice(size_t(tile) * 4, 4);
          llvm::copy(machine.multiply(c, code.dtype, part, words[tile], mine), mine.begin());
        }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      Value &sum = state.sums[size_t(from) * 4 + i];
      sum = c.fma(sum, factors[queryOf(i)], sums[i]);
    }
  }
}

// Adds the values that the product has been spared: the value itself where its key has a weight, NaN where the weight
// is 0, nothing where the key is hidden. Few networks ever get here.
void AttentionKernel::addNotFinite(Value first, ArrayRef<Value> weights, State &state) {
  Type i32 = b.getI32Type();
  enum Kind { Weighs, Seen };
  // Per query and kind 64 bits, one for each key.
  Value bits[2][2][2];
  for (auto &ofQuery : bits)
    for (auto &ofKind : ofQuery)
      for (Value &word : ofKind)
        word = number(0);
  for (size_t i = 0; i < weights.size(); ++i) {
    const unsigned query = queryOf(i), key = static_cast<unsigned>(i / 4 * 8 + i % 2);
    const auto set = [&](Kind kind, Value condition) {
      Value bit = shifted(c.resizeInt(condition, i32, false), key % 32, true);
      Value &word = bits[query][kind][key / 32];
      word = c.orI(word, bit);
    };
    set(Weighs, c.compare(arith::CmpFPredicate::UNE, weights[i], 0.0));
    set(Seen, c.notI(isHidden(queries[query], keyOf(first, i))));
  }
  for (auto &ofQuery : bits)
    for (auto &ofKind : ofQuery)
      for (Value &word : ofKind) {
        word = arith::ShLIOp::create(b, c.loc, word, pair);
        word = acrossQuad(word, [&](Value x, Value y) { return c.orI(x, y); });
      }
  const int64_t exponents = code.dtype == MORTISE_BF16 ? 0x7f80 : 0x7c00;
  for (size_t half = 0; half < 2; ++half)
    state.sums = forEach(number(0), number(32), number(1), state.sums, [&](Value offset, ValueRange before) {
      Values sums(before);
      Value key = c.addI(add(first, static_cast<int64_t>(half) * 32), offset);
      Value row = rowOf(v, c.two<arith::MinSIOp>(key, add(keys, -1)));
      row = moved(row, wide(shifted(pair, 1, true)));
      const auto isSet = [&](unsigned query, Kind kind) {
        Value bit = c.andI(arith::ShRUIOp::create(b, c.loc, bits[query][kind][half], offset), number(1));
        return c.compareI(I::ne, bit, number(0));
      };
      const PerQuery seen = {isSet(0, Seen), isSet(1, Seen)}, weighs = {isSet(0, Weighs), isSet(1, Weighs)};
      for (unsigned i = 0; i < tiles * 4; ++i) {
        const unsigned query = queryOf(i);
        Value element = read(moved(row, int64_t(i / 4) * 16 + int64_t(i % 2) * 2), b.getI16Type(), 2);
        Value isFinite = c.compareI(I::ne, c.andI(element, c.integer(element.getType(), exponents)),
                                    c.integer(element.getType(), exponents));
        Value widened = c.bitcast(element, c.memoryType(code.dtype));
        Value value = c.select(weighs[query], c.fromMemory(widened, code.dtype),
                               float32(std::numeric_limits<double>::quiet_NaN()));
        Value counts = c.andI(seen[query], c.notI(isFinite));
        sums[i] = c.add(sums[i], c.select(counts, value, float32(0)));
      }
      return sums;
    });
}

// ---- A tile, and the end

AttentionKernel::State AttentionKernel::tile(Value first, State state) {
  Value seen = code.mask == AttentionCode::Mask::Hides ? seenOf(first) : Value();
  if (words <= mostWords && words > mostWordsAhead)
    state.ahead = readShare(first);
  machine.barrier(c); // all have done with the tile before
  words <= mostWords ? share(first, state.ahead) : readAndShare(first);
  state.ahead.clear();
  machine.barrier(c);
  if (words <= mostWordsAhead)
    state.ahead = readShare(add(first, keysAtOnce)); // behind the end the last row
  if (!seen)
    return attend(first, seen, state);
  // Half of a causal mask and the unused part of a cache are tiles of which a subgroup sees nothing.
  Value any = seen;
  for (unsigned mask = 1; mask < machine.subgroup(); mask *= 2)
    any = c.orI(any, machine.exchange(c, any, mask));
  const Values before = state.list();
  const SmallVector<Type> types(llvm::map_range(before, [](Value value) { return value.getType(); }));
  return state.like(choose(
      c.compareI(I::ne, any, number(0)), types, [&] { return attend(first, seen, state).list(); },
      [&] { return before; }));
}

// `seen`: seenOf; null where no mask of i1 is.
AttentionKernel::State AttentionKernel::attend(Value first, Value seen, State state) {
  for (unsigned query = 0; seen && query < 2; ++query) {
    Value any = c.andI(seen, number(query ? 0xcccccccc : 0x33333333)); // see queryOf
    state.sees[query] = c.orI(state.sees[query], c.compareI(I::ne, any, number(0)));
  }
  PerQuery factors;
  const Values scores = scoresOf(first, seen, state), weights = weightsOf(scores, factors, state);
  addValues(weights, factors, state);
  Value last = LLVM::LoadOp::create(b, c.loc, b.getI32Type(), notFinite);
  const SmallVector<Type> types(state.sums.size(), b.getF32Type());
  state.sums = choose(
      c.compareI(I::eq, last, first), types,
      [&] {
        State more = state;
        addNotFinite(first, weights, more);
        return more.sums;
      },
      [&] { return state.sums; });
  return state;
}

// A query that no mask lets see a key has the result 0; one whose scores are all -inf has a total of 0, which gives
// NaN.
void AttentionKernel::store(const State &state) {
  Type i32 = b.getI32Type();
  for (unsigned query = 0; query < 2; ++query) {
    Value total = acrossQuadF(state.totals[query], [&](Value x, Value y) { return c.add(x, y); });
    Value factor = c.div(float32(1), total), sees = c.compareI(I::sgt, keys, number(0));
    if (state.sees[query]) {
      Value any = acrossQuad(c.resizeInt(state.sees[query], i32, false), [&](Value x, Value y) { return c.orI(x, y); });
      sees = c.compareI(I::ne, any, number(0));
    }
    onlyIf(queries[query].isInside, [&] {
      Value row = moved(rowOf(result, queries[query].position), wide(shifted(pair, 1, true)));
      for (unsigned tile = 0; tile < tiles; ++tile) {
        std::array<Value, 2> halves;
        for (unsigned i = 0; i < 2; ++i) {
          Value value = c.select(sees, c.mul(state.sums[tile * 4 + query * 2 + i], factor), float32(0));
          Value narrow = c.toMemory(value, code.dtype);
          halves[i] = isa<FloatType>(narrow.getType()) ? c.intBits(narrow) : narrow;
        }
        Value to = moved(row, int64_t(tile) * 16);
        if (isAligned) {
          Value word = c.orI(c.resizeInt(halves[0], i32, false), shifted(c.resizeInt(halves[1], i32, false), 16, true));
          LLVM::StoreOp::create(b, c.loc, word, to, 4);
        } else {
          LLVM::StoreOp::create(b, c.loc, halves[0], to, 2);
          LLVM::StoreOp::create(b, c.loc, halves[1], moved(to, 2), 2);
        }
      }
    });
  }
}

} // namespace

void emitAttention(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
                   StringRef name, unsigned alignment, ModuleOp module) {
  OpBuilder builder(module->getContext());
  AttentionKernel(code, machine, instructions, alignment, module, builder).emit(name);
}

} // namespace mortise::codegen
