// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers for writing decompositions. The .cpp of a family with composites includes this instead of the family's
// .h.inc.
#pragma once

#include "infer.hpp"

#include <mortise/ir/ops.hpp>

#include <mlir/IR/PatternMatch.h>

namespace mortise::ir {

// Inserts ops before the op that is decomposed.
struct Writer {
  mlir::RewriterBase &rewriter;
  mlir::Location location;
  SymbolsAttr symbols; // the function's table; NULL when the op is static

  template <typename OpT, typename... Args> mlir::Value make(Args &&...args) {
    return OpT::create(rewriter, location, std::forward<Args>(args)...);
  }
  template <typename OpT> mlir::Value binary(mlir::Value lhs, mlir::Value rhs) { return make<OpT>(lhs, rhs); }

  mlir::Value scalar(double number, mlir::Type element) {
    mlir::Attribute attribute = llvm::isa<mlir::FloatType>(element)
                                    ? mlir::Attribute(rewriter.getFloatAttr(element, number))
                                    : rewriter.getIntegerAttr(element, static_cast<int64_t>(number));
    return make<ConstantOp>(mlir::DenseElementsAttr::get(mlir::RankedTensorType::get({}, element), attribute));
  }
  DimsAttr extents(llvm::ArrayRef<Dim> dims) { return DimsAttr::get(rewriter.getContext(), dims, symbols); }
  mlir::Value broadcast(mlir::Value operand, llvm::ArrayRef<Dim> shape, llvm::ArrayRef<int64_t> axes) {
    return make<BroadcastOp>(operand, extents(shape), rewriter.getDenseI64ArrayAttr(axes));
  }
  // `operand` broadcast to `shape`, with its dimensions at `axes`; `operand` itself when it has that shape.
  mlir::Value spread(mlir::Value operand, llvm::ArrayRef<Dim> shape, llvm::ArrayRef<int64_t> axes) {
    return llvm::equal(dimsOf(operand), shape) ? operand : broadcast(operand, shape, axes);
  }
  mlir::Value fill(double number, mlir::Value like) {
    return spread(scalar(number, elementOf(like)), dimsOf(like), {});
  }
  mlir::Value iota(llvm::ArrayRef<Dim> shape, mlir::Type element, int64_t axis) {
    return make<IotaOp>(extents(shape), rewriter.getStringAttr(elementName(element)), rewriter.getI64IntegerAttr(axis));
  }
  mlir::Value times(mlir::Value x, double number) { return make<MulOp>(x, fill(number, x)); }
  mlir::Value plus(mlir::Value x, double number) { return make<AddOp>(x, fill(number, x)); }
  mlir::Value reshaped(mlir::Value x, llvm::ArrayRef<Dim> shape) {
    return llvm::equal(dimsOf(x), shape) ? x : make<ReshapeOp>(x, extents(shape));
  }
  mlir::Value converted(mlir::Value x, mlir::Type element) {
    return elementOf(x) == element ? x : make<ConvertOp>(x, elementName(element));
  }
  // Converts floats narrower than 32 bits to f32, in which composites compute.
  mlir::Value widened(mlir::Value x) {
    mlir::Type element = elementOf(x);
    bool narrow = llvm::isa<mlir::FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
    return narrow ? converted(x, rewriter.getF32Type()) : x;
  }
  mlir::Value mean(mlir::Value x, llvm::ArrayRef<int64_t> axes) {
    Dim count = 1;
    for (int64_t axis : axes)
      count *= dimsOf(x)[axis];
    mlir::Value sum = make<ReduceSumOp>(x, axes);
    if (count.isNumber()) // for 0 elements, 0 * inf gives the NaN that a mean of nothing has
      return times(sum, 1 / static_cast<double>(*count.number()));
    mlir::Value number = reshaped(make<ExtentsOp>(extents(count)), {});
    return make<DivOp>(sum, spread(converted(number, elementOf(x)), dimsOf(sum), {}));
  }
};

inline Axes allBut(int64_t rank, llvm::ArrayRef<int64_t> axes) {
  Axes rest;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(axes, i))
      rest.push_back(i);
  return rest;
}
inline Axes from(int64_t first, int64_t rank) { return llvm::to_vector(llvm::seq<int64_t>(first, rank)); }

} // namespace mortise::ir
