// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// relu, silu, gelu, swiglu. For narrow floats the composite rounds once, at the end, while each of the single ops
// rounds. Raising reassociates products, so intermediate results near 1e38 may overflow in one form and not in the
// other.
#include "match.hpp"

#include <array>
#include <cmath>

namespace mortise::passes::raise {
namespace {

// max(x, 0). Not select(x > 0, x, 0), which turns NaN into 0.
mlir::LogicalResult raiseRelu(ir::MaxOp op, PatternRewriter &rewriter) {
  if (Value x = otherThan<ir::MaxOp>(op.getResult(), 0))
    return replace<ir::ReluOp>(rewriter, op, x);
  return mlir::failure();
}

// ---- Polynomials

using Polynomial = std::array<double, 4>; // coefficients of 1, x, x^2, x^3

std::optional<Polynomial> times(const Polynomial &a, const Polynomial &b) {
  Polynomial product{};
  for (size_t i = 0; i < 4; ++i)
    for (size_t k = 0; k < 4; ++k) {
      if (a[i] * b[k] == 0)
        continue;
      if (i + k > 3)
        return std::nullopt;
      product[i + k] += a[i] * b[k];
    }
  return product;
}

// `value` as a polynomial in `x`, in any spelling. `budget` limits the number of ops visited.
std::optional<Polynomial> polynomial(Value value, Value x, int &budget) {
  if (value == x)
    return Polynomial{0, 1, 0, 0};
  if (const std::optional<double> number = splat(value))
    return std::isfinite(*number) ? std::optional(Polynomial{*number, 0, 0, 0}) : std::nullopt;
  Operation *op = value.getDefiningOp();
  if (!op || --budget < 0)
    return std::nullopt;
  const bool adds = llvm::isa<ir::AddOp>(op), subtracts = llvm::isa<ir::SubOp>(op), divides = llvm::isa<ir::DivOp>(op),
             raises = llvm::isa<ir::PowOp>(op), negates = llvm::isa<ir::NegOp>(op),
             multiplies = llvm::isa<ir::MulOp>(op);
  if (!adds && !subtracts && !divides && !raises && !negates && !multiplies)
    return std::nullopt;
  const std::optional<Polynomial> a = polynomial(op->getOperand(0), x, budget);
  if (!a)
    return std::nullopt;
  if (negates)
    return times(*a, {-1, 0, 0, 0});
  if (divides || raises) {
    const std::optional<double> number = splat(op->getOperand(1));
    if (divides)
      return number && *number != 0 ? times(*a, {1 / *number, 0, 0, 0}) : std::nullopt;
    const std::optional<Polynomial> square = number && (*number == 2 || *number == 3) ? times(*a, *a) : std::nullopt;
    return square && *number == 3 ? times(*square, *a) : square;
  }
  std::optional<Polynomial> b = polynomial(op->getOperand(1), x, budget);
  if (!b || multiplies)
    return b ? times(*a, *b) : b;
  for (size_t i = 0; i < 4; ++i)
    (*b)[i] = (*a)[i] + (subtracts ? -(*b)[i] : (*b)[i]);
  return b;
}

bool isPolynomial(Value value, Value x, double sign, const Polynomial &wanted) {
  int budget = 16;
  const std::optional<Polynomial> found = polynomial(value, x, budget);
  for (size_t i = 0; found && i < 4; ++i)
    // The tolerance allows for coefficients written in f32.
    if (std::abs(sign * (*found)[i] - wanted[i]) > 1e-6 * std::abs(wanted[i]))
      return false;
  return found.has_value();
}

// ---- Gates

// a + b * f(sign * argument) with f = erf or tanh.
struct Gate {
  bool isErf = false;
  double a = 0, b = 1, sign = 1;
  Value argument;
};

// erf, tanh, erfc(z) = 1 + erf(-z) or logistic(z) = (1 + tanh(z / 2)) / 2, which is also 1 / (1 + exp(-z)).
std::optional<Gate> curve(Value value) {
  if (auto erf = producer<ir::ErfOp>(value))
    return Gate{true, 0, 1, 1, erf.getOperand()};
  if (auto erfc = producer<ir::ErfcOp>(value))
    return Gate{true, 1, 1, -1, erfc.getOperand()};
  if (auto tanh = producer<ir::TanhOp>(value))
    return Gate{false, 0, 1, 1, tanh.getOperand()};
  if (auto logistic = producer<ir::LogisticOp>(value))
    return Gate{false, 0.5, 0.5, 0.5, logistic.getOperand()};
  auto div = producer<ir::DivOp>(value);
  auto exp = div && isSplat(div.getLhs(), 1) ? producer<ir::ExpOp>(otherThan<ir::AddOp>(div.getRhs(), 1)) : nullptr;
  return exp ? std::optional(Gate{false, 0.5, 0.5, -0.5, exp.getOperand()}) : std::nullopt;
}

// A curve times a number, plus a number.
std::optional<Gate> gateOf(Value value) {
  double a = 0, b = 1; // the gate is a + b * `value` as `value` moves inwards
  for (int steps = 0; steps < 4; ++steps) {
    if (std::optional<Gate> found = curve(value)) {
      found->a = a + b * found->a;
      found->b *= b;
      return found;
    }
    if (Value inner = scaledBy(value, b)) {
      value = inner;
      continue;
    }
    auto sub = producer<ir::SubOp>(value);
    Operation *sum = sub ? sub.getOperation() : producer<ir::AddOp>(value).getOperation();
    const std::optional<double> left = sum ? splat(sum->getOperand(0)) : std::nullopt,
                                right = sum ? splat(sum->getOperand(1)) : std::nullopt;
    if (!left && !right)
      return std::nullopt;
    a += b * (left ? *left : sub ? -*right : *right);
    b = sub && left ? -b : b;
    value = sum->getOperand(left ? 1 : 0);
  }
  return std::nullopt;
}

bool isNear(double found, double wanted) { return std::abs(found - wanted) <= 1e-6 * std::abs(wanted); }

enum class Activation { None, Gelu, GeluTanh, Silu };

// Which activation `number` * x * gate is. It must have the form x (1 + f(z)) / 2 with z a polynomial in x.
Activation activationOf(const Gate &gate, Value x, double number) {
  if (!isNear(number * gate.a, 0.5) || !isNear(std::abs(number * gate.b), 0.5))
    return Activation::None;
  const double sign = number * gate.b < 0 ? -gate.sign : gate.sign; // both curves are odd
  const auto is = [&](const Polynomial &wanted) { return isPolynomial(gate.argument, x, sign, wanted); };
  const double root = std::sqrt(2 / M_PI);
  if (gate.isErf)
    return is({0, M_SQRT1_2, 0, 0}) ? Activation::Gelu : Activation::None;
  if (is({0, 0.5, 0, 0}))
    return Activation::Silu;
  return is({0, root, 0, 0.044715 * root}) ? Activation::GeluTanh : Activation::None;
}

// Matches, as products in any order with at most one more factor:
// - gelu: x * (1 + erf(x / sqrt(2))) / 2
// - gelu, tanh form: x * (1 + tanh(z)) / 2 with z = sqrt(2 / pi) (x + 0.044715 x^3)
// - silu: x * (1 + tanh(x / 2)) / 2
// Where the single ops cancel (1 + erf of a large negative number is 0) the composite returns the correct tiny value;
// infinities and NaN agree. x * logistic(1.702 x), the quick gelu, is another function and is not matched.
mlir::LogicalResult raiseGated(Operation *op, PatternRewriter &rewriter) {
  const std::optional<Product> product = productOf(op->getResult(0));
  const size_t count = product ? product->factors.size() : 0;
  if (count != 2 && count != 3)
    return mlir::failure();
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Gate> gate = gateOf(product->factors[i]);
    for (size_t k = 0; k < count && gate; ++k) {
      if (k == i)
        continue;
      Value x = product->factors[k];
      double number = product->constant;
      Activation found = activationOf(*gate, x, number);
      if (Value inner = scaledBy(x, number); found == Activation::None && inner) // x / 2, which may serve as z too
        found = activationOf(*gate, x = inner, number);
      if (found == Activation::None)
        continue;
      Value rest = count == 3 ? product->factors[3 - i - k] : Value();
      if (found == Activation::Silu)
        return rest ? replace<ir::SwigluOp>(rewriter, op, {x, rest}) : replace<ir::SiluOp>(rewriter, op, x);
      const Properties<ir::GeluOp> attributes{.approximate =
                                                  rewriter.getStringAttr(found == Activation::Gelu ? "none" : "tanh")};
      if (!rest)
        return replace<ir::GeluOp>(rewriter, op, x, attributes);
      return replace<ir::MulOp>(rewriter, op, {make<ir::GeluOp>(rewriter, op->getLoc(), x, attributes), rest});
    }
  }
  return mlir::failure();
}

// x / (1 + exp(-x)). In f32, exp(-x) overflows for x below -88 and the quotient is -0, where silu is a tiny number; at
// -infinity both are NaN.
mlir::LogicalResult raiseSiluQuotient(ir::DivOp op, PatternRewriter &rewriter) {
  auto exp = producer<ir::ExpOp>(otherThan<ir::AddOp>(op.getRhs(), 1));
  auto neg = exp ? producer<ir::NegOp>(exp.getOperand()) : nullptr;
  if (!neg || neg.getOperand() != op.getLhs() || splat(op.getLhs()))
    return mlir::failure();
  return replace<ir::SiluOp>(rewriter, op, op.getLhs());
}

// silu(gate) * up
mlir::LogicalResult raiseSwiglu(ir::MulOp op, PatternRewriter &rewriter) {
  for (unsigned i : {0u, 1u})
    if (auto silu = producer<ir::SiluOp>(op->getOperand(i)); silu && silu->hasOneUse())
      return replace<ir::SwigluOp>(rewriter, op, {silu.getOperand(), op->getOperand(1 - i)});
  return mlir::failure();
}

} // namespace

ArrayRef<Row> activations() {
  static const Row rows[] = {
      row<ir::MaxOp, raiseRelu>(),
      row<ir::MulOp, raiseGated>(),
      row<ir::DivOp, raiseSiluQuotient>(),
      row<ir::DivOp, raiseGated>(),
      row<ir::MulOp, raiseSwiglu>(),
      row<ir::ConvertOp, widened<ir::SiluOp>>(),
      row<ir::ConvertOp, widened<ir::GeluOp>>(),
  };
  return rows;
}

} // namespace mortise::passes::raise
