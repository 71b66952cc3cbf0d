// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constant folding. Computes in f64 or 64-bit integers and rounds once, which is correct for + - * / and sqrt of every
// narrower float.
#include "infer.hpp"

#define GET_OP_CLASSES
#include <mortise/ir/elementwise.h.inc>
#define GET_OP_CLASSES
#include <mortise/ir/shape.h.inc>

#include <llvm/ADT/StringMap.h>

#include <cmath>
#include <variant>

using namespace mlir;

namespace mortise::ir {

DenseElementsAttr literalOf(Value value) {
  if (auto constant = value.getDefiningOp<ConstantOp>())
    return llvm::dyn_cast<DenseElementsAttr>(constant.getValue());
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    if (auto constant = broadcast.getOperand().getDefiningOp<ConstantOp>())
      if (auto literal = llvm::dyn_cast<DenseElementsAttr>(constant.getValue());
          literal && literal.getNumElements() == 1 && broadcast.getType().hasStaticShape() &&
          broadcast.getType().getNumElements() != 0)
        return DenseElementsAttr::get(broadcast.getType(), *literal.value_begin<Attribute>());
  return {};
}

DenseElementsAttr gather(DenseElementsAttr literal, RankedTensorType type,
                         llvm::function_ref<int64_t(int64_t)> source) {
  auto values = literal.getValues<Attribute>();
  llvm::SmallVector<Attribute> result;
  for (int64_t i = 0, count = type.getNumElements(); i < count; ++i)
    result.push_back(values[source(i)]);
  return DenseElementsAttr::get(type, result);
}

namespace {

// One element: a float, or an integer that fits the element type.
using Number = std::variant<double, int64_t>;

Number load(Attribute attribute) {
  if (auto real = llvm::dyn_cast<FloatAttr>(attribute)) {
    llvm::APFloat value = real.getValue();
    bool lossy;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return value.convertToDouble();
  }
  auto integer = llvm::cast<IntegerAttr>(attribute);
  bool isUnsigned = integer.getType().isUnsignedInteger() || integer.getType().isInteger(1);
  return isUnsigned ? static_cast<int64_t>(integer.getValue().getZExtValue()) : integer.getValue().getSExtValue();
}

Attribute store(Number number, Type type) {
  if (auto real = llvm::dyn_cast<FloatType>(type)) {
    llvm::APFloat value(std::get<double>(number));
    bool lossy;
    value.convert(real.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return FloatAttr::get(type, value);
  }
  return IntegerAttr::get(
      type, llvm::APInt(type.getIntOrFloatBitWidth(), static_cast<uint64_t>(std::get<int64_t>(number)), false, true));
}

double sign(double x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : x; }
double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double rsqrt(double x) { return 1 / std::sqrt(x); }
double negate(double x) { return -x; }

using RealUnary = double (*)(double);
RealUnary realUnary(StringRef op) {
  static const llvm::StringMap<RealUnary> table{
      {"abs", std::fabs},    {"neg", negate},           {"sign", sign},         {"exp", std::exp},
      {"expm1", std::expm1}, {"log", std::log},         {"log1p", std::log1p},  {"sqrt", std::sqrt},
      {"rsqrt", rsqrt},      {"sin", std::sin},         {"cos", std::cos},      {"tanh", std::tanh},
      {"erf", std::erf},     {"erfc", std::erfc},       {"logistic", logistic}, {"floor", std::floor},
      {"ceil", std::ceil},   {"round", std::nearbyint}, {"tan", std::tan},      {"asin", std::asin},
      {"acos", std::acos},   {"atan", std::atan},       {"sinh", std::sinh},    {"cosh", std::cosh},
      {"asinh", std::asinh}, {"acosh", std::acosh},     {"atanh", std::atanh},  {"log2", std::log2},
      {"log10", std::log10}, {"exp2", std::exp2}};
  return table.lookup(op);
}

double larger(double x, double y) {
  if (std::isnan(x) || std::isnan(y))
    return x + y;
  return x == y ? (std::signbit(x) ? y : x) : (x > y ? x : y);
}
double smaller(double x, double y) { return -larger(-x, -y); }

std::optional<double> realBinary(StringRef op, double x, double y) {
  if (op == "add")
    return x + y;
  if (op == "sub")
    return x - y;
  if (op == "mul")
    return x * y;
  if (op == "div")
    return x / y;
  if (op == "rem")
    return std::fmod(x, y);
  if (op == "pow")
    return std::pow(x, y);
  if (op == "max")
    return larger(x, y);
  if (op == "min")
    return smaller(x, y);
  if (op == "atan2")
    return std::atan2(x, y);
  return std::nullopt;
}

std::optional<int64_t> integerUnary(StringRef op, int64_t x) {
  if (op == "abs")
    return x < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x)) : x;
  if (op == "neg")
    return static_cast<int64_t>(-static_cast<uint64_t>(x));
  if (op == "sign")
    return (x > 0) - (x < 0);
  if (op == "not")
    return ~x;
  return std::nullopt;
}

// Applies `op` to integers of `type`. The caller truncates the result to the width of `type`.
std::optional<int64_t> integerBinary(StringRef op, int64_t x, int64_t y, Type type) {
  auto ux = static_cast<uint64_t>(x), uy = static_cast<uint64_t>(y);
  bool boolean = type.isInteger(1);
  if (op == "add")
    return boolean ? (x | y) : static_cast<int64_t>(ux + uy);
  if (op == "sub")
    return static_cast<int64_t>(ux - uy);
  if (op == "mul")
    return static_cast<int64_t>(ux * uy);
  if (op == "max")
    return std::max(x, y);
  if (op == "min")
    return std::min(x, y);
  if (op == "and")
    return x & y;
  if (op == "or")
    return x | y;
  if (op == "xor")
    return x ^ y;
  if (op == "shift_left" || op == "shift_right") {
    bool inside = y >= 0 && y < static_cast<int64_t>(type.getIntOrFloatBitWidth());
    if (op == "shift_left")
      return inside ? static_cast<int64_t>(ux << y) : 0;
    return inside ? x >> y : (x < 0 ? -1 : 0);
  }
  if (op == "div")
    return y == 0 ? -1 : y == -1 ? static_cast<int64_t>(-ux) : x / y;
  if (op == "rem")
    return y == 0 ? x : y == -1 ? 0 : x % y;
  return std::nullopt; // pow is not folded
}

bool compares(StringRef direction, Number x, Number y) {
  auto by = [&](auto l, auto r) {
    return direction == "eq"   ? l == r
           : direction == "ne" ? l != r
           : direction == "lt" ? l < r
           : direction == "le" ? l <= r
           : direction == "gt" ? l > r
                               : l >= r;
  };
  if (std::holds_alternative<double>(x))
    return by(std::get<double>(x), std::get<double>(y));
  return by(std::get<int64_t>(x), std::get<int64_t>(y));
}

Number converted(Number x, Type from, Type to) {
  const double *real = std::get_if<double>(&x);
  if (to.isInteger(1))
    return static_cast<int64_t>(real ? *real != 0 : std::get<int64_t>(x) != 0);
  // i64 to f64 rounds once; for a narrower float, storing rounds a second time: f32(f64(x)).
  if (llvm::isa<FloatType>(to))
    return real ? *real : static_cast<double>(std::get<int64_t>(x));
  if (!real)
    return x;
  unsigned width = to.getIntOrFloatBitWidth();
  if (std::isnan(*real))
    return int64_t(0);
  bool isUnsigned = to.isUnsignedInteger();
  double least = isUnsigned ? 0.0 : -std::ldexp(1.0, width - 1),
         beyond = std::ldexp(1.0, isUnsigned ? width : width - 1);
  double value = std::trunc(*real);
  if (value < least)
    return isUnsigned ? int64_t(0) : static_cast<int64_t>(least);
  if (value >= beyond)
    return static_cast<int64_t>(llvm::APInt::getMaxValue(isUnsigned ? width : width - 1).getZExtValue());
  return static_cast<int64_t>(value);
}

std::optional<Number> evaluate(Operation *op, llvm::ArrayRef<Number> operands) {
  StringRef name = op->getName().stripDialect();
  Type from = elementOf(op->getOperand(0)), to = elementOf(op->getResult(0));
  if (auto compare = llvm::dyn_cast<CompareOp>(op))
    return static_cast<int64_t>(compares(compare.getDirection(), operands[0], operands[1]));
  if (llvm::isa<ConvertOp>(op)) {
    bool twice = llvm::isa<FloatType>(to) && !to.isF64() && from.isInteger(64);
    return twice ? std::nullopt : std::optional<Number>(converted(operands[0], from, to));
  }
  if (llvm::isa<SelectOp>(op))
    return std::get<int64_t>(operands[0]) ? operands[1] : operands[2];
  if (operands.size() == 1) {
    if (const double *x = std::get_if<double>(&operands[0])) {
      RealUnary function = realUnary(name);
      return function ? std::optional<Number>(function(*x)) : std::nullopt;
    }
    return integerUnary(name, std::get<int64_t>(operands[0]));
  }
  if (const double *x = std::get_if<double>(&operands[0]))
    return realBinary(name, *x, std::get<double>(operands[1]));
  return integerBinary(name, std::get<int64_t>(operands[0]), std::get<int64_t>(operands[1]), from);
}

// The sign of a literal that isLiteral() accepted.
bool isLiteralNegative(Value value) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>(); broadcast && rankOf(broadcast.getOperand()) == 0)
    return isLiteralNegative(broadcast.getOperand());
  return std::signbit(std::get<double>(load(literalOf(value).getSplatValue<Attribute>())));
}

// Applies identities that keep every bit of every value of the type.
Value simplified(Operation *op) {
  StringRef name = op->getName().stripDialect();
  if (auto convert = llvm::dyn_cast<ConvertOp>(op))
    return convert.getOperand().getType() == convert.getType() ? convert.getOperand() : Value();
  if (auto select = llvm::dyn_cast<SelectOp>(op)) {
    if (select.getOnTrue() == select.getOnFalse() || isLiteral(select.getPredicate(), 1))
      return select.getOnTrue();
    return isLiteral(select.getPredicate(), 0) ? select.getOnFalse() : Value();
  }
  if (op->getNumOperands() != 2 || llvm::isa<CompareOp>(op))
    return {};
  Value lhs = op->getOperand(0), rhs = op->getOperand(1);
  bool real = llvm::isa<FloatType>(elementOf(lhs));
  // x + 0.0 turns -0.0 into 0.0; x + -0.0 and x - 0.0 keep every x.
  auto zero = [&](Value value, bool negative) {
    return isLiteral(value, 0) && (!real || isLiteralNegative(value) == negative);
  };
  if (name == "add")
    return zero(rhs, true) ? lhs : zero(lhs, true) ? rhs : Value();
  if (name == "sub")
    return zero(rhs, false) ? lhs : Value();
  if (name == "mul")
    return isLiteral(rhs, 1) ? lhs : isLiteral(lhs, 1) ? rhs : Value();
  if (name == "div")
    return isLiteral(rhs, 1) ? lhs : Value();
  if ((name == "and" || name == "or") && lhs == rhs)
    return lhs;
  if (elementOf(lhs).isInteger(1) && (name == "and" || name == "or")) {
    double neutral = name == "and" ? 1 : 0;
    if (isLiteral(rhs, neutral) || isLiteral(lhs, 1 - neutral))
      return lhs;
    if (isLiteral(lhs, neutral) || isLiteral(rhs, 1 - neutral))
      return rhs;
  }
  return {};
}

} // namespace

bool isLiteral(Value value, double number) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>(); broadcast && rankOf(broadcast.getOperand()) == 0)
    return isLiteral(broadcast.getOperand(), number); // for any extents of the broadcast
  Attribute element;
  if (auto constant = value.getDefiningOp<ConstantOp>()) {
    auto literal = llvm::dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!literal || literal.empty() || !literal.isSplat())
      return false;
    element = literal.getSplatValue<Attribute>();
  } else if (DenseElementsAttr literal = literalOf(value)) {
    element = literal.getSplatValue<Attribute>();
  } else {
    return false;
  }
  Number found = load(element);
  const double *real = std::get_if<double>(&found);
  return real ? *real == number : static_cast<double>(std::get<int64_t>(found)) == number;
}

OpFoldResult foldElementwise(Operation *op) {
  if (Value value = simplified(op))
    return value;
  auto type = llvm::cast<RankedTensorType>(op->getResult(0).getType());
  if (!type.hasStaticShape() || type.getNumElements() == 0)
    return {};
  llvm::SmallVector<DenseElementsAttr> literals;
  bool splat = true;
  for (Value operand : op->getOperands()) {
    literals.push_back(literalOf(operand));
    if (!literals.back())
      return {};
    splat &= literals.back().isSplat();
  }
  int64_t count = splat ? 1 : type.getNumElements();
  if (count > foldLimit)
    return {};
  llvm::SmallVector<Attribute> results;
  llvm::SmallVector<Number> operands(literals.size());
  for (int64_t i = 0; i < count; ++i) {
    for (auto [operand, literal] : llvm::zip(operands, literals))
      operand = load(literal.isSplat() ? literal.getSplatValue<Attribute>() : literal.getValues<Attribute>()[i]);
    std::optional<Number> result = evaluate(op, operands);
    if (!result)
      return {};
    results.push_back(store(*result, type.getElementType()));
  }
  return DenseElementsAttr::get(type, results);
}

} // namespace mortise::ir
