// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Converts types and attributes between MLIR and the C view.
#pragma once

#include "infer.hpp"

#include <mortise/graph.hpp>

#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace mlir::func {
class FuncOp;
} // namespace mlir::func

namespace mortise::ir {

// `what` names the value in errors ("input 0, 'x'"). `symbols` may be NULL when there are none.
Result<mlir::RankedTensorType> typeFrom(const MortiseType &type, const std::string &what, SymbolsAttr symbols,
                                        mlir::MLIRContext *context);

// `storage`: the C++ class of the attribute in the op's properties, from MortiseOp::getAttributeSlots.
Result<mlir::Attribute> attributeFrom(const MortiseAttribute &attribute, llvm::StringRef storage, SymbolsAttr symbols,
                                      mlir::MLIRContext *context);

// The postfix programs of a list of extents, with the arrays that they point to. Not movable, because of those
// pointers.
struct CExprs {
  explicit CExprs(llvm::ArrayRef<Dim> dims);
  CExprs(const CExprs &) = delete;
  CExprs &operator=(const CExprs &) = delete;

  std::vector<std::vector<MortiseExprStep>> steps;
  std::vector<MortiseExpr> exprs;
};

// A C type with the arrays that it points to. Not movable.
struct CType {
  CType() = default;
  explicit CType(mlir::RankedTensorType from);
  CType(const CType &) = delete;
  CType &operator=(const CType &) = delete;

  std::vector<int64_t> dims;
  std::unique_ptr<CExprs> exprs; // NULL when static
  MortiseType type{};
};

// A C attribute with the data that it points to. Not movable. `error` says why the attribute has no C form; "" when it
// has one.
struct CAttribute {
  CAttribute(llvm::StringRef name, mlir::Attribute from);
  CAttribute(const CAttribute &) = delete;
  CAttribute &operator=(const CAttribute &) = delete;

  std::string name, string, error;
  std::vector<int64_t> integers;
  std::vector<double> reals;
  std::vector<char> bytes;
  std::unique_ptr<CType> tensor;
  std::unique_ptr<CExprs> exprs;
  MortiseAttribute attribute{};
};

// The C form of a function's symbols. Not movable.
struct SymbolList {
  explicit SymbolList(SymbolsAttr table); // NULL when there are none
  SymbolList(const SymbolList &) = delete;
  SymbolList &operator=(const SymbolList &) = delete;

  SymbolsAttr table;
  std::deque<std::string> names;
  std::deque<MortiseSymbol> symbols;
  std::vector<const MortiseSymbol *> pointers;
};

// The function's symbol table: the declared one, else that of the first symbolic argument; NULL when there is none.
SymbolsAttr symbolTable(mlir::func::FuncOp function);

// Where in the user's program, "model.py:7"; "" when unknown.
std::string locationText(mlir::Location location);

// The slot strings of an op (MortiseOp), parsed.
struct OperandSlot {
  llvm::StringRef name;
  bool optional, variadic;
};
std::vector<OperandSlot> operandSlots(llvm::StringRef slots);
struct AttributeSlot {
  llvm::StringRef name, storage;
};
std::vector<AttributeSlot> attributeSlots(llvm::StringRef slots);

} // namespace mortise::ir
