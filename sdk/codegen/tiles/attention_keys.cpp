// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For few queries, as of a decode step, or few tiles of them. A block has a head of k and v, and 16 rows: row r belongs
// to query r % Q of head r / Q among those that share the head of k and v. Its subgroups share out the keys, 64 at a
// time: each goes through its own tiles without a look at the others, and at the end their sums meet in the block's
// memory. Where there are many keys, several blocks, a cluster, share them out in the same way, and read each other's
// memory in the end.
//
// Nothing else goes through that memory, since each element of k and v is needed by one thread alone. Of the terms of
// scores and the columns of values, too, a thread takes those that lie side by side. Terms of scores: of 32 elements,
// thread t of four has 8 t .. 8 t + 7, as words of two steps. Columns of values: of 64, the thread of column g has
// 8 g .. 8 g + 7, which belong to 8 tiles.
#include "tiles/attention_kernel.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

namespace {

class SplitKeys final : public AttentionKernel {
public:
  SplitKeys(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions, unsigned alignment,
            ModuleOp module, OpBuilder &builder)
      : AttentionKernel(code, machine, instructions, alignment, module, builder, shapeOf(code)) {}

private:
  static constexpr unsigned passTiles = 8, passColumns = passTiles * 8; // that a vector of each key has elements of
  static Shape shapeOf(const AttentionCode &code) {
    return {(code.depth + 31) / 32 * 2, (code.width + passColumns - 1) / passColumns * passTiles};
  }
  void findRows(Value block) override;
  void prepareMemory(const std::string &prefix) override;
  Values queryWords(Value row) override;
  State allTiles(State state) override;
  void store(const State &state) override;
  Values queries(unsigned step) override;
  Values keyWords(unsigned step, unsigned tile) override;
  Values valueWords(unsigned step, unsigned tile) override;
  void beginTile(Value first) override;
  void takeValues() override { values = pairsOfAll(valuesOfTile); }
  Values finiteValues(Value first) override { return onlyFinite(pairsOfAll(readValues(first, true))); }
  Value hasNotFinite(Value) override { return isAnywhere(notFiniteAmong(values)); }
  Value elementOf(Value row, unsigned tile, unsigned odd) override;
  Value columnOf(Value tile, unsigned odd);
  Values readKeys(Value first);
  Values readValues(Value first, bool isAgain);
  Values pairsOfAll(ArrayRef<Value> words);
  // Both k and v are read ahead of a look at the next tile's mask, where there are registers for that.
  bool isWholeAhead() const { return shape.tiles == passTiles; }
  int64_t keysTogether() const { return int64_t(code.cluster) * code.subgroups * keysAtOnce; } // that all have at once
  State tile(Value first, State state);

  struct Found { // arrays in the block's memory: per row, as Total has it, and sums of weighted values
    Value largest, weights, see, sums;
  };
  struct Total {
    PerRow largest, weights; // score, and sum of weights
    PerRow see;              // i32, not 0 where a key is seen; null where there is no mask
  };
  struct Together {
    Total total;
    std::array<Values, 2> factors; // per row, of what each has found
  };
  void storeTotal(const Found &found, const Total &total, Value first);
  Together together(const Found &found, unsigned count, llvm::function_ref<Value(Value, unsigned, Value)> at);
  Value sumOf(const Together &all, unsigned j, llvm::function_ref<Value(unsigned)> at);
  void storeResult(const Together &all, Value tile, unsigned j, Value sum);
  Value rowInTile(unsigned row) { return add(group, row * 8); }
  // The place of number j of a tile, in an array of so many threads' sums; of thread `lane`.
  Value sumIn(unsigned threads, Value tile, unsigned j) {
    return c.addI(lane, c.mulI(add(c.mulI(tile, number(4)), j), number(threads)));
  }

  Values keysOfTile, valuesOfTile; // words in registers, as they have been read
  Value fragments;                 // of the queries, in the block's memory
  Found ofSubgroups, ofBlock;      // of all subgroups of the block, and of the block
  Value blockOfCluster;            // its number
};

// Blocks of a head of k and v lie side by side.
void SplitKeys::findRows(Value block) {
  if (code.cluster > 1) {
    blockOfCluster = c.andI(block, number(code.cluster - 1));
    block = shifted(block, llvm::Log2_32(code.cluster), false);
  }
  Value queries = number32(AttentionNumber::Queries), heads = number32(AttentionNumber::HeadsPerKey);
  Value all = c.mulI(heads, queries);
  Value blocks = c.two<arith::DivUIOp>(add(all, AttentionCode::tileRows - 1), number(AttentionCode::tileRows));
  Value headNumber = c.two<arith::DivUIOp>(block, blocks);
  Value keyHeads = c.two<arith::DivUIOp>(number32(AttentionNumber::Heads), heads);
  keyHead = c.two<arith::RemUIOp>(headNumber, keyHeads);
  batch = c.two<arith::DivUIOp>(headNumber, keyHeads);
  firstQuery = number(0), endQuery = queries;
  Value mine = c.addI(c.mulI(c.two<arith::RemUIOp>(block, blocks), number(AttentionCode::tileRows)), group);
  for (size_t i = 0; i < rows.size(); ++i) {
    Value row = add(mine, static_cast<int64_t>(i) * 8);
    rows[i].isInside = c.compareI(I::slt, row, all);
    row = c.two<arith::MinSIOp>(row, add(all, -1));
    rows[i].head = c.addI(c.mulI(keyHead, heads), c.two<arith::DivUIOp>(row, queries));
    rows[i].query = c.two<arith::RemUIOp>(row, queries);
  }
}

void SplitKeys::prepareMemory(const std::string &prefix) {
  const auto array = [&](const std::string &name, size_t words) {
    return machine.sharedArray(c, module, prefix + name, b.getI32Type(), words);
  };
  fragments = array("_queries", size_t(shape.depthSteps) * 4 * machine.subgroup());
  const auto found = [&](const std::string &whose, size_t rows, size_t sums) {
    Found made{array(whose + "_largest", rows), array(whose + "_weights", rows), {}, array(whose + "_sums", sums)};
    if (code.mask != AttentionCode::Mask::None)
      made.see = array(whose + "_see", rows);
    return made;
  };
  ofSubgroups = found("_subgroups", size_t(code.subgroups) * AttentionCode::tileRows, size_t(passTiles) * 4 * threads);
  if (code.cluster > 1)
    ofBlock = found("_block", AttentionCode::tileRows, size_t(shape.tiles) * 4 * machine.subgroup());
}

// ---- What is read

// Behind the depth are zeros. k is read as q is.
AttentionKernel::Values SplitKeys::queryWords(Value row) {
  Values words;
  const unsigned vectors = code.depth / vectorElements; // of a row
  Value quarter = shifted(pair, 1, false);
  for (unsigned from = 0; from < shape.depthSteps * 2; from += 4) {
    Value vector = add(quarter, from), isInside;
    if (from + 4 > vectors) {
      isInside = c.compareI(I::slt, vector, number(vectors));
      vector = c.two<arith::MinSIOp>(vector, number(vectors - 1));
    }
    for (Value word : readVector(moved(row, wide(c.mulI(vector, number(vectorBytes))))))
      words.push_back(isInside ? c.select(isInside, word, number(0)) : word);
  }
  return words;
}

// Per 8 keys.
AttentionKernel::Values SplitKeys::readKeys(Value first) {
  Values words;
  Value quarter = c.mulI(shifted(group, 1, false), number(int64_t(2) * keyTiles));
  Value ofColumn = c.addI(first, c.addI(quarter, c.andI(group, number(1))));
  for (unsigned tile = 0; tile < keyTiles; ++tile)
    words.append(queryWords(rowOfKey(k, add(ofColumn, int64_t(2) * tile))));
  return words;
}

// Of both keys of a pair for 64 columns, and these for a step's two halves. What lies behind the width is a copy, and
// no result. `isAgain`: keeps compilers from having the words of the first time wait for this.
AttentionKernel::Values SplitKeys::readValues(Value first, bool isAgain) {
  Values words;
  const unsigned vectors = code.width / vectorElements;
  for (unsigned tile = 0; tile < keyTiles; ++tile)
    for (unsigned pass = 0; pass < shape.tiles; pass += passTiles)
      for (const unsigned odd : {0, 1}) {
        Value vector = add(group, pass);
        if (pass + passTiles > vectors)
          vector = c.two<arith::MinSIOp>(vector, number(vectors - 1));
        Value row = rowOfKey(v, c.addI(first, add(ownKeys(), int64_t(2) * tile + odd)));
        words.append(readVector(moved(row, wide(c.mulI(vector, number(vectorBytes)))), isAgain));
      }
  return words;
}

AttentionKernel::Values SplitKeys::pairsOfAll(ArrayRef<Value> words) {
  Values pairs;
  for (; !words.empty(); words = words.drop_front(2 * vectorWords))
    pairs.append(pairsOf(words.take_front(vectorWords), words.slice(vectorWords, vectorWords)));
  return pairs;
}

void SplitKeys::beginTile(Value first) {
  if (!isWholeAhead())
    valuesOfTile = readValues(first, false);
}

AttentionKernel::Values SplitKeys::queries(unsigned step) {
  // Volatile, so that no compiler takes them back to registers for all tiles.
  Value at = place(fragments, add(c.mulI(lane, number(4)), int64_t(step) * 4 * machine.subgroup()));
  Value words = LLVM::LoadOp::create(b, c.loc, VectorType::get({4}, b.getI32Type()), at, vectorBytes, true);
  return {c.extract(words, 0), c.extract(words, 1), c.extract(words, 2), c.extract(words, 3)};
}

AttentionKernel::Values SplitKeys::keyWords(unsigned step, unsigned tile) {
  Values words;
  for (const unsigned odd : {0, 1})
    for (const unsigned half : {0, 1})
      words.push_back(keysOfTile[(size_t(tile + odd) * shape.depthSteps + step) * 2 + half]);
  return words;
}

AttentionKernel::Values SplitKeys::valueWords(unsigned step, unsigned tile) {
  const size_t at = size_t(step) * 2 * shape.tiles + tile;
  return {values[at], values[at + shape.tiles], values[at + 1], values[at + shape.tiles + 1]};
}

Value SplitKeys::columnOf(Value tile, unsigned odd) {
  Value inPass = c.andI(tile, number(passTiles - 1)), pass = c.subI(tile, inPass);
  return c.addI(c.addI(c.mulI(pass, number(8)), c.mulI(add(pair, odd), number(8))), inPass);
}

Value SplitKeys::elementOf(Value row, unsigned tile, unsigned odd) {
  Value column = columnOf(number(tile), odd);
  if (code.width % passColumns)
    column = c.two<arith::MinSIOp>(column, number(code.width - 1));
  return moved(row, wide(shifted(column, 1, true)));
}

// ---- A tile, and the end

AttentionKernel::State SplitKeys::allTiles(State state) {
  const SmallVector<Values> all = readQueries();
  Value part = code.cluster > 1 ? c.addI(c.mulI(blockOfCluster, number(code.subgroups)), subgroup) : subgroup;
  Value first = c.mulI(part, number(keysAtOnce));
  if (code.mask == AttentionCode::Mask::Hides)
    state.ahead = choose(
        c.compareI(I::sgt, keys, number(0)), b.getI32Type(), [&] { return Values{seenOf(first, maskWords(first))}; },
        [&] { return Values{number(0)}; });
  onlyIf(c.compareI(I::eq, subgroup, number(0)), [&] {
    for (size_t step = 0; step < all.size(); ++step)
      LLVM::StoreOp::create(
          b, c.loc, vectorOf(all[step]),
          place(fragments, c.mulI(add(lane, static_cast<int64_t>(step) * machine.subgroup()), number(4))), vectorBytes);
  });
  machine.barrier(c);
  return state.like(forEach(first, end(), number(keysTogether()), state.list(),
                            [&](Value at, ValueRange before) { return tile(at, state.like(before)).list(); }));
}

// While k and v are on their way, the next tile's mask is read.
AttentionKernel::State SplitKeys::tile(Value first, State state) {
  const bool hides = code.mask == AttentionCode::Mask::Hides;
  Value seen = hides ? state.ahead[0] : Value(), is = isSeen(seen);
  const size_t ofKeys = size_t(keyTiles) * shape.depthSteps * 2;
  const auto readAll = [&] {
    Values words = readKeys(first);
    if (isWholeAhead())
      words.append(readValues(first, false));
    return words;
  };
  Values words;
  if (hides) {
    const SmallVector<Type> types(ofKeys + (isWholeAhead() ? size_t(keySteps) * 2 * shape.tiles : 0), b.getI32Type());
    words = choose(is, types, readAll, [&] { return Values(types.size(), number(0)); });
    Value next = add(first, keysTogether());
    state.ahead[0] = seenOf(next, maskWords(next)); // behind the end of no effect
  } else {
    words = readAll();
  }
  keysOfTile.assign(words.begin(), words.begin() + static_cast<ptrdiff_t>(ofKeys));
  valuesOfTile.assign(words.begin() + static_cast<ptrdiff_t>(ofKeys), words.end());
  return attendIf(is, first, seen, state);
}

// What has been found of some keys is scaled to the largest score of all, and added in the order of the keys' first
// tiles: in each block what its subgroups have found, then in the cluster what its blocks have. Each subgroup adds, and
// stores, some of the tiles.
void SplitKeys::store(const State &state) {
  const bool hasMask = code.mask != AttentionCode::Mask::None;
  Total mine{state.largest, {}, {}};
  for (unsigned row = 0; row < 2; ++row) {
    mine.weights[row] = acrossQuadF(state.totals[row], [&](Value x, Value y) { return c.add(x, y); });
    if (hasMask)
      mine.see[row] = acrossQuad(c.resizeInt(state.sees[row], b.getI32Type(), false),
                                 [&](Value x, Value y) { return c.orI(x, y); });
  }
  storeTotal(ofSubgroups, mine, c.mulI(subgroup, number(AttentionCode::tileRows)));
  Together all;
  for (unsigned pass = 0; pass < shape.tiles; pass += passTiles) {
    if (pass > 0)
      machine.barrier(c); // all have read the sums before
    for (unsigned i = 0; i < passTiles * 4; ++i)
      LLVM::StoreOp::create(b, c.loc, state.sums[size_t(pass) * 4 + i],
                            place(ofSubgroups.sums, add(thread, int64_t(i) * threads)));
    machine.barrier(c);
    if (pass == 0)
      all = together(ofSubgroups, code.subgroups, [&](Value array, unsigned which, Value row) {
        return place(array, add(row, int64_t(which) * AttentionCode::tileRows));
      });
    for (unsigned i = 0; i < passTiles; i += code.subgroups)
      for (unsigned j = 0; j < 4; ++j) {
        Value tile = add(subgroup, i), first = sumIn(threads, tile, j);
        Value sum = sumOf(all, j, [&](unsigned which) {
          return place(ofSubgroups.sums, add(first, int64_t(which) * machine.subgroup()));
        });
        if (code.cluster == 1)
          storeResult(all, add(tile, pass), j, sum);
        else
          LLVM::StoreOp::create(b, c.loc, sum, place(ofBlock.sums, sumIn(machine.subgroup(), add(tile, pass), j)));
      }
  }
  if (code.cluster == 1)
    return;
  onlyIf(c.compareI(I::eq, subgroup, number(0)), [&] { storeTotal(ofBlock, all.total, number(0)); });
  machine.clusterBarrier(c);
  onlyIf(c.compareI(I::eq, c.andI(subgroup, number(code.cluster - 1)), blockOfCluster), [&] {
    const auto of = [&](unsigned which, Value array) { return machine.ofBlock(c, array, number(which)); };
    all = together(ofBlock, code.cluster,
                   [&](Value array, unsigned which, Value row) { return place(of(which, array), row); });
    for (unsigned pass = 0; pass < shape.tiles; pass += passTiles)
      for (unsigned j = 0; j < 4; ++j) {
        Value tile = add(subgroup, pass), at = sumIn(machine.subgroup(), tile, j);
        storeResult(all, tile, j, sumOf(all, j, [&](unsigned which) { return place(of(which, ofBlock.sums), at); }));
      }
  });
  machine.clusterBarrier(c); // all have read the memory of this block
}

// `first`: the place of row 0. A quad has the same rows.
void SplitKeys::storeTotal(const Found &found, const Total &total, Value first) {
  onlyIf(c.compareI(I::eq, pair, number(0)), [&] {
    for (unsigned row = 0; row < 2; ++row) {
      Value at = c.addI(first, rowInTile(row));
      LLVM::StoreOp::create(b, c.loc, total.largest[row], place(found.largest, at));
      LLVM::StoreOp::create(b, c.loc, total.weights[row], place(found.weights, at));
      if (total.see[row])
        LLVM::StoreOp::create(b, c.loc, total.see[row], place(found.see, at));
    }
  });
}

// `at`: the address, among so many in an array of `found`, of what one of them has of a row.
SplitKeys::Together SplitKeys::together(const Found &found, unsigned count,
                                        llvm::function_ref<Value(Value, unsigned, Value)> at) {
  const double none = -std::numeric_limits<double>::infinity();
  Together all;
  for (unsigned row = 0; row < 2; ++row) {
    const auto of = [&](Value array, unsigned which, Type type) -> Value {
      return LLVM::LoadOp::create(b, c.loc, type, at(array, which, rowInTile(row)));
    };
    SmallVector<Value> largest;
    for (unsigned which = 0; which < count; ++which)
      largest.push_back(of(found.largest, which, b.getF32Type()));
    Value &most = all.total.largest[row], &weights = all.total.weights[row], &see = all.total.see[row];
    most = largest[0], weights = float32(0);
    for (Value other : ArrayRef(largest).drop_front())
      most = larger(most, other);
    // Where there is no score but -inf, nothing has a weight: 0, and NaN in the end, since 1 / 0 is a factor of it.
    Value base = c.select(c.compare(arith::CmpFPredicate::OEQ, most, none), float32(0), most);
    for (unsigned which = 0; which < count; ++which) {
      Value factor = exp2(c.sub(originOf(largest[which]), originOf(base)));
      all.factors[row].push_back(factor);
      weights = c.fma(of(found.weights, which, b.getF32Type()), factor, weights);
      if (found.see) {
        Value sees = of(found.see, which, b.getI32Type());
        see = see ? c.orI(see, sees) : sees;
      }
    }
  }
  return all;
}

// Of a tile and number j of the four that a thread has of it.
Value SplitKeys::sumOf(const Together &all, unsigned j, llvm::function_ref<Value(unsigned)> at) {
  Value sum = float32(0);
  for (const auto &[which, factor] : llvm::enumerate(all.factors[rowIndex(j)]))
    sum = c.fma(LLVM::LoadOp::create(b, c.loc, b.getF32Type(), at(static_cast<unsigned>(which))), factor, sum);
  return sum;
}

void SplitKeys::storeResult(const Together &all, Value tile, unsigned j, Value sum) {
  const unsigned row = rowIndex(j);
  Value see = all.total.see[row];
  Value sees = see ? c.compareI(I::ne, see, number(0)) : c.compareI(I::sgt, keys, number(0));
  Value column = columnOf(tile, j % 2), isInside = rows[row].isInside;
  if (code.width % passColumns)
    isInside = c.andI(isInside, c.compareI(I::slt, column, number(code.width)));
  Value scale = c.div(float32(1), all.total.weights[row]);
  onlyIf(isInside, [&] {
    Value to = moved(rowOf(resultOf(rows[row].head), rows[row].query), wide(shifted(column, 1, true)));
    LLVM::StoreOp::create(b, c.loc, resultBits(sum, scale, sees), to, 2);
  });
}

} // namespace

std::unique_ptr<AttentionKernel> splitKeys(const AttentionCode &code, const SimtMachine &machine,
                                           const Instructions &instructions, unsigned alignment, ModuleOp module,
                                           OpBuilder &builder) {
  return std::make_unique<SplitKeys>(code, machine, instructions, alignment, module, builder);
}

} // namespace mortise::codegen
