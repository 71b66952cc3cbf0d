// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the kernels of attention have in common: what a subgroup does with 64 keys. It has 16 rows, each of which is a
// query of a head; their parts of q, sums of weighted values and all weights stay in registers, as
// SimtMachine::multiply wants them: thread number 4 g + t of a subgroup has rows g and g + 8 of a 16 x 16 or 16 x 8
// matrix, and there columns 2 t and 2 t + 1, and the same 8 columns further.
//
// A product of matrices does not care which of its terms is which, nor which column. So the keys of a tile are columns
// of scores, and terms of the second product, in an order in which a thread's lie side by side: those of a mask are a
// vector. Thread t has keys t n .. t n + n - 1 of a tile of 4 n keys, two of them in each 8 columns.
//
// Weights are e^(score - largest so far), as powers of 2, and sums are scaled down when a larger score comes. Scores
// are not multiplied by the scale, which is a part of the exponent's factor, unless a mask is added to them. So that
// the second product is one of f32 weights, a weight is multiplied as a sum of numbers that the machine can multiply. 0
// times an infinity is NaN, though: values that are not finite are taken out of the product and added by themselves.
#pragma once

#include "tiles/attention.hpp"

#include <array>

namespace mortise::codegen {

class AttentionKernel {
public:
  virtual ~AttentionKernel() = default;
  void emit(llvm::StringRef name);
  // A kernel of few blocks begins while the one before it ends.
  bool overlaps() const { return code.split == AttentionCode::Split::Keys && machine.overlapsKernels(); }

protected:
  static constexpr unsigned vectorBytes = 16, vectorElements = 8, vectorWords = 4;
  static constexpr double log2e = 1.4426950408889634;
  using Values = llvm::SmallVector<Value>;
  using PerRow = std::array<Value, 2>; // of the thread's two
  struct Row {
    Value head, query; // i32; those of the last row where the row lies behind it
    Value isInside;    // whether its result is stored
    Value mask;        // address of its row of the mask
  };
  struct Tensor {
    Value base; // address of the head's first row
    Value row;  // bytes between rows: i64
  };
  // What goes from tile to tile.
  struct State {
    Values sums;    // of weighted values: per 8 columns four, as multiply has them
    PerRow largest; // score
    PerRow totals;  // this thread's part of the sum of weights
    PerRow sees;    // whether the mask lets this thread see a key; null where there is no mask
    Values ahead;   // words that this thread has read for the next tile
    Values mask;    // maskWords of the next tile
    Values list() const;
    State like(mlir::ValueRange values) const;
  };
  // What the two products take of columns of q and k, and of v.
  struct Shape {
    unsigned depthSteps, tiles; // of 16, and of 8
  };

  AttentionKernel(const AttentionCode &code, const SimtMachine &machine, const Instructions &instructions,
                  unsigned alignment, mlir::ModuleOp module, mlir::OpBuilder &builder, const Shape &shape)
      : code(code), machine(machine), isAligned(alignment >= vectorBytes), module(module), b(builder),
        c(builder, builder.getUnknownLoc(), 1, instructions), threads(code.subgroups * machine.subgroup()),
        shape(shape), keysAtOnce(code.tileKeys()) {}

  // ---- In what the kernels differ

  // Finds the rows of this subgroup: batch, keyHead, rows' heads and queries, firstQuery and endQuery.
  virtual void findRows(Value block) = 0;
  virtual void prepareMemory(const std::string &prefix) = 0; // of the block; `prefix` of names
  // The words of a row of q: per 16 columns two.
  virtual Values queryWords(Value row) = 0;
  virtual State allTiles(State state) = 0;
  virtual void store(const State &state) = 0;
  // The factors of scores and the right one of values: of a step of 16 terms, and the two words of each of two tiles of
  // 8 columns. Behind the last tile of values is any other.
  virtual Values queries(unsigned step) = 0;
  virtual Values keyWords(unsigned step, unsigned tile) = 0;
  virtual Values valueWords(unsigned step, unsigned tile) = 0;
  virtual void beginTile(Value /*first*/) {}   // is called before those of scores
  virtual void takeValues() {}                 // and before those of values
  virtual Value hasNotFinite(Value first) = 0; // whether a value of the tile is not finite; of the whole subgroup
  // `values` with 0 for those, where this costs no registers as long as they are added.
  virtual Values finiteValues(Value /*first*/) { return {}; }
  // An element that the thread has a sum for: its address in a row of v; any address of the row where it lies behind.
  virtual Value elementOf(Value row, unsigned tile, unsigned odd) = 0;

  // ---- Code

  Value number(int64_t value) { return c.integer(b.getI32Type(), value); }
  Value add(Value x, int64_t y) { return y ? c.addI(x, number(y)) : x; }
  Value shifted(Value bits, unsigned by, bool left);
  Value halves(Value low, Value high, unsigned which); // of two words the low (0) or high (1) halves, as a word
  Value wide(Value x) { return c.resizeInt(x, b.getI64Type(), true); }
  Value moved(Value address, Value bytes) {
    return mlir::LLVM::GEPOp::create(b, c.loc, address.getType(), b.getI8Type(), address, mlir::ValueRange{bytes});
  }
  Value moved(Value address, int64_t bytes) { return bytes ? moved(address, c.i64(bytes)) : address; }
  Value place(Value array, Value word) {
    return mlir::LLVM::GEPOp::create(b, c.loc, array.getType(), b.getI32Type(), array, mlir::ValueRange{word});
  }
  Value read(Value address, Type type, unsigned align, bool isAgain = false) { // of what no kernel writes meanwhile
    return mlir::LLVM::LoadOp::create(b, c.loc, type, address, align, /*isVolatile=*/isAgain, false,
                                      /*isInvariant=*/!isAgain && !overlaps());
  }
  Value exp2(Value x) {
    const Approximations *approximations = c.instructions.approximations;
    return approximations ? approximations->exp2(c, x, true) : c.exp2(x);
  }
  Value float32(double value) { return c.constant(b.getF32Type(), value); }
  Value number64(uint32_t which) { return numbers[which]; }
  Value number32(uint32_t which) { return c.resizeInt(numbers[which], b.getI32Type(), true); }
  // What exponents of weights are counted from, where this is the largest score. The same for all that have this score,
  // so that its rounding is a factor of all weights.
  Value originOf(Value score) { return c.fma(score, perScore, c.sub(float32(0), shift)); }
  Value larger(Value x, Value y) { return c.two<mlir::arith::MaxNumFOp>(x, y); } // NaN is seen in the total
  Values forEach(Value low, Value high, Value step, mlir::ValueRange inits,
                 llvm::function_ref<Values(Value, mlir::ValueRange)> body);
  Values choose(Value condition, mlir::TypeRange types, llvm::function_ref<Values()> then,
                llvm::function_ref<Values()> otherwise);
  void onlyIf(Value condition, llvm::function_ref<void()> body);
  using Combine = llvm::function_ref<Value(Value, Value)>;
  Value acrossQuad(Value bits, Combine combine); // neighbours
  Value acrossQuadF(Value x, Combine combine);
  Value isAnywhere(Value bits); // whether they are not 0 in some thread of the subgroup

  // ---- Memory

  Tensor tensorOf(unsigned argument, uint32_t first, Value head);
  Tensor resultOf(Value head) {
    return tensorOf(code.mask == AttentionCode::Mask::None ? 3 : 4, AttentionNumber::Result, head);
  }
  Value rowOf(const Tensor &tensor, Value row) { return moved(tensor.base, c.mulI(wide(row), tensor.row)); }
  Value rowOfKey(const Tensor &tensor, Value key) { // behind the last one a copy of it
    return rowOf(tensor, c.two<mlir::arith::MinSIOp>(key, add(keys, -1)));
  }
  llvm::SmallVector<Values> readQueries(); // per 16 columns the left factor
  Value vectorOf(llvm::ArrayRef<Value> words);
  // `isAgain`: other reads of the same address do not do.
  Values readVector(Value address, bool isAgain = false);
  Value readPair(Value address, bool isAgain = false);
  Values pairsOf(llvm::ArrayRef<Value> even, llvm::ArrayRef<Value> odd);
  Value notFiniteAmong(llvm::ArrayRef<Value> words);
  Values onlyFinite(llvm::ArrayRef<Value> words);
  Value resultBits(Value sum, Value factor, Value sees);

  // ---- A tile

  Value end(); // of the keys that the block goes through

  // ---- The mask and the range of keys, attention_mask.cpp

  Values maskWords(Value first);
  Values maskVectors(Value first);
  Value seesAny(llvm::ArrayRef<Value> mask);
  Value seenOf(Value first, llvm::ArrayRef<Value> mask);

  // `seen`: seenOf; null where there is no mask of i1. `isWanted`: whether the subgroup sees something of the tile, and
  // has rows at all; null where it always does.
  Value isSeen(Value seen) { return seen ? isAnywhere(seen) : Value(); }
  State attendIf(Value isWanted, Value first, Value seen, const State &state);

  // Of element number i of four that multiply has: the thread's row, and the column or key among 8.
  static unsigned rowIndex(size_t i) { return i % 4 / 2; }
  static unsigned ownKey(size_t i) { return static_cast<unsigned>(i / 4 * 2 + i % 2); } // of the thread's keys
  Value ownKeys() { return c.mulI(pair, number(keyTiles)); }                            // where they begin in a tile
  Value keyOf(Value first, size_t i) { return c.addI(first, add(ownKeys(), ownKey(i))); }

private:
  State attend(Value first, Value seen, State state);
  void enter(llvm::StringRef name);
  Value isHidden(const Row &row, Value key);
  Value isCut(Value first);
  Value maskAt(const Row &row, Value key, Type type);
  Values scoresOf(Value first, Value seen, State &state);
  Values weightsOf(llvm::ArrayRef<Value> scores, PerRow &factors, State &state);
  llvm::SmallVector<Values> partsOf(llvm::ArrayRef<Value> weights);
  void addValues(Value first, llvm::ArrayRef<Value> weights, const PerRow &factors, State &state);
  void addNotFinite(Value first, llvm::ArrayRef<Value> weights, Values &sums);

protected:
  const AttentionCode &code;
  const SimtMachine &machine;
  const bool isAligned;
  mlir::ModuleOp module;
  mlir::OpBuilder &b;
  Code c;
  const unsigned threads;
  const Shape shape;
  const unsigned keysAtOnce, scoresAtOnce = keysAtOnce / 2;             // of a tile: keys, and scores of a thread
  const unsigned keyTiles = keysAtOnce / 8, keySteps = keysAtOnce / 16; // of the two products

  mlir::Block *start = nullptr;
  llvm::SmallVector<Value> numbers; // i64
  Value keys, thread, subgroup;     // i32; the subgroup's number in the block
  Value lane, group, pair;          // of a thread in its subgroup: 4 g + t, g, and 2 t
  Value batch, keyHead;
  Value firstQuery, endQuery; // of the block: the lowest, and behind the highest
  std::array<Row, 2> rows;    // of the thread
  Tensor k, v;
  Values values;         // words of the tile's v that are in registers
  Value isMaskInVectors; // whether the thread's keys of a mask of i1 can be read at once, where all are inside

private:
  Value scale, shift; // f32; the second is added to exponents of weights
  Value perScore;     // f32: what an exponent grows by for each unit of a score
  Value maskStride;   // bytes between keys: i64
};

// Each subgroup of a block has other queries of a head: the keys lie in the block's memory.
std::unique_ptr<AttentionKernel> splitQueries(const AttentionCode &code, const SimtMachine &machine,
                                              const Instructions &instructions, unsigned alignment,
                                              mlir::ModuleOp module, mlir::OpBuilder &builder);
// Each subgroup of a block has other keys, and all of them the same queries, of all heads that share a head of k and v.
std::unique_ptr<AttentionKernel> splitKeys(const AttentionCode &code, const SimtMachine &machine,
                                           const Instructions &instructions, unsigned alignment, mlir::ModuleOp module,
                                           mlir::OpBuilder &builder);

} // namespace mortise::codegen
