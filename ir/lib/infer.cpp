// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "infer.hpp"

#include <mortise/graph.hpp>

#include <llvm/ADT/STLExtras.h>
#include <llvm/ADT/StringSwitch.h>
#include <llvm/ADT/TypeSwitch.h>
#include <llvm/Support/MathExtras.h>
#include <llvm/Support/raw_ostream.h>

using namespace mlir;
using llvm::StringRef;

namespace mortise::ir {

Report::Report(std::optional<Location> location, StringRef op, ValueRange operands) : location(location), op(op) {
  for (Value operand : operands)
    if (failed(unite(symbolsOf(operand.getType()))))
      return;
}

LogicalResult Report::unite(SymbolsAttr other) const {
  if (!other || other == symbols)
    return success();
  if (symbols) {
    const LogicalResult said = (*this)("has extents over two tables of symbols; a function has one");
    conflict = true;
    return said;
  }
  symbols = other;
  ranges = other.getRanges();
  return success();
}

LogicalResult Report::operator()(const llvm::Twine &message) const {
  if (conflict) // the conflict was reported; any further error follows from it
    return failure();
  return emitOptionalError(location, "'", op, "' op ", message.str(), label.empty() ? "" : " (", label,
                           label.empty() ? "" : ")");
}

LogicalResult Report::accept(const Inferred &inferred, llvm::SmallVectorImpl<Type> &types) const {
  label = "";
  if (failed(inferred) || conflict)
    return failure();
  for (const Shaped &result : inferred.all()) {
    Dims dims;
    for (const Dim &dim : result.dims) {
      dims.push_back(simplified(dim));
      if (!dims.back().isValid() || bounds(dims.back(), ranges).low < 0)
        return (*this)("result extent " + text(dims.back()) + " may be negative or too large for 63 bits");
    }
    Dim count = countOf(dims);
    if (!count.isValid() || bounds(count, ranges).low > INT64_MAX / 8)
      return (*this)("result " + text(dims) + " has more bytes than a machine can address");
    types.push_back(tensorType(dims, result.element, symbols));
  }
  return success();
}

std::string Report::text(const Dim &dim) const {
  return dim.text([&](uint32_t symbol) {
    return symbols && symbol < symbols.getNames().size() ? symbols.getNames()[symbol].str()
                                                         : "symbol " + std::to_string(symbol);
  });
}
std::string Report::text(llvm::ArrayRef<Dim> dims) const {
  std::string result = "[";
  for (const Dim &dim : dims)
    result += (result.size() > 1 ? ", " : "") + text(dim);
  return result + "]";
}

std::string Report::text(Type type) const {
  auto tensor = llvm::dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.getEncoding())
    return ir::text(type);
  return ir::text(tensor.getElementType()) + " " + text(dimsOf(tensor));
}

SymbolsAttr symbolsOf(Type type) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(type);
  auto dims = tensor ? llvm::dyn_cast_if_present<DimsAttr>(tensor.getEncoding()) : DimsAttr();
  return dims ? dims.getSymbols() : SymbolsAttr();
}
Dims dimsOf(RankedTensorType type) {
  if (auto encoding = llvm::dyn_cast_if_present<DimsAttr>(type.getEncoding()))
    return Dims(encoding.getDims());
  return Dims(type.getShape());
}
DimsAttr extentsOf(Value value) {
  if (auto encoding = llvm::dyn_cast_if_present<DimsAttr>(tensorType(value).getEncoding()))
    return encoding;
  return DimsAttr::get(value.getContext(), tensorType(value).getShape());
}
RankedTensorType tensorType(llvm::ArrayRef<Dim> dims, Type element, SymbolsAttr symbols) {
  Axes numbers;
  for (const Dim &dim : dims)
    numbers.push_back(dim.numberOrDynamic());
  if (!llvm::is_contained(numbers, MORTISE_DYNAMIC))
    return RankedTensorType::get(numbers, element);
  return RankedTensorType::get(numbers, element, DimsAttr::get(element.getContext(), dims, symbols));
}
bool hasKnownExtents(Type type) {
  auto tensor = llvm::dyn_cast<RankedTensorType>(type);
  return tensor && (tensor.getEncoding() ? llvm::isa<DimsAttr>(tensor.getEncoding()) : tensor.hasStaticShape());
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

Dim countOf(llvm::ArrayRef<Dim> dims) {
  Dim count = 1;
  int64_t numbers = 1; // multiplied separately, which is fast: most extents are numbers, and every inference calls this
  bool fits = true;
  for (const Dim &dim : dims)
    if (const std::optional<int64_t> number = dim.number()) {
      if (*number == 0)
        return 0;
      fits &= !llvm::MulOverflow(numbers, *number, numbers);
    } else {
      count *= dim;
    }
  return fits ? count * numbers : Dim::invalid();
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

static Type floatNamed(StringRef name, MLIRContext *context) {
  Builder builder(context);
  return llvm::StringSwitch<Type>(name)
      .Case("f64", builder.getF64Type())
      .Case("f32", builder.getF32Type())
      .Case("f16", builder.getF16Type())
      .Case("bf16", builder.getBF16Type())
      .Case("f8E4M3FN", Float8E4M3FNType::get(context))
      .Case("f8E5M2", Float8E5M2Type::get(context))
      .Default(Type());
}

Type elementNamed(StringRef name, MLIRContext *context) {
  const MortiseDTypeInfo *info = mortise_dtype_info(dtypeFromName(std::string_view(name)));
  if (!info)
    return {};
  if (info->kind == MORTISE_KIND_FLOAT)
    return floatNamed(name, context);
  return IntegerType::get(context, info->bits,
                          info->kind == MORTISE_KIND_UNSIGNED ? IntegerType::Unsigned : IntegerType::Signless);
}

StringRef elementName(Type type) {
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (StringRef name = dtypeName(dtype); elementNamed(name, type.getContext()) == type)
      return name;
  return "";
}

std::string elementNames() {
  std::string names;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    names += (dtype > 1 ? ", " : "") + std::string(dtypeName(dtype));
  return names;
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

LogicalResult checkShape(StringRef operand, Value value, llvm::ArrayRef<Dim> shape, const Report &report) {
  Dims found = dimsOf(value);
  if (llvm::equal(found, shape))
    return success();
  return report(operand + " must have shape " + report.text(shape) + ", found " + report.text(found));
}

LogicalResult checkElement(StringRef operand, Value value, Type element, const Report &report) {
  if (elementOf(value) == element)
    return success();
  return report(operand + " must have element type " + text(element) + ", found " + text(elementOf(value)));
}

FailureOr<Axes> numbersOf(StringRef what, llvm::ArrayRef<Dim> dims, const Report &report) {
  Axes numbers;
  for (const Dim &dim : dims) {
    if (!dim.isNumber())
      return report(what + " must be numbers, found the symbolic extent " + report.text(dim));
    numbers.push_back(*dim.number());
  }
  return numbers;
}

Inferred sameType(ValueRange operands, const Report &report) {
  for (Value operand : operands.drop_front())
    if (operand.getType() != operands.front().getType())
      return report.at("same_type_c1")("operands must have one type, found " + report.text(operands.front().getType()) +
                                       " and " + report.text(operand.getType()) + "; broadcast or convert first");
  return shapedAs(operands.front());
}

Inferred reduced(Value operand, llvm::ArrayRef<int64_t> axes, const Report &report) {
  if (failed(checkAscending(axes, rankOf(operand), report)))
    return failure();
  Dims shape;
  for (auto [i, dim] : llvm::enumerate(dimsOf(operand)))
    if (!llvm::is_contained(axes, static_cast<int64_t>(i)))
      shape.push_back(dim);
  return Shaped{elementOf(operand), shape};
}

Inferred argument(Value operand, int64_t axis, const Report &report) {
  if (failed(checkAxis(axis, rankOf(operand), report.at("arg_c1"))))
    return failure();
  Inferred result = reduced(operand, {axis}, report.at("arg_c2"));
  if (Dim extent = dimsOf(operand)[axis]; !report.isAtLeast(extent, 1) && countOf(result->dims) != Dim(0))
    return report("the extent along axis " + llvm::Twine(axis) + " is " + report.text(extent) +
                  (extent.isNumber() ? "" : ", which may be 0") + ", so there is no " +
                  "largest or smallest element: expected at least 1");
  return Shaped{IntegerType::get(operand.getContext(), 64), result->dims};
}

Inferred running(Value operand, int64_t axis, const Report &report) {
  if (failed(checkAxis(axis, rankOf(operand), report.at("running_c1"))))
    return failure();
  return shapedAs(operand);
}

Inferred runningExtreme(Value operand, int64_t axis, const Report &report) {
  if (failed(running(operand, axis, report)))
    return failure();
  return {shapedAs(operand), Shaped{IntegerType::get(operand.getContext(), 64), dimsOf(operand)}};
}

} // namespace mortise::ir
