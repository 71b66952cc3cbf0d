// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// relu, silu, gelu, swiglu. A composite of narrow floats rounds once, at the end, where the steps rounded each.
#include "Match.h"

#include <cmath>

namespace mortise::passes::raise {
namespace {

// max(x, 0). Not select(x > 0, x, 0), which turns NaN into 0.
mlir::LogicalResult raiseRelu(Operation *op, PatternRewriter &rewriter) {
  if (Value x = otherThan(op->getResult(0), "mortise.max", 0))
    return replace(rewriter, op, "mortise.relu", x);
  return mlir::failure();
}

// Whether `value` is logistic(x): the op, or 1 / (1 + exp(-x)), which agrees at infinities and NaN too.
bool isLogistic(Value value, Value x) {
  if (Operation *logistic = producer(value, "mortise.logistic"))
    return logistic->getOperand(0) == x;
  Operation *div = producer(value, "mortise.div");
  if (!div || !isSplat(div->getOperand(0), 1))
    return false;
  Operation *exp = producer(otherThan(div->getOperand(1), "mortise.add", 1), "mortise.exp");
  Operation *neg = exp ? producer(exp->getOperand(0), "mortise.neg") : nullptr;
  return neg && neg->getOperand(0) == x;
}

// x * logistic(x), and x / (1 + exp(-x)).
mlir::LogicalResult raiseSilu(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u})
    if (Value x = op->getOperand(1 - i); isLogistic(op->getOperand(i), x))
      return replace(rewriter, op, "mortise.silu", x);
  return mlir::failure();
}
// The quotient's exp(-x) overflows for x below -88 (f32), and x over infinity is -0 where silu is a tiny number; at
// -infinity both are NaN.
mlir::LogicalResult raiseSiluQuotient(Operation *op, PatternRewriter &rewriter) {
  Operation *exp = producer(otherThan(op->getOperand(1), "mortise.add", 1), "mortise.exp");
  Operation *neg = exp ? producer(exp->getOperand(0), "mortise.neg") : nullptr;
  if (!neg || neg->getOperand(0) != op->getOperand(0) || splat(op->getOperand(0)))
    return mlir::failure();
  return replace(rewriter, op, "mortise.silu", op->getOperand(0));
}

// silu(gate) * up
mlir::LogicalResult raiseSwiglu(Operation *op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u})
    if (Operation *silu = producer(op->getOperand(i), "mortise.silu"); silu && silu->hasOneUse())
      return replace(rewriter, op, "mortise.swiglu", {silu->getOperand(0), op->getOperand(1 - i)});
  return mlir::failure();
}

// Whether `value` is x^3.
bool isCube(Value value, Value x) {
  if (Operation *pow = producer(value, "mortise.pow"))
    return pow->getOperand(0) == x && isSplat(pow->getOperand(1), 3);
  Operation *mul = producer(value, "mortise.mul");
  for (unsigned k : {0u, 1u})
    if (Operation *square = mul ? producer(mul->getOperand(k), "mortise.mul") : nullptr)
      if (mul->getOperand(1 - k) == x && square->getOperand(0) == x && square->getOperand(1) == x)
        return true;
  Operation *power = nullptr; // x * pow(x, 2)
  for (unsigned k : {0u, 1u})
    if (mul && mul->getOperand(1 - k) == x && (power = producer(mul->getOperand(k), "mortise.pow")))
      return power->getOperand(0) == x && isSplat(power->getOperand(1), 2);
  return false;
}

// The x of x + 0.044715 x^3, or of x * (1 + 0.044715 x^2).
Value geluPolynomial(Value value) {
  if (Operation *add = producer(value, "mortise.add"))
    for (unsigned i : {0u, 1u})
      if (Value cube = otherThan(add->getOperand(1 - i), "mortise.mul", 0.044715))
        if (isCube(cube, add->getOperand(i)))
          return add->getOperand(i);
  if (Operation *mul = producer(value, "mortise.mul"))
    for (unsigned i : {0u, 1u}) {
      Value x = mul->getOperand(i), inner = otherThan(mul->getOperand(1 - i), "mortise.add", 1);
      Value square = inner ? otherThan(inner, "mortise.mul", 0.044715) : Value();
      if (Operation *by = producer(square, "mortise.mul"); by && by->getOperand(0) == x && by->getOperand(1) == x)
        return x;
      if (Operation *pow = producer(square, "mortise.pow");
          pow && pow->getOperand(0) == x && isSplat(pow->getOperand(1), 2))
        return x;
    }
  return {};
}

// The x of 1 + erf(x / sqrt(2)), or of 1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).
Value geluFactor(Value value, StringRef &form) {
  Value inner = otherThan(value, "mortise.add", 1);
  if (!inner)
    return {};
  if (Operation *erf = producer(inner, "mortise.erf")) {
    form = "none";
    if (Value x = otherThan(erf->getOperand(0), "mortise.mul", M_SQRT1_2))
      return x;
    Operation *div = producer(erf->getOperand(0), "mortise.div");
    return div && isSplat(div->getOperand(1), M_SQRT2) ? div->getOperand(0) : Value();
  }
  form = "tanh";
  Operation *tanh = producer(inner, "mortise.tanh");
  Value sum = tanh ? otherThan(tanh->getOperand(0), "mortise.mul", std::sqrt(2 / M_PI)) : Value();
  return sum ? geluPolynomial(sum) : Value();
}

// 0.5 * x * factor, associated in any of the three ways. Where the steps cancel (1 + erf of a large negative number is
// 0) the composite gives the tiny value that is right; infinities and NaN agree. x * logistic(1.702 x), the quick
// gelu, is another function.
mlir::LogicalResult raiseGelu(Operation *op, PatternRewriter &rewriter) {
  StringRef form;
  Value x;
  const auto half = [](Value value) -> Value { // y when `value` is y / 2
    if (Value found = otherThan(value, "mortise.mul", 0.5))
      return found;
    Operation *div = producer(value, "mortise.div");
    return div && isSplat(div->getOperand(1), 2) ? div->getOperand(0) : Value();
  };
  for (unsigned i : {0u, 1u}) {
    Value a = op->getOperand(i), b = op->getOperand(1 - i);
    if (Value halved = half(a)) { // (0.5 x) factor, (0.5 factor) x
      if (Value found = geluFactor(b, form); found && found == halved)
        x = found;
      else if (Value found = geluFactor(halved, form); found && found == b)
        x = found;
    }
    if (Operation *mul = producer(a, "mortise.mul"); !x && mul && isSplat(b, 0.5)) // (x factor) 0.5
      for (unsigned k : {0u, 1u})
        if (Value found = geluFactor(mul->getOperand(k), form); found && found == mul->getOperand(1 - k))
          x = found;
    if (x)
      break;
  }
  if (!x)
    return mlir::failure();
  return replace(rewriter, op, "mortise.gelu", x, Attributes(rewriter).string("approximate", form));
}

} // namespace

ArrayRef<Row> activations() {
  static const Row rows[] = {
      {"mortise.max", "mortise.relu", raiseRelu},         {"mortise.mul", "mortise.silu", raiseSilu},
      {"mortise.div", "mortise.silu", raiseSiluQuotient}, {"mortise.mul", "mortise.swiglu", raiseSwiglu},
      {"mortise.mul", "mortise.gelu", raiseGelu},
  };
  return rows;
}

} // namespace mortise::passes::raise
