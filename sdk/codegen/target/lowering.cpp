// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/lowering.hpp"

#include <mlir/Conversion/ArithToLLVM/ArithToLLVM.h>
#include <mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h>
#include <mlir/Conversion/LLVMCommon/ConversionTarget.h>
#include <mlir/Conversion/LLVMCommon/TypeConverter.h>
#include <mlir/Conversion/MathToLLVM/MathToLLVM.h>
#include <mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h>
#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/ControlFlow/IR/ControlFlow.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Export.h>
#include <mlir/Transforms/DialectConversion.h>

namespace mortise::codegen {

using namespace mlir;

struct Lowering::Impl {
  MLIRContext context{MLIRContext::Threading::DISABLED};
  std::unique_ptr<LLVMTypeConverter> types;
  std::unique_ptr<ConversionTarget> legal;
  FrozenRewritePatternSet patterns;
};

Lowering::Lowering() : impl(std::make_unique<Impl>()) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  impl->context.appendDialectRegistry(registry);
  impl->context.loadDialect<arith::ArithDialect, cf::ControlFlowDialect, LLVM::LLVMDialect, math::MathDialect,
                            scf::SCFDialect>();
  impl->types = std::make_unique<LLVMTypeConverter>(&impl->context);
  RewritePatternSet patterns(&impl->context);
  populateSCFToControlFlowConversionPatterns(patterns);
  arith::populateArithToLLVMConversionPatterns(*impl->types, patterns);
  populateMathToLLVMConversionPatterns(*impl->types, patterns);
  cf::populateControlFlowToLLVMConversionPatterns(*impl->types, patterns);
  impl->patterns = FrozenRewritePatternSet(std::move(patterns));
  impl->legal = std::make_unique<LLVMConversionTarget>(impl->context);
  impl->legal->addLegalOp<ModuleOp>();
}
Lowering::~Lowering() = default;

OwningOpRef<ModuleOp> Lowering::module() { return ModuleOp::create(UnknownLoc::get(&impl->context)); }

Result<std::unique_ptr<llvm::Module>> Lowering::run(ModuleOp module, llvm::LLVMContext &context,
                                                    const std::string &name) {
  if (isDumped("mlir"))
    module->dump();
#ifndef NDEBUG
  if (failed(verify(module)))
    return Error{MORTISE_INTERNAL, "generated code does not verify"};
#endif
  if (failed(applyFullConversion(module, *impl->legal, impl->patterns)))
    return Error{MORTISE_INTERNAL, "generated code does not lower to LLVM"};
  std::unique_ptr<llvm::Module> lowered = translateModuleToLLVMIR(module, context, name, /*disableVerification=*/true);
  if (!lowered)
    return Error{MORTISE_INTERNAL, "generated code does not translate to LLVM"};
  return lowered;
}

} // namespace mortise::codegen
