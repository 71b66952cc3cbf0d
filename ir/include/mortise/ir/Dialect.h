// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect class, the interface of its ops, and what the generated code of every family calls.
#pragma once

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/Interfaces/InferTypeOpInterface.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include <mortise/ir/Dialect.h.inc>
#include <mortise/ir/OpInterface.h.inc>

namespace mlir {
class DialectRegistry;
class PatternRewriter;
} // namespace mlir

namespace mortise::ir {

// `mortise` and `func`, the dialects that modules of ours are made of.
void registerDialect(mlir::DialectRegistry &registry);

// Where shape inference reports what does not fit.
struct Report {
  std::optional<mlir::Location> location;
  llvm::StringRef op;

  mlir::LogicalResult operator()(const llvm::Twine &message) const;
  mlir::LogicalResult accept(mlir::FailureOr<mlir::RankedTensorType> inferred,
                             llvm::SmallVectorImpl<mlir::Type> &types) const;
};

// The common type of all operands.
mlir::FailureOr<mlir::RankedTensorType> sameType(mlir::ValueRange operands, const Report &report);

// The operand's type without `axes`.
mlir::FailureOr<mlir::RankedTensorType> reduced(mlir::Value operand, llvm::ArrayRef<int64_t> axes,
                                                const Report &report);

// What a window sliding over the spatial dimensions of `x` leaves.
mlir::FailureOr<mlir::RankedTensorType> pooled(mlir::Value x, llvm::ArrayRef<int64_t> window,
                                               llvm::ArrayRef<int64_t> strides, llvm::ArrayRef<int64_t> low,
                                               llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> dilations,
                                               const Report &report);

// Folds an elementwise op of constants, and identities such as x * 1.
mlir::OpFoldResult foldElementwise(mlir::Operation *op);

} // namespace mortise::ir
