// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In place of plugins/rocm/target.cpp: behind each code object stand the same kernels for this machine's CPU, of the
// same plan and schedule, by the same emitter. All else is the plugin's own.
#include "device.hpp"

#include "emulated_machine.hpp"
#include "tests/hip-stand-in/code_object.hpp"

#include "target/hsaco/link.hpp"
#include "target/lowering.hpp"
#include "target/simt.hpp"
#include "target/x86/jit.hpp"

#include <cstring>

namespace mortise::rocm {

namespace {

using namespace codegen;

class EmulatingBackend final : public SimtBackend {
public:
  EmulatingBackend(const SimtTarget &target, std::unique_ptr<SimtBackend> real, std::unique_ptr<Backend> here)
      : target(target), real(std::move(real)), here(std::move(here)) {}
  Result<SimtCode> compile(std::span<const ScheduledPlan> plans, const std::string &entry, unsigned alignment) override;

private:
  const SimtTarget target;
  const std::unique_ptr<SimtBackend> real;
  const std::unique_ptr<Backend> here;
  Lowering lowering;
};

Result<SimtCode> EmulatingBackend::compile(std::span<const ScheduledPlan> plans, const std::string &entry,
                                           unsigned alignment) {
  Result<SimtCode> code = real->compile(plans, entry, alignment);
  if (!code)
    return code;
  const test::EmulatedMachine machine(target, test::calleeOfTable);
  mlir::OwningOpRef<mlir::ModuleOp> module = lowering.module();
  Instructions instructions = here->instructions();
  instructions.narrowIntegers = true;
  instructions.keepNan = false;
  emitKernels(plans, target, machine, instructions, entry, alignment, *module);
  machine.finish(*module, instructions);
  llvm::LLVMContext context;
  auto lowered = lowering.run(*module, context, entry);
  if (!lowered)
    return lowered.error();
  Result<std::string> object = here->assemble(**lowered);
  if (!object)
    return object.error();
  Result<std::string> library = linkHsaco(*object); // lld takes any machine's objects
  if (!library)
    return library.error();
  stand_in::EmulatedTrailer trailer;
  std::memcpy(trailer.mark, stand_in::EmulatedTrailer::signature, sizeof trailer.mark);
  trailer.bytes = library->size();
  trailer.synchronises = machine.synchronises;
  code->code.append(reinterpret_cast<const char *>(&trailer), sizeof trailer);
  code->code += *library;
  return code;
}

} // namespace

Result<SimtTarget> targetOf(std::string_view architecture, unsigned compileThreads) {
  Result<SimtTarget> target = SimtTarget::rocm(architecture, compileThreads);
  if (!target)
    return target;
  target->deviceThreads = 2048; // so few that small tensors get the schedules that large ones get on a large GPU
  target->backend = [real = target->backend](const SimtTarget &target) -> Result<std::unique_ptr<SimtBackend>> {
    auto made = real(target);
    auto here = Backend::create(Target::host(1));
    if (!made || !here)
      return made ? here.error() : made.error();
    return std::unique_ptr<SimtBackend>(std::make_unique<EmulatingBackend>(target, std::move(*made), std::move(*here)));
  };
  return target;
}

} // namespace mortise::rocm
