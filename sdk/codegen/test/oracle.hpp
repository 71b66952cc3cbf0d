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
  switch (dtype) {
  case MORTISE_F64:
    return reinterpret_cast<const double *>(data)[i];
  case MORTISE_F32:
    return reinterpret_cast<const float *>(data)[i];
  case MORTISE_F16:
    return static_cast<double>(reinterpret_cast<const _Float16 *>(data)[i]);
  case MORTISE_BF16:
    return std::bit_cast<float>(uint32_t(reinterpret_cast<const uint16_t *>(data)[i]) << 16);
  case MORTISE_I64:
    return static_cast<double>(reinterpret_cast<const int64_t *>(data)[i]);
  case MORTISE_I32:
    return reinterpret_cast<const int32_t *>(data)[i];
  case MORTISE_I16:
    return reinterpret_cast<const int16_t *>(data)[i];
  case MORTISE_I8:
    return reinterpret_cast<const int8_t *>(data)[i];
  default:
    return reinterpret_cast<const uint8_t *>(data)[i];
  }
}

inline void setElement(std::byte *data, int32_t dtype, int64_t i, double value) {
  switch (dtype) {
  case MORTISE_F64:
    reinterpret_cast<double *>(data)[i] = value;
    return;
  case MORTISE_F32:
    reinterpret_cast<float *>(data)[i] = static_cast<float>(value);
    return;
  case MORTISE_F16:
    reinterpret_cast<_Float16 *>(data)[i] = static_cast<_Float16>(value);
    return;
  case MORTISE_BF16:
    reinterpret_cast<uint16_t *>(data)[i] = std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16;
    return;
  case MORTISE_I64:
    reinterpret_cast<int64_t *>(data)[i] = static_cast<int64_t>(value);
    return;
  case MORTISE_I32:
    reinterpret_cast<int32_t *>(data)[i] = static_cast<int32_t>(value);
    return;
  case MORTISE_I16:
    reinterpret_cast<int16_t *>(data)[i] = static_cast<int16_t>(value);
    return;
  case MORTISE_I8:
    reinterpret_cast<int8_t *>(data)[i] = static_cast<int8_t>(value);
    return;
  case MORTISE_I1:
    reinterpret_cast<uint8_t *>(data)[i] = value != 0;
    return;
  default:
    reinterpret_cast<uint8_t *>(data)[i] = static_cast<uint8_t>(value);
    return;
  }
}

inline double ulp(double expected, int32_t dtype) {
  int bits = dtype == MORTISE_F64 ? 53 : dtype == MORTISE_F32 ? 24 : dtype == MORTISE_F16 ? 11 : 8;
  int least = dtype == MORTISE_F64 ? -1021 : dtype == MORTISE_F16 ? -13 : -125;
  int exponent;
  std::frexp(expected, &exponent);
  return std::ldexp(1.0, std::max(exponent, least) - bits);
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
      double top = dtype == MORTISE_UI8 ? 255 : std::ldexp(1.0, std::min<int>(dtypeBits(dtype), 53) - 1) - 1;
      special = {0, 1, top, 2, 3, 7};
      if (dtype != MORTISE_UI8)
        special.insert(special.end(), {-1, -top - 1, -2, -7});
    }
    for (int64_t i = 0; i < elementCount(*value->type); ++i) {
      double number = how == Fill::Small ? static_cast<double>(engine() % 4)
                      : isFloat(dtype)   ? normal(engine)
                                         : std::nearbyint(normal(engine) * 3);
      if (dtype == MORTISE_UI8)
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
