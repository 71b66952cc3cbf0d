// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Faults that show over several calls: races, leaks, constants, caches, statuses.
#include "host.hpp"

#include <atomic>
#include <chrono>
#include <csignal>
#include <dlfcn.h>
#include <malloc.h>
#include <thread>
#include <xmmintrin.h>

namespace mortise::test {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto patience = std::chrono::seconds(20);

// ---- Races: each is tried until it is seen

Make sumOfAll(int64_t count) { return one("reduce_sum", {noise(f32, {count})}, {{f32, {}}}, {integers("axes", {0})}); }

FAULT_TEST(RaceInSum, "race-in-sum") {
  for (const std::string fault : {"none", "race-in-sum"}) {
    plant(fault);
    Graph graph(sumOfAll(400000));
    const Kernel kernel(InHost, graph.view());
    bool isWrong = false;
    const auto end = Clock::now() + (fault == "none" ? std::chrono::seconds(1) : patience);
    while (!isWrong && Clock::now() < end)
      isWrong = !difference(graph, kernel.run(graph.inputs)).empty();
    EXPECT_EQ(isWrong, fault != "none");
  }
}

FAULT_TEST(OrderOfArrival, "order-of-arrival") {
  for (const std::string fault : {"none", "order-of-arrival"}) {
    plant(fault);
    Graph graph(sumOfAll(400000));
    const Kernel kernel(InHost, graph.view());
    const Buffers first = kernel.run(graph.inputs);
    bool differs = false;
    const auto end = Clock::now() + (fault == "none" ? std::chrono::seconds(1) : patience);
    while (!differs && Clock::now() < end)
      differs = kernel.run(graph.inputs) != first;
    EXPECT_EQ(differs, fault != "none");
  }
}

std::vector<Data> chain(ViewBuilder &b) {
  const MortiseType *type = b.type(f32, {4096});
  MortiseValue *x = b.input(type), *y = x;
  for (int i = 0; i < 4; ++i)
    y = b.op("neg", {b.op("abs", {y}, type)}, type);
  b.output(b.op("add", {y, x}, type));
  return {noise(f32, {4096})};
}

// A thread's memory for calls of a kernel with one input and one output. It outlives the calls of all threads: with
// `call-in-kernel` a call writes to the output of another one, which may have returned by then.
class Caller {
public:
  Caller(const Kernel &kernel, const Bytes &values)
      : kernel(kernel), bytes(values.size()), input(kernel.device, bytes), output(kernel.device, bytes),
        workspace(kernel.device, kernel.workspaceBytes()) {
    input.write(values);
  }
  Bytes run() const {
    output.write(Bytes(bytes, 0xc1));
    EXPECT_EQ(Call(kernel, {input.address()}, {output.address()}, workspace.address()).enqueue(), "");
    return output.read();
  }

private:
  const Kernel &kernel;
  size_t bytes;
  Memory input, output, workspace;
};

// Whether two threads that call one kernel with different inputs ever get a wrong result.
bool goesWrongInThreads(bool fast) {
  Graph graph(chain);
  const Kernel kernel(InHost, graph.view());
  const Caller callers[] = {{kernel, graph.inputs[0]}, {kernel, Bytes(graph.inputs[0].size(), 0)}};
  const Bytes wanted[] = {callers[0].run(), callers[1].run()};
  std::atomic<bool> isWrong = false;
  const auto end = Clock::now() + (fast ? std::chrono::seconds(1) : patience);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      while (!isWrong && Clock::now() < end)
        if (callers[t].run() != wanted[t])
          isWrong = true;
    });
  for (std::thread &thread : threads)
    thread.join();
  return isWrong;
}
FAULT_TEST(ScratchShared, "scratch-shared") {
  plant("none");
  EXPECT_FALSE(goesWrongInThreads(true));
  plant("scratch-shared");
  EXPECT_TRUE(goesWrongInThreads(false));
}
FAULT_TEST(CallInKernel, "call-in-kernel") {
  plant("call-in-kernel");
  EXPECT_TRUE(goesWrongInThreads(false));
}

// ---- Leaks

const Make negated = one("neg", {vector(f32, {1, 2, 3, 4})}, {{f32, {4}}});

// x * w with a constant w.
std::vector<Data> weighted(ViewBuilder &b) {
  const MortiseType *type = b.type(f32, {4});
  MortiseValue *x = b.input(type), *w = b.input(type, MORTISE_VALUE_CONSTANT);
  b.output(b.op("mul", {x, w}, type));
  return {vector(f32, {1, 2, 3, 4}), vector(f32, {5, 6, 7, 8})};
}

// Bytes that each of many repetitions leaves behind.
int64_t leftBy(const std::function<void()> &body) {
  constexpr int64_t times = 2000;
  for (int i = 0; i < 50; ++i)
    body();
  const auto before = static_cast<int64_t>(mallinfo2().uordblks);
  for (int64_t i = 0; i < times; ++i)
    body();
  return (static_cast<int64_t>(mallinfo2().uordblks) - before) / times;
}
void expectLeak(const std::string &fault, const std::function<void()> &body) {
  plant("none");
  EXPECT_LE(leftBy(body), 2);
  plant(fault);
  EXPECT_GE(leftBy(body), 16);
}

FAULT_TEST(LeakPerCall, "leak-per-call") {
  Graph graph(negated);
  plant("none");
  const Kernel kernel(InHost, graph.view());
  expectLeak("leak-per-call", [&] { (void)kernel.run(graph.inputs); });
}
FAULT_TEST(LeakKernel, "leak-kernel") {
  Graph graph(negated);
  graph.view();
  expectLeak("leak-kernel", [&] { const Kernel kernel(InHost, graph.view()); });
}
FAULT_TEST(LeakConstants, "leak-constants") {
  Graph graph(weighted);
  plant("none");
  const Kernel kernel(InHost, graph.view());
  expectLeak("leak-constants", [&] { kernel.unbind(kernel.bind({0, addressOf(graph.inputs[1].data())})); });
}

// ---- Constants

// x * w with a set of constants.
Bytes multiply(const Kernel &kernel, const Graph &graph, Bound bound) {
  const Memory input(InHost, 16), output(InHost, 16), workspace(InHost, kernel.workspaceBytes());
  input.write(graph.inputs[0]);
  Call run(kernel, {input.address(), 0}, {output.address()}, workspace.address());
  run.args.constants = bound.handle;
  EXPECT_EQ(run.enqueue(), "");
  return output.read();
}

FAULT_TEST(ConstantsFreedTwice, "constants-freed-twice") {
  const auto run = [] {
    Graph graph(weighted);
    const Kernel kernel(InHost, graph.view());
    kernel.unbind(kernel.bind({0, addressOf(graph.inputs[1].data())}));
  };
  plant("none");
  EXPECT_EQ(signalOf(run), 0);
  plant("constants-freed-twice");
  EXPECT_NE(signalOf(run), 0);
}

FAULT_TEST(LastConstantsUsed, "last-constants-used") {
  for (const std::string fault : {"none", "last-constants-used"}) {
    plant(fault);
    Graph graph(weighted);
    const Kernel kernel(InHost, graph.view());
    const Bytes others = encode(vector(f32, {-1, -1, -1, -1}));
    const Bound first = kernel.bind({0, addressOf(graph.inputs[1].data())}),
                second = kernel.bind({0, addressOf(others.data())});
    EXPECT_EQ(difference(graph, {multiply(kernel, graph, first)}).empty(), fault == "none");
    kernel.unbind(first);
    kernel.unbind(second);
  }
}

FAULT_TEST(PackedByAddress, "packed-by-address") {
  for (const std::string fault : {"none", "packed-by-address"}) {
    plant(fault);
    Graph graph(weighted);
    const Kernel kernel(InHost, graph.view());
    const std::vector<MortiseAddress> constants = {0, addressOf(graph.inputs[1].data())};
    kernel.unbind(kernel.bind(constants));
    graph.inputs[1][3] ^= 0x80; // the sign of the first
    const Bound bound = kernel.bind(constants);
    EXPECT_EQ(difference(graph, {multiply(kernel, graph, bound)}).empty(), fault == "none");
    kernel.unbind(bound);
  }
}

FAULT_TEST(PackedBytesHidden, "packed-bytes-hidden") {
  for (const std::string fault : {"none", "packed-bytes-hidden"}) {
    plant(fault);
    Graph graph(one("neg", {noise(f32, {4096})}, {{f32, {4096}}}));
    const Kernel kernel(InHost, graph.view());
    const auto before = mallinfo2().uordblks;
    const Bound bound = kernel.bind({addressOf(graph.inputs[0].data())});
    EXPECT_GE(mallinfo2().uordblks - before, 16384u);
    EXPECT_EQ(bound.bytes, fault == "none" ? 16384u : 0u);
    kernel.unbind(bound);
  }
}

// ---- Caches

FAULT_TEST(CodeCachedByShape, "code-cached-by-shape") {
  const auto transposed = [](std::vector<int64_t> permutation) {
    return one("transpose", {counting(f32, {3, 3, 3})}, {{f32, {3, 3, 3}}},
               {integers("permutation", std::move(permutation))});
  };
  for (const std::string fault : {"none", "code-cached-by-shape"}) {
    plant(fault);
    Graph first(transposed({1, 0, 2})), second(transposed({0, 2, 1}));
    EXPECT_EQ(difference(first, Kernel(InHost, first.view()).run(first.inputs)), "");
    EXPECT_EQ(difference(second, Kernel(InHost, second.view()).run(second.inputs)).empty(), fault == "none");
  }
}

FAULT_TEST(ResultByAddress, "result-by-address") {
  for (const std::string fault : {"none", "result-by-address"}) {
    plant(fault);
    Graph graph(negated);
    const Kernel kernel(InHost, graph.view());
    const Memory input(InHost, 16), output(InHost, 16), workspace(InHost, kernel.workspaceBytes());
    Call run(kernel, {input.address()}, {output.address()}, workspace.address());
    for (const bool isFirst : {true, false}) {
      if (!isFirst)
        graph.inputs[0][3] ^= 0x80;
      input.write(graph.inputs[0]);
      EXPECT_EQ(run.enqueue(), "");
      EXPECT_EQ(difference(graph, {output.read()}).empty(), isFirst || fault == "none");
    }
  }
}

// ---- Statuses and claims

FAULT_TEST(LoweringNameKept, "lowering-name-kept") {
  for (const std::string fault : {"none", "lowering-name-kept"}) {
    plant(fault);
    Graph graph(negated);
    std::string lowering = "saboteur.region";
    const Kernel kernel(InHost, graph.view(), lowering.c_str());
    std::ranges::fill(lowering, 'x');
    EXPECT_EQ(kernel.info().steps[0]->lowering == std::string("saboteur.node"), fault == "none");
  }
}

FAULT_TEST(FloatSettingsLeft, "float-settings-left") {
  for (const std::string fault : {"none", "float-settings-left"}) {
    plant(fault);
    Graph graph(negated);
    const Kernel kernel(InHost, graph.view());
    const uint32_t before = _mm_getcsr();
    (void)kernel.run(graph.inputs);
    EXPECT_EQ(_MM_GET_FLUSH_ZERO_MODE() == _MM_FLUSH_ZERO_OFF, fault == "none");
    _mm_setcsr(before);
  }
}

FAULT_TEST(CorruptKernelLoads, "corrupt-kernel-loads") {
  for (const std::string fault : {"none", "corrupt-kernel-loads"}) {
    plant(fault);
    Graph graph(negated);
    for (const std::string saved : {"mortise.neg", "damaged"}) {
      auto args = sized<MortiseCompileArgs>();
      args.device = handleOf(InHost);
      args.region = &graph.view();
      args.lowering = "saboteur.region";
      args.saved = saved.data();
      args.saved_bytes = saved.size();
      EXPECT_EQ(codeOf(plugin().kernel_load(&args)),
                fault == "none" && saved == "damaged" ? MORTISE_CORRUPT : MORTISE_OK);
      if (args.kernel) {
        auto destroy = sized<MortiseKernelArgs>();
        destroy.kernel = args.kernel;
        EXPECT_EQ(call(plugin().kernel_destroy, destroy), "");
      }
    }
  }
}

FAULT_TEST(CancellationIgnored, "cancellation-ignored") {
  Graph graph(negated);
  hostCancels = true;
  plant("none");
  EXPECT_EQ(compileCode(graph.view()), MORTISE_CANCELLED);
  plant("cancellation-ignored");
  EXPECT_EQ(compileCode(graph.view()), MORTISE_OK);
  hostCancels = false;
}

FAULT_TEST(ClaimRefused, "claim-refused") {
  Graph graph(one("erf", {noise(f16, {4})}, {{f16, {4}}}));
  plant("none");
  EXPECT_EQ(propose(graph.view()).candidates, 1u);
  plant("claim-refused");
  EXPECT_EQ(propose(graph.view()).candidates, 0u);
}

FAULT_TEST(ProposesAndCannot, "proposes-and-cannot") {
  Graph graph(one("tan", {noise(f32, {4})}, {{f32, {4}}}));
  plant("none");
  EXPECT_EQ(compileCode(graph.view()), MORTISE_OK);
  plant("proposes-and-cannot");
  EXPECT_EQ(propose(graph.view()).candidates, 1u);
  EXPECT_EQ(compileCode(graph.view()), MORTISE_UNSUPPORTED);
}

// Alone it takes nothing; beside another plugin that plugin computes. In a child, where the other one is loaded.
FAULT_TEST(AnotherPluginsResult, "another-plugins-result") {
  const auto withOther = [] {
    Graph graph(weighted);
    void *library = dlopen(MORTISE_OTHER_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    const MortisePlugin *other =
        library ? reinterpret_cast<MortisePluginFn>(dlsym(library, MORTISE_PLUGIN_SYMBOL))() : nullptr;
    auto args = sized<MortiseInitializeArgs>();
    args.host = &hostTable();
    if (!other || !call(other->initialize, args).empty() || propose(graph.view()).candidates != 1)
      raise(SIGUSR1);
    const Kernel kernel(InHost, graph.view());
    const Bound bound = kernel.bind({0, addressOf(graph.inputs[1].data())});
    if (!difference(graph, {multiply(kernel, graph, bound)}).empty())
      raise(SIGUSR2);
    kernel.unbind(bound);
  };
  Graph graph(weighted);
  plant("none");
  EXPECT_EQ(propose(graph.view()).candidates, 1u);
  plant("another-plugins-result");
  EXPECT_EQ(propose(graph.view()).candidates, 0u);
  EXPECT_EQ(signalOf(withOther), 0);
}

// i64 numbers that no double holds: just above a tie of f32.
FAULT_TEST(IntToFloatTwice, "int-to-float-twice") {
  for (const std::string fault : {"none", "int-to-float-twice"}) {
    plant(fault);
    Graph graph(one("convert", {vector(i64, {0})}, {{f32, {1}}}, {string("dtype", "f32")}));
    const int64_t number = (int64_t{1} << 60) + (int64_t{1} << 36) + 1;
    std::memcpy(graph.inputs[0].data(), &number, sizeof number);
    EXPECT_EQ(difference(graph, Kernel(InHost, graph.view()).run(graph.inputs), true).empty(), fault == "none");
  }
}

} // namespace
} // namespace mortise::test
