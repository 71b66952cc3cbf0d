// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "vendor.hpp"

#include <mortise/ir/vendor.hpp>

#define GET_OP_CLASSES
#include <mortise/ir/vendor.h.inc>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/BuiltinOps.h>

#include <optional>

using namespace mlir;

namespace mortise::ir {

llvm::StringRef opName(Operation *op) {
  auto vendors = llvm::dyn_cast<VendorOp>(op);
  return vendors ? vendors.getOpName() : op->getName().getStringRef();
}

static llvm::StringRef storageOf(const MortiseAttribute &attribute) {
  switch (attribute.kind) {
  case MORTISE_ATTRIBUTE_BOOL:
    return "::mlir::BoolAttr";
  case MORTISE_ATTRIBUTE_I64:
    return "::mlir::IntegerAttr";
  case MORTISE_ATTRIBUTE_F64:
    return "::mlir::FloatAttr";
  case MORTISE_ATTRIBUTE_STRING:
    return "::mlir::StringAttr";
  case MORTISE_ATTRIBUTE_I64_ARRAY:
    return exprsOf(attribute) ? "::mortise::ir::DimsAttr" : "::mlir::DenseI64ArrayAttr";
  case MORTISE_ATTRIBUTE_F64_ARRAY:
    return "::mlir::DenseF64ArrayAttr";
  default:
    return "::mlir::ElementsAttr";
  }
}

Result<DictionaryAttr> vendorParameters(std::span<const MortiseAttribute *const> attributes, SymbolsAttr symbols,
                                        MLIRContext *context) {
  NamedAttrList list;
  for (const MortiseAttribute *attribute : attributes) {
    if (!attribute || !attribute->name)
      return Error{MORTISE_INVALID_ARGUMENT, "an attribute is NULL or has no name"};
    Result<Attribute> value = attributeFrom(*attribute, storageOf(*attribute), symbols, context);
    if (!value)
      return value.error();
    list.set(attribute->name, *value);
  }
  return list.getDictionary(context);
}

// The types that the op's plugin adds.
namespace {
struct Inference {
  SymbolsAttr symbols;
  MLIRContext *context;
  std::string op;
  std::vector<RankedTensorType> types{};
  std::optional<Error> error{};

  void add(const MortiseType &type) {
    const std::string what = op + ": the result " + std::to_string(types.size()) + " that its plugin infers";
    Result<RankedTensorType> made = typeFrom(type, what, symbols, context);
    if (!made)
      error = error ? error : made.error();
    else
      types.push_back(*made);
  }
};
} // namespace

Result<VendorAnswer> askVendor(const VendorQuestion &question, const portable::VendorOps &vendors) {
  const Result<const MortiseOpDeclaration *> declared = vendors.declaration(std::string_view(question.op));
  if (!declared)
    return declared.error();
  auto attributes = portable::completeAttributes(**declared, question.operands.size(), question.attributes);
  if (!attributes)
    return attributes.error();
  std::vector<std::unique_ptr<CType>> types;
  std::vector<const MortiseType *> operands;
  for (Type operand : question.operands) {
    types.push_back(std::make_unique<CType>(llvm::cast<RankedTensorType>(operand)));
    operands.push_back(&types.back()->type);
  }
  const SymbolList symbols(question.symbols);
  Inference inference{question.symbols, question.context, question.op.str()};
  MortiseInferArgs args{};
  args.struct_size = sizeof args;
  args.op = (*declared)->name;
  args.operands = operands.data();
  args.operand_count = operands.size();
  args.attributes = attributes->data();
  args.attribute_count = attributes->size();
  args.symbols = symbols.pointers.data();
  args.symbol_count = symbols.pointers.size();
  args.sink = &inference;
  args.add = [](void *sink, const MortiseType *type) { static_cast<Inference *>(sink)->add(*type); };
  if (Result<void> asked = vendors.infer(args); !asked)
    return asked.error();
  if (inference.error)
    return *inference.error;
  auto parameters = vendorParameters(*attributes, question.symbols, question.context);
  if (!parameters)
    return parameters.error();
  return VendorAnswer{*parameters, std::move(inference.types)};
}

// Checks one op of a module, and gives it the attributes that it leaves out.
static Result<void> check(VendorOp op, const portable::VendorOps &vendors, SymbolsAttr symbols) {
  std::vector<std::unique_ptr<CAttribute>> kept;
  std::vector<const MortiseAttribute *> attributes;
  for (NamedAttribute parameter : op.getParameters()) {
    kept.push_back(std::make_unique<CAttribute>(parameter.getName(), parameter.getValue()));
    attributes.push_back(&kept.back()->attribute);
  }
  const llvm::SmallVector<Type> operands(op->getOperandTypes());
  const auto answer = askVendor({op.getOpName(), operands, attributes, symbols, op.getContext()}, vendors);
  const std::string place = locationText(op.getLoc()), at = place.empty() ? "" : " at " + place;
  if (!answer)
    return Error{answer.error().code, answer.error().message + (at.empty() ? "" : ";" + at)};
  bool equal = answer->results.size() == op->getNumResults();
  std::string inferred, found;
  for (Type type : answer->results)
    inferred += (inferred.empty() ? "" : ", ") + text(type);
  for (OpResult result : op->getResults()) {
    found += (found.empty() ? "" : ", ") + text(result.getType());
    equal = equal && answer->results[result.getResultNumber()] == result.getType();
  }
  if (!equal)
    return Error{MORTISE_INVALID_ARGUMENT,
                 op.getOpName().str() + at + ": its plugin infers " + inferred + ", and the graph says " + found};
  op.setParametersAttr(answer->parameters);
  return {};
}

Result<void> checkVendorOps(ModuleOp module, const portable::VendorOps &vendors) {
  for (auto function : module.getOps<func::FuncOp>()) {
    const SymbolsAttr symbols = symbolTable(function);
    std::optional<Error> error;
    function.walk([&](VendorOp op) {
      Result<void> checked = check(op, vendors, symbols);
      if (!checked)
        error = checked.error();
      return checked ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (error)
      return *error;
  }
  return {};
}

} // namespace mortise::ir
