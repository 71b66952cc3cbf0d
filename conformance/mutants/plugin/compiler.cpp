// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// In place of plugins/cpu/compiler.cpp: kernels of one kind are changed before machine code is made of them.
#include "mutator.hpp"
#include "proof.hpp"

#include "../../../plugins/cpu/device.hpp"
#include "../../../plugins/cpu/units.hpp"

#include <llvm/ADT/StringExtras.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/JSON.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Support/xxhash.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <atomic>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <set>
#include <unistd.h>

namespace mortise::mutants {
namespace {

// MORTISE_TEST_MUTANT: "none", or the kind of kernels and the site, "00000000c0ffee00/17.1/plus-one", or a pattern and
// what happens to its instructions, "00000000c0ffee00/*.1/plus-one".
struct Choice {
  std::string text;
  uint64_t kind = 0; // or pattern
  Site site{};
};

Result<std::optional<Choice>> choice() {
  const char *word = std::getenv("MORTISE_TEST_MUTANT");
  if (!word || std::string_view(word).empty() || std::string_view(word) == "none")
    return std::optional<Choice>();
  Choice made{word};
  const auto [kind, rest] = llvm::StringRef(word).split('/');
  const auto site = siteOf(rest);
  if (kind.size() != 16 || kind.getAsInteger(16, made.kind) || !site)
    return Error{MORTISE_INVALID_ARGUMENT, "MORTISE_TEST_MUTANT: expected none, or a kind and a site such as "
                                           "00000000c0ffee00/17.1/plus-one, found " +
                                               std::string(word)};
  made.site = *site;
  return std::optional(std::move(made));
}

// One write for a line, because several processes have the file open.
void log(const std::string &line) {
  const char *file = std::getenv("MORTISE_TEST_MUTANT_LOG");
  if (!file)
    return;
  const int log = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (log < 0 || write(log, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    llvm::errs() << "MORTISE_TEST_MUTANT_LOG: " << file << " cannot be written\n";
  if (log >= 0)
    close(log);
}

// Both versions are optimised before they are compared: that they come to the same code is proof, whatever stood there.
void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager components;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
}

Result<std::string> machineCode(llvm::Module &module, bool isOptimised) {
  const codegen::Target &target = cpu::target();
  std::string message;
  const llvm::Target *generator = llvm::TargetRegistry::lookupTarget(llvm::Triple(target.triple), message);
  if (!generator)
    return Error{MORTISE_INTERNAL, message};
  const std::unique_ptr<llvm::TargetMachine> machine(generator->createTargetMachine(
      llvm::Triple(target.triple), target.cpu, target.features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default, /*JIT=*/true));
  llvm::SmallString<0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  if (machine && isOptimised) {
    for (llvm::Function &function : module)
      if (!function.isDeclaration()) {
        forgetUnseenLanes(function);
        assumeCalls(function);
      }
    optimise(module, *machine);
  }
  if (!machine || machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return Error{MORTISE_INTERNAL, "the code generator cannot write objects"};
  passes.run(module);
  return bytes.str().str();
}

// A kernel's kind, its sites, and whether it combines the lanes of a vector.
std::string lineOf(llvm::Function &function) {
  bool isAcross = false;
  for (const llvm::Instruction &in : llvm::instructions(function))
    if (const auto *shuffle = llvm::dyn_cast<llvm::ShuffleVectorInst>(&in))
      isAcross |= // it is shorter than what it takes from
          shuffle->getShuffleMask().size() <
          llvm::cast<llvm::FixedVectorType>(shuffle->getOperand(0)->getType())->getNumElements();
  std::string line = "{\"kind\": \"" + llvm::utohexstr(kindOf(function), true, 16) + "\", \"name\": \"" +
                     function.getName().str() + "\", \"across\": " + (isAcross ? "true" : "false") + ", \"sites\": [";
  for (const Site &site : sitesOf(function))
    line += (line.back() == '[' ? "\"" : ", \"") + textOf(site) + "\"";
  line += "], \"patterns\": [";
  for (const auto &[pattern, site] : patternSitesOf(function))
    line += (line.back() == '[' ? "\"" : ", \"") + llvm::utohexstr(pattern, true, 16) + "/" + textOf(site) + "\"";
  return line + "]}\n";
}

// Says what kernels there are and changes none.
Result<void> listKernel(llvm::Module &module) {
  static std::mutex mutex;
  static auto *known = new std::set<uint64_t>;
  if (!std::getenv("MORTISE_TEST_MUTANT_LOG"))
    return {};
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    {
      const std::lock_guard lock(mutex);
      if (!known->insert(kindOf(function)).second)
        continue;
    }
    log(lineOf(function));
  }
  return {};
}

// Changes the function where it has the mutant's site, and answers with what stood there.
Result<std::vector<std::string>> change(llvm::Function &function, const Choice &chosen) {
  if (chosen.site.instruction == everywhere)
    return mutateEverywhere(function, chosen.kind, chosen.site);
  if (kindOf(function) != chosen.kind)
    return std::vector<std::string>();
  if (!mutate(function, chosen.site))
    return Error{MORTISE_INTERNAL, "MORTISE_TEST_MUTANT: kernels of the kind have no site " + textOf(chosen.site)};
  return std::vector<std::string>{"instruction " + std::to_string(chosen.site.instruction)};
}

// For people: the first module that a mutant changes, before and after.
void keepText(const llvm::Module &before, const llvm::Module &after) {
  const char *folder = std::getenv("MORTISE_TEST_MUTANT_TEXT");
  if (!folder)
    return;
  std::error_code wrong;
  llvm::raw_fd_ostream(std::string(folder) + "/before.ll", wrong) << before;
  llvm::raw_fd_ostream(std::string(folder) + "/after.ll", wrong) << after;
}

Result<void> changeKernel(llvm::Module &module, const Choice &chosen) {
  static std::atomic<bool> differs = false; // there is no need to compare more kernels of this process
  std::unique_ptr<llvm::Module> before = differs ? nullptr : llvm::CloneModule(module);
  std::string stood;
  for (llvm::Function &function : module)
    if (!function.isDeclaration()) {
      const auto done = change(function, chosen);
      if (!done)
        return done.error();
      if (stood.empty() && !done->empty())
        stood = function.getName().str() + ": " + llvm::StringRef(done->front()).ltrim().str();
    }
  if (stood.empty())
    return {};
  std::string wrong;
  llvm::raw_string_ostream stream(wrong);
  if (llvm::verifyModule(module, &stream))
    return Error{MORTISE_INTERNAL, "the mutant " + chosen.text + " is no valid code: " + wrong};
  if (!before)
    return {};
  auto made = machineCode(*llvm::CloneModule(module), false), old = machineCode(*llvm::CloneModule(*before), false);
  if (!old || !made)
    return old ? made.error() : old.error();
  const auto areEqual = [](llvm::Module &one, llvm::Module &other) {
    const auto a = machineCode(one, true), b = machineCode(other, true);
    return a && b && *a == *b;
  };
  const bool isEqual = *old == *made || areEqual(*llvm::CloneModule(*before), *llvm::CloneModule(module)) ||
                       (chosen.site.change == Operator::Unordered && areEqualForNan(*before, module, areEqual));
  if (!isEqual) {
    keepText(*before, module);
    differs = true;
  }
  std::string line;
  llvm::raw_string_ostream(line) << llvm::json::Value(
                                        llvm::json::Object{{"mutant", chosen.text},
                                                           {"equal", isEqual},
                                                           {"stood", stood},
                                                           {"code", llvm::utohexstr(llvm::xxh3_64bits(*made))}})
                                 << "\n";
  log(line);
  return {};
}

} // namespace
} // namespace mortise::mutants

namespace mortise::cpu {

Result<std::unique_ptr<codegen::Compiler>> makeCompiler() {
  auto chosen = mutants::choice();
  if (!chosen)
    return chosen.error();
  codegen::Transform transform{"none", mutants::listKernel};
  if (*chosen)
    transform = {(*chosen)->text,
                 [mutant = **chosen](llvm::Module &module) { return mutants::changeKernel(module, mutant); }};
  return codegen::Compiler::create(target(), std::move(transform));
}

} // namespace mortise::cpu
