// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Helpers for the shape inference of several families.
#pragma once

#include <mortise/ir/dialect.hpp>

#include <string>

namespace mortise::ir {

using Axes = llvm::SmallVector<int64_t>; // dimension numbers and other lists of numbers

inline mlir::RankedTensorType tensorType(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline int64_t rankOf(mlir::Value value) { return tensorType(value).getRank(); }
inline mlir::Type elementOf(mlir::Value value) { return tensorType(value).getElementType(); }
inline bool isStatic(mlir::Value value) { return tensorType(value).hasStaticShape(); }

// The symbol table of a type's extents; NULL when all are numbers.
SymbolsAttr symbolsOf(mlir::Type type);
Dims dimsOf(mlir::RankedTensorType type);
inline Dims dimsOf(mlir::Value value) { return dimsOf(tensorType(value)); }
inline Shaped shapedAs(mlir::Value value) { return {elementOf(value), dimsOf(value)}; }
// The extents of a value as an attribute, the form that `broadcast` and other ops take.
DimsAttr extentsOf(mlir::Value value);
// `symbols` may be NULL when all extents are numbers.
mlir::RankedTensorType tensorType(llvm::ArrayRef<Dim> dims, mlir::Type element, SymbolsAttr symbols);

std::string text(mlir::Type type);
std::string text(llvm::ArrayRef<int64_t> numbers); // "[2, 3]"

// The product; an invalid Dim when it does not fit into 63 bits.
Dim countOf(llvm::ArrayRef<Dim> dims);
// The product for a static shape; -1 when it does not fit into 63 bits.
int64_t countOf(llvm::ArrayRef<int64_t> shape);

// Whether the op is of the family Collective.
bool isCollective(mlir::Operation *op);

// The element type with this name ("f32"); NULL when there is none.
mlir::Type elementNamed(llvm::StringRef name, mlir::MLIRContext *context);
// The name of an element type of the dialect.
llvm::StringRef elementName(mlir::Type type);
std::string elementNames(); // all of them, for messages

// Checks 0 <= axis < rank.
mlir::LogicalResult checkAxis(int64_t axis, int64_t rank, const Report &report);
// Checks that the axes are in range and strictly ascending.
mlir::LogicalResult checkAscending(llvm::ArrayRef<int64_t> axes, int64_t rank, const Report &report);
mlir::LogicalResult checkSize(llvm::StringRef attribute, llvm::ArrayRef<int64_t> value, int64_t size,
                              const Report &report);
// Checks that each entry is at least `least`.
mlir::LogicalResult checkLeast(llvm::StringRef attribute, llvm::ArrayRef<int64_t> value, int64_t least,
                               const Report &report);
mlir::LogicalResult checkShape(llvm::StringRef operand, mlir::Value value, llvm::ArrayRef<Dim> shape,
                               const Report &report);
mlir::LogicalResult checkElement(llvm::StringRef operand, mlir::Value value, mlir::Type element, const Report &report);

// The extents as numbers; an error when one is symbolic. For extents that must be known when the op is created.
mlir::FailureOr<Axes> numbersOf(llvm::StringRef what, llvm::ArrayRef<Dim> dims, const Report &report);

// The extents of the spatial dimensions after a window was applied.
mlir::FailureOr<Dims> slide(llvm::ArrayRef<Dim> spatial, llvm::ArrayRef<int64_t> window,
                            llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                            llvm::ArrayRef<int64_t> dilations, const Report &report);

// The literal that `value` is known to be: a constant, or a broadcast of a scalar one (as a splat); else NULL.
mlir::DenseElementsAttr literalOf(mlir::Value value);
// Whether `value` is a literal whose elements are all `number`.
bool isLiteral(mlir::Value value, double number);

// A literal whose element i is element `source(i)` of `literal`. Only for results of at most `foldLimit` elements.
inline constexpr int64_t foldLimit = 4096;
mlir::DenseElementsAttr gather(mlir::DenseElementsAttr literal, mlir::RankedTensorType type,
                               llvm::function_ref<int64_t(int64_t)> source);

} // namespace mortise::ir
