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

// Instructions that multiply matrices: AMD's ISA documents of CDNA 3, CDNA 4, RDNA 3 and RDNA 4 have their layouts.
struct MatrixUnit {
  const MatrixLayout *layout;
  const char *half, *brain;  // intrinsics for f16 and bf16
  bool hasBrainType = false; // the second one takes bf16, and not its bits
  unsigned modifiers = 0;    // arguments behind the matrices, all 0
};
constexpr MatrixLayout::Edge columns(unsigned piece) {
  return {.lines = 16, .piece = piece, .results = 1, .apart = 16, .every = 1};
}
constexpr MatrixLayout mfma16{{.lines = 16, .piece = 4, .results = 4, .apart = 1, .every = 16}, columns(4), 16};
constexpr MatrixLayout mfma32{{.lines = 16, .piece = 8, .results = 4, .apart = 1, .every = 16}, columns(8), 32};
// Both halves of a wave have all factors, and the odd rows lie in the second one.
constexpr MatrixLayout wmma11{{.lines = 16, .piece = 0, .results = 8, .apart = 2, .every = 16}, columns(0), 16};
constexpr MatrixLayout wmma12{{.lines = 16, .piece = 8, .results = 8, .apart = 1, .every = 16}, columns(8), 16};
constexpr MatrixUnit cdna3{&mfma16, "llvm.amdgcn.mfma.f32.16x16x16f16", "llvm.amdgcn.mfma.f32.16x16x16bf16.1k", false,
                           3};
constexpr MatrixUnit cdna4{&mfma32, "llvm.amdgcn.mfma.f32.16x16x32.f16", "llvm.amdgcn.mfma.f32.16x16x32.bf16", true, 3};
constexpr MatrixUnit rdna3{&wmma11, "llvm.amdgcn.wmma.f32.16x16x16.f16", "llvm.amdgcn.wmma.f32.16x16x16.bf16"};
constexpr MatrixUnit rdna4{&wmma12, "llvm.amdgcn.wmma.f32.16x16x16.f16", "llvm.amdgcn.wmma.f32.16x16x16.bf16"};

// What kernels have been linked and checked for (figure rocm-assemble): CDNA 2 to 4, RDNA 3 and 4. CDNA 2 has matrices
// that take subnormal factors for 0 (ROCm's documentation of MIOpen, "MI200 MFMA behavior specifics"), which those of
// f16 must not be.
struct Chip {
  std::string_view name;
  unsigned wave;
  const MatrixUnit *matrices;
};
constexpr Chip chips[] = {{"gfx90a", 64, nullptr},
                          {"gfx942", 64, &cdna3},
                          {"gfx950", 64, &cdna4},
                          {"gfx1100", 32, &rdna3},
                          {"gfx1201", 32, &rdna4}};
const Chip *findChip(std::string_view name) {
  const auto *chip = std::ranges::find(chips, name, &Chip::name);
  return chip == std::end(chips) ? nullptr : chip;
}

// Through LLVM's intrinsics for AMDGPU (llvm/docs/AMDGPUUsage.rst).
class AmdMachine final : public SimtMachine {
public:
  explicit AmdMachine(const Chip &chip) : chip(chip) {}

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
  unsigned subgroup() const override { return chip.wave; }
  SmallVector<Value> readFactors(Code &c, const Factors &factors) const override {
    const int64_t count = factorsPerThread();
    Type type = VectorType::get({count}, c.b.getI16Type());
    const auto alignment = static_cast<unsigned>(std::min<int64_t>(2 * count, 16));
    return {LLVM::LoadOp::create(c.b, c.loc, type, factors.first, alignment)};
  }
  SmallVector<Value> multiply(Code &c, int32_t dtype, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                              ArrayRef<Value> sums) const override;

private:
  int64_t factorsPerThread() const {
    const MatrixLayout &layout = *chip.matrices->layout;
    return layout.rows.piece ? layout.rows.piece : layout.terms;
  }
  // Data-parallel primitives: a move that reads another thread's register. 0 where none does it.
  unsigned dppControl(unsigned mask) const {
    switch (mask) {
    case 1:
      return 0xb1; // quad_perm:[1,0,3,2]
    case 2:
      return 0x4e; // quad_perm:[2,3,0,1]
    case 8:
      return 0x128;                                           // row_ror:8, in a row of 16
    default:                                                  // gfx10 and newer
      return chip.wave == 32 && mask < 16 ? 0x160 + mask : 0; // row_xmask
    }
  }
  static Value number(Code &c, int64_t value) { return c.integer(c.b.getI32Type(), value); }
  static Value call(Code &c, const char *name, Type type, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(c.b, c.loc, type, c.b.getStringAttr(name), arguments).getResults();
  }

  const Chip &chip;
};

SmallVector<Value> AmdMachine::multiply(Code &c, int32_t dtype, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                                        ArrayRef<Value> sums) const {
  const MatrixUnit &unit = *chip.matrices;
  const bool isHalf = dtype == MORTISE_F16;
  Type f32 = c.b.getF32Type(), i32 = c.b.getI32Type();
  Type factor = isHalf ? Type(c.b.getF16Type()) : unit.hasBrainType ? Type(c.b.getBF16Type()) : c.b.getI16Type();
  const auto count = static_cast<int64_t>(sums.size());
  VectorType type = VectorType::get({count}, f32);
  Value all = LLVM::PoisonOp::create(c.b, c.loc, type);
  for (int64_t i = 0; i < count; ++i)
    all = LLVM::InsertElementOp::create(c.b, c.loc, all, sums[i], c.integer(i32, i));
  SmallVector<Value> operands;
  for (Value words : {lhs[0], rhs[0]})
    operands.push_back(
        LLVM::BitcastOp::create(c.b, c.loc, VectorType::get({factorsPerThread()}, factor), words).getResult());
  operands.push_back(all);
  operands.append(unit.modifiers, number(c, 0));
  Value made = call(c, isHalf ? unit.half : unit.brain, type, operands);
  SmallVector<Value> results;
  for (int64_t i = 0; i < count; ++i)
    results.push_back(LLVM::ExtractElementOp::create(c.b, c.loc, made, c.integer(i32, i)));
  return results;
}

class HsacoBackend final : public SimtBackend {
public:
  HsacoBackend(const SimtTarget &target, std::unique_ptr<llvm::TargetMachine> machine)
      : target(target), machine(std::move(machine)), instructions(*findChip(target.chip)) {}
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

} // namespace

Result<SimtTarget> SimtTarget::rocm(std::string_view architecture, unsigned compileThreads) {
  // Drivers name what is switched on, too: gfx90a:sramecc+:xnack-. Code that says nothing of it runs with either.
  const std::string_view name = architecture.substr(0, architecture.find(':'));
  const Chip *chip = findChip(name);
  if (!chip) {
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
  if (chip->matrices)
    target.matrices = *chip->matrices->layout;
  target.compileThreads = compileThreads;
  target.sharedBytes = 64 << 10;
  return target;
}

} // namespace mortise::codegen
