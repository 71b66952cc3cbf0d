// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels for AMD's GPUs: LLVM's code for AMDGPU, linked into code objects for the HSA runtime.
#include "target/hsaco/link.hpp"
#include "target/lowering.hpp"
#include "target/machine.hpp"
#include "target/simt.hpp"

#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Transforms/Scalar.h>

#include <algorithm>
#include <mutex>

namespace mortise::codegen {

using namespace mlir;

namespace {

// Through LLVM's intrinsics for AMDGPU (llvm/docs/AMDGPUUsage.rst).
class AmdMachine final : public SimtMachine {
public:
  explicit AmdMachine(unsigned wave, bool hasRowMasks) : wave(wave), hasRowMasks(hasRowMasks) {}

  void makeKernel(LLVM::LLVMFuncOp function, unsigned threads, unsigned /*resident*/,
                  unsigned /*cluster*/) const override {
    OpBuilder b(function.getContext());
    const auto pair = [&](StringRef name, const std::string &value) -> Attribute {
      return b.getStrArrayAttr({name, value});
    };
    const std::string size = std::to_string(threads);
    function.setCConv(LLVM::cconv::CConv::AMDGPU_KERNEL);
    function.setPassthroughAttr(
        b.getArrayAttr({pair("amdgpu-flat-work-group-size", size + "," + size), pair("uniform-work-group-size", "true"),
                        pair("amdgpu-implicitarg-num-bytes", "0")}));
  }
  Value thread(Code &c) const override { return call(c, "llvm.amdgcn.workitem.id.x", c.b.getI32Type(), {}); }
  Value block(Code &c) const override { return call(c, "llvm.amdgcn.workgroup.id.x", c.b.getI32Type(), {}); }
  void barrier(Code &c) const override {
    LLVM::FenceOp::create(c.b, c.loc, LLVM::AtomicOrdering::release, "workgroup");
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.amdgcn.s.barrier"), ValueRange());
    LLVM::FenceOp::create(c.b, c.loc, LLVM::AtomicOrdering::acquire, "workgroup");
  }
  Value exchange(Code &c, Value bits, unsigned mask) const override {
    if (const unsigned control = dppControl(mask))
      return call(c, "llvm.amdgcn.update.dpp.i32", c.b.getI32Type(),
                  {bits, bits, number(c, control), number(c, 15), number(c, 15), c.truth(true)});
    if (mask < 32) // within 32 threads: and 31, or 0, xor the mask
      return call(c, "llvm.amdgcn.ds.swizzle", c.b.getI32Type(), {bits, number(c, mask << 10 | 31)});
    Value mine = call(c, "llvm.amdgcn.mbcnt.lo", c.b.getI32Type(), {number(c, -1), number(c, 0)});
    mine = call(c, "llvm.amdgcn.mbcnt.hi", c.b.getI32Type(), {number(c, -1), mine});
    Value other = arith::XOrIOp::create(c.b, c.loc, mine, number(c, mask));
    return call(c, "llvm.amdgcn.ds.bpermute", c.b.getI32Type(), {c.mulI(other, number(c, 4)), bits});
  }
  unsigned sharedSpace() const override { return 3; }
  unsigned subgroup() const override { return wave; }

private:
  // Data-parallel primitives: a move that reads another thread's register. 0 where none does it.
  unsigned dppControl(unsigned mask) const {
    switch (mask) {
    case 1:
      return 0xb1; // quad_perm:[1,0,3,2]
    case 2:
      return 0x4e; // quad_perm:[2,3,0,1]
    case 8:
      return 0x128; // row_ror:8, in a row of 16
    default:
      return hasRowMasks && mask < 16 ? 0x160 + mask : 0; // row_xmask
    }
  }
  static Value number(Code &c, int64_t value) { return c.integer(c.b.getI32Type(), value); }
  static Value call(Code &c, const char *name, Type type, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(c.b, c.loc, type, c.b.getStringAttr(name), arguments).getResults();
  }

  const unsigned wave;
  const bool hasRowMasks; // gfx10 and newer
};

class HsacoBackend final : public SimtBackend {
public:
  HsacoBackend(const SimtTarget &target, std::unique_ptr<llvm::TargetMachine> machine)
      : target(target), machine(std::move(machine)), instructions(target.subgroup, target.subgroup == 32) {}
  static Result<std::unique_ptr<SimtBackend>> create(const SimtTarget &target);
  Result<SimtCode> compile(std::span<const ScheduledPlan> plans, const std::string &entry, unsigned alignment) override;

private:
  SimtTarget target;
  Lowering lowering;
  std::unique_ptr<llvm::TargetMachine> machine;
  AmdMachine instructions;
};

Result<std::unique_ptr<SimtBackend>> HsacoBackend::create(const SimtTarget &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
  });
  auto machine = machineOf(target, llvm::Reloc::PIC_, llvm::CodeGenOptLevel::Default);
  if (!machine)
    return machine.error();
  return std::unique_ptr<SimtBackend>(std::make_unique<HsacoBackend>(target, std::move(*machine)));
}

// LLVM's numbers of address spaces. Accesses through addresses that may lie anywhere cost more, and lie in none of
// them.
constexpr unsigned globalSpace = 1, constantSpace = 4;

// Says where what kernels are given and what their constants are lies. What follows from it LLVM finds by itself.
void nameSpaces(llvm::Module &code) {
  for (llvm::Function &function : code) {
    if (function.isDeclaration())
      continue;
    llvm::IRBuilder<> b(&function.getEntryBlock(), function.getEntryBlock().begin());
    for (llvm::Argument &argument : function.args()) {
      if (!argument.getType()->isPointerTy() || argument.use_empty())
        continue;
      llvm::Value *global = b.CreateAddrSpaceCast(&argument, b.getPtrTy(globalSpace));
      llvm::Value *anywhere = b.CreateAddrSpaceCast(global, argument.getType());
      argument.replaceUsesWithIf(anywhere, [&](llvm::Use &use) { return use.getUser() != global; });
    }
  }
  for (llvm::GlobalVariable &variable : llvm::make_early_inc_range(code.globals())) {
    if (variable.getAddressSpace() != 0)
      continue;
    auto *moved = new llvm::GlobalVariable(code, variable.getValueType(), variable.isConstant(), variable.getLinkage(),
                                           variable.getInitializer(), "", &variable, llvm::GlobalValue::NotThreadLocal,
                                           constantSpace);
    moved->takeName(&variable);
    moved->setAlignment(variable.getAlign());
    variable.replaceAllUsesWith(llvm::ConstantExpr::getAddrSpaceCast(moved, variable.getType()));
    variable.eraseFromParent();
  }
}

Result<SimtCode> HsacoBackend::compile(std::span<const ScheduledPlan> plans, const std::string &entry,
                                       unsigned alignment) {
  OwningOpRef<ModuleOp> module = lowering.module();
  Instructions available;
  available.narrowIntegers = true;
  available.keepNan = false;
  available.brain = true;
  SimtCode result = emitKernels(plans, target, instructions, available, entry, alignment, *module);
  llvm::LLVMContext context;
  Result<std::unique_ptr<llvm::Module>> lowered = lowering.run(*module, context, entry);
  if (!lowered)
    return lowered.error();
  llvm::Module &code = **lowered;
  setMachine(code, *machine);
  // The oldest version of code objects that LLVM 22 writes. Kernels take nothing of what newer ones pass.
  code.addModuleFlag(llvm::Module::Error, "amdhsa_code_object_version", 400);
  nameSpaces(code);
  auto object = generate(code, *machine, llvm::CodeGenFileType::ObjectFile,
                         {llvm::createTargetTransformInfoWrapperPass(machine->getTargetIRAnalysis()),
                          llvm::createInferAddressSpacesPass()});
  if (!object)
    return object.error();
  Result<std::string> linked = linkHsaco({object->data(), object->size()});
  if (!linked)
    return Error{linked.error().code, entry + ": " + linked.error().message};
  result.code = std::move(*linked);
  return result;
}

// What kernels have been linked and checked for (figure rocm-assemble): CDNA 2 to 4, RDNA 3 and 4.
struct Chip {
  std::string_view name;
  unsigned wave;
};
constexpr Chip chips[] = {{"gfx90a", 64}, {"gfx942", 64}, {"gfx950", 64}, {"gfx1100", 32}, {"gfx1201", 32}};

} // namespace

Result<SimtTarget> SimtTarget::rocm(std::string_view architecture, unsigned compileThreads) {
  // Drivers name what is switched on, too: gfx90a:sramecc+:xnack-. Code that says nothing of it runs with either.
  const std::string_view name = architecture.substr(0, architecture.find(':'));
  const auto *chip = std::ranges::find(chips, name, &Chip::name);
  if (chip == std::end(chips)) {
    std::string known;
    for (const Chip &each : chips)
      known += (known.empty() ? "" : ", ") + std::string(each.name);
    return Error{MORTISE_UNSUPPORTED, "expected a GPU of " + known + ", found " + std::string(architecture)};
  }
  SimtTarget target;
  target.backend = &HsacoBackend::create;
  target.triple = "amdgcn-amd-amdhsa";
  target.chip = chip->name;
  target.subgroup = chip->wave;
  target.compileThreads = compileThreads;
  target.sharedBytes = 64 << 10;
  return target;
}

} // namespace mortise::codegen
