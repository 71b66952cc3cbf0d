// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arithmetic, comparisons, logic and conversions, element by element.
#include "rows.hpp"

#include <algorithm>
#include <cmath>

namespace mortise::onnx {
namespace {

Values map(Emitter &e, Node &node) { return {e.map(node.row->op, node[0])}; }
Values combine(Emitter &e, Node &node) { return {e.combine(node.row->op, node[0], node[1])}; }

Values identity(Emitter &, Node &node) { return {node[0]}; }
Values reciprocal(Emitter &e, Node &node) { return {e.div(e.like(node[0], 1), node[0])}; }

// Of any number of operands.
Values fold(Emitter &e, Node &node) {
  Value all = node[0];
  for (size_t i = 1; i < node.inputCount(); ++i)
    all = e.combine(node.row->op, all, node[i]);
  return {all};
}

Values mean(Emitter &e, Node &node) {
  return {e.div(fold(e, node)[0], e.like(node[0], static_cast<double>(node.inputCount())))};
}

// The language's remainder has the sign of the dividend; without fmod ONNX's has that of the divisor.
Values mod(Emitter &e, Node &node) {
  const Value rest = e.combine("mortise.rem", node[0], node[1]);
  if (node.flag("fmod", false))
    return {rest};
  if (isUnsigned(rest.dtype))
    return {rest};
  const Value zero = e.like(rest, 0);
  const Value differs = e.compare("ne", e.compare("lt", rest, zero), e.compare("lt", node[1], zero));
  const Value isMoved = e.op("mortise.and", {e.compare("ne", rest, zero), differs});
  return {e.select(isMoved, e.add(rest, node[1]), rest)};
}

// The result has the type of the base.
Values pow(Emitter &e, Node &node) {
  const Value &base = node[0], &exponent = node[1];
  if (isFloat(base.dtype) || !isFloat(exponent.dtype))
    return {e.combine("mortise.pow", base, e.convert(exponent, base.dtype))};
  const int32_t wide = dtypeBits(base.dtype) > 16 ? MORTISE_F64 : MORTISE_F32;
  return {e.convert(e.combine("mortise.pow", e.convert(base, wide), e.convert(exponent, wide)), base.dtype)};
}

Values clip(Emitter &e, Node &node) {
  Value x = node[0];
  if (node.has(1))
    x = e.maximum(x, node[1]);
  if (node.has(2))
    x = e.minimum(x, node[2]);
  return {x};
}

Values bitShift(Emitter &e, Node &node) {
  const std::string direction = node.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT")
    corrupt(node.place() + ": expected the direction LEFT or RIGHT, found '" + direction + "'");
  return {
      e.combine(direction == "LEFT" ? OpName("mortise.shift_left") : OpName("mortise.shift_right"), node[0], node[1])};
}

struct Comparison {
  const char *name, *direction;
};
constexpr Comparison comparisons[] = {
    {"Equal", "eq"}, {"Greater", "gt"}, {"GreaterOrEqual", "ge"}, {"Less", "lt"}, {"LessOrEqual", "le"}};

Values compare(Emitter &e, Node &node) {
  const auto found = std::ranges::find(comparisons, node.message.op_type(), &Comparison::name);
  return {e.compare(found->direction, node[0], node[1])};
}

Values where(Emitter &e, Node &node) { return {e.select(node[0], node[1], node[2])}; }

Values isNan(Emitter &e, Node &node) { return {e.compare("ne", node[0], node[0])}; }

Values isInf(Emitter &e, Node &node) {
  const Value x = node[0];
  const bool positive = node.flag("detect_positive", true), negative = node.flag("detect_negative", true);
  const Value most = e.like(x, INFINITY), least = e.like(x, -INFINITY);
  if (x.dtype == MORTISE_F8E4M3FN || !(positive || negative)) // a type without infinities
    return {e.op("mortise.compare", {x, x}, {{"direction", "lt"}})};
  if (positive && negative)
    return {e.compare("eq", e.map("mortise.abs", x), most)};
  return {e.compare("eq", x, positive ? most : least)};
}

// Floats of 8 bits: ONNX saturates unless it is told otherwise; the language overflows to infinity or NaN.
Value cast(Emitter &e, Node &node, int32_t to) {
  Value x = node[0];
  const bool saturates = node.flag("saturate", true);
  if (to == x.dtype)
    return x;
  const bool isNarrow = to == MORTISE_F8E4M3FN || to == MORTISE_F8E5M2;
  if (isNarrow && saturates && isFloat(x.dtype) && dtypeBits(x.dtype) > 8) {
    const double most = mortise_dtype_info(to)->max_finite;
    const Value least = e.like(x, -most), largest = e.like(x, most);
    return e.convert(e.minimum(e.maximum(x, least), largest), to);
  }
  if (isNarrow && !isFloat(x.dtype))
    return e.convert(e.convert(x, MORTISE_F32), to);
  if (isFloat(x.dtype) && isInteger(to) && dtypeBits(to) < 32) // keeps the low bits, as a conversion in C does
    return e.convert(e.convert(x, MORTISE_I32), to);
  return e.convert(x, to);
}

Values castTo(Emitter &e, Node &node) {
  node.ignore("round_mode"); // of a type that the language does not have
  return {cast(e, node, node.dtype("to", 0))};
}
Values castLike(Emitter &e, Node &node) {
  node.ignore("round_mode");
  return {cast(e, node, node[1].dtype)};
}

constexpr Row table[] = {
    {"Abs", map, "mortise.abs"},
    {"Acos", map, "mortise.acos"},
    {"Acosh", map, "mortise.acosh"},
    {"Add", combine, "mortise.add"},
    {"And", combine, "mortise.and"},
    {"Asin", map, "mortise.asin"},
    {"Asinh", map, "mortise.asinh"},
    {"Atan", map, "mortise.atan"},
    {"Atanh", map, "mortise.atanh"},
    {"BitShift", bitShift},
    {"BitwiseAnd", combine, "mortise.and"},
    {"BitwiseNot", map, "mortise.not"},
    {"BitwiseOr", combine, "mortise.or"},
    {"BitwiseXor", combine, "mortise.xor"},
    {"Cast", castTo},
    {"CastLike", castLike},
    {"Ceil", map, "mortise.ceil"},
    {"Clip", clip},
    {"Cos", map, "mortise.cos"},
    {"Cosh", map, "mortise.cosh"},
    {"Div", combine, "mortise.div"},
    {"Equal", compare},
    {"Erf", map, "mortise.erf"},
    {"Exp", map, "mortise.exp"},
    {"Floor", map, "mortise.floor"},
    {"Greater", compare},
    {"GreaterOrEqual", compare},
    {"Identity", identity},
    {"IsInf", isInf},
    {"IsNaN", isNan},
    {"Less", compare},
    {"LessOrEqual", compare},
    {"Log", map, "mortise.log"},
    {"Max", fold, "mortise.max"},
    {"Mean", mean, "mortise.add"},
    {"Min", fold, "mortise.min"},
    {"Mod", mod},
    {"Mul", combine, "mortise.mul"},
    {"Neg", map, "mortise.neg"},
    {"Not", map, "mortise.not"},
    {"Or", combine, "mortise.or"},
    {"Pow", pow},
    {"Reciprocal", reciprocal},
    {"Round", map, "mortise.round"},
    {"Sigmoid", map, "mortise.logistic"},
    {"Sign", map, "mortise.sign"},
    {"Sin", map, "mortise.sin"},
    {"Sinh", map, "mortise.sinh"},
    {"Sqrt", map, "mortise.sqrt"},
    {"Sub", combine, "mortise.sub"},
    {"Sum", fold, "mortise.add"},
    {"Tan", map, "mortise.tan"},
    {"Tanh", map, "mortise.tanh"},
    {"Where", where},
    {"Xor", combine, "mortise.xor"},
};

} // namespace

std::span<const Row> elementwiseRows() { return table; }

} // namespace mortise::onnx
