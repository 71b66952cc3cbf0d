// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nodes with random operands, types and attributes. Each must be refused or run without errors under sanitizers.
#include "../check.hpp"
#include "view_builder.hpp"

#include <gtest/gtest.h>
#include <map>
#include <random>

using namespace mortise;
using namespace mortise::reference;

namespace {

class Generator {
public:
  explicit Generator(uint32_t seed) : random(seed) {}

  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); }
  bool chance(int percent) { return pick(0, 99) < percent; }
  int64_t number() {
    static const int64_t extremes[] = {INT64_MIN,        INT64_MIN + 1,   -1, INT64_MAX, INT64_MAX - 1,
                                       int64_t(1) << 40, int64_t(1) << 62};
    return chance(8) ? extremes[pick(0, 6)] : pick(0, 3);
  }
  std::vector<int64_t> numbers(int64_t length) {
    std::vector<int64_t> list(static_cast<size_t>(length));
    for (int64_t &value : list)
      value = number();
    return list;
  }
  std::vector<int64_t> dims() {
    std::vector<int64_t> list(static_cast<size_t>(pick(0, 5)));
    for (int64_t &dim : list)
      dim = chance(2) ? number() : pick(0, 4);
    return list;
  }

  void attributes(const MortiseOpInfo &info, size_t rank) {
    for (size_t i = 0; i < info.attribute_count; ++i) {
      const MortiseAttributeInfo &attribute = info.attributes[i];
      std::string name(attribute.name);
      switch (attribute.kind) {
      case MORTISE_ATTRIBUTE_BOOL:
        list.push_back(test::flag(name, chance(50)));
        break;
      case MORTISE_ATTRIBUTE_I64:
        list.push_back(test::integer(name, number()));
        break;
      case MORTISE_ATTRIBUTE_F64:
        list.push_back(test::real(name, static_cast<double>(number())));
        break;
      case MORTISE_ATTRIBUTE_STRING: {
        static const char *const words[] = {"f32",  "i4",   "i1", "eq",  "set", "add",
                                            "none", "tanh", "",   "f99", "i8",  "sum"};
        list.push_back(test::string(name, words[pick(0, 11)]));
        break;
      }
      case MORTISE_ATTRIBUTE_TENSOR:
        list.push_back(
            test::tensor(name, builder.type(static_cast<int32_t>(pick(1, 13)), {2}), std::vector<uint8_t>(8)));
        break;
      default: {
        bool spatial = rank > 2 && has(static_cast<Op>(info.op), Trait::Window);
        list.push_back(
            test::integers(name, numbers(chance(90) ? static_cast<int64_t>(rank - (spatial ? 2 : 0)) : pick(0, 5))));
      }
      }
    }
  }

  // Checks a random node and runs it unless it is refused. Returns the refusal.
  Refusal tryOne(const MortiseOpInfo &info) {
    auto dtype = static_cast<int32_t>(pick(1, 13));
    std::vector<int64_t> first = dims();
    std::vector<const MortiseValue *> operands;
    int64_t least = 0, most = 0;
    for (size_t i = 0; i < info.operand_count; ++i) {
      least += info.operands[i].arity == MORTISE_ARITY_ONE;
      most += info.operands[i].arity == MORTISE_ARITY_VARIADIC ? 4 : 1;
    }
    for (int64_t i = 0, n = pick(least, most); i < n; ++i)
      operands.push_back(i > 0 && chance(10)
                             ? nullptr
                             : builder.input(i > 0 && chance(30)
                                                 ? static_cast<int32_t>(chance(80) ? MORTISE_I64 : pick(1, 13))
                                                 : dtype,
                                             i > 0 && chance(30) ? dims() : first));
    attributes(info, first.size());
    std::vector<const MortiseType *> types;
    int64_t results = 0;
    for (size_t i = 0; i < info.result_count; ++i)
      results += info.results[i].arity == MORTISE_ARITY_VARIADIC ? pick(1, 3) : 1;
    for (int64_t n = results; n > 0; --n)
      types.push_back(builder.type(chance(80) ? dtype : MORTISE_I64, chance(70) ? first : dims()));
    for (MortiseValue *result : builder.ops(std::string(info.name), operands, types, list))
      builder.output(result);
    const MortiseGraph &view = builder.view();
    Refusal refusal = refuse(*view.nodes[0]);
    if (refusal || !small(view))
      return refusal;
    std::vector<std::vector<uint8_t>> buffers;
    std::vector<const void *> inputs;
    for (size_t i = 0; i < view.input_count; ++i) {
      buffers.emplace_back(byteSize(*view.inputs[i]->type));
      for (uint8_t &byte : buffers.back())
        byte = static_cast<uint8_t>(view.inputs[i]->type->dtype == MORTISE_I1 ? pick(0, 1) : pick(0, 255));
      inputs.push_back(buffers.back().data());
    }
    std::vector<std::vector<uint8_t>> memory;
    std::vector<void *> outputs;
    for (size_t i = 0; i < view.output_count; ++i)
      outputs.push_back(memory.emplace_back(byteSize(*view.outputs[i]->type)).data());
    estimate(*view.nodes[0]);
    auto result = interpret(view, inputs, outputs);
    EXPECT_TRUE(result) << result.error().message;
    return refusal;
  }

  // Excludes nodes that are well formed but take too long.
  bool small(const MortiseGraph &view) {
    for (size_t i = 0; i < view.value_count; ++i)
      if (elementCount(*view.values[i]->type) > 100000)
        return false;
    for (const test::Attribute &attribute : list)
      for (int64_t value : attribute.i64s)
        if (value > 1000 && attribute.name != "strides")
          return false;
    return true;
  }

private:
  std::mt19937 random;
  test::ViewBuilder builder;
  std::vector<test::Attribute> list;
};

} // namespace

TEST(Hostile, RandomNodesAreRefusedOrRun) {
  uint32_t seed = std::random_device()();
  std::map<Op, int> ran;
  for (auto family : {elementwiseOps, shapeOps, indexingOps, contractionOps, reductionOps, windowOps, normalisationOps,
                      attentionOps, quantisationOps, controlFlowOps, collectiveOps})
    for (const OpSpec &spec : family())
      for (int round = 0; round < 400; ++round) {
        SCOPED_TRACE(std::string(nameOf(spec.op)) + ", seed " + std::to_string(seed));
        ran[spec.op] += !Generator(seed++).tryOne(*infoOf(spec.op));
      }
  // Ops whose types depend on few attributes must have run several times. The others are covered by their own tests.
  for (Op op : {Op::Exp, Op::Add, Op::Reverse, Op::Relu, Op::Cumsum})
    EXPECT_GT(ran[op], 5) << nameOf(op);
}
