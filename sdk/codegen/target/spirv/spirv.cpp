// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A scheduled plan to SPIR-V for Vulkan 1.1.
#include "target/dump.hpp"
#include "target/simt.hpp"
#include "target/spirv/translation.hpp"

#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SPIRV/IR/SPIRVDialect.h>

namespace mortise::codegen {

using namespace mlir;

namespace {

constexpr unsigned exchangeThreads = 32; // that exchange values over shared memory
constexpr unsigned leastThreads = 256;   // of a block, as schedule/simt.cpp has them
constexpr unsigned mostThreads = 1024;

// As intrinsics that only the translation knows.
class SpirvMachine final : public SimtMachine {
public:
  explicit SpirvMachine(unsigned threads) : threads(threads) {}
  void makeKernel(LLVM::LLVMFuncOp, unsigned, unsigned, unsigned) const override {}
  Value thread(Code &c) const override { return call(c, threadIntrinsic, {}); }
  Value block(Code &c) const override { return call(c, blockIntrinsic, {}); }
  void barrier(Code &c) const override {
    LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr(barrierIntrinsic), ValueRange());
  }
  Value exchange(Code &c, Value bits, unsigned mask) const override {
    return call(c, exchangeIntrinsic, {bits, c.integer(c.b.getI32Type(), mask)});
  }
  unsigned sharedSpace() const override { return 3; }
  unsigned subgroup() const override { return threads; }
  SmallVector<Value> readFactors(Code &c, const Factors &factors) const override {
    Type type = factors.dtype == MORTISE_F16 ? Type(c.b.getF16Type()) : c.b.getBF16Type();
    return {call(c, readMatrixIntrinsic, matrixOf(type, factors.areRows ? Use::MatrixA : Use::MatrixB),
                 {factors.first, c.integer(c.b.getI32Type(), factors.stride)})};
  }
  SmallVector<Value> multiply(Code &c, int32_t /*dtype*/, ArrayRef<Value> lhs, ArrayRef<Value> rhs,
                              ArrayRef<Value> sums) const override {
    return {call(c, multiplyMatricesIntrinsic, sums[0].getType(), {lhs[0], rhs[0], sums[0]})};
  }
  SmallVector<Value> zeroSums(Code &c, const MatrixLayout &) const override {
    return {call(c, zeroMatrixIntrinsic, matrixOf(c.b.getF32Type(), Use::MatrixAcc), {})};
  }
  SmallVector<Value> addSums(Code &c, ArrayRef<Value> x, ArrayRef<Value> y) const override {
    return {call(c, addMatricesIntrinsic, x[0].getType(), {x[0], y[0]})};
  }
  SmallVector<Value> numbersOf(Code &c, ArrayRef<Value> sums, Value memory) const override;

private:
  using Use = spirv::CooperativeMatrixUseKHR;
  static Type matrixOf(Type number, Use use) {
    return LLVM::LLVMTargetExtType::get(number.getContext(), matrixType, {number}, {static_cast<unsigned>(use)});
  }
  static Value call(Code &c, const char *name, Type type, ValueRange arguments) {
    return LLVM::CallIntrinsicOp::create(c.b, c.loc, type, c.b.getStringAttr(name), arguments).getResults();
  }
  static Value call(Code &c, const char *name, ValueRange arguments) {
    return call(c, name, c.b.getI32Type(), arguments);
  }

  const unsigned threads;
};

// Threads side by side read numbers side by side.
constexpr MatrixLayout cooperativeLayout{
    .rows = {.lines = matrixSide, .results = 8, .apart = 2, .every = matrixSide},
    .columns = {.lines = matrixSide, .results = 1, .apart = matrixSide, .every = 1},
    .terms = matrixSide,
    .isOpaque = true};
constexpr unsigned matrixThreads = 32; // of a subgroup

SmallVector<Value> SpirvMachine::numbersOf(Code &c, ArrayRef<Value> sums, Value memory) const {
  Type i32 = c.b.getI32Type(), f32 = c.b.getF32Type();
  LLVM::CallIntrinsicOp::create(c.b, c.loc, c.b.getStringAttr(writeMatrixIntrinsic),
                                ValueRange{memory, c.integer(i32, matrixSide), sums[0]});
  barrier(c);
  Value mine = c.andI(thread(c), c.integer(i32, matrixThreads - 1));
  SmallVector<Value> numbers;
  for (unsigned i = 0; i < cooperativeLayout.rows.results; ++i) {
    Value place = c.addI(mine, c.integer(i32, int64_t(i) * matrixThreads)); // two rows
    place = LLVM::GEPOp::create(c.b, c.loc, memory.getType(), f32, memory, ValueRange{place});
    numbers.push_back(LLVM::LoadOp::create(c.b, c.loc, f32, place));
  }
  barrier(c); // before the next matrix
  return numbers;
}

class SpirvApproximations final : public Approximations {
public:
  // Where the result would be subnormal, and the instruction may give 0, it is taken 64 powers higher.
  Value exp2(Code &c, Value x, bool subnormals) const override {
    if (!subnormals)
      return call(c, exp2Intrinsic, x);
    Value isLow = c.roughCompare(arith::CmpFPredicate::OLT, x, c.constant(x.getType(), -125.0));
    Value power = call(c, exp2Intrinsic, c.select(isLow, c.add(x, 64.0), x));
    return c.select(isLow, c.mul(power, 0x1p-64), power);
  }
  // 1 / x costs NVIDIA's compiler 44 instructions, since kernels ask for rounding to nearest; this one is one.
  Value reciprocalRoot(Code &c, Value x) const override { return call(c, reciprocalRootIntrinsic, x); }

private:
  static Value call(Code &c, const char *name, Value x) {
    return LLVM::CallIntrinsicOp::create(c.b, c.loc, x.getType(), c.b.getStringAttr(name), x).getResults();
  }
};

// Conditions on a sum of a position and one in a window, which may exceed 32 bits, and updates that are sorted by
// places that may.
bool needsWidePositions(const LoopPlan &plan) {
  const IndexSpace &space = plan.space;
  for (GuardId guard = 1; guard < space.guardCount(); ++guard)
    for (const Condition &condition : space.guard(guard))
      if (!space.isNarrow(condition.index) && space.index(condition.index).terms.size() > 1)
        return true;
  const auto isNarrow = [&](const Dim &count) { return space.facts.isNarrow(count * 2); };
  return plan.isScatter() &&
         !(isNarrow(elementCount(plan.dag.exprs[plan.dag.roots[0]].dims)) && isNarrow(plan.rows() * plan.rowLength));
}

class SpirvBackend final : public SimtBackend {
public:
  SpirvBackend(const SimtTarget &target, const VulkanFeatures &features)
      : target(target), features(features), machine(target.subgroup) {
    context
        .loadDialect<arith::ArithDialect, LLVM::LLVMDialect, math::MathDialect, scf::SCFDialect, spirv::SPIRVDialect>();
  }
  Result<SimtCode> compile(std::span<const ScheduledPlan> plans, const std::string &entry, unsigned alignment) override;

private:
  const SimtTarget target;
  const VulkanFeatures features;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  SpirvMachine machine;
};

Result<SimtCode> SpirvBackend::compile(std::span<const ScheduledPlan> plans, const std::string &entry,
                                       unsigned alignment) {
  if (!features.widePositions &&
      std::ranges::any_of(plans, [](const ScheduledPlan &each) { return needsWidePositions(*each.plan); }))
    return Error{MORTISE_UNSUPPORTED,
                 "expected windows and scatters over extents that are numbers, since this device's driver computes "
                 "others wrong, found extents over symbols; compile for each shape"};
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  // Vulkan's fma need not be fused, and conversions of f16 may flush and round as they like.
  Instructions available;
  available.fma = available.half = false;
  static const SpirvApproximations approximations;
  available.approximations = features.exactFunctions ? &approximations : nullptr;
  available.narrowIntegers = true;
  available.subnormals = features.f32.denormals;
  available.oneNan = features.oneNan;
  SimtCode result = emitKernels(plans, target, machine, available, entry, alignment, *module);
  if (isDumped("mlir"))
    module->dump();
  // llvmpipe needs minutes to compile arrays of constants, and others may copy them for each thread.
  SmallVector<LLVM::GlobalOp> constants;
  for (auto global : module->getOps<LLVM::GlobalOp>())
    if (global.getAddrSpace() == 0) {
      const auto bytes = cast<DenseElementsAttr>(*global.getValue());
      const llvm::ArrayRef<char> raw = bytes.getRawData();
      std::string whole(raw.begin(), raw.end());
      if (bytes.isSplat())
        whole.assign(static_cast<size_t>(bytes.getNumElements()), raw[0]);
      result.constants.push_back(std::move(whole));
      constants.push_back(global);
    }
  Translation translation(context, features);
  for (const SimtLaunch &launch : result.launches) {
    auto kernel = module->lookupSymbol<LLVM::LLVMFuncOp>(launch.entry);
    result.hasTable = (kernel.getNumArguments() + constants.size()) * sizeof(uint64_t) > features.argumentBytes;
    if (auto added = translation.add(kernel, constants, launch.threads); !added)
      return added.error();
  }
  Result<std::string> words = translation.serialise();
  if (!words)
    return words.error();
  result.code = std::move(*words);
  return result;
}

} // namespace

Result<SimtTarget> SimtTarget::vulkan(const VulkanFeatures &features, unsigned compileThreads) {
  if (features.subgroup > VulkanFeatures::mostSubgroup || (features.subgroup & (features.subgroup - 1)))
    return Error{MORTISE_UNSUPPORTED, "expected subgroups of a power of 2 of at most " +
                                          std::to_string(VulkanFeatures::mostSubgroup) + " threads, found " +
                                          std::to_string(features.subgroup)};
  if (features.blockThreads < leastThreads)
    return Error{MORTISE_UNSUPPORTED, "expected a device with blocks of at least " + std::to_string(leastThreads) +
                                          " threads, found " + std::to_string(features.blockThreads)};
  SimtTarget target;
  target.triple = "spirv64-unknown-vulkan1.1";
  for (const unsigned number : {features.sharedBytes, features.argumentBytes, features.blockThreads, features.subgroup})
    target.chip += (target.chip.empty() ? "" : " ") + std::to_string(number);
  const auto add = [&](bool has, const char *name) { target.features += has ? std::string("+") + name : ""; };
  add(features.doubles, "f64"), add(features.exactQuotients, "quotients");
  add(features.flushesSubnormals, "flushes"), add(features.exactFunctions, "functions");
  add(features.widePositions, "positions64"), add(features.oneNan, "nan");
  add(features.f32.denormals, "denormals32"), add(features.f64.denormals, "denormals64");
  add(features.f32.specials, "specials32"), add(features.f64.specials, "specials64");
  add(features.f32.nearest, "nearest32"), add(features.f64.nearest, "nearest64");
  target.subgroup = features.subgroup ? features.subgroup : exchangeThreads;
  add(features.halfMatrices, "matrices16"), add(features.brainMatrices, "matricesbf16");
  if (features.halfMatrices && features.subgroup == matrixThreads) {
    target.matrices = cooperativeLayout;
    target.matrices->hasBrain = features.brainMatrices;
  }
  target.blockThreads = std::min(features.blockThreads, mostThreads);
  target.compileThreads = compileThreads;
  // Exchanges through the block's memory take two words of each thread.
  const unsigned exchanged = features.subgroup ? 0 : 2 * target.blockThreads * sizeof(uint32_t);
  target.sharedBytes = features.sharedBytes - std::min(features.sharedBytes, exchanged);
  target.backend = [features](const SimtTarget &each) -> Result<std::unique_ptr<SimtBackend>> {
    return std::unique_ptr<SimtBackend>(std::make_unique<SpirvBackend>(each, features));
  };
  return target;
}

} // namespace mortise::codegen
