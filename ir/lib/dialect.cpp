// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/ir/dialect.hpp>

#define GET_OP_CLASSES
#include <mortise/ir/shape.h.inc>

#include <mlir/Dialect/Func/IR/FuncOps.h>

#include <llvm/ADT/StringExtras.h>

#include <mortise/ir/dialect.cpp.inc>
#include <mortise/ir/op_interface.cpp.inc>

namespace mortise::ir {
namespace {

// The alias of a list of extents: b_4s_np1 for [b, 4*s, n + 1].
std::string aliasOf(DimsAttr dims) {
  std::string name;
  for (const Dim &dim : dims.getDims()) {
    name += name.empty() ? "" : "_";
    for (char c : dim.text([&](uint32_t symbol) { return dims.getSymbols().getNames()[symbol].str(); }))
      if (c == '+' || c == '-' || c == ',')
        name += c == '+' ? 'p' : c == '-' ? 'm' : '_';
      else if (llvm::isAlnum(c) || c == '_')
        name += c;
  }
  return name.size() <= 40 ? name : "dims";
}

// Makes the printer define the symbol table, and each symbolic list of extents, once at the top of a module's text.
struct AsmInterface : mlir::OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;
  AliasResult getAlias(mlir::Attribute attribute, llvm::raw_ostream &stream) const override {
    if (llvm::isa<SymbolsAttr>(attribute))
      stream << "symbols";
    else if (auto dims = llvm::dyn_cast<DimsAttr>(attribute); dims && !dims.isStatic())
      stream << aliasOf(dims);
    else
      return AliasResult::NoAlias;
    return AliasResult::FinalAlias;
  }
};

} // namespace

void MortiseDialect::initialize() {
  registerAttributes();
  addInterfaces<AsmInterface>();
  addAttentionOps();
  addCollectiveOps();
  addContractionOps();
  addControlFlowOps();
  addElementwiseOps();
  addIndexingOps();
  addNormalisationOps();
  addQuantisationOps();
  addRandomOps();
  addReductionOps();
  addShapeOps();
  addVendorOps();
  addWindowOps();
}

mlir::Operation *MortiseDialect::materializeConstant(mlir::OpBuilder &builder, mlir::Attribute value, mlir::Type type,
                                                     mlir::Location location) {
  auto elements = llvm::dyn_cast<mlir::ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return ConstantOp::create(builder, location, type, elements);
}

void registerDialect(mlir::DialectRegistry &registry) { registry.insert<MortiseDialect, mlir::func::FuncDialect>(); }

} // namespace mortise::ir
