// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "emulator.hpp"

#include "emit/simt.hpp"
#include "target/lowering.hpp"
#include "target/x86/jit.hpp"
#include "tiles/attention.hpp"

#include <mortise/reference/formats.hpp>

#include <mortise/conformance/error_bounds.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <ucontext.h>

namespace mortise::codegen::test {

using mlir::Type;
using mlir::ValueRange;
namespace LLVM = mlir::LLVM;

namespace {

unsigned subgroupSize = 32; // of the machine at hand
// So few that small tensors get the schedules that large ones get on a large GPU.
constexpr unsigned deviceThreads = 2048;

// The block that runs. One at a time, since the kernels' shared memory is that of their module.
class BlockRun {
public:
  using Body = void (*)(void *);
  struct Fragments { // of matrices
    uint32_t lhs[4], rhs[2];
    float sums[4];
  };
  unsigned thread = 0, block = 0;

  void run(unsigned threads, Body body, void *argument) {
    this->body = body, this->argument = argument, count = threads;
    fibers.resize(std::max<size_t>(fibers.size(), threads));
    passed.assign(threads, 0), passedNear.assign(threads, 0);
    ended.assign(threads, false);
    for (unsigned i = 0; i < threads; ++i) {
      Fiber &fiber = fibers[i];
      if (fiber.stack.empty())
        fiber.stack.resize(stackBytes);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.data();
      fiber.context.uc_stack.ss_size = fiber.stack.size();
      fiber.context.uc_link = &scheduler;
      makecontext(&fiber.context, &BlockRun::start, 0);
    }
    for (unsigned left = threads; left > 0;) {
      bool moved = false;
      const unsigned first = static_cast<unsigned>(random() % threads);
      for (unsigned i = 0; i < threads; ++i) {
        thread = (first + i * stride(threads)) % threads;
        if (ended[thread] || isHeld(thread))
          continue;
        moved = true;
        swapcontext(&scheduler, &fibers[thread].context);
        left -= ended[thread];
      }
      if (!moved) { // what a GPU would answer with a hang
        std::fprintf(stderr, "emulated kernel: a barrier that not all threads reach\n");
        std::abort();
      }
    }
  }
  void barrier() { wait(passed); }
  uint32_t exchange(uint32_t bits, uint32_t mask) {
    const unsigned me = thread;
    values.resize(std::max<size_t>(values.size(), count));
    values[me] = bits;
    wait(passedNear);
    const uint32_t other = values[me ^ mask];
    wait(passedNear);
    return other;
  }

  // This thread's four results of a product of matrices. Each product is rounded to f32; their sum towards 0, as
  // hardware does.
  void multiply(int32_t dtype, const Fragments &mine, float *results) {
    const unsigned me = thread, first = me / 32 * 32, group = me % 32 / 4, pair = me % 4;
    // Two sets by turns, so that one wait suffices: nobody writes a set before all have read it.
    std::vector<Fragments> &all = fragments[passedNear[me] % 2];
    all.resize(std::max<size_t>(all.size(), count));
    all[me] = mine;
    wait(passedNear);
    const auto half = [&](uint32_t word, unsigned which) {
      const auto bits = static_cast<uint16_t>(which ? word >> 16 : word);
      return dtype == MORTISE_BF16 ? static_cast<float>(reference::BF16::load(bits))
                                   : static_cast<float>(reference::F16::load(bits));
    };
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned row = group + i / 2 * 8, column = pair * 2 + i % 2;
      double sum = mine.sums[i];
      for (unsigned term = 0; term < 16; ++term) {
        const unsigned owner = term % 8 / 2, word = term / 8;
        const float lhs = half(all[first + row % 8 * 4 + owner].lhs[word * 2 + row / 8], term % 2);
        const float rhs = half(all[first + column * 4 + owner].rhs[word], term % 2);
        sum += lhs * rhs;
      }
      results[i] = static_cast<float>(sum);
      if (std::isfinite(sum) && std::abs(static_cast<double>(results[i])) > std::abs(sum))
        results[i] = std::nextafter(results[i], 0.0F);
    }
  }

private:
  static constexpr size_t stackBytes = 256 << 10;
  struct Fiber {
    ucontext_t context;
    std::vector<char> stack;
  };
  static void start();
  static unsigned stride(unsigned threads) { return threads % 7 ? 7 : 1; }
  // Held where another thread that has to come to the same place has not. Threads of a subgroup meet in exchanges.
  bool isHeld(unsigned which) const {
    const unsigned from = which / subgroupSize * subgroupSize, to = std::min(from + subgroupSize, count);
    for (unsigned i = 0; i < count; ++i)
      if (!ended[i] && (passed[i] < passed[which] || (i >= from && i < to && passedNear[i] < passedNear[which])))
        return true;
    return false;
  }
  void wait(std::vector<unsigned> &places) {
    const unsigned me = thread;
    ++places[me];
    swapcontext(&fibers[me].context, &scheduler);
    thread = me;
  }

  Body body = nullptr;
  void *argument = nullptr;
  unsigned count = 0;
  std::vector<Fiber> fibers;
  std::vector<unsigned> passed, passedNear; // per thread: barriers and exchanges so far
  std::vector<bool> ended;
  std::vector<uint32_t> values;
  std::vector<Fragments> fragments[2]; // per thread
  ucontext_t scheduler;
  std::mt19937 random{7};
};

BlockRun &running() {
  static BlockRun instance;
  return instance;
}

void BlockRun::start() {
  BlockRun &run = running();
  const unsigned me = run.thread;
  run.body(run.argument);
  run.thread = me;
  run.ended[me] = true;
}

const double exp2Error = std::exp2(-22.7); // as Approximations::exp2 may be

// The f32 that is furthest from a number within an error; above and below it by turns.
float wrong(float x, double exact, double error) {
  if (!std::isfinite(exact) || exact == 0)
    return static_cast<float>(exact);
  const float direction = std::bit_cast<uint32_t>(x) % 2 ? INFINITY : -INFINITY;
  auto result = static_cast<float>(exact);
  for (float next = result; std::fabs(next - exact) <= error; next = std::nextafter(next, direction))
    result = next;
  return result;
}

extern "C" {
uint32_t emulatedThread() { return running().thread; }
uint32_t emulatedBlock() { return running().block; }
void emulatedBarrier() { running().barrier(); }
uint32_t emulatedExchange(uint32_t bits, uint32_t mask) { return running().exchange(bits, mask); }
// `memory`: the fragments, which become the results.
void emulatedMultiply(uint32_t dtype, BlockRun::Fragments *memory) {
  const BlockRun::Fragments mine = *memory;
  running().multiply(static_cast<int32_t>(dtype), mine, memory->sums);
}
float emulatedExp2(float x) {
  const double exact = std::exp2(static_cast<double>(x));
  return wrong(x, exact, std::min(exact * exp2Error, 2.05 * conformance::ulp(exact, MORTISE_F32)));
}
float emulatedExp2WithoutSubnormals(float x) { return x < -126 ? 0 : emulatedExp2(x); }
float emulatedReciprocal(float x) {
  const double exact = 1 / static_cast<double>(x);
  if (std::fabs(exact) < 0x1p-126)
    return 0;
  return wrong(x, exact, conformance::ulp(exact, MORTISE_F32));
}
}

// Calls of the functions above, by their addresses.
template <typename F> Value call(Code &c, F *function, Type result, ValueRange arguments) {
  Type pointer = LLVM::LLVMPointerType::get(c.b.getContext());
  Value address = LLVM::IntToPtrOp::create(c.b, c.loc, pointer, c.i64(reinterpret_cast<intptr_t>(function)));
  llvm::SmallVector<Value> operands{address};
  operands.append(arguments.begin(), arguments.end());
  llvm::SmallVector<Type> types;
  for (Value argument : arguments)
    types.push_back(argument.getType());
  auto type = LLVM::LLVMFunctionType::get(result ? result : LLVM::LLVMVoidType::get(c.b.getContext()), types);
  auto op = LLVM::CallOp::create(c.b, c.loc, type, operands);
  return result ? op.getResult() : Value();
}

bool isMisaligned = false; // some access of a kernel

extern "C" void emulatedAccess(uint64_t address, uint64_t alignment) { isMisaligned |= address % alignment != 0; }

// Checks the addresses of vectors, which GPUs have to find aligned, and CPUs load anyway.
void checkAlignment(mlir::ModuleOp module, const Instructions &instructions) {
  const auto check = [&](mlir::Operation *op, Value address, Type type, std::optional<uint64_t> alignment) {
    if (!alignment || *alignment * 8 <= mlir::getElementTypeOrSelf(type).getIntOrFloatBitWidth())
      return;
    mlir::OpBuilder builder(op);
    Code c(builder, op->getLoc(), 1, instructions);
    Value number = LLVM::PtrToIntOp::create(builder, c.loc, builder.getI64Type(), address);
    call(c, &emulatedAccess, {}, {number, c.i64(static_cast<int64_t>(*alignment))});
  };
  module.walk([&](LLVM::LoadOp op) { check(op, op.getAddr(), op.getType(), op.getAlignment()); });
  module.walk([&](LLVM::StoreOp op) { check(op, op.getAddr(), op.getValue().getType(), op.getAlignment()); });
}

// As wrong as instructions may be.
class EmulatedApproximations final : public Approximations {
public:
  Value exp2(Code &c, Value x, bool subnormals) const override {
    return call(c, subnormals ? &emulatedExp2 : &emulatedExp2WithoutSubnormals, x.getType(), x);
  }
  Value reciprocal(Code &c, Value x) const override { return call(c, &emulatedReciprocal, x.getType(), x); }
};

class EmulatedMachine final : public SimtMachine {
public:
  explicit EmulatedMachine(unsigned subgroup) : size(subgroup) {}
  mutable bool synchronises = false;
  void makeKernel(LLVM::LLVMFuncOp, unsigned) const override {}
  Value thread(Code &c) const override { return call(c, &emulatedThread, c.b.getI32Type(), {}); }
  Value block(Code &c) const override { return call(c, &emulatedBlock, c.b.getI32Type(), {}); }
  void barrier(Code &c) const override {
    synchronises = true;
    call(c, &emulatedBarrier, {}, {});
  }
  Value exchange(Code &c, Value bits, unsigned mask) const override {
    synchronises = true;
    return call(c, &emulatedExchange, c.b.getI32Type(), {bits, c.integer(c.b.getI32Type(), mask)});
  }
  unsigned sharedSpace() const override { return 0; }
  unsigned subgroup() const override { return size; }
  llvm::SmallVector<Value> multiply(Code &c, int32_t dtype, llvm::ArrayRef<Value> lhs, llvm::ArrayRef<Value> rhs,
                                    llvm::ArrayRef<Value> sums) const override {
    synchronises = true;
    if (!memory) { // of the thread, on its stack
      mlir::OpBuilder::InsertionGuard keep(c.b);
      auto function = c.b.getBlock()->getParent()->getParentOfType<LLVM::LLVMFuncOp>();
      c.b.setInsertionPointToStart(&function.getBody().front());
      memory = LLVM::AllocaOp::create(c.b, c.loc, LLVM::LLVMPointerType::get(c.b.getContext()), c.b.getI32Type(),
                                      c.integer(c.b.getI32Type(), 10));
    }
    unsigned word = 0;
    const auto place = [&] {
      return LLVM::GEPOp::create(c.b, c.loc, memory.getType(), c.b.getI32Type(), memory,
                                 llvm::ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(word++)});
    };
    for (const llvm::ArrayRef<Value> values : {lhs, rhs, sums})
      for (Value value : values)
        LLVM::StoreOp::create(c.b, c.loc, value, place());
    call(c, &emulatedMultiply, {}, {c.integer(c.b.getI32Type(), dtype), memory});
    word = 6;
    llvm::SmallVector<Value> results;
    for (unsigned i = 0; i < 4; ++i)
      results.push_back(LLVM::LoadOp::create(c.b, c.loc, c.b.getF32Type(), place()));
    return results;
  }

private:
  const unsigned size;
  mutable Value memory; // of the function at hand
};

// The block's memory starts with NaN, or other numbers that no kernel writes.
void poisonShared(mlir::ModuleOp module) {
  for (auto global : module.getOps<LLVM::GlobalOp>()) {
    const auto array = llvm::dyn_cast<LLVM::LLVMArrayType>(global.getType());
    if (global.getValueAttr() || !array || !array.getElementType().isIntOrFloat())
      continue;
    const Type element = array.getElementType();
    mlir::OpBuilder b(module.getContext());
    const llvm::APInt ones = llvm::APInt::getAllOnes(element.getIntOrFloatBitWidth());
    const auto floats = llvm::dyn_cast<mlir::FloatType>(element);
    const mlir::Attribute bits =
        floats ? mlir::Attribute(b.getFloatAttr(element, llvm::APFloat(floats.getFloatSemantics(), ones)))
               : mlir::Attribute(b.getIntegerAttr(element, ones));
    const auto type = mlir::RankedTensorType::get({static_cast<int64_t>(array.getNumElements())}, element);
    global.setValueAttr(mlir::DenseElementsAttr::get(type, bits));
  }
}

} // namespace

struct Emulator::Impl {
  std::unique_ptr<Backend> backend = std::move(*Backend::create(testTarget(1)));
  std::unique_ptr<Session> session = std::move(*Session::create());
  Lowering lowering;
  std::map<std::string, EmulatedFunction> known;
  std::map<std::pair<AttentionCode, unsigned>, EmulatedFunction::Kernel> attentions; // by alignment, too
  const SimtTarget target;
  size_t serial = 0;

  explicit Impl(unsigned subgroup) : target{"", "", "", subgroup, 1024, 1, deviceThreads, /*matrices=*/true, {}} {}

  // The function that `emit` makes of a machine, a module, instructions and a name.
  template <typename Emit> Result<void *> make(Emit emit, bool &synchronises) {
    const std::string name = "kernel" + std::to_string(serial++);
    EmulatedMachine machine(target.subgroup);
    mlir::OwningOpRef<mlir::ModuleOp> module = lowering.module();
    Instructions instructions = backend->instructions();
    instructions.narrowDivisions = true;
    instructions.keepNan = false;
    static const EmulatedApproximations approximations;
    instructions.approximations = &approximations;
    emit(machine, *module, instructions, name);
    checkAlignment(*module, instructions);
    poisonShared(*module);
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
    kernel.threads = code.subgroups * target.subgroup;
    auto made =
        make([&](const EmulatedMachine &machine, mlir::ModuleOp module, const Instructions &instructions,
                 const std::string &name) { emitAttention(code, machine, instructions, name, alignment, module); },
             kernel.synchronises);
    if (!made)
      return made.error();
    kernel.entry = kernel.alignedEntry = *made;
    return kernel;
  }

  Result<EmulatedFunction> compile(Dag dag, const Group &group) {
    auto plan = LoopPlan::make(std::move(dag), simtFuseTarget().lanes);
    if (!plan)
      return plan.error();
    const SimtSchedule schedule = scheduleSimt(**plan, target);
    EmulatedFunction function;
    function.symbols = (*plan)->dag.usedSymbols;
    function.scratchBytes = schedule.scratchBytes;
    function.hasScratch = schedule.parts > 1;
    const auto makePart = [&](const SimtSchedule &part, SimtKernel::Role role, unsigned alignment, bool &differs,
                              bool &synchronises) {
      return make(
          [&](const EmulatedMachine &machine, mlir::ModuleOp module, const Instructions &instructions,
              const std::string &name) {
            mlir::OpBuilder builder(module->getContext());
            differs = SimtKernel(**plan, part, role, machine, alignment, module, builder, instructions)
                          .emit(name)
                          .usesAlignment;
          },
          synchronises);
    };
    const auto add = [&](const SimtSchedule &part, SimtKernel::Role role, const Dim &blocks) -> Result<void> {
      EmulatedFunction::Kernel kernel;
      kernel.blocks = blocks, kernel.threads = part.threads();
      bool differs = false;
      auto aligned = makePart(part, role, 16, differs, kernel.synchronises);
      if (!aligned)
        return aligned.error();
      kernel.entry = kernel.alignedEntry = *aligned;
      if (differs) {
        function.alignment = 16;
        auto any = makePart(part, role, 1, differs, kernel.synchronises);
        if (!any)
          return any.error();
        kernel.entry = *any;
      }
      function.kernels.push_back(kernel);
      return {};
    };
    if (schedule.parts == 1) {
      if (auto added = add(schedule, SimtKernel::Role::Whole, schedule.blocks()); !added)
        return added.error();
      return function;
    }
    const SimtSchedule combine = combineSchedule(schedule, target);
    if (auto added = add(schedule, SimtKernel::Role::Parts, schedule.blocks() * schedule.parts); !added)
      return added.error();
    if (auto added = add(combine, SimtKernel::Role::Combine, combine.blocks()); !added)
      return added.error();
    return function;
  }
};

Emulator::Emulator(unsigned subgroup) : impl(std::make_unique<Impl>(subgroup)) {}
Emulator::~Emulator() = default;
Emulator &Emulator::shared() {
  static std::map<unsigned, std::unique_ptr<Emulator>> all;
  std::unique_ptr<Emulator> &instance = all[subgroupSize];
  if (!instance)
    instance.reset(new Emulator(subgroupSize));
  return *instance;
}
Emulator::WideSubgroups::WideSubgroups() { subgroupSize = 64; }
Emulator::WideSubgroups::~WideSubgroups() { subgroupSize = 32; }

bool Emulator::supports(const MortiseGraph &graph) {
  for (size_t i = 0; i < graph.node_count; ++i)
    if (!supportsSimt(*graph.nodes[i], true).yes)
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
    Result<Dag> dag = buildDag(graph, group);
    if (!dag)
      return dag.error();
    const std::string key = dag->key;
    auto found = impl->known.find(key);
    if (found == impl->known.end()) {
      auto made = impl->compile(std::move(*dag), group);
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

namespace {
// Any number of 8-byte arguments: those that the function does not take are not looked at.
struct Launch {
  void *entry;
  std::vector<uint64_t> arguments;
  template <size_t... I> void call(std::index_sequence<I...>) const {
    using Entry = void (*)(decltype(I)...);
    reinterpret_cast<Entry>(entry)(arguments[I]...);
  }
};
constexpr size_t mostArguments = 48;

void runKernel(const EmulatedFunction::Kernel &kernel, bool aligned, int64_t blocks, Launch &launch) {
  launch.entry = aligned ? kernel.alignedEntry : kernel.entry;
  const auto body = [](void *context) {
    static_cast<Launch *>(context)->call(std::make_index_sequence<mostArguments>());
  };
  BlockRun &run = running();
  for (int64_t block = 0; block < blocks; ++block) {
    run.block = static_cast<unsigned>(block);
    if (kernel.synchronises)
      run.run(kernel.threads, body, &launch);
    else
      for (run.thread = 0; run.thread < kernel.threads; ++run.thread)
        body(&launch);
  }
}
} // namespace

void runAttention(const AttentionCall &call, std::span<std::byte *const> addresses, std::span<const int64_t> symbols) {
  Launch launch{nullptr, {}};
  uint64_t bits = 0; // of what decides about alignment
  for (std::byte *address : addresses) {
    launch.arguments.push_back(reinterpret_cast<uint64_t>(address));
    bits |= launch.arguments.back();
  }
  const std::vector<Dim> numbers = call.numbers();
  for (size_t i = 0; i < numbers.size(); ++i) {
    launch.arguments.push_back(static_cast<uint64_t>(*numbers[i].evaluate(symbols)));
    bits |= i >= AttentionNumber::Q && i < AttentionNumber::Mask ? launch.arguments.back() : 0;
  }
  ASSERT_LE(launch.arguments.size(), mostArguments);
  launch.arguments.resize(mostArguments);
  const auto kernel = Emulator::shared().compile(call.code, bits % 16 == 0 ? 16 : 1);
  ASSERT_TRUE(kernel) << kernel.error().message;
  runKernel(*kernel, true, *call.blocks().evaluate(symbols), launch);
  ASSERT_FALSE(std::exchange(isMisaligned, false)) << "attention accesses vectors that are not aligned";
}

void runGroup(const Group &group, const EmulatedFunction &function, Memory &memory, std::span<const int64_t> symbols) {
  Launch launch{nullptr, {}};
  for (const std::vector<uint32_t> *values : {&group.inputs, &group.outputs})
    for (uint32_t value : *values)
      launch.arguments.push_back(reinterpret_cast<uint64_t>(memory.at(value)));
  bool aligned = true;
  for (uint64_t address : launch.arguments)
    aligned &= address % function.alignment == 0;
  // Behind the scratch memory nothing is changed; in front, nobody has written.
  const auto scratchBytes = static_cast<size_t>(*function.scratchBytes.evaluate(symbols));
  constexpr size_t guard = 64;
  std::vector<std::byte> scratch(scratchBytes + guard, std::byte(0xa5));
  if (function.hasScratch)
    launch.arguments.push_back(reinterpret_cast<uint64_t>(scratch.data()));
  for (uint32_t number : function.symbols)
    launch.arguments.push_back(static_cast<uint64_t>(symbols[number]));
  ASSERT_LE(launch.arguments.size(), mostArguments);
  launch.arguments.resize(mostArguments);
  for (const EmulatedFunction::Kernel &kernel : function.kernels)
    runKernel(kernel, aligned, *kernel.blocks.evaluate(symbols), launch);
  ASSERT_FALSE(std::exchange(isMisaligned, false)) << group.name << " accesses vectors that are not aligned";
  for (size_t i = 0; i < guard; ++i)
    ASSERT_EQ(scratch[scratchBytes + i], std::byte(0xa5)) << group.name << " wrote behind its scratch memory";
}

} // namespace mortise::codegen::test
