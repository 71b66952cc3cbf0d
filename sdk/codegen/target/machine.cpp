// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/machine.hpp"

#include "target/dump.hpp"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/raw_ostream.h>

namespace mortise::codegen {

Result<std::unique_ptr<llvm::TargetMachine>>
machineOf(const SimtTarget &target, std::optional<llvm::Reloc::Model> model, llvm::CodeGenOptLevel level) {
  std::string message;
  const llvm::Triple triple(target.triple);
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!found)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + ": " + message};
  std::unique_ptr<llvm::TargetMachine> machine(found->createTargetMachine(
      triple, target.chip, target.features, llvm::TargetOptions(), model, std::nullopt, level));
  if (!machine)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + " " + target.chip};
  return machine;
}

void setMachine(llvm::Module &code, const llvm::TargetMachine &machine) {
  code.setDataLayout(machine.createDataLayout());
  code.setTargetTriple(machine.getTargetTriple());
}

Result<llvm::SmallVector<char, 0>> generate(llvm::Module &code, llvm::TargetMachine &machine,
                                            llvm::CodeGenFileType type, llvm::ArrayRef<llvm::Pass *> before) {
  if (isDumped("llvm"))
    code.print(llvm::errs(), nullptr);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes; // goes before the stream, which it holds
  for (llvm::Pass *pass : before)
    passes.add(pass);
  if (machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true))
    return Error{MORTISE_INTERNAL, "the code generator cannot write for " + machine.getTargetCPU().str()};
  passes.run(code);
  return bytes;
}

} // namespace mortise::codegen
