// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Speed of generated code (on 8192 x 2048 f32 unless named otherwise) and of code generation. Prints one line per
// kernel:
//   name, compile ms (plan, mlir, llvm, link), run ms (CPU time of the slowest thread, best of 25), GB/s
// Usage: mortise_codegen_bench [threads]
#include "test_graph.hpp"

#include <chrono>
#include <functional>
#include <random>
#include <thread>

#include <time.h>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// CPU time, so that other processes on a busy machine do not count.
double cpu(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}
double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

void bench(const char *name, const std::function<void(TestGraph &)> &build, unsigned threads) {
  TestGraph builder;
  build(builder);
  const MortiseGraph &graph = builder.view();
  Target target = Target::host(threads);
  double start = now();
  auto fused = fuse({&graph, {}, {}, {}}, target);
  double fuseMs = (now() - start) * 1e3;
  if (!fused || fused->groups.size() != 1) {
    std::printf("%s: %s\n", name, fused ? "expected one group" : fused.error().message.c_str());
    return;
  }
  auto compiler = std::move(*Compiler::create(target));
  TestGraph warm; // the first kernel pays for contexts and patterns
  warm.output(warm.op("neg", {warm.input(MORTISE_F32, {3})}, MORTISE_F32, {3}));
  const MortiseGraph &warmGraph = warm.view();
  (void)compiler->compile(warmGraph, fuse({&warmGraph, {}, {}, {}}, target)->groups);
  Compiler::Statistics before = compiler->statistics();
  double compileStart = cpu(CLOCK_PROCESS_CPUTIME_ID);
  auto functions = compiler->compile(graph, fused->groups);
  double compileMs = (cpu(CLOCK_PROCESS_CPUTIME_ID) - compileStart) * 1e3;
  if (!functions) {
    std::printf("%s: %s\n", name, functions.error().message.c_str());
    return;
  }
  Compiler::Statistics s = compiler->statistics();
  const Function &function = (*functions)[0];
  const Group &group = fused->groups[0];

  Memory memory(graph);
  memory.aligned = true;
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (uint32_t v : group.inputs) {
    const MortiseValue *value = graph.values[v];
    if (value->type->dtype == MORTISE_F32)
      for (int64_t i = 0; i < elementCount(*value->type); ++i)
        memory.as<float>(value)[i] = normal(engine);
    else
      std::memset(memory.at(v), 0, byteSize(*value->type));
    inputs.push_back(memory.at(v));
  }
  for (uint32_t v : group.outputs)
    outputs.push_back(memory.at(v));
  std::vector<void *> scratch;
  for (unsigned t = 0; t < threads; ++t)
    scratch.push_back(std::aligned_alloc(64, (*function.scratchBytes.number() + 127) / 64 * 64));
  const int64_t tasks = *function.tasks.number();
  std::vector<double> times;
  for (int round = 0; round < 25; ++round) {
    std::vector<std::thread> pool;
    std::vector<double> spent(threads);
    for (unsigned t = 0; t < threads; ++t) {
      auto work = [&, t] {
        double begin = cpu(CLOCK_THREAD_CPUTIME_ID);
        function.entry(inputs.data(), outputs.data(), scratch[t], nullptr, tasks * t / threads,
                       tasks * (t + 1) / threads);
        spent[t] = cpu(CLOCK_THREAD_CPUTIME_ID) - begin;
      };
      if (t + 1 < threads)
        pool.emplace_back(work);
      else
        work();
    }
    for (std::thread &thread : pool)
      thread.join();
    times.push_back(*std::max_element(spent.begin(), spent.end()));
  }
  std::sort(times.begin(), times.end());
  for (void *memoryOfThread : scratch)
    std::free(memoryOfThread);
  std::printf("%-28s fuse %5.2f compile %5.2f (plan %.2f mlir %.2f llvm %.2f link %.2f) run %8.3f ms %7.1f GB/s tasks "
              "%ld grain %ld\n",
              group.name.c_str(), fuseMs, compileMs, (s.planSeconds - before.planSeconds) * 1e3,
              (s.mlirSeconds - before.mlirSeconds) * 1e3, (s.llvmSeconds - before.llvmSeconds) * 1e3,
              (s.linkSeconds - before.linkSeconds) * 1e3, times[0] * 1e3,
              static_cast<double>(*function.bytes.number()) / times[0] / 1e9, static_cast<long>(tasks),
              static_cast<long>(*function.grain.number()));
}

} // namespace

int main(int argc, char **argv) {
  unsigned threads = argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 2;
  const Dims big{8192, 2048};
  auto unary = [&](const char *op, std::vector<Attr> attributes = {}) {
    return [=](TestGraph &b) { b.output(b.op(op, {b.input(MORTISE_F32, big)}, MORTISE_F32, big, attributes)); };
  };
  bench("neg", unary("neg"), threads);
  bench("exp", unary("exp"), threads);
  bench("gelu", unary("gelu", {{"approximate", "none"}}), threads);
  bench("tanh", unary("tanh"), threads);
  bench("sin", unary("sin"), threads);
  bench("softmax", unary("softmax", {{"axis", 1}}), threads);
  bench("log_softmax", unary("log_softmax", {{"axis", 1}}), threads);
  bench("softmax axis 0", unary("softmax", {{"axis", 0}}), threads);
  auto norm = [&](bool residual, bool gelu, Dims dims) {
    return [=](TestGraph &b) {
      Dims last{dims.back()};
      V x = b.input(MORTISE_F32, dims), s = b.input(MORTISE_F32, last), t = b.input(MORTISE_F32, last);
      if (residual) {
        x = b.op("add", {x, b.input(MORTISE_F32, dims)}, MORTISE_F32, dims);
        b.output(x);
      }
      V y = b.op("layer_norm", {x, s, t}, MORTISE_F32, dims,
                 {{"axis", static_cast<int64_t>(dims.size()) - 1}, {"epsilon", 1e-5}});
      b.output(gelu ? b.op("gelu", {y}, MORTISE_F32, dims, {{"approximate", "none"}}) : y);
    };
  };
  bench("layer_norm", norm(false, false, big), threads);
  bench("layer_norm+gelu", norm(false, true, big), threads);
  bench("layer_norm+residual", norm(true, false, big), threads);
  bench("small layer_norm", norm(true, false, {1, 32, 384}), threads);
  bench("bert layer_norm", norm(true, false, {1, 128, 768}), threads);
  bench(
      "reduce rows",
      [&](TestGraph &b) {
        b.output(b.op("reduce_sum", {b.input(MORTISE_F32, big)}, MORTISE_F32, {8192}, {{"axes", Dims{1}}}));
      },
      threads);
  bench(
      "reduce columns",
      [&](TestGraph &b) {
        b.output(b.op("reduce_sum", {b.input(MORTISE_F32, big)}, MORTISE_F32, {2048}, {{"axes", Dims{0}}}));
      },
      threads);
  bench(
      "transpose",
      [&](TestGraph &b) {
        b.output(b.op("transpose", {b.input(MORTISE_F32, {2048, 2048})}, MORTISE_F32, {2048, 2048},
                      {{"permutation", Dims{1, 0}}}));
      },
      threads);
  bench(
      "heads",
      [&](TestGraph &b) {
        V x = b.op("reshape", {b.input(MORTISE_F32, {128, 512, 768})}, MORTISE_F32, {128, 512, 12, 64},
                   {{"shape", Dims{128, 512, 12, 64}}});
        b.output(b.op("transpose", {x}, MORTISE_F32, {128, 12, 512, 64}, {{"permutation", Dims{0, 2, 1, 3}}}));
      },
      threads);
  bench(
      "embedding",
      [&](TestGraph &b) {
        b.output(b.op("embedding", {b.input(MORTISE_F32, {30522, 768}), b.input(MORTISE_I64, {64, 128})}, MORTISE_F32,
                      {64, 128, 768}));
      },
      threads);
  bench(
      "masked softmax",
      [&](TestGraph &b) {
        Dims scores{32, 12, 128, 128};
        V x = b.input(MORTISE_F32, scores), mask = b.input(MORTISE_F32, {32, 1, 128, 128});
        V wide = b.op("broadcast", {mask}, MORTISE_F32, scores, {{"shape", scores}, {"axes", Dims{0, 1, 2, 3}}});
        b.output(b.op("softmax", {b.op("add", {x, wide}, MORTISE_F32, scores)}, MORTISE_F32, scores, {{"axis", 3}}));
      },
      threads);
  bench(
      "batch_norm+relu",
      [&](TestGraph &b) {
        Dims dims{8, 256, 56, 56};
        std::vector<V> operands{b.input(MORTISE_F32, dims)};
        for (int i = 0; i < 4; ++i)
          operands.push_back(b.input(MORTISE_F32, {256}));
        b.output(
            b.op("relu", {b.op("batch_norm", operands, MORTISE_F32, dims, {{"epsilon", 1e-5}})}, MORTISE_F32, dims));
      },
      threads);
}
