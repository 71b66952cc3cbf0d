// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator.hpp"

#include "emulated_machine.hpp"

#include "target/lowering.hpp"
#include "target/simt.hpp"
#include "target/x86/jit.hpp"
#include "tiles/attention.hpp"

#include <gtest/gtest.h>

namespace mortise::codegen::test {

namespace {

unsigned subgroupSize = 32; // of the machine at hand
std::optional<MatrixLayout> matrixLayout = mmaLayout;
bool fmaFlushes = false;
// So few that small tensors get the schedules that large ones get on a large GPU.
constexpr unsigned deviceThreads = 4096;
constexpr unsigned sharedBytes = 227 << 10;

// The kernels run in this process.
mlir::Value calleeOfProcess(Code &c, EmulatedCall call) {
  const mlir::Type pointer = mlir::LLVM::LLVMPointerType::get(c.b.getContext());
  const auto address = reinterpret_cast<intptr_t>(emulatedFunction(call));
  return mlir::LLVM::IntToPtrOp::create(c.b, c.loc, pointer, c.i64(address));
}

} // namespace

struct Emulator::Impl {
  std::unique_ptr<Backend> backend = std::move(*Backend::create(testTarget(1)));
  std::unique_ptr<Session> session = std::move(*Session::create());
  Lowering lowering;
  std::map<std::string, EmulatedFunction> known;
  std::map<std::pair<AttentionCode, unsigned>, EmulatedFunction::Kernel> attentions; // by alignment, too
  const SimtTarget target;
  const bool flushes;
  size_t serial = 0;

  Impl(unsigned subgroup, std::optional<MatrixLayout> matrices, bool flushes)
      : target{"", "", "", subgroup, 1024, 1, deviceThreads, sharedBytes, matrices, /*cluster=*/8, {}},
        flushes(flushes) {}

  // The function that `emit` makes of a machine, a module, instructions and a name, which it may change.
  template <typename Emit> Result<void *> make(Emit emit, bool &synchronises) {
    std::string name = "kernel" + std::to_string(serial++);
    EmulatedMachine machine(target, calleeOfProcess);
    mlir::OwningOpRef<mlir::ModuleOp> module = lowering.module();
    Instructions instructions = backend->instructions();
    instructions.narrowIntegers = true;
    instructions.wordHalves = target.subgroup == 32; // as for NVIDIA's GPUs
    instructions.keepNan = false;
    instructions.fma &= !flushes;
    const EmulatedApproximations approximations(machine, /*hasReciprocal=*/!flushes);
    instructions.approximations = &approximations;
    emit(machine, *module, instructions, name);
    machine.finish(*module, instructions);
    synchronises |= machine.synchronises;
    llvm::LLVMContext context;
    auto lowered = lowering.run(*module, context, name);
    if (!lowered)
      return lowered.error();
    auto object = backend->assemble(**lowered);
    return object ? session->link(*object, name) : object.error();
  }

  Result<EmulatedFunction::Kernel> compile(const AttentionCode &code, unsigned alignment) {
    EmulatedFunction::Kernel kernel;
    kernel.threads = code.subgroups * target.subgroup, kernel.cluster = code.cluster;
    auto made =
        make([&](const EmulatedMachine &machine, mlir::ModuleOp module, const Instructions &instructions,
                 const std::string &name) { emitAttention(code, machine, instructions, name, alignment, module); },
             kernel.synchronises);
    if (!made)
      return made.error();
    kernel.entry = kernel.alignedEntry = *made;
    return kernel;
  }

  // Of a group, or of the parts of a bundle.
  Result<EmulatedFunction> compile(std::vector<Dag> dags) {
    std::vector<ScheduledPlan> plans;
    for (Dag &dag : dags) {
      auto plan = LoopPlan::make(std::move(dag), simtFuseTarget());
      if (!plan)
        return plan.error();
      SimtSchedule schedule = scheduleSimt(**plan, target);
      plans.push_back({std::move(*plan), std::move(schedule)});
    }
    EmulatedFunction function;
    function.symbols = symbolsOf(plans);
    function.hasScratch = plans[0].schedule.hasScratch();
    function.scratchBytes = plans[0].schedule.scratchBytes;
    // What is linked is one kernel, so that those of a function are emitted as often as it has some.
    const auto makeKernel = [&](size_t number, unsigned alignment, SimtCode &code, bool &synchronises) {
      return make(
          [&](const EmulatedMachine &machine, mlir::ModuleOp module, const Instructions &instructions,
              std::string &name) {
            code = emitKernels(plans, target, machine, instructions, name, alignment, module);
            name = code.launches[number].entry;
          },
          synchronises);
    };
    SimtCode code;
    for (size_t number = 0; number == 0 || number < code.launches.size(); ++number) {
      EmulatedFunction::Kernel kernel;
      auto aligned = makeKernel(number, 16, code, kernel.synchronises);
      if (!aligned)
        return aligned.error();
      kernel.entry = kernel.alignedEntry = *aligned;
      kernel.blocks = code.launches[number].blocks, kernel.threads = code.launches[number].threads;
      if (code.usesAlignment) {
        function.alignment = 16;
        auto any = makeKernel(number, 1, code, kernel.synchronises);
        if (!any)
          return any.error();
        kernel.entry = *any;
      }
      function.kernels.push_back(std::move(kernel));
    }
    return function;
  }
};

Emulator::Emulator(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Emulator::~Emulator() = default;
Emulator &Emulator::shared() {
  static std::map<std::tuple<unsigned, std::optional<MatrixLayout>, bool>, std::unique_ptr<Emulator>> all;
  std::unique_ptr<Emulator> &instance = all[{subgroupSize, matrixLayout, fmaFlushes}];
  if (!instance)
    instance.reset(new Emulator(std::make_unique<Impl>(subgroupSize, matrixLayout, fmaFlushes)));
  return *instance;
}
Emulator::Subgroups::Subgroups(unsigned size, std::optional<MatrixLayout> matrices) {
  subgroupSize = size, matrixLayout = matrices;
}
Emulator::Subgroups::~Subgroups() { subgroupSize = 32, matrixLayout = mmaLayout; }
Emulator::FlushingFma::FlushingFma() { fmaFlushes = true; }
Emulator::FlushingFma::~FlushingFma() { fmaFlushes = false; }

bool Emulator::supports(const MortiseGraph &graph) {
  for (size_t i = 0; i < graph.node_count; ++i)
    if (!supportsSimt(*graph.nodes[i]).yes)
      return false;
  return true;
}

bool Emulator::isDue() {
  bool isRepeated = std::getenv("MORTISE_CPU_ISA") != nullptr;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  isRepeated = true;
#endif
#endif
  static unsigned asked = 0;
  return !isRepeated || asked++ % 8 == 0;
}

Result<std::vector<EmulatedFunction>> Emulator::compile(const MortiseGraph &graph, std::span<const Group> groups) {
  std::vector<EmulatedFunction> functions;
  for (const Group &group : groups) {
    std::vector<Dag> dags;
    std::string key;
    for (const Group &part : group.parts.empty() ? std::span(&group, 1) : std::span(group.parts)) {
      Result<Dag> dag = buildDag(graph, part);
      if (!dag)
        return dag.error();
      key += std::to_string(key.size()) + "+" + dag->key;
      dags.push_back(std::move(*dag));
    }
    auto found = impl->known.find(key);
    if (found == impl->known.end()) {
      auto made = impl->compile(std::move(dags));
      if (!made)
        return made.error();
      found = impl->known.emplace(key, std::move(*made)).first;
    }
    functions.push_back(found->second);
  }
  return functions;
}

const SimtTarget &Emulator::target() const { return impl->target; }

Result<EmulatedFunction::Kernel> Emulator::compile(const AttentionCode &code, unsigned alignment) {
  const std::pair key(code, alignment);
  auto found = impl->attentions.find(key);
  if (found == impl->attentions.end()) {
    auto made = impl->compile(code, alignment);
    if (!made)
      return made.error();
    found = impl->attentions.emplace(key, *made).first;
  }
  return found->second;
}

static void runKernel(const EmulatedFunction::Kernel &kernel, bool aligned, int64_t blocks,
                      std::span<const uint64_t> arguments) {
  BlockRun::running().subgroup = subgroupSize;
  runGrid(aligned ? kernel.alignedEntry : kernel.entry, arguments, static_cast<uint64_t>(blocks), kernel.threads,
          kernel.cluster, kernel.synchronises);
}

void runAttention(const AttentionCall &call, std::span<std::byte *const> addresses, std::span<const int64_t> symbols) {
  std::vector<uint64_t> arguments;
  uint64_t bits = 0; // of what decides about alignment
  for (std::byte *address : addresses) {
    arguments.push_back(reinterpret_cast<uint64_t>(address));
    bits |= arguments.back();
  }
  const std::vector<Dim> numbers = call.numbers();
  for (size_t i = 0; i < numbers.size(); ++i) {
    arguments.push_back(static_cast<uint64_t>(*numbers[i].evaluate(symbols)));
    bits |= i >= AttentionNumber::Q && i < AttentionNumber::Mask ? arguments.back() : 0;
  }
  const auto kernel = Emulator::shared().compile(call.code, bits % 16 == 0 ? 16 : 1);
  ASSERT_TRUE(kernel) << kernel.error().message;
  runKernel(*kernel, true, *call.blocks().evaluate(symbols), arguments);
  ASSERT_FALSE(takeMisaligned()) << "attention accesses vectors that are not aligned";
}

void runGroup(const Group &group, const EmulatedFunction &function, Memory &memory, std::span<const int64_t> symbols) {
  std::vector<uint64_t> arguments;
  for (const std::vector<uint32_t> *values : {&group.inputs, &group.outputs})
    for (uint32_t value : *values)
      arguments.push_back(reinterpret_cast<uint64_t>(memory.at(value)));
  bool aligned = true;
  for (uint64_t address : arguments)
    aligned &= address % function.alignment == 0;
  // Behind the scratch memory nothing is changed; in front, nobody has written.
  const auto scratchBytes = static_cast<size_t>(*function.scratchBytes.evaluate(symbols));
  constexpr size_t guard = 64;
  std::vector<std::byte> scratch(scratchBytes + guard, std::byte(0xa5));
  if (function.hasScratch)
    arguments.push_back(reinterpret_cast<uint64_t>(scratch.data()));
  for (uint32_t number : function.symbols)
    arguments.push_back(static_cast<uint64_t>(symbols[number]));
  for (const EmulatedFunction::Kernel &kernel : function.kernels)
    runKernel(kernel, aligned, *kernel.blocks.evaluate(symbols), arguments);
  ASSERT_FALSE(takeMisaligned()) << group.name << " accesses vectors that are not aligned";
  for (size_t i = 0; i < guard; ++i)
    ASSERT_EQ(scratch[scratchBytes + i], std::byte(0xa5)) << group.name << " wrote behind its scratch memory";
}

} // namespace mortise::codegen::test
