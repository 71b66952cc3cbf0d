// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a graph through generated groups and through the reference interpreter, and compares the results.
#pragma once

#include "emulator.hpp"
#include "spirv_check.hpp"
#include "test_graph.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

namespace mortise::codegen::test {

inline double element(const std::byte *data, int32_t dtype, int64_t i) {
  return reference::visitElement(dtype, [&]<typename T>(T) {
    return static_cast<double>(T::load(reinterpret_cast<const typename T::Storage *>(data)[i]));
  });
}

inline void setElement(std::byte *data, int32_t dtype, int64_t i, double value) {
  reference::visitElement(dtype, [&]<typename T>(T) {
    reinterpret_cast<typename T::Storage *>(data)[i] = T::store(static_cast<typename T::Compute>(value));
  });
}

// How far a result may be from the reference's: a number of units in the last place (0: equal, signs of zeros
// included), or, if `measured`, the bound that follows from the roundings of the whole graph.
struct Bound {
  double ulps = 0;
  bool measured = false;
};
inline constexpr Bound equal{};
inline constexpr Bound roundings{.ulps = conformance::comparisonUlps, .measured = true};

inline std::vector<Group> groupsOf(const MortiseGraph &graph) {
  auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  if (!parts)
    throw std::runtime_error(parts.error().message); // the test has failed
  return std::move(parts->groups);
}
// Emulated; as SPIR-V they are valid, too.
inline std::vector<EmulatedFunction> kernelsOf(const MortiseGraph &graph, std::span<const Group> groups) {
  auto kernels = Emulator::shared().compile(graph, groups);
  if (!kernels)
    throw std::runtime_error(kernels.error().message);
  EXPECT_EQ(invalidSpirv(graph, groups), "");
  return std::move(*kernels);
}

enum class Fill { Plain, Hostile, Small /* integers 0 .. 3 */ };

class Oracle {
public:
  explicit Oracle(TestGraph &builder) : graph(builder.view()), memory(graph), expected(graph) {}

  void fill(V value, Fill how, unsigned seed = 1) {
    std::mt19937 engine(seed * 977 + value->index);
    std::normal_distribution<double> normal(0, 3);
    int32_t dtype = value->type->dtype;
    std::vector<double> special;
    if (isFloat(dtype)) {
      special = {0.0,  -0.0,  INFINITY, -INFINITY, NAN,   1.0,  -1.0,  0.5,  2.5,
                 -2.5, 1e-42, -1e-42,   6e-8,      65504, 3e38, -3e38, 1e-30};
    } else {
      double top = std::ldexp(1.0, std::min<int>(dtypeBits(dtype), 53) - (isUnsigned(dtype) ? 0 : 1)) - 1;
      special = {0, 1, top, 2, 3, 7};
      if (!isUnsigned(dtype))
        special.insert(special.end(), {-1, -top - 1, -2, -7});
    }
    for (int64_t i = 0; i < elementCount(*value->type); ++i) {
      double number = how == Fill::Small ? static_cast<double>(engine() % 4)
                      : isFloat(dtype)   ? normal(engine)
                                         : std::nearbyint(normal(engine) * 3);
      if (isUnsigned(dtype))
        number = std::fabs(number);
      if (dtype == MORTISE_I1)
        number = engine() % 2;
      if (how == Fill::Hostile && dtype != MORTISE_I1 && engine() % 2)
        number = special[engine() % special.size()];
      setElement(memory.at(value->index), dtype, i, number);
    }
  }

  // Computes with the interpreter, on the CPU, and, where GPUs have all of it, with kernels of GPUs; and compares. The
  // same kernels in SPIR-V have to be valid.
  void check(Bound bound, const std::string &what = "") {
    static auto compiler = std::move(*Compiler::create(testTarget(2)));
    auto fused = fuse({&graph, {}, {}, layouts}, testTarget(2));
    if (!fused)
      for (size_t n = 0; n < graph.node_count; ++n) {
        std::printf("%%%u = %s", graph.nodes[n]->results[0]->index, graph.nodes[n]->op);
        for (size_t i = 0; i < graph.nodes[n]->operand_count; ++i)
          std::printf(" %%%u", graph.nodes[n]->operands[i]->index);
        std::printf(" : %s\n", typeString(*graph.nodes[n]->results[0]->type).c_str());
      }
    ASSERT_TRUE(fused) << what << fused.error().message;
    auto functions = compiler->compile(graph, fused->groups);
    ASSERT_TRUE(functions) << what << functions.error().message;
    interpret(what);
    if (Emulator::supports(graph) && Emulator::isDue())
      emulate(bound, what);
    run(fused->groups, *functions, {}, bound, what);
  }

  // Only with kernels of GPUs, which have products.
  void checkSimt(Bound bound, const std::string &what = "") {
    interpret(what);
    emulate(bound, what);
  }

  void emulate(Bound bound, const std::string &what) {
    auto parts = fuse({&graph, {}, {}, layouts}, simtFuseTarget());
    ASSERT_TRUE(parts) << what << parts.error().message;
    auto kernels = Emulator::shared().compile(graph, parts->groups);
    ASSERT_TRUE(kernels) << what << kernels.error().message;
    run(parts->groups, *kernels, {}, bound, what + " (SIMT)");
    // Tensors end at a page's end, so that those of odd sizes are not aligned, as what is compiled for such expects.
    const auto isOdd = [&](V value) { return reinterpret_cast<uintptr_t>(memory.at(value->index)) % 16 != 0; };
    if (std::any_of(kernels->begin(), kernels->end(), [](const auto &kernel) { return kernel.alignment > 1; }) &&
        (std::any_of(graph.inputs, graph.inputs + graph.input_count, isOdd) ||
         std::any_of(graph.outputs, graph.outputs + graph.output_count, isOdd))) {
      memory.aligned = true;
      run(parts->groups, *kernels, {}, bound, what + " (SIMT, aligned)");
      memory.aligned = false;
    }
    EXPECT_EQ(invalidSpirv(graph, parts->groups), "") << what;
  }

  void interpret(const std::string &what) {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (size_t i = 0; i < graph.input_count; ++i)
      inputs.push_back(memory.at(graph.inputs[i]->index));
    before.clear(), errors.clear();
    for (size_t i = 0; i < graph.input_count; ++i) { // groups may write over the inputs
      const std::byte *from = memory.at(graph.inputs[i]->index);
      before.emplace_back(from, from + byteSize(*graph.inputs[i]->type));
    }
    for (size_t i = 0; i < graph.output_count; ++i)
      outputs.push_back(expected.at(graph.outputs[i]->index));
    auto interpreted = reference::interpret(graph, inputs, outputs);
    ASSERT_TRUE(interpreted) << what << interpreted.error().message;
  }

  // Compares with the results of `interpret`. The groups may be those of the same graph with symbols. What
  // an earlier run has left in memory is gone. Function: of the CPU, or an emulated kernel.
  template <typename Function>
  void run(const std::vector<Group> &made, const std::vector<Function> &functions, std::span<const int64_t> symbols,
           Bound bound, const std::string &what) {
    groups = made;
    memory.poison();
    for (size_t i = 0; i < graph.input_count; ++i)
      std::ranges::copy(before[i], memory.at(graph.inputs[i]->index));
    for (size_t g = 0; g < groups.size(); ++g) {
      runGroup(groups[g], functions[g], memory, symbols);
      for (uint32_t output : groups[g].outputs)
        EXPECT_TRUE(memory.intact(output)) << what << groups[g].name << " wrote outside its output";
    }
    for (size_t i = 0; i < graph.output_count; ++i)
      compare(i, bound, what);
  }

  void compare(size_t output, Bound bound, const std::string &what) {
    V value = graph.outputs[output];
    int32_t dtype = value->type->dtype;
    for (int64_t i = 0; i < elementCount(*value->type); ++i) {
      double found = element(memory.at(value->index), dtype, placeOf(value, i)),
             want = element(expected.at(value->index), dtype, i);
      if (std::isnan(want) ? std::isnan(found)
                           : found == want && (!isFloat(dtype) || std::signbit(found) == std::signbit(want)))
        continue;
      double allowed = isFloat(dtype) ? bound.ulps * conformance::ulp(want, dtype) : 0;
      if (bound.measured && isFloat(dtype))
        allowed = conformance::allowed(standardError(output, i), want, dtype);
      ASSERT_TRUE(isClose(found, want, dtype, allowed, bound))
          << what << " " << value->producer->op << " " << typeString(*value->type) << " element " << i << ": found "
          << found << ", expected " << want << " within " << allowed << ", "
          << std::fabs(found - want) / conformance::ulp(want, dtype) << " ulp";
    }
  }

  // Gives what groups write, updates aside, its dimensions in any order in memory.
  void permute(unsigned seed) {
    std::mt19937 engine(seed);
    layouts.assign(graph.value_count, std::nullopt);
    for (size_t n = 0; n < graph.node_count; ++n) {
      if (isOp(*graph.nodes[n], mortise::Op::Put))
        continue;
      const V value = graph.nodes[n]->results[0];
      View view = denseView(*value);
      std::vector<size_t> order(view.dims.size());
      std::iota(order.begin(), order.end(), 0);
      std::ranges::shuffle(order, engine);
      Dim stride = 1;
      for (const size_t i : order)
        view.strides[i] = stride, stride *= view.dims[i];
      layouts[value->index] = std::move(view);
    }
  }

private:
  // Of an element, counted row by row.
  int64_t placeOf(V value, int64_t element) const {
    if (layouts.empty() || !layouts[value->index])
      return element;
    const View &view = *layouts[value->index];
    int64_t place = 0;
    for (size_t i = view.dims.size(); i-- > 0; element /= *view.dims[i].number())
      place += element % *view.dims[i].number() * *view.strides[i].number();
    return place;
  }

  static bool isClose(double found, double want, int32_t dtype, double allowed, Bound bound) {
    if (std::isnan(found) || std::isnan(want) || allowed == 0)
      return false;
    double top = conformance::largestFinite(dtype); // just below it one side may overflow
    if (std::isinf(want))
      return bound.ulps > 0 && std::signbit(want) == std::signbit(found) &&
             std::fabs(found) >= top - bound.ulps * conformance::ulp(top, dtype);
    return std::fabs(found - want) <= allowed;
  }

  double standardError(size_t output, int64_t i) {
    if (errors.empty()) {
      std::vector<const void *> inputs;
      for (const std::vector<std::byte> &input : before)
        inputs.push_back(input.data());
      auto measured = conformance::standardErrors(graph, inputs);
      if (!measured) {
        ADD_FAILURE() << measured.error().message;
        return 0;
      }
      errors = std::move(*measured);
    }
    return errors[output][static_cast<size_t>(i)];
  }

  std::vector<std::vector<std::byte>> before; // the inputs
  std::vector<std::vector<double>> errors;    // per output, once measured

public:
  const MortiseGraph &graph;
  Memory memory, expected;
  std::vector<Group> groups;
  std::vector<std::optional<View>> layouts; // FuseRequest::layouts
};

} // namespace mortise::codegen::test
