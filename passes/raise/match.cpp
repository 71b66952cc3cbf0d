// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "match.hpp"

#include <mlir/Interfaces/InferTypeOpInterface.h>

#include <cmath>
#include <numeric>

namespace mortise::passes::raise {

// ---- Reading

Operation *producer(Value value, StringRef name) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  return op && op->getName().getStringRef() == name ? op : nullptr;
}

mlir::RankedTensorType typeOf(Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
mlir::Type elementOf(Value value) { return typeOf(value).getElementType(); }
int64_t rankOf(Value value) { return typeOf(value).getRank(); }

Dims dimsOf(Value value) {
  const auto type = typeOf(value);
  if (auto encoding = llvm::dyn_cast_if_present<ir::DimsAttr>(type.getEncoding()))
    return Dims(encoding.getDims());
  return Dims(type.getShape());
}

mlir::Attribute attribute(Operation *op, StringRef name) {
  return op->getInherentAttr(name).value_or(mlir::Attribute());
}

ArrayRef<int64_t> ints(Operation *op, StringRef name) {
  const mlir::Attribute found = attribute(op, name);
  if (auto extents = llvm::dyn_cast_if_present<ir::DimsAttr>(found))
    return extents.isStatic() ? extents.getNumbers() : ArrayRef<int64_t>();
  auto array = llvm::dyn_cast_if_present<mlir::DenseI64ArrayAttr>(found);
  return array ? array.asArrayRef() : ArrayRef<int64_t>();
}
int64_t intOf(Operation *op, StringRef name) { return llvm::cast<mlir::IntegerAttr>(attribute(op, name)).getInt(); }
bool boolOf(Operation *op, StringRef name) { return llvm::cast<mlir::BoolAttr>(attribute(op, name)).getValue(); }
StringRef stringOf(Operation *op, StringRef name) {
  return llvm::cast<mlir::StringAttr>(attribute(op, name)).getValue();
}

Value stripReshapes(Value value) {
  while (Operation *op = producer(value, "mortise.reshape"))
    value = op->getOperand(0);
  return value;
}

Value stripConverts(Value value) {
  while (Operation *op = producer(value, "mortise.convert")) {
    if (!llvm::isa<mlir::FloatType>(elementOf(op->getOperand(0))) || !llvm::isa<mlir::FloatType>(elementOf(value)))
      break;
    value = op->getOperand(0);
  }
  return value;
}

static mlir::DenseElementsAttr splatLiteral(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    const StringRef name = op->getName().getStringRef();
    if (name != "mortise.broadcast" && name != "mortise.reshape")
      break;
    value = op->getOperand(0);
  }
  Operation *op = producer(value, "mortise.constant");
  auto elements =
      op ? llvm::dyn_cast_if_present<mlir::DenseElementsAttr>(attribute(op, "value")) : mlir::DenseElementsAttr();
  return elements && elements.isSplat() ? elements : mlir::DenseElementsAttr();
}

std::optional<double> splat(Value value) {
  const mlir::DenseElementsAttr elements = splatLiteral(value);
  if (!elements || !llvm::isa<mlir::FloatType>(elements.getElementType()))
    return std::nullopt;
  llvm::APFloat number = elements.getSplatValue<llvm::APFloat>();
  bool lost = false;
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return number.convertToDouble();
}

std::optional<int64_t> integerSplat(Value value) {
  const mlir::DenseElementsAttr elements = splatLiteral(value);
  auto type = elements ? llvm::dyn_cast<mlir::IntegerType>(elements.getElementType()) : mlir::IntegerType();
  if (!type || type.getWidth() < 8)
    return std::nullopt;
  const auto number = elements.getSplatValue<llvm::APInt>();
  return type.isUnsigned() ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
}

bool isSplat(Value value, double number) {
  const std::optional<double> found = splat(value);
  return found && std::abs(*found - number) <= 1e-6 * std::abs(number);
}

std::optional<int64_t> countAlong(Value value, ArrayRef<int64_t> axes) {
  const Dims dims = dimsOf(value);
  Dim count = 1;
  for (int64_t axis : axes)
    count *= dims[static_cast<size_t>(axis)];
  return count.number();
}

Value otherThan(Value value, StringRef name, double number) {
  if (Operation *op = producer(value, name))
    for (unsigned i : {0u, 1u})
      if (isSplat(op->getOperand(i), number))
        return op->getOperand(1 - i);
  return {};
}

Value scaledBy(Value value, double &factor) {
  if (Operation *op = producer(value, "mortise.mul"))
    for (unsigned i : {0u, 1u})
      if (const std::optional<double> number = splat(op->getOperand(i));
          number && std::isfinite(*number) && *number != 0) {
        factor *= *number;
        return op->getOperand(1 - i);
      }
  if (Operation *op = producer(value, "mortise.div"))
    if (const std::optional<double> number = splat(op->getOperand(1));
        number && std::isfinite(*number) && *number != 0) {
      factor /= *number;
      return op->getOperand(0);
    }
  return {};
}

static bool takeApart(Value value, bool isWhole, Product &product) {
  const auto number = [](Value of) -> std::optional<double> {
    const std::optional<double> found = splat(of);
    return found && std::isfinite(*found) && *found != 0 ? found : std::nullopt;
  };
  if (const std::optional<double> constant = number(value)) {
    product.constant *= *constant;
    return true;
  }
  if (isWhole || value.hasOneUse()) {
    if (Operation *mul = producer(value, "mortise.mul"))
      return takeApart(mul->getOperand(0), false, product) && takeApart(mul->getOperand(1), false, product);
    if (Operation *neg = producer(value, "mortise.neg")) {
      product.constant = -product.constant;
      return takeApart(neg->getOperand(0), false, product);
    }
    Operation *div = producer(value, "mortise.div");
    if (const std::optional<double> divisor = div ? number(div->getOperand(1)) : std::nullopt) {
      product.constant /= *divisor;
      return takeApart(div->getOperand(0), false, product);
    }
  }
  product.factors.push_back(value);
  return product.factors.size() <= 4;
}
std::optional<Product> productOf(Value value) {
  Product product;
  return takeApart(value, true, product) ? std::optional(product) : std::nullopt;
}

Ints range(int64_t first, int64_t last) {
  Ints list(static_cast<size_t>(std::max<int64_t>(0, last - first)));
  std::iota(list.begin(), list.end(), first);
  return list;
}
Ints allBut(int64_t rank, int64_t axis) {
  Ints list = range(0, rank);
  list.erase(list.begin() + axis);
  return list;
}

Value repeatedAlong(Value value, ArrayRef<int64_t> axes, ArrayRef<Dim> shape) {
  Operation *broadcast = producer(value, "mortise.broadcast");
  if (!broadcast || ArrayRef<Dim>(dimsOf(value)) != shape)
    return {};
  Value operand = broadcast->getOperand(0);
  const ArrayRef<int64_t> to = ints(broadcast, "axes");
  const Dims extents = dimsOf(operand);
  Dims kept(shape), seen(shape.size(), Dim(1));
  for (int64_t axis : axes)
    kept[static_cast<size_t>(axis)] = 1;
  for (size_t i = 0; i < to.size(); ++i)
    seen[static_cast<size_t>(to[i])] = extents[i];
  return seen == kept ? operand : Value();
}

std::optional<Mean> meanOf(Value value) {
  value = stripReshapes(value);
  if (Operation *mean = producer(value, "mortise.mean"))
    return Mean{mean->getOperand(0), ints(mean, "axes")};
  double factor = 1;
  Value inner = scaledBy(value, factor);
  Operation *sum = inner ? producer(stripReshapes(inner), "mortise.reduce_sum") : nullptr;
  if (!sum)
    return std::nullopt;
  const std::optional<int64_t> count = countAlong(sum->getOperand(0), ints(sum, "axes"));
  if (!count || std::abs(factor * static_cast<double>(*count) - 1) > 1e-6)
    return std::nullopt;
  return Mean{sum->getOperand(0), ints(sum, "axes")};
}

// ---- Writing

Attributes &Attributes::add(StringRef name, mlir::Attribute value) {
  list.emplace_back(rewriter.getStringAttr(name), value);
  return *this;
}
Attributes &Attributes::integer(StringRef name, int64_t value) { return add(name, rewriter.getI64IntegerAttr(value)); }
Attributes &Attributes::number(StringRef name, double value) { return add(name, rewriter.getF64FloatAttr(value)); }
Attributes &Attributes::boolean(StringRef name, bool value) { return add(name, rewriter.getBoolAttr(value)); }
Attributes &Attributes::string(StringRef name, StringRef value) { return add(name, rewriter.getStringAttr(value)); }
Attributes &Attributes::array(StringRef name, ArrayRef<int64_t> value) {
  return add(name, rewriter.getDenseI64ArrayAttr(value));
}
Attributes &Attributes::segments(ArrayRef<int32_t> sizes) {
  return add("operandSegmentSizes", rewriter.getDenseI32ArrayAttr(sizes));
}

Attributes &Attributes::all(Operation *op) {
  llvm::append_range(list, op->getAttrDictionary());
  return *this;
}

bool isKnown(mlir::MLIRContext *context, StringRef op) {
  return mlir::RegisteredOperationName::lookup(op, context).has_value();
}

Value make(PatternRewriter &rewriter, mlir::Location location, StringRef name, mlir::ValueRange operands,
           const Attributes &attributes) {
  const auto registered = mlir::RegisteredOperationName::lookup(name, rewriter.getContext());
  if (!registered || llvm::is_contained(operands, Value()))
    return {};
  // Inference needs the properties, which live in an op.
  mlir::OperationState state(location, name, operands, mlir::RankedTensorType::get({}, rewriter.getF32Type()),
                             attributes.list);
  Operation *op = Operation::create(state);
  llvm::SmallVector<mlir::Type> types;
  mlir::ScopedDiagnosticHandler quiet(rewriter.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  const auto *inference = registered->getInterface<mlir::InferTypeOpInterface>();
  if (!inference ||
      mlir::failed(inference->inferReturnTypes(rewriter.getContext(), location, operands, mlir::DictionaryAttr(),
                                               op->getPropertiesStorage(), {}, types)) ||
      types.size() != 1) {
    op->destroy();
    return {};
  }
  op->getResult(0).setType(types[0]);
  if (mlir::failed(registered->verifyInvariants(op))) { // element types that inference does not look at
    op->destroy();
    return {};
  }
  return rewriter.insert(op)->getResult(0);
}
Value make(PatternRewriter &rewriter, mlir::Location location, StringRef name, mlir::ValueRange operands) {
  return make(rewriter, location, name, operands, Attributes(rewriter));
}

mlir::LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value) {
  if (!value || value.getType() != op->getResult(0).getType())
    return mlir::failure(); // what was made for it has no user and is dropped
  rewriter.replaceOp(op, value);
  return mlir::success();
}
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, StringRef name, mlir::ValueRange operands,
                            const Attributes &attributes, Operation *heart) {
  const mlir::Location place =
      heart ? mlir::FusedLoc::get(op->getContext(), {heart->getLoc(), op->getLoc()}) : op->getLoc();
  return replaceBy(rewriter, op, make(rewriter, place, name, operands, attributes));
}
mlir::LogicalResult replace(PatternRewriter &rewriter, Operation *op, StringRef name, mlir::ValueRange operands) {
  return replace(rewriter, op, name, operands, Attributes(rewriter));
}

static ir::DimsAttr extents(Value from, ArrayRef<Dim> shape) {
  auto encoding = llvm::dyn_cast_if_present<ir::DimsAttr>(typeOf(from).getEncoding());
  return ir::DimsAttr::get(from.getContext(), shape, encoding ? encoding.getSymbols() : ir::SymbolsAttr());
}

Value reshapeTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape) {
  if (!value || ArrayRef<Dim>(dimsOf(value)) == shape)
    return value;
  return make(rewriter, value.getLoc(), "mortise.reshape", value,
              Attributes(rewriter).add("shape", extents(value, shape)));
}
Value transposed(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> permutation) {
  return make(rewriter, value.getLoc(), "mortise.transpose", value,
              Attributes(rewriter).array("permutation", permutation));
}
Value broadcastTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape, ArrayRef<int64_t> axes, Value of) {
  if (!value || ArrayRef<Dim>(dimsOf(value)) == shape)
    return value;
  return make(rewriter, value.getLoc(), "mortise.broadcast", value,
              Attributes(rewriter).add("shape", extents(of ? of : value, shape)).array("axes", axes));
}
Value broadcastLike(PatternRewriter &rewriter, Value value, Value like, ArrayRef<int64_t> axes) {
  return broadcastTo(rewriter, value, dimsOf(like), axes, like);
}
Value filled(PatternRewriter &rewriter, mlir::Location location, double number, Value like) {
  const auto scalar = mlir::RankedTensorType::get({}, elementOf(like));
  const auto value =
      mlir::DenseElementsAttr::get(scalar, mlir::Attribute(rewriter.getFloatAttr(elementOf(like), number)));
  Value made = make(rewriter, location, "mortise.constant", {}, Attributes(rewriter).add("value", value));
  if (!made || rankOf(like) == 0)
    return made;
  return broadcastLike(rewriter, made, like, {});
}

Value trailing(PatternRewriter &rewriter, Value value, int64_t axis) {
  const Dims shape = dimsOf(value);
  const ArrayRef<Dim> rest = ArrayRef<Dim>(shape).drop_front(static_cast<size_t>(axis));
  if (axis == 0)
    return value;
  if (Value operand = repeatedAlong(value, range(0, axis), shape))
    return reshapeTo(rewriter, operand, rest);
  // Nothing to repeat: all leading extents are 1.
  const bool alone = llvm::all_of(ArrayRef<Dim>(shape).take_front(static_cast<size_t>(axis)),
                                  [](const Dim &dim) { return dim == Dim(1); });
  return alone && producer(value, "mortise.reshape") ? reshapeTo(rewriter, value, rest) : Value();
}

Value along(PatternRewriter &rewriter, Value value, int64_t axis) {
  const Dims shape = dimsOf(value);
  Value operand = repeatedAlong(value, allBut(rankOf(value), axis), shape);
  return operand ? reshapeTo(rewriter, operand, shape[static_cast<size_t>(axis)]) : Value();
}

Value unrepeated(PatternRewriter &rewriter, Value value) {
  Operation *broadcast = producer(value, "mortise.broadcast");
  if (!broadcast)
    return value;
  const ArrayRef<int64_t> axes = ints(broadcast, "axes");
  const Dims extents = dimsOf(broadcast->getOperand(0));
  Dims shape(static_cast<size_t>(rankOf(value)), Dim(1));
  for (size_t i = 0; i < axes.size(); ++i)
    shape[static_cast<size_t>(axes[i])] = extents[i];
  return reshapeTo(rewriter, broadcast->getOperand(0), shape);
}

} // namespace mortise::passes::raise
