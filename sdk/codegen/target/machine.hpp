// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the GPUs' targets share that LLVM makes code for.
#pragma once

#include <mortise/codegen/simt.hpp>

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>
#include <llvm/Pass.h>
#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <optional>

namespace mortise::codegen {

// The caller has initialised LLVM's target. Errors: MORTISE_UNSUPPORTED, for a triple or chip that LLVM does not know.
Result<std::unique_ptr<llvm::TargetMachine>>
machineOf(const SimtTarget &target, std::optional<llvm::Reloc::Model> model, llvm::CodeGenOptLevel level);
// Says for which machine a module is.
void setMachine(llvm::Module &code, const llvm::TargetMachine &machine);
// Runs `before`, which it takes over, then the code generator. Errors: MORTISE_INTERNAL.
Result<llvm::SmallVector<char, 0>> generate(llvm::Module &code, llvm::TargetMachine &machine,
                                            llvm::CodeGenFileType type, llvm::ArrayRef<llvm::Pass *> before = {});

} // namespace mortise::codegen
