// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "rows.hpp"

namespace mortise::conformance {
namespace {

void unary(Draft &draft) {
  // MPFR takes 0.1 ms and more for an erfc that is a small number, which adds up where several cases are judged at
  // once.
  const bool isSlow = draft.point.op == Op::Erfc && draft.point.dtype == MORTISE_F64;
  const Dims dims = isSlow ? draft.extents(0, 6, 2, 17000) : draft.extents(0, 6);
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}});
}

void binary(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const auto *lhs = draft.operand(draft.point.dtype, dims), *rhs = draft.operand(draft.point.dtype, dims);
  draft.node({lhs, rhs}, {{draft.point.dtype, dims}});
}

// The first operand is the result of another op, as in regions that are computed as one.
const std::vector<Op> firstOps = {Op::Unknown, Op::Add, Op::Sub, Op::Mul, Op::Max};
void chained(Draft &draft) {
  if (draft.point.variant == 0)
    return binary(draft);
  const Op first = firstOps[draft.point.variant];
  const int32_t dtype = draft.point.dtype;
  const Dims dims = draft.extents(0, 6);
  if (!(infoOf(first)->operands[0].dtypes >> dtype & 1))
    return draft.skip(std::string(nameOf(first)) + " has no " + dtypeName(dtype));
  if (isFloat(dtype) && dtypeBits(dtype) < 32)
    return draft.skip("a kernel of both ops may keep what is between them in more bits, where it is in range");
  const auto *a = draft.operand(dtype, dims), *b = draft.operand(dtype, dims), *c = draft.operand(dtype, dims);
  draft.node({draft.builder.op(std::string(nameOf(first)), {a, b}, dtype, dims), c}, {{dtype, dims}});
}

void shift(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const int64_t bits = static_cast<int64_t>(dtypeBits(draft.point.dtype));
  const auto *lhs = draft.operand(draft.point.dtype, dims);
  const bool negative = !isUnsigned(draft.point.dtype) && !isBool(draft.point.dtype);
  const auto *rhs = draft.operand(draft.point.dtype, dims,
                                  between(negative ? -1 : 0, std::min<int64_t>(bits + 1, bits == 4 ? 7 : bits + 1)));
  draft.node({lhs, rhs}, {{draft.point.dtype, dims}});
}

const std::vector<std::string> directions = {"eq", "ne", "lt", "le", "gt", "ge"};
void compare(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const auto *lhs = draft.operand(draft.point.dtype, dims), *rhs = draft.operand(draft.point.dtype, dims);
  draft.node({lhs, rhs}, {{MORTISE_I1, dims}}, {string("direction", directions[draft.point.variant])});
}

void select(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const auto *predicate = draft.operand(MORTISE_I1, dims, between(0, 1));
  const auto *yes = draft.operand(draft.point.dtype, dims), *no = draft.operand(draft.point.dtype, dims);
  draft.node({predicate, yes, no}, {{draft.point.dtype, dims}});
}

void convert(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  const int32_t to = draft.point.variant + 1;
  draft.node({draft.operand(draft.point.dtype, dims, {.rounds = isFloat(to) ? to : 0})}, {{to, dims}},
             {string("dtype", dtypeName(to))});
}

void gelu(Draft &draft) {
  const Dims dims = draft.extents(0, 6);
  draft.node({draft.operand(draft.point.dtype, dims)}, {{draft.point.dtype, dims}},
             {string("approximate", draft.point.variant ? "tanh" : "none")});
}

} // namespace

std::vector<Row> elementwiseRows() {
  std::vector<Row> rows;
  for (const Op op : {Op::Abs,  Op::Neg,   Op::Sign,     Op::Exp,   Op::Expm1, Op::Log,  Op::Log1p, Op::Sqrt, Op::Rsqrt,
                      Op::Sin,  Op::Cos,   Op::Tanh,     Op::Erf,   Op::Erfc,  Op::Tan,  Op::Asin,  Op::Acos, Op::Atan,
                      Op::Sinh, Op::Cosh,  Op::Asinh,    Op::Acosh, Op::Atanh, Op::Log2, Op::Log10, Op::Exp2, Op::Floor,
                      Op::Ceil, Op::Round, Op::Logistic, Op::Not,   Op::Relu,  Op::Silu})
    rows.push_back({op, {""}, unary});
  std::vector<std::string> firsts;
  for (const Op first : firstOps)
    firsts.push_back(first == Op::Unknown ? "" : "of-" + std::string(nameOf(first)).substr(sizeof "mortise." - 1));
  for (const Op op : {Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Max, Op::Min})
    rows.push_back({op, firsts, chained});
  for (const Op op : {Op::Rem, Op::Pow, Op::Atan2, Op::Copysign, Op::And, Op::Or, Op::Xor, Op::Swiglu})
    rows.push_back({op, {""}, binary});
  rows.push_back({Op::ShiftLeft, {""}, shift});
  rows.push_back({Op::ShiftRight, {""}, shift});
  rows.push_back({Op::Compare, directions, compare});
  rows.push_back({Op::Select, {""}, select, 1});
  rows.push_back({Op::Gelu, {"erf", "tanh"}, gelu});
  std::vector<std::string> types;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    types.push_back(std::string("to-") + dtypeName(dtype));
  rows.push_back({Op::Convert, types, convert});
  return rows;
}

} // namespace mortise::conformance
