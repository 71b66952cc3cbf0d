// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emit/cpu.hpp"
#include "target/lowering.hpp"
#include "target/x86/jit.hpp"

#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/SubtargetFeature.h>

#include <chrono>
#include <mutex>

namespace mortise::codegen {

using namespace mlir;

static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Target Target::host(unsigned threads) {
  Target target;
  target.triple = llvm::sys::getDefaultTargetTriple();
  target.cpu = llvm::sys::getHostCPUName().str();
  llvm::SubtargetFeatures features;
  auto found = llvm::sys::getHostCPUFeatures();
  for (auto &[name, has] : found)
    features.AddFeature(name, has);
  target.features = features.getString();
  target.vectorBits = found.lookup("avx512f") ? 512 : found.lookup("avx2") ? 256 : 128;
  target.threads = threads;
  return target;
}

namespace {
struct Level {
  const char *name;
  unsigned vectorBits;
  std::vector<const char *> needs; // features that generated code and the library use at this level, by LLVM's names
};
} // namespace

static const std::vector<Level> &levels() {
  static const auto *all = new std::vector<Level>{
      {"x86-64-v2", 128, {"sse4.2", "popcnt"}},
      {"x86-64-v3", 256, {"avx2", "fma", "f16c", "bmi2", "lzcnt", "movbe"}},
      {"x86-64-v4", 512, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}},
  };
  return *all;
}

Result<Target> Target::ofLevel(std::string_view level, unsigned threads) {
  Target target = host(threads);
  if (level == "native")
    return target;
  std::string known = "native";
  for (const Level &candidate : levels()) {
    known += std::string(", ") + candidate.name;
    if (level != candidate.name)
      continue;
    auto found = llvm::sys::getHostCPUFeatures();
    std::string missing;
    for (const char *feature : candidate.needs)
      if (!found.lookup(feature))
        missing += std::string(missing.empty() ? "" : ", ") + feature;
    if (!missing.empty())
      return Error{MORTISE_UNSUPPORTED, "instruction set " + std::string(level) + ": this machine (" + target.cpu +
                                            ") lacks " + missing + "; choose a lower one, or native"};
    target.cpu = candidate.name;
    target.features.clear();
    target.vectorBits = candidate.vectorBits;
    return target;
  }
  return Error{MORTISE_INVALID_ARGUMENT, "instruction set: expected one of " + known + ", found " + std::string(level)};
}

struct Backend::Impl {
  Lowering lowering;
  std::unique_ptr<llvm::TargetMachine> machine;
  Instructions instructions;
  void describeTarget(llvm::Module &module) const {
    module.setDataLayout(machine->createDataLayout());
    module.setTargetTriple(machine->getTargetTriple());
  }
};

Backend::Backend(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Backend::~Backend() = default;

Result<std::unique_ptr<Backend>> Backend::create(const Target &target) {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
  auto impl = std::make_unique<Impl>();
  std::string message;
  const llvm::Target *llvmTarget = llvm::TargetRegistry::lookupTarget(llvm::Triple(target.triple), message);
  if (!llvmTarget)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + ": " + message};
  llvm::TargetOptions options;
  impl->machine.reset(llvmTarget->createTargetMachine(llvm::Triple(target.triple), target.cpu, target.features, options,
                                                      llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                      llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  if (!impl->machine)
    return Error{MORTISE_UNSUPPORTED, "no code generator for " + target.triple + " " + target.cpu};
  // All other architectures have both.
  const bool isX86 = impl->machine->getTargetTriple().isX86();
  const llvm::MCSubtargetInfo &subtarget = *impl->machine->getMCSubtargetInfo();
  impl->instructions.fma = !isX86 || subtarget.checkFeatures("+fma");
  impl->instructions.half = !isX86 || subtarget.checkFeatures("+f16c");
  return std::unique_ptr<Backend>(new Backend(std::move(impl)));
}

const Instructions &Backend::instructions() const { return impl->instructions; }

Result<std::string> Backend::assemble(llvm::Module &module) {
  impl->describeTarget(module);
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (impl->machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile,
                                         /*DisableVerify=*/true))
    return Error{MORTISE_INTERNAL, "the code generator cannot write objects"};
  passes.run(module);
  return std::string(bytes.begin(), bytes.end());
}

Result<Object> Backend::compile(LoopPlan &plan, const CpuSchedule &schedule, const std::string &symbol,
                                const Transform *transform) {
  Object object;
  auto start = std::chrono::steady_clock::now();
  OwningOpRef<ModuleOp> module = impl->lowering.module();
  OpBuilder builder(module->getContext());
  EmittedCpuKernel kernel = CpuKernel(plan, schedule, *module, builder, impl->instructions).emit(symbol);
  object.tasks = kernel.tasks;
  object.grain = kernel.grain;
  object.over = std::move(kernel.over);
  llvm::LLVMContext llvmContext;
  Result<std::unique_ptr<llvm::Module>> lowered = impl->lowering.run(*module, llvmContext, symbol);
  if (!lowered)
    return lowered.error();
  const std::unique_ptr<llvm::Module> llvmModule = std::move(*lowered);
  object.mlirSeconds = secondsSince(start);

  start = std::chrono::steady_clock::now();
  impl->describeTarget(*llvmModule);
  if (transform)
    if (Result<void> done = transform->run(*llvmModule); !done)
      return done.error();
  if (isDumped("llvm"))
    llvmModule->print(llvm::errs(), nullptr);
  Result<std::string> code = assemble(*llvmModule);
  if (!code)
    return code.error();
  object.code = std::move(*code);
  object.llvmSeconds = secondsSince(start);
  return object;
}

} // namespace mortise::codegen
