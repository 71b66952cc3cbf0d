// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which keys the rows of an attention see: by their number, and by the mask.
#include "tiles/attention_kernel.hpp"

namespace mortise::codegen {

using namespace mlir;
using I = arith::CmpIPredicate;

// Whether a key has no part in the row's result. What an added mask hides has a score, which may be NaN.
Value AttentionKernel::isHidden(const Row &row, Value key) {
  Value hidden = c.compareI(I::sge, key, keys);
  if (code.causal && code.mask != AttentionCode::Mask::Adds)
    hidden = c.orI(hidden, c.compareI(I::sgt, key, row.query));
  if (code.mask == AttentionCode::Mask::Hides)
    hidden = c.orI(hidden, c.compareI(I::eq, maskAt(row, key, b.getI8Type()), c.integer(b.getI8Type(), 0)));
  return hidden;
}

// Behind the last key that the block goes through.
Value AttentionKernel::end() {
  if (code.causal && code.mask != AttentionCode::Mask::Adds) // see isHidden
    return c.two<arith::MinSIOp>(keys, endQuery);
  return keys;
}

// Whether a row of the block does not see a key of the tile because of its number.
Value AttentionKernel::isCut(Value first) {
  Value end = add(first, keysAtOnce), cut = c.compareI(I::sgt, end, keys);
  return code.causal ? c.orI(cut, c.compareI(I::sgt, end, add(firstQuery, 1))) : cut;
}

Value AttentionKernel::maskAt(const Row &row, Value key, Type type) {
  Value inside = c.two<arith::MinSIOp>(key, add(keys, -1));
  return read(moved(row.mask, c.mulI(wide(inside), maskStride)), type, type.getIntOrFloatBitWidth() / 8);
}

// The mask of i1 of this thread's keys of a tile, a byte for each: those of the first row, then those of the second.
AttentionKernel::Values AttentionKernel::maskWords(Value first) {
  Type i8 = b.getI8Type(), i32 = b.getI32Type();
  const unsigned ofRow = keyTiles / 2;
  const SmallVector<Type> types(keyTiles, i32);
  Value isInVectors = c.andI(isMaskInVectors, c.compareI(I::sle, add(first, keysAtOnce), keys));
  return choose(
      isInVectors, types, [&] { return maskVectors(first); },
      [&] {
        Values words(types.size(), number(0));
        for (size_t i = 0; i < scoresAtOnce; ++i) {
          Value &word = words[rowIndex(i) * ofRow + ownKey(i) / 4];
          Value bits = c.resizeInt(maskAt(rows[rowIndex(i)], keyOf(first, i), i8), i32, false);
          word = c.orI(word, shifted(bits, ownKey(i) % 4 * 8, true));
        }
        return words;
      });
}

// The same where isMaskInVectors, and all keys of the tile are inside.
AttentionKernel::Values AttentionKernel::maskVectors(Value first) {
  const unsigned ofRow = keyTiles / 2;
  Values words;
  Value begin = wide(c.addI(first, ownKeys()));
  for (const Row &row : rows) {
    Value vector = read(moved(row.mask, begin), VectorType::get({ofRow}, b.getI32Type()), ofRow * 4);
    for (unsigned i = 0; i < ofRow; ++i)
      words.push_back(c.extract(vector, i));
  }
  return words;
}

// Whether the mask lets a row of this subgroup see one of these keys.
Value AttentionKernel::seesAny(ArrayRef<Value> mask) {
  Value bits = mask[0];
  for (Value word : mask.drop_front())
    bits = c.orI(bits, word);
  return isAnywhere(bits);
}

// Bit i says whether the row of score number i sees its key. Only for masks of i1; `mask`: maskWords.
Value AttentionKernel::seenOf(Value first, ArrayRef<Value> mask) {
  Type i32 = b.getI32Type();
  Value visible = number(0);
  for (size_t i = 0; i < mask.size(); ++i) {
    // The highest bit of each byte that is not 0.
    Value carries = c.addI(c.andI(mask[i], number(0x7f7f7f7f)), number(0x7f7f7f7f));
    Value bits = c.andI(c.orI(carries, mask[i]), number(0x80808080));
    // Of four keys, two and two stand side by side (ownKey).
    bits = c.andI(c.orI(shifted(bits, 7, false), shifted(bits, 14, false)), number(0x00030003));
    bits = c.andI(c.orI(bits, shifted(bits, 12, false)), number(0x33));
    const auto row = static_cast<unsigned>(i / (keyTiles / 2)), word = static_cast<unsigned>(i % (keyTiles / 2));
    visible = c.orI(visible, shifted(bits, word * 8 + row * 2, true));
  }
  Value inRange = choose(
      isCut(first), i32,
      [&] {
        Value bits = number(0);
        for (size_t i = 0; i < scoresAtOnce; ++i) {
          Value key = keyOf(first, i), is = c.compareI(I::slt, key, keys);
          if (code.causal)
            is = c.andI(is, c.compareI(I::sle, key, rows[rowIndex(i)].query));
          bits = c.orI(bits, shifted(c.resizeInt(is, i32, false), static_cast<unsigned>(i), true));
        }
        return Values{bits};
      },
      [&] { return Values{number(-1)}; })[0];
  return c.andI(visible, inRange);
}

} // namespace mortise::codegen
