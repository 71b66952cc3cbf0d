// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "types.hpp"

#include <mortise/symbols.hpp>

#include <mlir/Dialect/Func/IR/FuncOps.h>

#include <cstddef>
#include <cstring>

using namespace mlir;

namespace mortise::ir {
namespace {

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

const char *kindName(int32_t kind) {
  static const char *const names[] = {"?", "bool", "i64", "f64", "string", "i64 array", "f64 array", "tensor"};
  return names[kind >= MORTISE_ATTRIBUTE_BOOL && kind <= MORTISE_ATTRIBUTE_TENSOR ? kind : 0];
}

bool takesBytes(int64_t bits) { return bits >= 8; } // MLIR and the C view store i1 and i4 differently

Result<Attribute> tensorFrom(const MortiseAttribute &attribute, MLIRContext *context) {
  std::string what = std::string("attribute '") + attribute.name + "'";
  if (!attribute.tensor_type)
    return invalid(what + " has no tensor type");
  Result<RankedTensorType> type = typeFrom(*attribute.tensor_type, what, SymbolsAttr(), context);
  if (!type)
    return type.error();
  size_t expected = byteSize(*attribute.tensor_type);
  if (attribute.count != expected || (expected && !attribute.tensor_data))
    return invalid(what + " of type " + text(*type) + " must have " + std::to_string(expected) + " bytes, found " +
                   std::to_string(attribute.tensor_data ? attribute.count : 0));
  const char *data = static_cast<const char *>(attribute.tensor_data);
  int64_t count = (*type).getNumElements();
  unsigned bits = (*type).getElementTypeBitWidth();
  if (takesBytes(bits)) {
    size_t size = bits / 8;
    bool splat = count > 0;
    for (int64_t i = 1; splat && i < count; ++i)
      splat = std::memcmp(data, data + i * size, size) == 0;
    return Attribute(DenseElementsAttr::getFromRawBuffer(*type, {data, splat ? size : expected}));
  }
  llvm::SmallVector<Attribute> elements;
  for (int64_t i = 0; i < count; ++i) {
    int value = bits == 1 ? data[i] != 0 : (data[i / 2] >> (i % 2 * 4)) & 15;
    elements.push_back(IntegerAttr::get((*type).getElementType(), llvm::APInt(bits, value)));
  }
  return Attribute(DenseElementsAttr::get(*type, elements));
}

std::vector<char> bytesOf(DenseElementsAttr elements) {
  auto count = static_cast<size_t>(elements.getNumElements());
  unsigned bits = elements.getElementType().getIntOrFloatBitWidth();
  std::vector<char> bytes;
  if (takesBytes(bits)) {
    ArrayRef<char> raw = elements.getRawData();
    for (size_t i = 0; count && i < (elements.isSplat() ? count : 1); ++i)
      bytes.insert(bytes.end(), raw.begin(), raw.end());
    return bytes;
  }
  bytes.resize(bits == 1 ? count : (count + 1) / 2);
  size_t i = 0;
  for (llvm::APInt value : elements.getValues<llvm::APInt>()) {
    auto low = static_cast<unsigned>(value.getZExtValue());
    bytes[bits == 1 ? i : i / 2] |= static_cast<char>(bits == 1 ? low : low << (i % 2 * 4));
    ++i;
  }
  return bytes;
}

} // namespace

// The entries of an array: numbers, or expressions from `exprs` where the number is MORTISE_DYNAMIC.
static Result<Dims> dimsFrom(llvm::ArrayRef<int64_t> numbers, const MortiseExpr *exprs, const std::string &what,
                             SymbolsAttr symbols) {
  Dims dims;
  for (auto [i, number] : llvm::enumerate(numbers)) {
    if (number != MORTISE_DYNAMIC) {
      dims.emplace_back(number);
      continue;
    }
    if (!exprs || !exprs[i].steps)
      return invalid(what + ": entry " + std::to_string(i) + " is symbolic and has no expression");
    Result<Dim> dim = Dim::from(exprs[i], symbols ? symbols.getNames().size() : 0);
    if (!dim)
      return invalid(what + ": entry " + std::to_string(i) + ": " + dim.error().message);
    dims.push_back(std::move(*dim));
  }
  return dims;
}

Result<RankedTensorType> typeFrom(const MortiseType &type, const std::string &what, SymbolsAttr symbols,
                                  MLIRContext *context) {
  Type element = elementNamed(dtypeName(type.dtype), context);
  if (!element)
    return invalid(what + ": dtype " + std::to_string(type.dtype) + " is none of MortiseDType");
  if (type.rank < 0 || (type.rank > 0 && !type.dims))
    return invalid(what + ": expected a rank of 0 or more and that many dims, found rank " + std::to_string(type.rank));
  Result<Dims> shape = dimsFrom(llvm::ArrayRef(type.dims, type.rank), type.dim_exprs, what, symbols);
  if (!shape)
    return shape.error();
  llvm::SmallVector<SymbolRange> ranges = symbols ? symbols.getRanges() : llvm::SmallVector<SymbolRange>();
  for (auto [i, dim] : llvm::enumerate(*shape)) {
    dim = simplify(dim, ranges);
    if (bounds(dim, ranges).low < 0)
      return invalid(what + ": extent " + std::to_string(i) + " of " + typeString(type) + " is negative" +
                     (dim.isNumber() ? "" : " for some values of its symbols"));
  }
  Dim count = countOf(*shape);
  if (!count.isValid() || bounds(count, ranges).low > INT64_MAX / 8)
    return invalid(what + ": " + typeString(type) + " has more bytes than a machine can address");
  if (type.strides && count != Dim(0) && count != Dim(1)) {
    Dim stride = 1;
    const std::vector<Dim> strides = stridesOf(type);
    for (int32_t i = type.rank; i-- > 0; stride *= (*shape)[i])
      if ((*shape)[i] != Dim(1) && strides[i] != stride)
        return Error{MORTISE_UNSUPPORTED, what + ": strides of " + typeString(type) +
                                              " must be dense row-major; make the tensor contiguous, or transpose"};
  }
  return tensorType(*shape, element, symbols);
}

// `extents`: the attribute holds extents, whose entries may be symbolic.
static Result<Attribute> integersFrom(const MortiseAttribute &attribute, bool extents, SymbolsAttr symbols,
                                      MLIRContext *context) {
  llvm::ArrayRef<int64_t> numbers(attribute.i64s, attribute.count);
  bool symbolic = llvm::is_contained(numbers, MORTISE_DYNAMIC);
  std::string what = std::string("attribute '") + attribute.name + "'";
  if (!extents) {
    if (symbolic)
      return invalid(what + ": expected numbers, found a symbolic entry");
    return Attribute(DenseI64ArrayAttr::get(context, numbers));
  }
  if (!symbolic)
    return Attribute(DimsAttr::get(context, numbers));
  Result<Dims> dims = dimsFrom(numbers, exprsOf(attribute), what, symbols);
  if (!dims)
    return dims.error();
  return Attribute(DimsAttr::get(context, *dims, symbols));
}

Result<Attribute> attributeFrom(const MortiseAttribute &attribute, llvm::StringRef storage, SymbolsAttr symbols,
                                MLIRContext *context) {
  Builder builder(context);
  auto mismatch = [&](int32_t expected) {
    return invalid(std::string("attribute '") + attribute.name + "' must be of kind " + kindName(expected) +
                   ", found " + kindName(attribute.kind));
  };
  int32_t expected = llvm::StringSwitch<int32_t>(storage)
                         .Case("::mlir::BoolAttr", MORTISE_ATTRIBUTE_BOOL)
                         .Case("::mlir::IntegerAttr", MORTISE_ATTRIBUTE_I64)
                         .Case("::mlir::FloatAttr", MORTISE_ATTRIBUTE_F64)
                         .Case("::mlir::StringAttr", MORTISE_ATTRIBUTE_STRING)
                         .Case("::mlir::DenseI64ArrayAttr", MORTISE_ATTRIBUTE_I64_ARRAY)
                         .Case("::mortise::ir::DimsAttr", MORTISE_ATTRIBUTE_I64_ARRAY)
                         .Case("::mlir::DenseF64ArrayAttr", MORTISE_ATTRIBUTE_F64_ARRAY)
                         .Default(MORTISE_ATTRIBUTE_TENSOR);
  if (attribute.kind != expected)
    return mismatch(expected);
  switch (expected) {
  case MORTISE_ATTRIBUTE_BOOL:
    return Attribute(builder.getBoolAttr(attribute.i64 != 0));
  case MORTISE_ATTRIBUTE_I64:
    return Attribute(builder.getI64IntegerAttr(attribute.i64));
  case MORTISE_ATTRIBUTE_F64:
    return Attribute(builder.getF64FloatAttr(attribute.f64));
  case MORTISE_ATTRIBUTE_STRING:
    return Attribute(builder.getStringAttr(attribute.string ? attribute.string : ""));
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    if (attribute.count && !attribute.i64s)
      return invalid(std::string("attribute '") + attribute.name + "' has a count but no numbers");
    return integersFrom(attribute, storage == "::mortise::ir::DimsAttr", symbols, context);
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    if (attribute.count && !attribute.f64s)
      return invalid(std::string("attribute '") + attribute.name + "' has a count but no numbers");
    return Attribute(builder.getDenseF64ArrayAttr({attribute.f64s, attribute.count}));
  default:
    return tensorFrom(attribute, context);
  }
}

CExprs::CExprs(llvm::ArrayRef<Dim> dims) {
  for (const Dim &dim : dims)
    steps.push_back(dim.steps());
  for (const std::vector<MortiseExprStep> &program : steps)
    exprs.push_back({program.data(), program.size()});
}

CType::CType(RankedTensorType from) : dims(from.getShape()) {
  type.struct_size = sizeof(MortiseType);
  type.dtype = dtypeFromName(std::string_view(elementName(from.getElementType())));
  type.rank = static_cast<int32_t>(dims.size());
  type.dims = dims.empty() ? nullptr : dims.data();
  if (!from.hasStaticShape()) {
    exprs = std::make_unique<CExprs>(dimsOf(from));
    type.dim_exprs = exprs->exprs.data();
  }
}

CAttribute::CAttribute(llvm::StringRef name, Attribute from) : name(name) {
  attribute.struct_size = sizeof(MortiseAttribute);
  attribute.name = this->name.c_str();
  auto setInts = [&](ArrayRef<int64_t> values) {
    attribute.kind = MORTISE_ATTRIBUTE_I64_ARRAY;
    integers.assign(values.begin(), values.end());
    attribute.i64s = integers.data();
    attribute.count = integers.size();
  };
  if (auto boolean = llvm::dyn_cast<BoolAttr>(from)) {
    attribute.kind = MORTISE_ATTRIBUTE_BOOL;
    attribute.i64 = boolean.getValue();
  } else if (auto integer = llvm::dyn_cast<IntegerAttr>(from); integer && integer.getType().isSignlessInteger(64)) {
    attribute.kind = MORTISE_ATTRIBUTE_I64;
    attribute.i64 = integer.getInt();
  } else if (auto real = llvm::dyn_cast<FloatAttr>(from); real && real.getType().isF64()) {
    attribute.kind = MORTISE_ATTRIBUTE_F64;
    attribute.f64 = real.getValueAsDouble();
  } else if (auto characters = llvm::dyn_cast<StringAttr>(from)) {
    attribute.kind = MORTISE_ATTRIBUTE_STRING;
    string = characters.str();
    attribute.string = string.c_str();
  } else if (auto array = llvm::dyn_cast<DenseI64ArrayAttr>(from)) {
    setInts(array.asArrayRef());
  } else if (auto extents = llvm::dyn_cast<DimsAttr>(from)) {
    setInts(extents.getNumbers());
    if (!extents.isStatic()) {
      exprs = std::make_unique<CExprs>(extents.getDims());
      attribute.exprs = exprs->exprs.data();
    }
  } else if (auto array = llvm::dyn_cast<DenseF64ArrayAttr>(from)) {
    attribute.kind = MORTISE_ATTRIBUTE_F64_ARRAY;
    reals.assign(array.asArrayRef().begin(), array.asArrayRef().end());
    attribute.f64s = reals.data();
    attribute.count = reals.size();
  } else if (auto elements = llvm::dyn_cast<DenseElementsAttr>(from);
             elements && llvm::isa<RankedTensorType>(elements.getType())) {
    attribute.kind = MORTISE_ATTRIBUTE_TENSOR;
    tensor = std::make_unique<CType>(llvm::cast<RankedTensorType>(elements.getType()));
    bytes = bytesOf(elements);
    attribute.tensor_type = &tensor->type;
    attribute.tensor_data = bytes.data();
    attribute.count = bytes.size();
  } else {
    error = "attribute '" + this->name + "' has no form in the portable format";
  }
}

SymbolList::SymbolList(SymbolsAttr table) : table(table) {
  for (size_t i = 0; table && i < table.getNames().size(); ++i) {
    SymbolRange range = table.getRanges()[i];
    names.push_back(table.getNames()[i].str());
    symbols.push_back({sizeof(MortiseSymbol), nullptr, names.back().c_str(), range.min, range.max, range.divisor});
    pointers.push_back(&symbols.back());
  }
}

SymbolsAttr symbolTable(func::FuncOp function) {
  if (auto declared = function->getAttrOfType<SymbolsAttr>("mortise.symbols"))
    return declared;
  for (Type type : function.getArgumentTypes())
    if (SymbolsAttr table = symbolsOf(type))
      return table;
  return {};
}

std::string locationText(Location location) {
  if (auto named = llvm::dyn_cast<NameLoc>(location))
    return named.getName().str();
  if (auto file = llvm::dyn_cast<FileLineColLoc>(location))
    return file.getFilename().str() + ":" + std::to_string(file.getLine()) + ":" + std::to_string(file.getColumn());
  if (auto fused = llvm::dyn_cast<FusedLoc>(location))
    for (Location part : fused.getLocations())
      if (std::string found = locationText(part); !found.empty())
        return found;
  if (auto call = llvm::dyn_cast<CallSiteLoc>(location))
    return locationText(call.getCallee());
  return "";
}

std::vector<OperandSlot> operandSlots(llvm::StringRef slots) {
  std::vector<OperandSlot> result;
  while (!slots.empty()) {
    auto [name, rest] = slots.split(',');
    slots = rest;
    result.push_back({name.rtrim("?*"), name.ends_with("?"), name.ends_with("*")});
  }
  return result;
}

std::vector<AttributeSlot> attributeSlots(llvm::StringRef slots) {
  std::vector<AttributeSlot> result;
  while (!slots.empty()) {
    auto [slot, rest] = slots.split(',');
    slots = rest;
    auto [name, storage] = slot.split('=');
    result.push_back({name, storage.trim()});
  }
  return result;
}

} // namespace mortise::ir
