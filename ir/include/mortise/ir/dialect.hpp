// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The dialect class, the interface of its ops, and helpers that the generated code of every family calls.
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

// Registers `mortise` and `func`, the dialects that our modules consist of.
void registerDialect(mlir::DialectRegistry &registry);

using Dims = llvm::SmallVector<Dim, 4>;

// Whether the type is static or has an expression for every extent.
bool hasKnownExtents(mlir::Type type);

// The inferred type of one result.
struct Shaped {
  mlir::Type element;
  Dims dims;
};

// The inferred types of an op's results (one Shaped for each), or failure().
class Inferred {
public:
  Inferred(llvm::LogicalResult) {} // NOLINT(google-explicit-constructor): only for failures, already reported
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

// Reports errors of shape inference, and holds the symbols that occur in the op's extents.
class Report {
public:
  Report(std::optional<mlir::Location> location, llvm::StringRef op, mlir::ValueRange operands);

  // Merges in the symbol table of an attribute. All extents of an op must use one table; an attribute may be the only
  // place that names it.
  mlir::LogicalResult unite(SymbolsAttr other) const;
  mlir::LogicalResult unite(DimsAttr dims) const { return unite(dims.getSymbols()); }

  mlir::LogicalResult operator()(const llvm::Twine &message) const;
  // Sets the label of the constraint that is checked next ("dot_c1", as in the op's description). Messages end with it.
  const Report &at(llvm::StringRef constraint) const {
    label = constraint;
    return *this;
  }
  mlir::LogicalResult accept(const Inferred &inferred, llvm::SmallVectorImpl<mlir::Type> &types) const;

  // Whether the relation holds for all values of the symbols.
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
  mutable bool conflict = false; // operands use different tables
};

// The common type of all operands.
Inferred sameType(mlir::ValueRange operands, const Report &report);

// The operand's type without `axes`.
Inferred reduced(mlir::Value operand, llvm::ArrayRef<int64_t> axes, const Report &report);

// The type of an argmax or argmin: i64, without `axis`, whose extent must be at least 1.
Inferred argument(mlir::Value operand, int64_t axis, const Report &report);

// The types of ops that run along `axis`: the operand's type; for runningExtreme also an i64 index for each element.
Inferred running(mlir::Value operand, int64_t axis, const Report &report);
Inferred runningExtreme(mlir::Value operand, int64_t axis, const Report &report);

// The type of a pooling op: that of `x`, with the spatial extents after the window was applied.
Inferred pooled(mlir::Value x, llvm::ArrayRef<int64_t> window, llvm::ArrayRef<int64_t> strides,
                llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, llvm::ArrayRef<int64_t> dilations,
                const Report &report);

// Folds an elementwise op of constants, and identities such as x * 1.
mlir::OpFoldResult foldElementwise(mlir::Operation *op);

} // namespace mortise::ir
