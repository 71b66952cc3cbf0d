// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "formulas.hpp"

namespace mortise::conformance::formulas {

Result<Doubles> function(const Subject &of) {
  return each(of, [&](size_t i) { return functionUlps * of.ulpOf(of.y[i]); });
}

// e^(-x^2) times a rational function: two approximated factors and their product, where others have one.
Result<Doubles> erfcBound(const Subject &of) {
  return each(of, [&](size_t i) { return (functionUlps + 1) * of.ulpOf(of.y[i]); });
}

// An activation's factor, which is computed before it is multiplied, and may be subnormal then.
static double logistic(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
static double siluError(const Subject &of, double x) {
  return std::abs(x) * functionUlps * of.ulpOf(logistic(x)) + of.half(x * logistic(x));
}
Result<Doubles> siluBound(const Subject &of) {
  return each(of, [&](size_t i) { return siluError(of, of.x()[i]); });
}
Result<Doubles> swigluBound(const Subject &of) {
  return each(of, [&](size_t i) { return std::abs(of.x(1)[i]) * siluError(of, of.x()[i]) + of.half(of.y[i]); });
}
bool isUndecided(const Subject &of, size_t i) {
  if (!isOp(of.node, "mortise.swiglu") || !std::isinf(of.x(1)[i]) || !std::isfinite(of.x()[i]))
    return false;
  const double x = of.x()[i];
  return x != 0 && std::abs(x * logistic(x)) <= siluError(of, x);
}
double geluError(const Subject &of, double x, double y) { return 4.5 * of.w * std::abs(x) + of.ulpOf(y); }
Result<Doubles> geluBound(const Subject &of) {
  return each(of, [&](size_t i) { return geluError(of, of.x()[i], of.y[i]); });
}

bool isBehindArithmetic(const MortiseNode &node) {
  return std::all_of(node.operands, node.operands + node.operand_count, [](const MortiseValue *operand) {
    const MortiseNode *producer = operand->producer;
    return !producer || !rounds(opOf(*producer)) || isOp(*producer, Op::Add, Op::Sub, Op::Mul, Op::Div, Op::Sqrt);
  });
}
// Ops that round correctly, behind others that do: what is between them may be kept in more bits.
static double betweenError(const Subject &of, size_t operand, size_t i) {
  const MortiseNode *producer = of.node.operands[operand]->producer;
  if (!producer || !rounds(opOf(*producer)))
    return 0;
  const double value = of.x(operand)[i];
  return ulp(value, of.dtype) / 2 + (of.dtype == of.accumulator ? 0 : of.half(value));
}
Result<Doubles> arithmeticBound(const Subject &of) {
  return each(of, [&](size_t i) {
    const double a = std::abs(of.x(0)[i]), b = std::abs(of.x(1)[i]);
    const double da = betweenError(of, 0, i), db = betweenError(of, 1, i), rounding = of.half(of.y[i]);
    if (isOp(of.node, "mortise.add") || isOp(of.node, "mortise.sub"))
      return da + db + rounding;
    if (isOp(of.node, "mortise.mul"))
      return da * b + a * db + da * db + rounding;
    return b > db ? (da + std::abs(of.y[i]) * db) / (b - db) + rounding : INFINITY;
  });
}

Result<Doubles> dropoutBound(const Subject &of) {
  return each(of, [&](size_t i) { return of.ulpOf(of.y[i]) * 1.5; });
}

// r cos(2 pi v) with r = sqrt(-2 log(1 - u)), which is largest for the largest u that is drawn.
Result<Doubles> normalBound(const Subject &of) {
  const double largest = std::sqrt(2 * std::log(2.0) * (of.dtype == MORTISE_F64 ? 53 : 24));
  return each(of, [&](size_t i) { return of.w * (6 * std::abs(of.y[i]) + 17 * largest); });
}

} // namespace mortise::conformance::formulas
