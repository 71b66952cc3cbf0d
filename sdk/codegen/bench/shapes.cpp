// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compares groups compiled once for all shapes with the same groups compiled for each shape: time at each shape, on one
// thread, medians of interleaved rounds. Prints the ratios. Exits with 1 when a ratio is above the limit given
// (default: no limit).
#include "test_graph.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

using Recipe = std::function<void(TestGraph &, const Dim &b, const Dim &s)>;
using Shapes = std::vector<std::pair<int64_t, int64_t>>;

double now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Compiled {
  std::vector<Group> groups;
  std::vector<Function> functions;
};

std::optional<Compiled> compile(Compiler &compiler, const MortiseGraph &graph) {
  auto fused = fuse({&graph, {}, {}, {}}, Target::host(1));
  if (!fused) {
    std::printf("%s\n", fused.error().message.c_str());
    return std::nullopt;
  }
  auto functions = compiler.compile(graph, fused->groups);
  if (!functions) {
    std::printf("%s\n", functions.error().message.c_str());
    return std::nullopt;
  }
  return Compiled{std::move(fused->groups), std::move(*functions)};
}

// One way to compute a graph at one shape. Pointers and sizes are found beforehand.
class Run {
public:
  Run(const Compiled &compiled, Memory &memory, std::vector<int64_t> symbols) : symbols(std::move(symbols)) {
    for (size_t i = 0; i < compiled.groups.size(); ++i) {
      Call call{compiled.functions[i].entry, {}, {}, *compiled.functions[i].tasks.evaluate(this->symbols)};
      for (uint32_t v : compiled.groups[i].inputs)
        call.inputs.push_back(memory.at(v));
      for (uint32_t v : compiled.groups[i].outputs)
        call.outputs.push_back(memory.at(v));
      scratch.resize(std::max(scratch.size(),
                              static_cast<size_t>(*compiled.functions[i].scratchBytes.evaluate(this->symbols) + 64)));
      calls.push_back(std::move(call));
    }
  }
  void operator()() {
    void *place = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(scratch.data()) + 63) / 64 * 64);
    for (const Call &call : calls)
      call.entry(call.inputs.data(), call.outputs.data(), place, symbols.data(), 0, call.tasks);
  }
  double time(int repeat) {
    double start = now();
    for (int i = 0; i < repeat; ++i)
      (*this)();
    return (now() - start) / repeat;
  }

private:
  struct Call {
    Function::Entry entry;
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    int64_t tasks;
  };
  std::vector<Call> calls;
  std::vector<int64_t> symbols;
  static inline std::vector<std::byte> scratch; // shared, because its address decides about cache conflicts
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Shorter kernels take less time than a hand-over to a thread, and there a division before the loops is visible.
constexpr double noticeable = 0.1;
double worst = 0;
const char *only = nullptr;

void compare(const char *name, const Recipe &recipe, const Shapes &shapes) {
  if (only && !std::strstr(name, only))
    return;
  auto compiler = std::move(*Compiler::create(Target::host(1)));
  TestGraph symbolic;
  recipe(symbolic, symbolic.symbol("b", 1), symbolic.symbol("s", 2));
  const MortiseGraph &graph = symbolic.view();
  auto general = compile(*compiler, graph);
  if (!general)
    return;
  Compiler::Statistics s = compiler->statistics();
  std::printf("%-16s %zu groups, compiled in %.1f ms (plan %.2f mlir %.2f llvm %.2f)\n", name, general->groups.size(),
              (s.planSeconds + s.mlirSeconds + s.llvmSeconds + s.linkSeconds) * 1e3, s.planSeconds * 1e3,
              s.mlirSeconds * 1e3, s.llvmSeconds * 1e3);
  for (auto [b, length] : shapes) {
    TestGraph numbers;
    recipe(numbers, b, length);
    const MortiseGraph &fixed = numbers.view();
    auto special = compile(*compiler, fixed);
    if (!special)
      return;
    Memory memory(fixed);
    memory.aligned = true;
    std::mt19937 engine(1);
    std::normal_distribution<float> normal;
    for (size_t v = 0; v < fixed.value_count; ++v)
      if (fixed.values[v]->type->dtype == MORTISE_F32)
        for (int64_t i = 0; i < elementCount(*fixed.values[v]->type); ++i)
          memory.as<float>(fixed.values[v])[i] = normal(engine);
      else
        std::memset(memory.at(static_cast<uint32_t>(v)), 0, byteSize(*fixed.values[v]->type));
    Run one(*general, memory, {b, length}), other(*special, memory, {});
    one(), other();
    int repeat = std::max(1, static_cast<int>(50 / std::max(other.time(3), 0.05)));
    std::vector<double> times, references, ratios;
    for (int round = 0; round < 61; ++round) {
      times.push_back(one.time(repeat)), references.push_back(other.time(repeat));
      ratios.push_back(times.back() / references.back());
    }
    double ratio = median(times) / median(references);
    double least =
        *std::min_element(times.begin(), times.end()) / *std::min_element(references.begin(), references.end());
    if (median(references) >= noticeable)
      worst = std::max(worst, std::min(ratio, least));
    std::printf("  b %3ld s %4ld: %9.2f us, static %9.2f us, ratio %.3f (of the least %.3f)%s\n", static_cast<long>(b),
                static_cast<long>(length), median(times), median(references), ratio, least,
                std::min(ratio, least) > 1.10 ? "  <--" : "");
  }
}

V unary(TestGraph &g, const char *op, V x, const Extents &dims, std::vector<Attr> attributes = {}) {
  return g.symbolicOp(op, {x}, MORTISE_F32, dims, std::move(attributes));
}
V wide(TestGraph &g, V x, const Extents &dims, Dims axes) {
  return g.symbolicOp("broadcast", {x}, x->type->dtype, dims, {{"shape", dims}, {"axes", std::move(axes)}});
}

void norm(const char *op, TestGraph &g, const Dim &b, const Dim &s) {
  Extents dims{b, s, 768};
  V x = g.symbolicInput(MORTISE_F32, dims), r = g.symbolicInput(MORTISE_F32, dims), scale = g.input(MORTISE_F32, {768});
  V sum = g.symbolicOp("add", {x, r}, MORTISE_F32, dims);
  g.output(sum);
  std::vector<V> operands{sum, scale};
  if (std::strcmp(op, "layer_norm") == 0)
    operands.push_back(g.input(MORTISE_F32, {768}));
  g.output(g.symbolicOp(op, operands, MORTISE_F32, dims, {{"axis", 2}, {"epsilon", 1e-5}}));
}

void compareAll() {
  const Shapes usual{{1, 2}, {1, 16}, {1, 17}, {1, 128}, {2, 33}, {4, 64}, {8, 128}, {1, 512}};
  compare(
      "gelu+bias",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        Extents dims{b, s, 3072};
        V x = g.symbolicInput(MORTISE_F32, dims), bias = g.input(MORTISE_F32, {3072});
        V sum = g.symbolicOp("add", {x, wide(g, bias, dims, {2})}, MORTISE_F32, dims);
        g.output(unary(g, "gelu", sum, dims, {{"approximate", "none"}}));
      },
      usual);
  compare(
      "add",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        Extents dims{b, s, 768};
        g.output(g.symbolicOp("add", {g.symbolicInput(MORTISE_F32, dims), g.symbolicInput(MORTISE_F32, dims)},
                              MORTISE_F32, dims));
      },
      usual);
  compare("layer_norm", [](TestGraph &g, const Dim &b, const Dim &s) { norm("layer_norm", g, b, s); }, usual);
  compare("rms_norm", [](TestGraph &g, const Dim &b, const Dim &s) { norm("rms_norm", g, b, s); }, usual);
  compare("softmax",
          [](TestGraph &g, const Dim &b, const Dim &s) {
            Extents dims{b, 12, s, s};
            V x = g.symbolicInput(MORTISE_F32, dims), mask = g.symbolicInput(MORTISE_F32, {b, 1, 1, s});
            V sum = g.symbolicOp("add", {x, wide(g, mask, dims, {0, 1, 2, 3})}, MORTISE_F32, dims);
            g.output(unary(g, "softmax", sum, dims, {{"axis", 3}}));
          },
          {{1, 2}, {1, 7}, {1, 16}, {1, 17}, {1, 31}, {1, 32}, {1, 64}, {2, 100}, {2, 128}, {1, 256}, {1, 512}});
  compare("row sums",
          [](TestGraph &g, const Dim &b, const Dim &s) {
            g.output(unary(g, "reduce_sum", g.symbolicInput(MORTISE_F32, {b, 64, s}), {b, 64}, {{"axes", Dims{2}}}));
          },
          {{4, 8}, {4, 16}, {4, 17}, {4, 64}, {4, 100}, {4, 512}, {4, 1024}});
  compare(
      "mean over s",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        g.output(unary(g, "mean", g.symbolicInput(MORTISE_F32, {b, s, 768}), {b, 768}, {{"axes", Dims{1}}}));
      },
      usual);
  compare(
      "heads",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        Extents split{b, s, 12, 64};
        V y = unary(g, "reshape", g.symbolicInput(MORTISE_F32, {b, s, 768}), split, {{"shape", split}});
        g.output(unary(g, "transpose", y, {b, 12, s, 64}, {{"permutation", Dims{0, 2, 1, 3}}}));
      },
      usual);
  compare(
      "turned heads",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        V x = g.symbolicInput(MORTISE_F32, {b, s, 12, 64});
        g.output(unary(g, "transpose", x, {b, 12, 64, s}, {{"permutation", Dims{0, 2, 3, 1}}}));
      },
      usual);
  compare(
      "heads back",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        V y = unary(g, "transpose", g.symbolicInput(MORTISE_F32, {b, 12, s, 64}), {b, s, 12, 64},
                    {{"permutation", Dims{0, 2, 1, 3}}});
        g.output(unary(g, "reshape", y, {b * s, 768}, {{"shape", Extents{b * s, 768}}}));
      },
      usual);
  compare(
      "embedding",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        V table = g.input(MORTISE_F32, {30522, 768}), ids = g.symbolicInput(MORTISE_I64, {b, s});
        V p = g.symbolicOp("slice", {g.input(MORTISE_F32, {512, 768})}, MORTISE_F32, {s, 768},
                           {{"starts", Dims{0, 0}}, {"limits", Extents{s, 768}}, {"strides", Dims{1, 1}}});
        V x = g.symbolicOp("embedding", {table, ids}, MORTISE_F32, {b, s, 768});
        g.output(g.symbolicOp("add", {x, wide(g, p, {b, s, 768}, {1, 2})}, MORTISE_F32, {b, s, 768}));
      },
      usual);
  compare(
      "rope",
      [](TestGraph &g, const Dim &b, const Dim &s) {
        Extents dims{b, 12, s, 64}, half{b, 12, s, 32};
        V x = g.symbolicInput(MORTISE_F32, dims), c = g.symbolicInput(MORTISE_F32, {s, 64}),
          d = g.symbolicInput(MORTISE_F32, {s, 64});
        auto part = [&](int64_t from) {
          return g.symbolicOp("slice", {x}, MORTISE_F32, half,
                              {{"starts", Dims{0, 0, 0, from}},
                               {"limits", Extents{b, 12, s, from + 32}},
                               {"strides", Dims{1, 1, 1, 1}}});
        };
        V turned =
            g.symbolicOp("concatenate", {unary(g, "neg", part(32), half), part(0)}, MORTISE_F32, dims, {{"axis", 3}});
        V left = g.symbolicOp("mul", {x, wide(g, c, dims, {2, 3})}, MORTISE_F32, dims);
        V right = g.symbolicOp("mul", {turned, wide(g, d, dims, {2, 3})}, MORTISE_F32, dims);
        g.output(g.symbolicOp("add", {left, right}, MORTISE_F32, dims));
      },
      usual);
  compare("causal mask",
          [](TestGraph &g, const Dim &b, const Dim &s) {
            Extents dims{b, 12, s, s}, square{s, s};
            auto iota = [&](int64_t axis) {
              return g.symbolicOp("iota", {}, MORTISE_I64, square,
                                  {{"shape", square}, {"axis", axis}, {"dtype", "i64"}});
            };
            V seen = g.symbolicOp("compare", {iota(1), iota(0)}, MORTISE_I1, square, {{"direction", "le"}});
            V x = g.symbolicInput(MORTISE_F32, dims);
            V low = wide(g, g.constant<float>(MORTISE_F32, {}, {-1e9f}), dims, {});
            V y = g.symbolicOp("select", {wide(g, seen, dims, {2, 3}), x, low}, MORTISE_F32, dims);
            g.output(unary(g, "softmax", y, dims, {{"axis", 3}}));
          },
          {{1, 2}, {1, 16}, {1, 17}, {1, 64}, {2, 128}, {1, 512}});
}

} // namespace

int main(int argc, char **argv) {
  double limit = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  only = argc > 2 ? argv[2] : nullptr;
  compareAll();
  std::printf("worst ratio %.3f where a run takes at least %.1f us\n", worst, noticeable);
  return limit > 0 && worst > limit;
}
