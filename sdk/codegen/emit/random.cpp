// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random bits, as ir/families/random.td defines them.
#include "emit/emitter.hpp"

namespace mortise::codegen {

using namespace mlir;

std::array<Value, 4> Code::philox(Value key, Value counter) {
  const Type i32 = b.getI32Type(), i64 = b.getI64Type();
  const auto low = [&](Value x) { return resizeInt(x, i32, false); };
  const auto high = [&](Value x) { return low(two<arith::ShRUIOp>(x, integer(x.getType(), 32))); };
  const auto exclusiveOr = [&](Value x, Value y, Value z) { return two<arith::XOrIOp>(two<arith::XOrIOp>(x, y), z); };
  const auto times = [&](Value x, int64_t factor) {
    Value wide = resizeInt(x, i64, false);
    return mulI(wide, integer(wide.getType(), factor));
  };
  Value zero = integer(like(counter, i32), 0);
  std::array<Value, 4> words{low(counter), high(counter), zero, zero};
  Value k0 = low(key), k1 = high(key);
  for (int round = 0; round < 10; ++round) {
    Value even = times(words[0], 0xD2511F53), odd = times(words[2], 0xCD9E8D57);
    words = {exclusiveOr(high(odd), words[1], k0), low(odd), exclusiveOr(high(even), words[3], k1), low(even)};
    k0 = addI(k0, integer(k0.getType(), int32_t(0x9E3779B9))),
    k1 = addI(k1, integer(k1.getType(), int32_t(0xBB67AE85)));
  }
  return words;
}

// The element with number `place` of the block, which has four, or two of 64 bits.
static Value wordsAt(Code &c, const std::array<Value, 4> &words, unsigned place, Type type) {
  if (!type.isInteger(64))
    return c.resizeInt(words[place], type, false);
  const auto wide = [&](Value word) { return c.resizeInt(word, type, false); };
  Value high = wide(words[2 * place + 1]);
  return c.orI(wide(words[2 * place]), c.two<arith::ShLIOp>(high, c.integer(high.getType(), 32)));
}

Value Emitter::randomBits(const Expr &expr, TupleId at, GuardId guard) {
  const Type type = c.registerType(expr.dtype);
  const unsigned perBlock = type.isInteger(64) ? 2 : 4;
  const std::vector<Access> scalars = plan.accesses(static_cast<ExprId>(&expr - plan.dag.exprs.data()), at, guard);
  Value key = value(scalars[0].expr, scalars[0].at, scalars[0].guard),
        offset = value(scalars[1].expr, scalars[1].at, scalars[1].guard);
  const IndexId element = plan.space.linearise(std::vector<IndexId>(plan.space.tuple(at)), expr.dims);
  const auto counterOf = [&](Value number) {
    return c.addI(offset, c.two<arith::ShRUIOp>(number, c.integer(number.getType(), llvm::Log2_32(perBlock))));
  };
  const bool hasLanes = varies(plan.space.loops(element));
  if (hasLanes && startsAtMultiples(element, perBlock))
    if (const Lanes lanes = laneIndex(element, guard); !lanes.vector && lanes.step == 1) { // a block is made once
      Value all = LLVM::PoisonOp::create(b, c.loc, c.vectorOf(type)), first = counterOf(lanes.scalar);
      for (unsigned lane = 0; lane < schedule.lanes; lane += perBlock) {
        const std::array<Value, 4> words = c.philox(key, c.addI(first, c.i64(lane / perBlock)));
        for (unsigned place = 0; place < perBlock; ++place)
          all = LLVM::InsertElementOp::create(b, c.loc, all, wordsAt(c, words, place, type),
                                              c.integer(b.getI32Type(), lane + place));
      }
      return all;
    }
  Value number = hasLanes ? laneVector(element, guard, /*narrow=*/false) : scalarIndex(element, guard);
  const std::array<Value, 4> words = c.philox(key, counterOf(number));
  Value place = c.andI(number, c.integer(number.getType(), perBlock - 1));
  Value bits = wordsAt(c, words, 0, type);
  for (unsigned each = 1; each < perBlock; ++each)
    bits = c.select(c.compareI(arith::CmpIPredicate::eq, place, c.integer(place.getType(), each)),
                    wordsAt(c, words, each, type), bits);
  return bits;
}

} // namespace mortise::codegen
