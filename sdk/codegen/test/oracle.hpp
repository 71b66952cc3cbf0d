// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a graph through groups and through the reference interpreter, and compares.
#pragma once

#include "test_graph.hpp"

#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <random>

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

inline double ulp(double expected, int32_t dtype) {
  const MortiseDTypeInfo &info = *mortise_dtype_info(dtype);
  const int least = 3 - (1 << (info.exponent_bits - 1)); // frexp's exponent of the smallest normal number
  int exponent;
  std::frexp(expected, &exponent);
  return std::ldexp(1.0, std::max(exponent, least) - static_cast<int>(info.mantissa_bits) - 1);
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

  // Computes both ways. `ulps` for floats; `absolute` is added to the bound.
  void check(double ulps, double absolute = 0, const std::string &what = "") {
    static auto compiler = std::move(*Compiler::create(Target::host(2)));
    auto fused = fuse({&graph, {}, {}, {}}, Target::host(2));
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
    run(fused->groups, *functions, {}, ulps, absolute, what);
  }

  void interpret(const std::string &what) {
    std::vector<const void *> inputs;
    std::vector<void *> outputs;
    for (size_t i = 0; i < graph.input_count; ++i)
      inputs.push_back(memory.at(graph.inputs[i]->index));
    for (size_t i = 0; i < graph.output_count; ++i)
      outputs.push_back(expected.at(graph.outputs[i]->index));
    auto interpreted = reference::interpret(graph, inputs, outputs);
    ASSERT_TRUE(interpreted) << what << interpreted.error().message;
  }

  // Against what `interpret` found. The groups may be those of the same graph with symbols.
  void run(const std::vector<Group> &made, const std::vector<Function> &functions, std::span<const int64_t> symbols,
           double ulps, double absolute, const std::string &what) {
    groups = made;
    for (size_t g = 0; g < groups.size(); ++g) {
      runGroup(groups[g], functions[g], memory, symbols);
      for (uint32_t output : groups[g].outputs)
        EXPECT_TRUE(memory.intact(output)) << what << groups[g].name << " wrote outside its output";
    }
    for (size_t i = 0; i < graph.output_count; ++i)
      compare(graph.outputs[i], ulps, absolute, what);
  }

  void compare(V value, double ulps, double absolute, const std::string &what) {
    int32_t dtype = value->type->dtype;
    for (int64_t i = 0; i < elementCount(*value->type); ++i) {
      double found = element(memory.at(value->index), dtype, i), want = element(expected.at(value->index), dtype, i);
      if (std::isnan(want) ? std::isnan(found)
                           : found == want && (!isFloat(dtype) || std::signbit(found) == std::signbit(want)))
        continue;
      bool close = isFloat(dtype) && !std::isnan(want) && !std::isnan(found) && ulps > 0 &&
                   ((std::isinf(want) && std::fabs(found) > 0.99 * (dtype == MORTISE_F16 ? 65504 : 3.4e38) &&
                     std::signbit(want) == std::signbit(found)) ||
                    std::fabs(found - want) <= ulps * ulp(want, dtype) + absolute);
      ASSERT_TRUE(close) << what << " " << value->producer->op << " " << typeString(*value->type) << " element " << i
                         << ": found " << found << ", expected " << want << ", "
                         << std::fabs(found - want) / ulp(want, dtype) << " ulp";
    }
  }

  const MortiseGraph &graph;
  Memory memory, expected;
  std::vector<Group> groups;
};

} // namespace mortise::codegen::test
