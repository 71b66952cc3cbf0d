// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "match.hpp"

#include <mlir/Interfaces/InferTypeOpInterface.h>

#include <cmath>
#include <numeric>

namespace mortise::passes::raise {

// ---- Reading

mlir::RankedTensorType typeOf(Value value) { return llvm::cast<mlir::RankedTensorType>(value.getType()); }
mlir::Type elementOf(Value value) { return typeOf(value).getElementType(); }
int64_t rankOf(Value value) { return typeOf(value).getRank(); }

Dims dimsOf(Value value) {
  const auto type = typeOf(value);
  if (auto encoding = llvm::dyn_cast_if_present<ir::DimsAttr>(type.getEncoding()))
    return Dims(encoding.getDims());
  return Dims(type.getShape());
}

ArrayRef<int64_t> numbersOf(ir::DimsAttr extents) {
  return extents.isStatic() ? extents.getNumbers() : ArrayRef<int64_t>();
}

Value stripReshapes(Value value) {
  while (auto reshape = producer<ir::ReshapeOp>(value))
    value = reshape.getOperand();
  return value;
}

Value stripConverts(Value value) {
  while (auto convert = producer<ir::ConvertOp>(value)) {
    if (!llvm::isa<mlir::FloatType>(elementOf(convert.getOperand())) || !llvm::isa<mlir::FloatType>(elementOf(value)))
      break;
    value = convert.getOperand();
  }
  return value;
}

static mlir::DenseElementsAttr splatLiteral(Value value) {
  Operation *op = value.getDefiningOp();
  while (llvm::isa_and_present<ir::BroadcastOp, ir::ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  auto constant = llvm::dyn_cast_if_present<ir::ConstantOp>(op);
  auto elements = constant ? llvm::dyn_cast<mlir::DenseElementsAttr>(constant.getValue()) : mlir::DenseElementsAttr();
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

Value scaledBy(Value value, double &factor) {
  if (auto mul = producer<ir::MulOp>(value))
    for (unsigned i : {0u, 1u})
      if (const std::optional<double> number = splat(mul->getOperand(i));
          number && std::isfinite(*number) && *number != 0) {
        factor *= *number;
        return mul->getOperand(1 - i);
      }
  if (auto div = producer<ir::DivOp>(value))
    if (const std::optional<double> number = splat(div.getRhs()); number && std::isfinite(*number) && *number != 0) {
      factor /= *number;
      return div.getLhs();
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
    if (auto mul = producer<ir::MulOp>(value))
      return takeApart(mul.getLhs(), false, product) && takeApart(mul.getRhs(), false, product);
    if (auto neg = producer<ir::NegOp>(value)) {
      product.constant = -product.constant;
      return takeApart(neg.getOperand(), false, product);
    }
    auto div = producer<ir::DivOp>(value);
    if (const std::optional<double> divisor = div ? number(div.getRhs()) : std::nullopt) {
      product.constant /= *divisor;
      return takeApart(div.getLhs(), false, product);
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
  auto broadcast = producer<ir::BroadcastOp>(value);
  if (!broadcast || ArrayRef<Dim>(dimsOf(value)) != shape)
    return {};
  Value operand = broadcast.getOperand();
  const ArrayRef<int64_t> to = broadcast.getAxes();
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
  if (auto mean = producer<ir::MeanOp>(value))
    return Mean{mean.getOperand(), mean.getAxes()};
  double factor = 1;
  Value inner = scaledBy(value, factor);
  auto sum = inner ? producer<ir::ReduceSumOp>(stripReshapes(inner)) : nullptr;
  if (!sum)
    return std::nullopt;
  const std::optional<int64_t> count = countAlong(sum.getOperand(), sum.getAxes());
  if (!count || std::abs(factor * static_cast<double>(*count) - 1) > 1e-6)
    return std::nullopt;
  return Mean{sum.getOperand(), sum.getAxes()};
}

// ---- Writing

Value makeOp(PatternRewriter &rewriter, mlir::Location location, mlir::RegisteredOperationName name,
             mlir::ValueRange operands, mlir::OpaqueProperties properties) {
  if (llvm::is_contained(operands, Value()))
    return {};
  llvm::SmallVector<mlir::Type> types;
  mlir::ScopedDiagnosticHandler quiet(rewriter.getContext(), [](mlir::Diagnostic &) { return mlir::success(); });
  const auto *inference = name.getInterface<mlir::InferTypeOpInterface>();
  if (!inference ||
      mlir::failed(inference->inferReturnTypes(rewriter.getContext(), location, operands, mlir::DictionaryAttr(),
                                               properties, {}, types)) ||
      types.size() != 1)
    return {};
  Operation *op = Operation::create(location, name, types, operands, mlir::NamedAttrList(), properties);
  if (mlir::failed(name.verifyInvariants(op))) { // type inference does not check element types
    op->destroy();
    return {};
  }
  return rewriter.insert(op)->getResult(0);
}

mlir::LogicalResult replaceBy(PatternRewriter &rewriter, Operation *op, Value value) {
  if (!value || value.getType() != op->getResult(0).getType())
    return mlir::failure(); // the ops made for it have no user and are erased later
  rewriter.replaceOp(op, value);
  return mlir::success();
}
mlir::Location placeOf(Operation *op, Operation *heart) {
  return heart ? mlir::FusedLoc::get(op->getContext(), {heart->getLoc(), op->getLoc()}) : op->getLoc();
}

static ir::DimsAttr extents(Value from, ArrayRef<Dim> shape) {
  auto encoding = llvm::dyn_cast_if_present<ir::DimsAttr>(typeOf(from).getEncoding());
  return ir::DimsAttr::get(from.getContext(), shape, encoding ? encoding.getSymbols() : ir::SymbolsAttr());
}

Value reshapeTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape) {
  if (!value || ArrayRef<Dim>(dimsOf(value)) == shape)
    return value;
  return make<ir::ReshapeOp>(rewriter, value.getLoc(), value, {.shape = extents(value, shape)});
}
Value transposed(PatternRewriter &rewriter, Value value, ArrayRef<int64_t> permutation) {
  return make<ir::TransposeOp>(rewriter, value.getLoc(), value,
                               {.permutation = rewriter.getDenseI64ArrayAttr(permutation)});
}
Value broadcastTo(PatternRewriter &rewriter, Value value, ArrayRef<Dim> shape, ArrayRef<int64_t> axes, Value of) {
  if (!value || ArrayRef<Dim>(dimsOf(value)) == shape)
    return value;
  return make<ir::BroadcastOp>(rewriter, value.getLoc(), value,
                               {.axes = rewriter.getDenseI64ArrayAttr(axes), .shape = extents(of ? of : value, shape)});
}
Value broadcastLike(PatternRewriter &rewriter, Value value, Value like, ArrayRef<int64_t> axes) {
  return broadcastTo(rewriter, value, dimsOf(like), axes, like);
}
Value filled(PatternRewriter &rewriter, mlir::Location location, double number, Value like) {
  const auto scalar = mlir::RankedTensorType::get({}, elementOf(like));
  const auto value =
      mlir::DenseElementsAttr::get(scalar, mlir::Attribute(rewriter.getFloatAttr(elementOf(like), number)));
  Value made = make<ir::ConstantOp>(rewriter, location, {}, {.value = value});
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
  // All leading extents are 1, so there is no broadcast.
  const bool alone = llvm::all_of(ArrayRef<Dim>(shape).take_front(static_cast<size_t>(axis)),
                                  [](const Dim &dim) { return dim == Dim(1); });
  return alone && producer<ir::ReshapeOp>(value) ? reshapeTo(rewriter, value, rest) : Value();
}

Value along(PatternRewriter &rewriter, Value value, int64_t axis) {
  const Dims shape = dimsOf(value);
  Value operand = repeatedAlong(value, allBut(rankOf(value), axis), shape);
  return operand ? reshapeTo(rewriter, operand, shape[static_cast<size_t>(axis)]) : Value();
}

Value unrepeated(PatternRewriter &rewriter, Value value) {
  auto broadcast = producer<ir::BroadcastOp>(value);
  if (!broadcast)
    return value;
  const ArrayRef<int64_t> axes = broadcast.getAxes();
  const Dims extents = dimsOf(broadcast.getOperand());
  Dims shape(static_cast<size_t>(rankOf(value)), Dim(1));
  for (size_t i = 0; i < axes.size(); ++i)
    shape[static_cast<size_t>(axes[i])] = extents[i];
  return reshapeTo(rewriter, broadcast.getOperand(), shape);
}

} // namespace mortise::passes::raise
