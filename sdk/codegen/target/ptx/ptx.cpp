// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/ptx/ptx.hpp"
#include "emit/simt.hpp"
#include "target/lowering.hpp"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>

#include <mutex>

namespace mortise::codegen {

using namespace mlir;

namespace {

// Through LLVM's intrinsics for NVPTX.
class PtxMachine final : public SimtMachine {
public:
  void makeKernel(LLVM::LLVMFuncOp function, unsigned threads) const override {
    OpBuilder b(function.getContext());
    function.setCConv(LLVM::cconv::CConv::PTX_Kernel);
    function.setPassthroughAttr(b.getArrayAttr(b.getStrArrayAttr({"nvvm.reqntid", std::to_string(threads)})));
  }
  Value thread(Code &c) const override { return call(c, "llvm.nvvm.read.ptx.sreg.tid.x", c.b.getI32Type(), {}); }
  Value block(Code &c) const override { return call(c, "llvm.nvvm.read.ptx.sreg.ctaid.x", c.b.getI32Type(), {}); }
  void barrier(Code &c) const override {
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.nvvm.barrier.cta.sync.aligned.all"),
                                  ValueRange{c.integer(c.b.getI32Type(), 0)});
  }
  Value exchange(Code &c, Value bits, unsigned mask) const override {
    auto number = [&](int64_t value) { return c.integer(c.b.getI32Type(), value); };
    return call(c, "llvm.nvvm.shfl.sync.bfly.i32", c.b.getI32Type(), {number(-1), bits, number(mask), number(31)});
  }
  unsigned sharedSpace() const override { return 3; }
  unsigned subgroup() const override { return 32; }

private:
  static Value call(Code &c, const char *name, Type type, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(c.b, c.loc, type, c.b.getStringAttr(name), arguments).getResults();
  }
};

} // namespace

struct PtxBackend::Impl {
  SimtTarget target;
  Lowering lowering;
  std::unique_ptr<llvm::TargetMachine> machine;
  PtxMachine instructions;
};

PtxBackend::PtxBackend(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
PtxBackend::~PtxBackend() = default;

Result<std::unique_ptr<PtxBackend>> PtxBackend::create(const SimtTarget &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  std::string message;
  const llvm::Triple triple(target.triple);
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, message);
  if (!found)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + ": " + message};
  auto impl = std::make_unique<Impl>();
  impl->target = target;
  // The driver's assembler optimises again: PTX from -O1 runs as fast as that from -O3 (docs/codegen.md).
  impl->machine.reset(found->createTargetMachine(triple, target.chip, target.features, llvm::TargetOptions(),
                                                 std::nullopt, std::nullopt, llvm::CodeGenOptLevel::Less));
  if (!impl->machine)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + " " + target.chip};
  return std::unique_ptr<PtxBackend>(new PtxBackend(std::move(impl)));
}

Result<PtxBackend::Code> PtxBackend::compile(LoopPlan &plan, const SimtSchedule &schedule, const std::string &entry,
                                             unsigned alignment) {
  OwningOpRef<ModuleOp> module = impl->lowering.module();
  OpBuilder builder(module->getContext());
  Instructions instructions;
  instructions.narrowDivisions = true;
  instructions.keepNan = false;
  instructions.brain = true;
  Code result;
  const auto emit = [&](const SimtSchedule &kernelSchedule, SimtKernel::Role role, const std::string &name,
                        Dim blocks) {
    SimtKernel emitter(plan, kernelSchedule, role, impl->instructions, alignment, *module, builder, instructions);
    EmittedSimtKernel kernel = emitter.emit(name);
    result.usesAlignment |= kernel.usesAlignment;
    result.launches.push_back({name, std::move(blocks), kernelSchedule.threads()});
    result.over = std::move(kernel.over);
  };
  if (schedule.parts == 1) {
    emit(schedule, SimtKernel::Role::Whole, entry, schedule.blocks());
  } else {
    const SimtSchedule combine = combineSchedule(schedule, impl->target);
    emit(schedule, SimtKernel::Role::Parts, entry, schedule.blocks() * schedule.parts);
    emit(combine, SimtKernel::Role::Combine, entry + "_combine", combine.blocks());
  }
  llvm::LLVMContext context;
  Result<std::unique_ptr<llvm::Module>> lowered = impl->lowering.run(*module, context, entry);
  if (!lowered)
    return lowered.error();
  llvm::Module &code = **lowered;
  code.setDataLayout(impl->machine->createDataLayout());
  code.setTargetTriple(impl->machine->getTargetTriple());
  if (isDumped("llvm"))
    code.print(llvm::errs(), nullptr);
  llvm::SmallVector<char, 0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (impl->machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile,
                                         /*DisableVerify=*/true))
    return Error{MORTISE_INTERNAL, "the code generator cannot write PTX"};
  passes.run(code);
  if (isDumped("ptx"))
    llvm::errs() << stream.str();
  result.text.assign(text.begin(), text.end());
  return result;
}

} // namespace mortise::codegen
