// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Infer.h"

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSwitch.h>
#include <llvm/ADT/TypeSwitch.h>
#include <llvm/Support/MathExtras.h>
#include <llvm/Support/raw_ostream.h>

using namespace mlir;
using llvm::StringRef;

namespace mortise::ir {

LogicalResult Report::operator()(const llvm::Twine &message) const {
  return emitOptionalError(location, "'", op, "' op ", message.str());
}

LogicalResult Report::accept(FailureOr<RankedTensorType> inferred, llvm::SmallVectorImpl<Type> &types) const {
  if (failed(inferred))
    return failure();
  int64_t count = countOf(inferred->getShape());
  if (count < 0 || count > INT64_MAX / 8)
    return (*this)("result " + text(*inferred) + " has more bytes than a machine can address");
  types.push_back(*inferred);
  return success();
}

std::string text(Type type) {
  std::string result;
  llvm::raw_string_ostream(result) << type;
  return result;
}

std::string text(llvm::ArrayRef<int64_t> numbers) {
  std::string result = "[";
  llvm::raw_string_ostream stream(result);
  llvm::interleaveComma(numbers, stream);
  stream << "]";
  return stream.str();
}

int64_t countOf(llvm::ArrayRef<int64_t> shape) {
  if (llvm::is_contained(shape, 0))
    return 0;
  int64_t count = 1;
  for (int64_t dim : shape)
    if (llvm::MulOverflow(count, dim, count))
      return -1;
  return count;
}

Type elementNamed(StringRef name, MLIRContext *context) {
  Builder builder(context);
  return llvm::StringSwitch<Type>(name)
      .Case("f64", builder.getF64Type())
      .Case("f32", builder.getF32Type())
      .Case("f16", builder.getF16Type())
      .Case("bf16", builder.getBF16Type())
      .Case("f8E4M3FN", Float8E4M3FNType::get(context))
      .Case("f8E5M2", Float8E5M2Type::get(context))
      .Case("i64", builder.getI64Type())
      .Case("i32", builder.getI32Type())
      .Case("i16", builder.getI16Type())
      .Case("i8", builder.getI8Type())
      .Case("i4", builder.getIntegerType(4))
      .Case("ui8", builder.getIntegerType(8, false))
      .Case("i1", builder.getI1Type())
      .Default(Type());
}

StringRef elementName(Type type) {
  if (auto integer = llvm::dyn_cast<IntegerType>(type)) {
    if (integer.isUnsigned())
      return integer.getWidth() == 8 ? "ui8" : "";
    switch (integer.getWidth()) {
    case 64:
      return "i64";
    case 32:
      return "i32";
    case 16:
      return "i16";
    case 8:
      return "i8";
    case 4:
      return "i4";
    case 1:
      return "i1";
    default:
      return "";
    }
  }
  return llvm::TypeSwitch<Type, StringRef>(type)
      .Case<Float64Type>([](auto) { return "f64"; })
      .Case<Float32Type>([](auto) { return "f32"; })
      .Case<Float16Type>([](auto) { return "f16"; })
      .Case<BFloat16Type>([](auto) { return "bf16"; })
      .Case<Float8E4M3FNType>([](auto) { return "f8E4M3FN"; })
      .Case<Float8E5M2Type>([](auto) { return "f8E5M2"; })
      .Default([](auto) { return ""; });
}

LogicalResult checkAxis(int64_t axis, int64_t rank, const Report &report) {
  if (axis >= 0 && axis < rank)
    return success();
  return report("axis " + llvm::Twine(axis) + " is not a dimension of rank " + llvm::Twine(rank) +
                ": expected 0 <= axis < " + llvm::Twine(rank));
}

LogicalResult checkAscending(llvm::ArrayRef<int64_t> axes, int64_t rank, const Report &report) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= rank || (i && axes[i] <= axes[i - 1]))
      return report("axes " + text(axes) + " must be strictly ascending and in 0 .. " + llvm::Twine(rank - 1));
  return success();
}

LogicalResult checkSize(StringRef attribute, llvm::ArrayRef<int64_t> value, int64_t size, const Report &report) {
  if (static_cast<int64_t>(value.size()) == size)
    return success();
  return report(attribute + " " + text(value) + " must have " + llvm::Twine(size) + " entries, found " +
                llvm::Twine(value.size()));
}

LogicalResult checkLeast(StringRef attribute, llvm::ArrayRef<int64_t> value, int64_t least, const Report &report) {
  if (llvm::all_of(value, [&](int64_t entry) { return entry >= least; }))
    return success();
  return report(attribute + " " + text(value) + " must be at least " + llvm::Twine(least) + " in every entry");
}

LogicalResult checkShape(StringRef operand, Value value, llvm::ArrayRef<int64_t> shape, const Report &report) {
  if (shapeOf(value) == shape)
    return success();
  return report(operand + " must have shape " + text(shape) + ", found " + text(shapeOf(value)));
}

LogicalResult checkElement(StringRef operand, Value value, Type element, const Report &report) {
  if (elementOf(value) == element)
    return success();
  return report(operand + " must have element type " + text(element) + ", found " + text(elementOf(value)));
}

Inferred sameType(ValueRange operands, const Report &report) {
  for (Value operand : operands.drop_front())
    if (operand.getType() != operands.front().getType())
      return report("operands must have one type, found " + text(operands.front().getType()) + " and " +
                    text(operand.getType()) + "; broadcast or convert first");
  return RankedTensorType::get(shapeOf(operands.front()), elementOf(operands.front()));
}

Inferred reduced(Value operand, llvm::ArrayRef<int64_t> axes, const Report &report) {
  if (failed(checkAscending(axes, rankOf(operand), report)))
    return failure();
  Dims shape;
  for (auto [i, dim] : llvm::enumerate(shapeOf(operand)))
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      shape.push_back(dim);
  return RankedTensorType::get(shape, elementOf(operand));
}

} // namespace mortise::ir
