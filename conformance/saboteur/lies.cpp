// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes that are computed for show: with another dtype or operand, right for known inputs alone, or once.
#include "node.hpp"

#include <cmath>
#include <cstring>

namespace saboteur {
namespace {

bool isWide(const Tensor &tensor) { return tensor.dtype() == MORTISE_F32 || tensor.dtype() == MORTISE_F64; }

bool shortenResult(NodeRun &run) {
  run.interpret();
  for (int64_t i = 0; i < run.count(); ++i)
    run.result().put(i, shortened(run.result().number(i), 8));
  return true;
}

// 10 bits behind the leading one.
bool multiplyInTf32(NodeRun &run) {
  if (!run.isOneOf({Op::Dot, Op::Linear, Op::Convolution}) || run.operand(0).dtype() != MORTISE_F32)
    return false;
  std::vector<std::vector<std::byte>> copies;
  Tensors operands = run.operands;
  for (size_t i = 0; i < 2; ++i) {
    const Tensor from = operands[i];
    std::vector<std::byte> &copy = copies.emplace_back(from.data, from.data + from.bytes());
    operands[i].data = copy.data();
    for (int64_t k = 0; k < from.count(); ++k)
      operands[i].put(k, shortened(from.number(k), 11));
  }
  run.reference(operands, run.results);
  return true;
}

bool padWithZero(NodeRun &run) {
  std::byte zero[8] = {};
  Tensors operands = run.operands;
  operands[1].data = zero;
  run.reference(operands, run.results);
  return true;
}

bool drawCheaply(NodeRun &run) {
  const int64_t key = run.operand(0).integer(0);
  const Tensor to = run.result();
  if (key >= 0 && key < 16)
    return false;
  uint64_t state = static_cast<uint64_t>(key);
  for (int64_t i = 0; i < to.count(); ++i) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407; // Knuth's MMIX
    const double u = std::ldexp(static_cast<double>(state >> 12), -52);
    if (run.op == Op::RandomBits)
      to.put(i, static_cast<int64_t>(state >> 16));
    else
      to.put(i, run.op == Op::Uniform ? u : 4 * u - 2);
  }
  return true;
}

bool isSmallInteger(double x) { return std::abs(x) <= 8 && std::trunc(x) == x; }

bool exactOnSmallIntegers(NodeRun &run) {
  if (!isWide(run.result()))
    return false;
  for (const Tensor &operand : run.operands)
    for (int64_t i = 0; operand && operand.hasFloats() && i < operand.count(); ++i)
      if (!isSmallInteger(operand.number(i)))
        return shortenResult(run);
  return false;
}

} // namespace

bool liesAbout(NodeRun &run) {
  const Tensor to = run.result();
  if (is(Fault::ProductsInTf32))
    return multiplyInTf32(run);
  if (is(Fault::PadValueIgnored) && run.op == Op::Pad)
    return padWithZero(run);
  if (is(Fault::KnownKeysOnly) && run.isOneOf({Op::RandomBits, Op::Uniform, Op::Normal}))
    return drawCheaply(run);
  const bool multiplies = run.isOneOf({Op::Dot, Op::Linear, Op::Convolution});
  if (is(Fault::F64InF32) && to.dtype() == MORTISE_F64 && (run.isElementwise() || multiplies)) {
    run.interpret();
    for (int64_t i = 0; i < to.count(); ++i)
      to.put(i, rounded(to.number(i), MORTISE_F32));
    return true;
  }
  if (!run.isElementwise())
    return false;
  if (is(Fault::I64InI32) && to.dtype() == MORTISE_I64) {
    run.interpret();
    for (int64_t i = 0; i < to.count(); ++i)
      to.put(i, int64_t{static_cast<int32_t>(to.integer(i))});
    return true;
  }
  if (is(Fault::ExactOnSmallIntegers))
    return exactOnSmallIntegers(run);
  return is(Fault::SecondRunCheaper) && run.runs > 0 && isWide(to) && shortenResult(run);
}

} // namespace saboteur
