// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emitted MLIR -> LLVM IR, for all targets that LLVM makes code for. One object per thread: it keeps its context and
// patterns.
#pragma once

#include "target/dump.hpp"

#include <mortise/result.hpp>

#include <llvm/IR/Module.h>
#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>

#include <memory>
#include <string>

namespace mortise::codegen {

class Lowering {
public:
  Lowering();
  ~Lowering();
  mlir::OwningOpRef<mlir::ModuleOp> module(); // empty
  Result<std::unique_ptr<llvm::Module>> run(mlir::ModuleOp module, llvm::LLVMContext &context, const std::string &name);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace mortise::codegen
