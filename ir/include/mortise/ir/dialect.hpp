// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect class, the interface of its ops, and what the generated code of every family calls.
#pragma once

#include <mlir/Bytecode/BytecodeOpInterface.h>
#include <mlir/IR/Builders.h>
#include <mlir/IR/BuiltinTypes.h>
#include <mlir/IR/Dialect.h>
#include <mlir/IR/OpDefinition.h>
#include <mlir/IR/OpImplementation.h>
#include <mlir/IR/TensorEncoding.h>
#include <mlir/Interfaces/ControlFlowInterfaces.h>
#include <mlir/Interfaces/InferTypeOpInterface.h>
#include <mlir/Interfaces/SideEffectInterfaces.h>

#include <mortise/bounds.hpp>

namespace mortise::ir {
struct Writer; // ir/lib/writer.hpp
using Values = llvm::SmallVector<mlir::Value, 2>;
} // namespace mortise::ir

#include <mortise/ir/dialect.h.inc>
#include <mortise/ir/op_interface.h.inc>
#define GET_ATTRDEF_CLASSES
#include <mortise/ir/attributes.h.inc>

namespace mlir {
class DialectRegistry;
class PatternRewriter;
} // namespace mlir

namespace mortise::ir {

// `mortise` and `func`, the dialects that modules of ours are made of.
void registerDialect(mlir::DialectRegistry &registry);

using Dims = llvm::SmallVector<Dim, 4>;

// Static, or with an expression for every extent.
bool hasKnownExtents(mlir::Type type);

// What is inferred of one result.
struct Shaped {
  mlir::Type element;
  Dims dims;
};

// What is inferred of an op: a Shaped, several, or failure().
class Inferred {
public:
  Inferred(llvm::LogicalResult) {} // NOLINT(google-explicit-constructor): only ever a failure, already reported
  Inferred(Shaped result) : good(true), results{std::move(result)} {} // NOLINT(google-explicit-constructor)
  Inferred(std::initializer_list<Shaped> all) : good(true), results(all) {}
  explicit Inferred(llvm::SmallVector<Shaped, 1> all) : good(true), results(std::move(all)) {}

  const Shaped *operator->() const { return &results.front(); }
  llvm::ArrayRef<Shaped> all() const { return results; }
  friend bool failed(const Inferred &inferred) { return !inferred.good; }

private:
  bool good = false;
  llvm::SmallVector<Shaped, 1> results;
};

// Where shape inference reports what does not fit, and the symbols that its extents are made of.
class Report {
public:
  Report(std::optional<mlir::Location> location, llvm::StringRef op, mlir::ValueRange operands);

  // All that an op sees has one table of symbols; an attribute may be the only one to name it.
  mlir::LogicalResult unite(SymbolsAttr other) const;
  mlir::LogicalResult unite(DimsAttr dims) const { return unite(dims.getSymbols()); }

  mlir::LogicalResult operator()(const llvm::Twine &message) const;
  // The label of the constraint ("dot_c1", as in the op's description) that is checked next; stands behind the message.
  const Report &at(llvm::StringRef constraint) const {
    label = constraint;
    return *this;
  }
  mlir::LogicalResult accept(const Inferred &inferred, llvm::SmallVectorImpl<mlir::Type> &types) const;

  // For all values of the symbols.
  bool isAtLeast(const Dim &a, const Dim &b) const { return mortise::isAtLeast(a, b, ranges); }
  bool isDifferent(const Dim &a, const Dim &b) const { return mortise::isDifferent(a, b, ranges); }
  Dim simplified(const Dim &dim) const { return dim.isNumber() ? dim : simplify(dim, ranges); }
  std::string text(const Dim &dim) const;
  std::string text(llvm::ArrayRef<Dim> dims) const; // "[2, 4*s]"
  std::string text(mlir::Type type) const;          // "tensor<2xf32>", "f32 [2, 4*s]"

private:
  std::optional<mlir::Location> location;
  llvm::StringRef op;
  mutable llvm::StringRef label;
  mutable SymbolsAttr symbols;
  mutable llvm::SmallVector<SymbolRange> ranges;
  mutable bool conflict = false; // operands of two tables
};

// The common type of all operands.
Inferred sameType(mlir::ValueRange operands, const Report &report);

// The operand's type without `axes`.
Inferred reduced(mlir::Value operand, llvm::ArrayRef<int64_t> axes, const Report &report);

// The i64 index of an element along `axis`, which disappears and is not empty.
Inferred argument(mlir::Value operand, int64_t axis, const Report &report);

// The operand's type, for what runs along `axis`; with an i64 index for each element.
Inferred running(mlir::Value operand, int64_t axis, const Report &report);
Inferred runningExtreme(mlir::Value operand, int64_t axis, const Report &report);

// What a window sliding over the spatial dimensions of `x` leaves.
Inferred pooled(mlir::Value x, llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides,
                llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> dilations,
                const Report &report);

// Folds an elementwise op of constants, and identities such as x * 1.
mlir::OpFoldResult foldElementwise(mlir::Operation *op);

} // namespace mortise::ir
