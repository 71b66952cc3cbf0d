// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/lowering.hpp"
#include "target/machine.hpp"
#include "target/simt.hpp"
#include "tiles/attention.hpp"

#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>

#include <mutex>

namespace mortise::codegen {

using namespace mlir;

namespace {

// Calls of LLVM's intrinsics for NVPTX.
Value call(Code &c, const char *name, Type type, ValueRange arguments) {
  return LLVM::CallIntrinsicOp::create(c.b, c.loc, type, c.b.getStringAttr(name), arguments).getResults();
}

class PtxApproximations final : public Approximations {
public:
  Value exp2(Code &c, Value x, bool subnormals) const override {
    return call(c, subnormals ? "llvm.nvvm.ex2.approx.f32" : "llvm.nvvm.ex2.approx.ftz.f32", x.getType(), x);
  }
  Value reciprocal(Code &c, Value x) const override { return call(c, "llvm.nvvm.rcp.approx.ftz.f", x.getType(), x); }
};

class PtxMachine final : public SimtMachine {
public:
  explicit PtxMachine(const std::string &chip) : capability(std::stoi(chip.substr(std::strlen("sm_")))) {}
  void makeKernel(LLVM::LLVMFuncOp function, unsigned threads, unsigned resident, unsigned cluster) const override {
    OpBuilder b(function.getContext());
    function.setCConv(LLVM::cconv::CConv::PTX_Kernel);
    SmallVector<Attribute> attributes{b.getStrArrayAttr({"nvvm.reqntid", std::to_string(threads)})};
    if (resident)
      attributes.push_back(b.getStrArrayAttr({"nvvm.minctasm", std::to_string(resident)}));
    if (cluster > 1)
      attributes.push_back(b.getStrArrayAttr({"nvvm.cluster_dim", std::to_string(cluster)}));
    function.setPassthroughAttr(b.getArrayAttr(attributes));
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
  Value any(Code &c, Value condition) const override {
    return call(c, "llvm.nvvm.vote.any.sync", c.b.getI1Type(), {c.integer(c.b.getI32Type(), -1), condition});
  }
  unsigned sharedSpace() const override { return 3; }
  Value ofBlock(Code &c, Value array, Value number) const override {
    return call(c, "llvm.nvvm.mapa.shared.cluster", LLVM::LLVMPointerType::get(c.b.getContext(), 7), {array, number});
  }
  void clusterBarrier(Code &c) const override {
    for (const char *name : {"llvm.nvvm.barrier.cluster.arrive.aligned", "llvm.nvvm.barrier.cluster.wait.aligned"})
      LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr(name), ValueRange());
  }
  unsigned subgroup() const override { return 32; }
  bool launchesRows() const override { return true; }
  bool hasCacheHints() const { return capability >= 89; } // in the version of PTX that it has, below
  // Loads of memory that stays as it is may pass the wait, so that there are none in such kernels.
  bool overlapsKernels() const override { return capability >= 90; }
  void releaseNext(Code &c) const override {
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.nvvm.griddepcontrol.launch.dependents"),
                                  ValueRange());
  }
  void awaitKernels(Code &c) const override {
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.nvvm.griddepcontrol.wait"), ValueRange());
  }
  bool copiesAside() const override { return capability >= 80; }
  void copyAside(Code &c, Value to, Value from) const override {
    Value global = LLVM::AddrSpaceCastOp::create(c.b, c.loc, LLVM::LLVMPointerType::get(c.b.getContext(), 1), from);
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.nvvm.cp.async.cg.shared.global.16"),
                                  ValueRange{to, global});
  }
  void awaitCopies(Code &c) const override {
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr("llvm.nvvm.cp.async.wait.all"), ValueRange());
  }
  SmallVector<Value> multiply(Code &c, int32_t dtype, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                              ArrayRef<Value> sums) const override {
    const bool isHalf = dtype == MORTISE_F16;
    SmallVector<Value> operands;
    for (const ArrayRef<Value> words : {lhs, rhs})
      for (Value word : words)
        operands.push_back(isHalf ? LLVM::BitcastOp::create(c.b, c.loc, VectorType::get({2}, c.b.getF16Type()), word)
                                  : word);
    operands.append(sums.begin(), sums.end());
    return four(c, isHalf ? "llvm.nvvm.mma.m16n8k16.row.col.f32.f32" : "llvm.nvvm.mma.m16n8k16.row.col.bf16",
                c.b.getF32Type(), operands);
  }
  SmallVector<Value> readFactors(Code &c, const Factors &factors) const override {
    return readMatrices(c, factors.first, /*transposed=*/false);
  }
  SmallVector<Value> readMatrices(Code &c, Value row, bool transposed) const override {
    return four(c,
                transposed ? "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.trans.b16"
                           : "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x4.b16",
                c.b.getI32Type(), row);
  }

private:
  // The four results of an intrinsic.
  static SmallVector<Value> four(Code &c, const char *name, Type type, ValueRange operands) {
    Value made =
        call(c, name, LLVM::LLVMStructType::getLiteral(c.b.getContext(), SmallVector<Type>(4, type)), operands);
    SmallVector<Value> list;
    for (int64_t i = 0; i < 4; ++i)
      list.push_back(LLVM::ExtractValueOp::create(c.b, c.loc, made, i));
    return list;
  }

  const int capability; // ten times the major number, plus the minor one
};

Instructions available() {
  static const PtxApproximations approximations;
  Instructions instructions;
  instructions.narrowIntegers = true;
  instructions.wordHalves = true;
  instructions.keepNan = false;
  instructions.brain = true;
  instructions.approximations = &approximations;
  return instructions;
}

class PtxBackend final : public SimtBackend {
public:
  PtxBackend(const SimtTarget &target, std::unique_ptr<llvm::TargetMachine> machine)
      : target(target), machine(std::move(machine)), instructions(target.chip) {}
  static Result<std::unique_ptr<SimtBackend>> create(const SimtTarget &target);
  Result<SimtCode> compile(std::span<const ScheduledPlan> plans, const std::string &entry, unsigned alignment) override;
  Result<SimtCode> compile(const AttentionCode &code, const std::string &entry, unsigned alignment) override;

private:
  Result<std::string> textOf(ModuleOp module, const std::string &entry);
  SimtTarget target;
  Lowering lowering;
  std::unique_ptr<llvm::TargetMachine> machine;
  PtxMachine instructions;
};

Result<std::unique_ptr<SimtBackend>> PtxBackend::create(const SimtTarget &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  // The driver's assembler optimises again: PTX from -O1 runs as fast as that from -O3 (docs/codegen.md).
  auto machine = machineOf(target, std::nullopt, llvm::CodeGenOptLevel::Less);
  if (!machine)
    return machine.error();
  return std::unique_ptr<SimtBackend>(std::make_unique<PtxBackend>(target, std::move(*machine)));
}

// Loads of constant memory leave nothing in the nearest cache, which sums of columns gain 1 % by. LLVM cannot be told.
static void passBy(std::string &code) {
  constexpr std::string_view load = "ld.global.nc.", hint = "L1::no_allocate.";
  for (size_t at = 0; (at = code.find(load, at)) != std::string::npos;)
    code.insert(at += load.size(), hint);
}

Result<SimtCode> PtxBackend::compile(std::span<const ScheduledPlan> plans, const std::string &entry,
                                     unsigned alignment) {
  OwningOpRef<ModuleOp> module = lowering.module();
  SimtCode result = emitKernels(plans, target, instructions, available(), entry, alignment, *module);
  Result<std::string> text = textOf(*module, entry);
  if (!text)
    return text.error();
  result.code = std::move(*text);
  const bool readsOnce = std::ranges::all_of(plans, [](const ScheduledPlan &each) { return each.schedule.readsOnce; });
  if (readsOnce && instructions.hasCacheHints())
    passBy(result.code);
  return result;
}

Result<SimtCode> PtxBackend::compile(const AttentionCode &code, const std::string &entry, unsigned alignment) {
  if (!target.matrices)
    return SimtBackend::compile(code, entry, alignment);
  OwningOpRef<ModuleOp> module = lowering.module();
  SimtCode result;
  result.launches.push_back(emitAttention(code, instructions, available(), entry, alignment, *module));
  Result<std::string> text = textOf(*module, entry);
  if (!text)
    return text.error();
  result.code = std::move(*text);
  result.usesAlignment = true;
  return result;
}

Result<std::string> PtxBackend::textOf(ModuleOp module, const std::string &entry) {
  llvm::LLVMContext context;
  Result<std::unique_ptr<llvm::Module>> lowered = lowering.run(module, context, entry);
  if (!lowered)
    return lowered.error();
  setMachine(**lowered, *machine);
  auto text = generate(**lowered, *machine, llvm::CodeGenFileType::AssemblyFile);
  if (!text)
    return text.error();
  std::string code(text->begin(), text->end());
  if (isDumped("ptx"))
    llvm::errs() << code;
  return code;
}

// The oldest version of PTX that has the chip: the drivers that know the chip know it.
static constexpr struct {
  int capability; // ten times the major number, plus the minor one
  const char *chip, *version;
  unsigned sharedBytes; // of a block, if its launch asks for them
} chips[] = {
    {75, "sm_75", "+ptx63", 64 << 10},   {80, "sm_80", "+ptx70", 163 << 10}, {86, "sm_86", "+ptx71", 99 << 10},
    {89, "sm_89", "+ptx78", 99 << 10},   {90, "sm_90", "+ptx78", 227 << 10}, {100, "sm_100", "+ptx86", 227 << 10},
    {120, "sm_120", "+ptx87", 99 << 10},
};

} // namespace

Result<SimtTarget> SimtTarget::cuda(int major, int minor, unsigned compileThreads) {
  SimtTarget target;
  target.backend = &PtxBackend::create;
  target.triple = "nvptx64-nvidia-cuda";
  target.compileThreads = compileThreads;
  const int capability = major * 10 + minor;
  for (const auto &[least, chip, version, sharedBytes] : chips)
    if (capability >= least)
      target.chip = chip, target.features = version, target.sharedBytes = sharedBytes;
  if (capability >= 80) // for bf16
    target.matrices = mmaLayout;
  if (capability >= 90)
    target.cluster = 8; // that every such GPU has
  if (target.chip.empty())
    return Error{MORTISE_UNSUPPORTED, "expected a GPU of compute capability 7.5 or newer, found " +
                                          std::to_string(major) + "." + std::to_string(minor)};
  return target;
}

} // namespace mortise::codegen
