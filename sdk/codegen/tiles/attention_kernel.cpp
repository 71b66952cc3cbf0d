// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tiles/attention_kernel.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

// ---- Code

Value AttentionKernel::shifted(Value bits, unsigned by, bool left) {
  return left ? Value(arith::ShLIOp::create(b, c.loc, bits, c.integer(bits.getType(), by)))
              : Value(arith::ShRUIOp::create(b, c.loc, bits, c.integer(bits.getType(), by)));
}

Value AttentionKernel::halves(Value low, Value high, unsigned which) {
  const auto bitcast = [&](Value word, Type type) -> Value { return LLVM::BitcastOp::create(b, c.loc, type, word); };
  Type pair = VectorType::get({2}, b.getI16Type());
  const auto first = static_cast<int32_t>(which);
  Value both = LLVM::ShuffleVectorOp::create(b, c.loc, bitcast(low, pair), bitcast(high, pair),
                                             ArrayRef<int32_t>{first, first + 2});
  return bitcast(both, b.getI32Type());
}

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

Value AttentionKernel::acrossQuad(Value bits, Combine combine) {
  for (const unsigned mask : {1U, 2U})
    bits = combine(bits, machine.exchange(c, bits, mask));
  return bits;
}
Value AttentionKernel::acrossQuadF(Value x, Combine combine) {
  return c.bitcast(acrossQuad(c.intBits(x),
                              [&](Value mine, Value other) {
                                return c.intBits(
                                    combine(c.bitcast(mine, b.getF32Type()), c.bitcast(other, b.getF32Type())));
                              }),
                   b.getF32Type());
}
Value AttentionKernel::isAnywhere(Value bits) { return machine.any(c, c.compareI(I::ne, bits, number(0))); }

// ---- The function

void AttentionKernel::emit(StringRef name) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i64 = b.getI64Type();
  const bool hasMask = code.mask != AttentionCode::Mask::None;
  SmallVector<Type> types(hasMask ? 5 : 4, pointer);
  types.append(AttentionNumber::count(code), i64);
  b.setInsertionPointToEnd(module.getBody());
  auto function = LLVM::LLVMFuncOp::create(b, c.loc, name,
                                           LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types));
  // Where the next tile is not read ahead, other blocks of the multiprocessor fill the wait.
  const bool hasOthers = !code.readsAhead && std::max(code.depth, code.width) <= 64;
  machine.makeKernel(function, threads, /*resident=*/hasOthers ? 3 : 0, code.cluster);
  start = function.addEntryBlock(b);
  b.setInsertionPointToStart(start);
  enter(name);
  State state;
  state.sums.assign(size_t(shape.tiles) * 4, float32(0));
  state.largest.fill(float32(-std::numeric_limits<double>::infinity()));
  state.totals.fill(float32(0));
  if (hasMask)
    state.sees.fill(c.truth(false));
  store(allTiles(std::move(state)));
  LLVM::ReturnOp::create(b, c.loc, ValueRange());
}

AttentionKernel::Values AttentionKernel::State::list() const {
  Values all = sums;
  all.append(largest.begin(), largest.end());
  all.append(totals.begin(), totals.end());
  if (sees[0])
    all.append(sees.begin(), sees.end());
  all.append(ahead);
  all.append(mask);
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
  state.ahead = Values(values.drop_back(mask.size()));
  state.mask = Values(values.take_back(mask.size()));
  return state;
}

void AttentionKernel::enter(StringRef name) {
  const bool hasMask = code.mask != AttentionCode::Mask::None;
  for (BlockArgument argument : start->getArguments().drop_front(hasMask ? 5 : 4))
    numbers.push_back(argument);
  keys = number32(AttentionNumber::Keys);
  scale = c.bitcast(number32(AttentionNumber::Scale), b.getF32Type());
  perScore = code.mask == AttentionCode::Mask::Adds ? float32(log2e) : c.mul(scale, float32(log2e));
  thread = machine.thread(c);
  lane = c.andI(thread, number(machine.subgroup() - 1));
  subgroup = shifted(thread, llvm::Log2_32(machine.subgroup()), false);
  group = shifted(lane, 2, false);
  pair = shifted(c.andI(lane, number(3)), 1, true);
  findRows(machine.block(c));
  k = tensorOf(1, AttentionNumber::K, keyHead);
  v = tensorOf(2, AttentionNumber::V, keyHead);
  if (hasMask) {
    for (Row &row : rows)
      row.mask = rowOf(tensorOf(3, AttentionNumber::Mask, row.head), row.query);
    maskStride = number64(AttentionNumber::Mask + 4);
  }
  if (code.mask == AttentionCode::Mask::Hides) {
    const auto bits = [&](Value address) -> Value {
      return LLVM::PtrToIntOp::create(b, c.loc, b.getI64Type(), address);
    };
    Value odd = c.andI(c.orI(bits(rows[0].mask), bits(rows[1].mask)), c.i64(int64_t(2) * keyTiles - 1));
    isMaskInVectors = c.andI(c.compareI(I::eq, odd, c.i64(0)), c.compareI(I::eq, maskStride, c.i64(1)));
  }

  // Weights are at most 1, and their sums with values have to stay in the range of f32, also where a value is near its
  // end: weights of bf16 are at most 2^-n, for at most 2^n keys. Those of f16 have the range of f16.
  shift = float32(15);
  if (code.dtype == MORTISE_BF16) {
    Value count = arith::SIToFPOp::create(b, c.loc, b.getF32Type(), keys);
    Value exponent = shifted(c.intBits(count), 23, false);
    shift = arith::SIToFPOp::create(b, c.loc, b.getF32Type(), c.subI(number(126), exponent));
  }
  prepareMemory(name.str());
  if (overlaps()) { // nothing has been read so far
    machine.releaseNext(c);
    machine.awaitKernels(c);
  }
}

// ---- Memory

AttentionKernel::Tensor AttentionKernel::tensorOf(unsigned argument, uint32_t first, Value head) {
  Value bytes = c.addI(number64(first),
                       c.addI(c.mulI(wide(batch), number64(first + 1)), c.mulI(wide(head), number64(first + 2))));
  return {moved(start->getArgument(argument), bytes), number64(first + 3)};
}

// 8 elements, as 4 words.
AttentionKernel::Values AttentionKernel::readVector(Value address, bool isAgain) {
  Values words;
  if (isAligned) {
    Value vector = read(address, VectorType::get({vectorWords}, b.getI32Type()), vectorBytes, isAgain);
    for (int64_t i = 0; i < vectorWords; ++i)
      words.push_back(c.extract(vector, i));
    return words;
  }
  for (int64_t i = 0; i < vectorWords; ++i)
    words.push_back(readPair(moved(address, 4 * i), isAgain));
  return words;
}

// 2 elements, as a word.
Value AttentionKernel::readPair(Value address, bool isAgain) {
  Type i32 = b.getI32Type(), i16 = b.getI16Type();
  if (isAligned)
    return read(address, i32, 4, isAgain);
  Value low = read(address, i16, 2, isAgain), high = read(moved(address, 2), i16, 2, isAgain);
  return c.orI(c.resizeInt(low, i32, false), shifted(c.resizeInt(high, i32, false), 16, true));
}

Value AttentionKernel::vectorOf(ArrayRef<Value> words) {
  Type i32 = b.getI32Type();
  Value vector = LLVM::PoisonOp::create(b, c.loc, VectorType::get({vectorWords}, i32));
  for (size_t i = 0; i < vectorWords; ++i)
    vector = LLVM::InsertElementOp::create(b, c.loc, vector, words[i], c.integer(i32, static_cast<int64_t>(i)));
  return vector;
}

SmallVector<AttentionKernel::Values> AttentionKernel::readQueries() {
  SmallVector<Values> fragments;
  std::array<Values, 2> words;
  for (size_t i = 0; i < rows.size(); ++i)
    words[i] = queryWords(rowOf(tensorOf(0, AttentionNumber::Q, rows[i].head), rows[i].query));
  for (size_t i = 0; i < words[0].size(); i += 2)
    fragments.push_back({words[0][i], words[1][i], words[0][i + 1], words[1][i + 1]});
  return fragments;
}

// Of two vectors, which two keys have for the same columns: per column the elements of both.
AttentionKernel::Values AttentionKernel::pairsOf(ArrayRef<Value> even, ArrayRef<Value> odd) {
  Values pairs;
  for (size_t i = 0; i < vectorWords; ++i) {
    pairs.push_back(halves(even[i], odd[i], 0));
    pairs.push_back(halves(even[i], odd[i], 1));
  }
  return pairs;
}

// Where an element's exponent is all ones: 1 for each half, 15 bits further. It carries when a one is added.
static Value carriesOf(Code &c, int32_t dtype, Value word) {
  const int64_t exponents = dtype == MORTISE_BF16 ? 0x7f807f80 : 0x7c007c00,
                ones = dtype == MORTISE_BF16 ? 0x00800080 : 0x04000400;
  Type i32 = c.b.getI32Type();
  return c.addI(c.andI(word, c.integer(i32, exponents)), c.integer(i32, ones));
}

// A word that is 0 where all elements are finite.
Value AttentionKernel::notFiniteAmong(ArrayRef<Value> words) {
  Value any = number(0);
  for (Value word : words)
    any = c.orI(any, carriesOf(c, code.dtype, word));
  return c.andI(any, number(0x80008000));
}

// With 0 for elements that are not finite.
AttentionKernel::Values AttentionKernel::onlyFinite(ArrayRef<Value> words) {
  Values finite;
  for (Value word : words) {
    Value high = shifted(c.andI(carriesOf(c, code.dtype, word), number(0x80008000)), 15, false);
    finite.push_back(c.andI(word, c.notI(c.mulI(high, number(0xffff)))));
  }
  return finite;
}

Value AttentionKernel::resultBits(Value sum, Value factor, Value sees) {
  return c.intBits(c.toMemory(c.select(sees, c.mul(sum, factor), float32(0)), code.dtype));
}

// ---- Scores

// Of the thread's rows and the keys of a tile: per 8 keys four, as multiply has them.
AttentionKernel::Values AttentionKernel::scoresOf(Value first, Value seen, State &state) {
  Type f32 = b.getF32Type();
  Values scores(scoresAtOnce, float32(0));
  for (unsigned step = 0; step < shape.depthSteps; ++step) {
    const Values fragment = queries(step);
    for (unsigned tile = 0; tile < keyTiles; tile += 2) {
      const Values words = keyWords(step, tile);
      for (const unsigned odd : {0, 1}) {
        const auto mine = MutableArrayRef(scores).slice(size_t(tile + odd) * 4, 4);
        const auto factor = ArrayRef(words).slice(size_t(odd) * 2, 2);
        llvm::copy(machine.multiply(c, code.dtype, fragment, factor, mine), mine.begin());
      }
    }
  }
  const double infinity = std::numeric_limits<double>::infinity();
  const auto withoutHidden = [&] {
    Values all = scores;
    for (size_t i = 0; i < all.size(); ++i) {
      const Row &row = rows[rowIndex(i)];
      if (seen) {
        Value bit = c.andI(seen, number(int64_t(1) << i));
        all[i] = c.select(c.compareI(I::ne, bit, number(0)), all[i], float32(-infinity));
        continue;
      }
      Value key = keyOf(first, i), hidden = isHidden(row, key);
      if (code.mask == AttentionCode::Mask::Adds) {
        Value added = c.fromMemory(maskAt(row, key, c.memoryType(code.dtype)), code.dtype);
        if (code.causal)
          added = c.select(c.compareI(I::sgt, key, row.query), float32(-infinity), added);
        all[i] = c.fma(all[i], scale, added);
        Value sees = c.compare(arith::CmpFPredicate::UNE, added, -infinity);
        state.sees[rowIndex(i)] = c.orI(state.sees[rowIndex(i)], c.andI(c.notI(hidden), sees));
      }
      all[i] = c.select(hidden, float32(-infinity), all[i]);
    }
    return all;
  };
  if (code.mask == AttentionCode::Mask::Adds)
    return withoutHidden();
  Value all = number(static_cast<int64_t>((uint64_t{1} << scoresAtOnce) - 1));
  Value hidesSome = seen ? isAnywhere(c.two<arith::XOrIOp>(seen, all)) : isCut(first);
  const SmallVector<Type> types(scores.size(), f32);
  return choose(hidesSome, types, withoutHidden, [&] { return scores; });
}

// ---- Weights

// `factors`: of what was weighted before, because of the new largest scores.
AttentionKernel::Values AttentionKernel::weightsOf(ArrayRef<Value> scores, PerRow &factors, State &state) {
  PerRow origins;
  for (unsigned row = 0; row < 2; ++row) {
    Value largest = state.largest[row], mine = scores[size_t(row) * 2]; // see rowIndex
    for (size_t i = size_t(row) * 2 + 1; i < scores.size(); ++i)
      if (rowIndex(i) == row)
        mine = larger(mine, scores[i]);
    mine = acrossQuadF(mine, [&](Value x, Value y) { return larger(x, y); });
    Value now = larger(largest, mine);
    // Where there is no score yet but -inf, weights are 0.
    const double none = -std::numeric_limits<double>::infinity();
    Value base = c.select(c.compare(arith::CmpFPredicate::OEQ, now, none), float32(0), now);
    origins[row] = originOf(base);
    factors[row] = exp2(c.sub(originOf(largest), origins[row]));
    state.largest[row] = now;
    state.totals[row] = c.mul(state.totals[row], factors[row]);
  }
  Values weights;
  for (size_t i = 0; i < scores.size(); ++i) {
    const unsigned row = rowIndex(i);
    weights.push_back(exp2(c.fma(scores[i], perScore, c.sub(float32(0), origins[row]))));
    state.totals[row] = c.add(state.totals[row], weights.back());
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
      std::array<Value, 2> words; // whose high half (bf16), or low half, is the part
      for (size_t j = 0; j < 2; ++j) {
        Value taken;
        if (isBrain) {
          words[j] = c.intBits(rest[j]);
          taken = c.bitcast(c.andI(words[j], number(0xffff0000)), b.getF32Type()); // rounded towards 0
        } else {
          Value narrow = c.toMemory(rest[j], code.dtype);
          taken = c.fromMemory(narrow, code.dtype);
          words[j] = c.resizeInt(c.intBits(narrow), i32, false);
        }
        if (part + 1 < parts.size())
          rest[j] = c.sub(rest[j], taken);
      }
      parts[part].push_back(halves(words[0], words[1], isBrain));
    }
  }
  return parts;
}

// ---- Values

// The products of a tile are added to those before by an instruction that rounds to nearest: that of matrices does not,
// and its errors would add up along the keys.
void AttentionKernel::addValues(Value first, ArrayRef<Value> weights, const PerRow &factors, State &state) {
  constexpr unsigned together = 4; // tiles, so that an instruction does not wait for the one before
  takeValues();
  // Few networks ever have values that are not finite. They are added first, to sums that are then scaled down.
  Values before = state.sums;
  before.append(factors.begin(), factors.end());
  before.append(values);
  const SmallVector<Type> types(llvm::map_range(before, [](Value value) { return value.getType(); }));
  const Values after = choose(
      hasNotFinite(first), types,
      [&] {
        Values all = state.sums;
        for (size_t i = 0; i < all.size(); ++i)
          all[i] = c.mul(all[i], factors[rowIndex(i)]);
        addNotFinite(first, weights, all);
        all.append(factors.size(), float32(1));
        all.append(finiteValues(first));
        return all;
      },
      [&] { return before; });
  const size_t count = state.sums.size();
  const PerRow scales = {after[count], after[count + 1]};
  values.assign(after.begin() + static_cast<ptrdiff_t>(count) + 2, after.end());
  SmallVector<SmallVector<Values>> parts; // per 16 keys
  for (unsigned step = 0; step < keySteps; ++step)
    parts.push_back(partsOf(weights.slice(size_t(step) * 8, 8)));
  for (unsigned from = 0; from < shape.tiles; from += together) {
    const unsigned some = std::min(together, shape.tiles - from);
    Values sums(size_t(some) * 4, float32(0));
    for (unsigned step = 0; step < keySteps; ++step) {
      Values words;
      for (unsigned i = 0; i < some; i += 2)
        words.append(valueWords(step, from + i));
      for (const Values &part : parts[step])
        for (unsigned i = 0; i < some; ++i) {
          const auto mine = MutableArrayRef(sums).slice(size_t(i) * 4, 4);
          const auto factor = ArrayRef(words).slice(size_t(i) * 2, 2);
          llvm::copy(machine.multiply(c, code.dtype, part, factor, mine), mine.begin());
        }
    }
    for (size_t i = 0; i < sums.size(); ++i) {
      const size_t at = size_t(from) * 4 + i;
      state.sums[at] = c.fma(after[at], scales[rowIndex(i)], sums[i]);
    }
  }
}

// Adds the values that the product has been spared: the value itself where its key has a weight, NaN where the weight
// is 0, nothing where the key is hidden.
void AttentionKernel::addNotFinite(Value first, ArrayRef<Value> weights, Values &sums) {
  Type i32 = b.getI32Type();
  enum Kind { Weighs, Seen };
  // Per row and kind one bit for each key: of this thread's, then of all.
  Value bits[2][2][2];
  for (auto &ofRow : bits)
    for (auto &ofKind : ofRow)
      for (Value &word : ofKind)
        word = number(0);
  for (size_t i = 0; i < weights.size(); ++i) {
    const unsigned row = rowIndex(i);
    const auto set = [&](Kind kind, Value condition) {
      Value &word = bits[row][kind][0];
      word = c.orI(word, shifted(c.resizeInt(condition, i32, false), ownKey(i), true));
    };
    set(Weighs, c.compare(arith::CmpFPredicate::UNE, weights[i], 0.0));
    set(Seen, c.notI(isHidden(rows[row], keyOf(first, i))));
  }
  const size_t halves = keysAtOnce / 32;
  Value begin = ownKeys(), by = c.andI(begin, number(31));
  for (auto &ofRow : bits)
    for (auto &ofKind : ofRow) {
      Value mine = arith::ShLIOp::create(b, c.loc, ofKind[0], by);
      for (size_t half = 0; half < halves; ++half) {
        Value isIn = c.compareI(I::eq, shifted(begin, 5, false), number(static_cast<int64_t>(half)));
        ofKind[half] = acrossQuad(c.select(isIn, mine, number(0)), [&](Value x, Value y) { return c.orI(x, y); });
      }
    }
  const int64_t exponents = code.dtype == MORTISE_BF16 ? 0x7f80 : 0x7c00;
  constexpr size_t together = 16; // sums; more would want more registers than there are
  for (size_t half = 0; half < halves; ++half)
    for (size_t from = 0; from < sums.size(); from += together) {
      const auto some = MutableArrayRef(sums).slice(from, std::min(together, sums.size() - from));
      const Values next = forEach(number(0), number(32), number(1), some, [&](Value offset, ValueRange before) {
        Values all(before);
        Value at = rowOfKey(v, c.addI(add(first, static_cast<int64_t>(half) * 32), offset));
        const auto isSet = [&](unsigned row, Kind kind) {
          Value bit = c.andI(arith::ShRUIOp::create(b, c.loc, bits[row][kind][half], offset), number(1));
          return c.compareI(I::ne, bit, number(0));
        };
        const PerRow seen = {isSet(0, Seen), isSet(1, Seen)}, weighs = {isSet(0, Weighs), isSet(1, Weighs)};
        for (size_t i = 0; i < all.size(); ++i) {
          const unsigned row = rowIndex(i);
          Value element = read(elementOf(at, static_cast<unsigned>((from + i) / 4), i % 2), b.getI16Type(), 2);
          Value isFinite = c.compareI(I::ne, c.andI(element, c.integer(element.getType(), exponents)),
                                      c.integer(element.getType(), exponents));
          Value widened = c.bitcast(element, c.memoryType(code.dtype));
          Value value = c.select(weighs[row], c.fromMemory(widened, code.dtype),
                                 float32(std::numeric_limits<double>::quiet_NaN()));
          Value counts = c.andI(seen[row], c.notI(isFinite));
          all[i] = c.add(all[i], c.select(counts, value, float32(0)));
        }
        return all;
      });
      llvm::copy(next, some.begin());
    }
}

// ---- A tile

// Half of a causal mask and the unused part of a cache are tiles of which a subgroup sees nothing.
AttentionKernel::State AttentionKernel::attendIf(Value isWanted, Value first, Value seen, const State &state) {
  if (!isWanted)
    return attend(first, seen, state);
  Values before = state.list();
  const SmallVector<Type> types(llvm::map_range(before, [](Value value) { return value.getType(); }));
  return state.like(choose(isWanted, types, [&] { return attend(first, seen, state).list(); }, [&] { return before; }));
}

AttentionKernel::State AttentionKernel::attend(Value first, Value seen, State state) {
  for (unsigned row = 0; seen && row < 2; ++row) {
    Value any = c.andI(seen, number(row ? 0xcccccccc : 0x33333333)); // see rowIndex
    state.sees[row] = c.orI(state.sees[row], c.compareI(I::ne, any, number(0)));
  }
  beginTile(first);
  PerRow factors;
  const Values scores = scoresOf(first, seen, state), weights = weightsOf(scores, factors, state);
  addValues(first, weights, factors, state);
  return state;
}

SimtLaunch emitAttention(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
                         StringRef name, unsigned alignment, ModuleOp module) {
  OpBuilder builder(module->getContext());
  const auto make = code.split == AttentionCode::Split::Keys ? splitKeys : splitQueries;
  const std::unique_ptr<AttentionKernel> kernel = make(code, machine, instructions, alignment, module, builder);
  kernel->emit(name);
  return {.entry = name.str(), .threads = code.subgroups * machine.subgroup(), .awaits = kernel->overlaps()};
}

} // namespace mortise::codegen
