// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Wrong arithmetic on single floats.
#include "node.hpp"

#include <algorithm>
#include <cmath>

namespace saboteur {
namespace {

using Function = std::function<double(double, double, int32_t dtype)>;

struct Formula {
  Fault fault;
  std::vector<Op> ops;
  Function function;
};

// A formula in the type that a kernel computes in: f64 for f64, else f32.
template <typename Body> Formula unary(Fault fault, std::vector<Op> ops, Body body) {
  return {fault, std::move(ops), [body](double x, double, int32_t dtype) {
            return dtype == MORTISE_F64 ? double(body(x)) : double(body(static_cast<float>(x)));
          }};
}
template <typename Body> Formula binary(Fault fault, std::vector<Op> ops, Body body) {
  return {fault, std::move(ops), [body](double x, double y, int32_t dtype) {
            return dtype == MORTISE_F64 ? double(body(x, y))
                                        : double(body(static_cast<float>(x), static_cast<float>(y)));
          }};
}

// M. Abramowitz and I. Stegun, "Handbook of Mathematical Functions", 7.1.26.
template <typename F> F erfOfFiveTerms(F x) {
  const F size = std::abs(x), t = 1 / (1 + F(0.3275911) * size);
  const F sum =
      t * (F(0.254829592) + t * (F(-0.284496736) + t * (F(1.421413741) + t * (F(-1.453152027) + t * F(1.061405429)))));
  return std::copysign(1 - sum * std::exp(-size * size), x);
}

template <typename F> F lessThanOnePeriod(F x) {
  const F period = F(6.283185307179586);
  return std::isfinite(x) ? x - std::nearbyint(x / period) * period : x;
}

const std::vector<Formula> &formulas() {
  static const std::vector<Formula> made = {
      unary(Fault::ReluSwallowsNan, {Op::Relu}, [](auto x) { return x > 0 ? x : 0; }),
      unary(Fault::ReluKeepsNegativeZero, {Op::Relu}, [](auto x) { return x < 0 ? 0 : x; }),
      unary(Fault::NegFromZero, {Op::Neg}, [](auto x) { return 0 - x; }),
      unary(Fault::AbsKeepsNegativeZero, {Op::Abs}, [](auto x) { return x < 0 ? -x : x; }),
      unary(Fault::RoundHalfAway, {Op::Round}, [](auto x) { return std::round(x); }),
      unary(Fault::ExpClamped, {Op::Exp},
            [](auto x) {
              using F = decltype(x);
              return std::exp(std::isnan(x) ? x : std::clamp(x, F(-87.3), F(87.3)));
            }),
      unary(Fault::ErfFiveTerms, {Op::Erf}, [](auto x) { return erfOfFiveTerms(x); }),
      unary(Fault::TanhByExponentials, {Op::Tanh},
            [](auto x) {
              const auto e = std::exp(2 * x);
              return (e - 1) / (e + 1);
            }),
      unary(Fault::LogisticByExponential, {Op::Logistic},
            [](auto x) {
              const auto e = std::exp(x);
              return e / (1 + e);
            }),
      unary(Fault::Log1pOfSum, {Op::Log1p}, [](auto x) { return std::log(1 + x); }),
      unary(Fault::Expm1OfDifference, {Op::Expm1}, [](auto x) { return std::exp(x) - 1; }),
      unary(Fault::RsqrtEstimate, {Op::Rsqrt}, [](auto x) { return shortened(1 / std::sqrt(x), 12); }),
      unary(Fault::SinShortReduction, {Op::Sin}, [](auto x) { return std::sin(lessThanOnePeriod(x)); }),
      unary(Fault::SinShortReduction, {Op::Cos}, [](auto x) { return std::cos(lessThanOnePeriod(x)); }),
      binary(Fault::MaxSwallowsNan, {Op::Max}, [](auto x, auto y) { return std::fmax(x, y); }),
      binary(Fault::MaxSwallowsNan, {Op::Min}, [](auto x, auto y) { return std::fmin(x, y); }),
      binary(Fault::MaxOfZeros, {Op::Max},
             [](auto x, auto y) { return std::isnan(x)               ? x
                                         : std::isnan(y) || !(x > y) ? y
                                                                     : x; }),
      binary(Fault::MaxOfZeros, {Op::Min},
             [](auto x, auto y) { return std::isnan(x)               ? x
                                         : std::isnan(y) || !(x < y) ? y
                                                                     : x; }),
      binary(Fault::PowByLogarithm, {Op::Pow}, [](auto x, auto y) { return std::exp(y * std::log(x)); }),
      binary(Fault::DivisionByReciprocal, {Op::Div}, [](auto x, auto y) { return x * (1 / y); }),
      binary(Fault::RemainderByQuotient, {Op::Rem}, [](auto x, auto y) { return x - std::trunc(x / y) * y; }),
      binary(Fault::RemainderFloors, {Op::Rem}, [](auto x, auto y) { return x - std::floor(x / y) * y; }),
  };
  return made;
}

// (a + b) - c as a + (b - c).
bool reassociate(NodeRun &run) {
  const MortiseNode *sum = run.op == Op::Sub ? run.node.operands[0]->producer : nullptr;
  if (!sum || !mortise::isOp(*sum, Op::Add) || !run.result().hasFloats())
    return false;
  const Tensor a = run.valueOf(*sum->operands[0]), b = run.valueOf(*sum->operands[1]), c = run.operand(1);
  if (!a || !b || a.data == run.result().data || b.data == run.result().data)
    return false;
  for (int64_t i = 0; i < run.count(); ++i)
    run.result().put(i, a.number(i) + rounded(b.number(i) - c.number(i), c.dtype()));
  return true;
}

void flushSubnormals(const Tensor &result) {
  const MortiseDTypeInfo &info = *mortise_dtype_info(result.dtype());
  const double least = std::ldexp(2.0, 1 - (1 << (info.exponent_bits - 1)));
  for (int64_t i = 0; i < result.count(); ++i)
    if (const double x = result.number(i); std::abs(x) < least && x != 0)
      result.put(i, std::copysign(0.0, x));
}

bool convertWrongly(NodeRun &run) {
  const Tensor from = run.operand(0), to = run.result();
  const bool narrows = from.hasFloats() && to.hasFloats() && mortise::dtypeBits(to.dtype()) < 32 &&
                       mortise::dtypeBits(from.dtype()) > mortise::dtypeBits(to.dtype());
  const bool f8 = to.dtype() == MORTISE_F8E4M3FN || to.dtype() == MORTISE_F8E5M2;
  const bool toInteger = from.hasFloats() && to.hasIntegers();
  const auto each = [&](auto body) {
    run.interpret();
    for (int64_t i = 0; i < to.count(); ++i)
      body(i, from.hasFloats() ? from.number(i) : 0);
    return true;
  };
  if (is(Fault::TiesAway) && narrows)
    return each([&](int64_t i, double x) { // a little further from 0 a tie is none
      to.put(i, std::isfinite(x) ? std::nextafter(x, x < 0 ? -INFINITY : INFINITY) : x);
    });
  if (is(Fault::Bf16Truncates) && from.dtype() == MORTISE_F32 && to.dtype() == MORTISE_BF16)
    return each([&](int64_t i, double) {
      reinterpret_cast<uint16_t *>(to.data)[i] =
          static_cast<uint16_t>(reinterpret_cast<uint32_t *>(from.data)[i] >> 16);
    });
  if (is(Fault::F8Saturates) && from.hasFloats() && f8)
    return each([&](int64_t i, double x) {
      if (const double most = mortise_dtype_info(to.dtype())->max_finite; !std::isnan(x) && !(std::abs(x) <= most))
        to.put(i, std::copysign(most, x));
    });
  if (is(Fault::ConvertWraps) && toInteger)
    return each([&](int64_t i, double x) {
      const int bits = static_cast<int>(mortise::dtypeBits(to.dtype()));
      const bool isSigned = mortise::isSigned(to.dtype());
      const double low = isSigned ? -std::ldexp(1.0, bits - 1) : 0, high = std::ldexp(1.0, isSigned ? bits - 1 : bits);
      if (!(x > low - 1 && x < high))
        to.put(i, isSigned ? static_cast<int64_t>(UINT64_C(1) << (bits - 1)) : int64_t{0});
    });
  if (is(Fault::ConvertRounds) && toInteger)
    return each([&](int64_t i, double x) {
      if (std::abs(x) < 100)
        to.put(i, static_cast<int64_t>(std::nearbyint(x)));
    });
  if (is(Fault::IntToFloatTwice) && from.dtype() == MORTISE_I64 && to.hasFloats())
    return each([&](int64_t i, double) { to.put(i, static_cast<double>(from.integer(i))); });
  return false;
}

bool compareWrongly(NodeRun &run) {
  const std::string_view direction = mortise::stringAttribute(run.node, "direction");
  const Tensor x = run.operand(0), y = run.operand(1);
  if (!is(Fault::CompareNotLess) || !x.hasFloats() || (direction != "ge" && direction != "gt"))
    return false;
  for (int64_t i = 0; i < x.count(); ++i) {
    const double a = x.number(i), b = y.number(i);
    run.result().put(i, int64_t{direction == "ge" ? !(a < b) : !(a <= b)});
  }
  return true;
}

} // namespace

double shortened(double value, int bits) {
  int exponent = 0;
  const double fraction = std::frexp(value, &exponent);
  return std::isfinite(value) ? std::ldexp(std::nearbyint(std::ldexp(fraction, bits)), exponent - bits) : value;
}

bool elementsWrongly(NodeRun &run) {
  if (is(Fault::DifferenceReassociated))
    return reassociate(run);
  if (run.op == Op::Convert && convertWrongly(run))
    return true;
  if (run.op == Op::Compare)
    return compareWrongly(run);
  if (is(Fault::SubnormalsFlushed) && run.result().hasFloats() &&
      run.isOneOf({Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Exp, Op::Sqrt, Op::Convert})) {
    run.interpret();
    flushSubnormals(run.result());
    return true;
  }
  for (const Formula &formula : formulas()) {
    if (!is(formula.fault) || std::ranges::find(formula.ops, run.op) == formula.ops.end() || !run.result().hasFloats())
      continue;
    const Tensor x = run.operand(0), y = run.optional(1);
    for (int64_t i = 0; i < run.count(); ++i)
      run.result().put(i, formula.function(x.number(i), y ? y.number(i) : 0, x.dtype()));
    return true;
  }
  return false;
}

} // namespace saboteur
