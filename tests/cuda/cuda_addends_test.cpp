// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is added to a product, and is the library's to add: where that is done, and where it is not.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mortise/reference/interpreter.hpp>

#include <bit>
#include <cstring>
#include <functional>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

constexpr int32_t floats[] = {MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_F64};

bool isNarrow(int32_t dtype) { return dtype == MORTISE_F16 || dtype == MORTISE_BF16; }

ValueId sliced(Network &net, ValueId x, std::vector<int64_t> starts, std::vector<int64_t> limits) {
  const std::vector<int64_t> strides(starts.size(), 1);
  return net.op("slice", {x}, {ints("starts", starts), ints("limits", limits), ints("strides", strides)});
}

// Runs the region on small whole numbers, of which all sums are exact: the bits are the interpreter's.
void expectExact(const Session &session, const Region &region, const MortiseGraph &graph) {
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  std::vector<MortiseAddress> in, out;
  std::vector<std::vector<std::byte>> wanted;
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  constexpr uint64_t bytes = 65536;
  uint32_t state = 1;
  const auto number = [&] { return static_cast<float>((state = state * 1664525 + 1013904223) >> 30) - 1; };
  for (size_t i = 0; i < graph.input_count; ++i) {
    in.push_back(makeMemory(device, bytes));
    inputs.push_back(pointer(in.back()));
    for (uint64_t at = 0; at < byteSize(*graph.inputs[i]->type); at += dtypeBits(graph.inputs[i]->type->dtype) / 8) {
      const float value = number();
      const double wide = value;
      const auto bits = std::bit_cast<uint32_t>(value) >> 16; // -1 to 2 have the same number of digits in f16
      const uint16_t half = value == 0 ? 0 : value == 1 ? 0x3c00 : value == 2 ? 0x4000 : 0xbc00;
      const auto put = [&](const auto &element) {
        std::memcpy(pointer<char>(in.back()) + at, &element, sizeof element);
      };
      switch (graph.inputs[i]->type->dtype) {
      case MORTISE_F64:
        put(wide);
        break;
      case MORTISE_F32:
        put(value);
        break;
      case MORTISE_BF16:
        put(static_cast<uint16_t>(bits));
        break;
      default:
        put(half);
      }
    }
  }
  for (size_t i = 0; i < graph.output_count; ++i) {
    out.push_back(makeMemory(device, bytes));
    outputs.push_back(wanted.emplace_back(byteSize(*graph.outputs[i]->type)).data());
  }
  const auto queued = region.enqueue(stream, in, out);
  EXPECT_TRUE(queued) << queued.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
  ASSERT_TRUE(reference::interpret(graph, inputs, outputs));
  MortiseStreamArgs waited{};
  waited.stream = stream;
  ASSERT_TRUE(call(testedPlugin().stream_wait, waited));
  for (size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(std::memcmp(pointer(out[i]), outputs[i], wanted[i].size()), 0) << "output " << i;
  for (const std::vector<MortiseAddress> &list : {in, out})
    for (const MortiseAddress address : list)
      freeMemory(device, address, bytes);
  destroyStream(stream);
}

// The steps of a region, and the calls that it makes, whatever they compute.
Computed queued(const std::shared_ptr<const Graph> &graph, const char *settings = "",
                const std::vector<MortiseOption> &options = {}) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  configureBlas(settings);
  const Region region(device, graph, Region::How{.options = options});
  configureBlas("");
  constexpr uint64_t bytes = 1 << 20;
  std::vector<MortiseAddress> in, out;
  for (size_t i = 0; i < graph->view().input_count; ++i)
    in.push_back(makeMemory(device, bytes));
  for (size_t i = 0; i < graph->view().output_count; ++i)
    out.push_back(makeMemory(device, bytes));
  MortiseStream *stream = makeStream(device);
  const auto done = region.enqueue(stream, in, out);
  EXPECT_TRUE(done) << done.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
  destroyStream(stream);
  for (const std::vector<MortiseAddress> &list : {in, out})
    for (const MortiseAddress address : list)
      freeMemory(device, address, bytes);
  return {region.text(), blasCalls("cublasLtMatmul")};
}

// ---- What the library adds

TEST(CudaAddends, ResidualsOfLinearsAndDots) {
  for (const int32_t dtype : floats)
    for (const bool bias : {false, true})
      for (const bool reshaped : {false, true})
        for (const bool swapped : {false, true})
          for (const bool turned : {false, true}) { // x lies column by column
            if (bias && dtype == MORTISE_F64)
              continue;
            SCOPED_TRACE(std::string(dtypeName(dtype)) + (bias ? " bias" : "") + (reshaped ? " reshaped" : "") +
                         (swapped ? " swapped" : "") + (turned ? " turned" : ""));
            Network net;
            const ValueId x = turned ? net.transpose(net.input(dtype, {5, 6}), {1, 0}) : net.input(dtype, {6, 5});
            const ValueId c = net.input(dtype, reshaped ? std::vector<int64_t>{2, 3, 4} : std::vector<int64_t>{6, 4});
            ValueId y = net.linear(x, net.input(dtype, {4, 5}), bias ? net.input(dtype, {4}) : ir::noValue);
            if (reshaped)
              y = net.reshape(y, {2, 3, 4});
            y = net.op("add", swapped ? std::vector{c, y} : std::vector{y, c});
            net.output(reshaped ? net.reshape(y, {6, 4}) : y);
            const auto graph = net.finish();
            const Session session;
            configureBlas("");
            const Region region(session.devices[0], graph);
            // Once, though a kernel was already chosen to see whether there is one.
            EXPECT_THAT(blasCalls("cublasLtMatmulAlgoGetHeuristic"), SizeIs(bias && isNarrow(dtype) ? 3 : 1));
            EXPECT_EQ(region.steps, 1u);
            EXPECT_THAT(region.text(), Not(HasSubstr("cuda.")));
            configureBlas("");
            expectExact(session, region, graph->view());
            EXPECT_THAT(blasCalls("cublasLtMatmul"), AllOf(SizeIs(1), Each(HasSubstr(" addend"))));
          }
}

TEST(CudaAddends, NumbersAreTheInterpreters) {
  for (const int32_t dtype : floats) {
    SCOPED_TRACE(dtypeName(dtype));
    Network heads; // two calls, each with its part of the addend
    const ValueId q = heads.transpose(heads.input(dtype, {2, 5, 3, 4}), {0, 2, 1, 3});
    const ValueId k = heads.transpose(heads.input(dtype, {2, 7, 3, 4}), {0, 2, 1, 3});
    heads.output(heads.op("add", {heads.dot(q, k, {0, 1}, {0, 1}, {3}, {3}), heads.input(dtype, {2, 3, 5, 7})}));
    Computed seen = computed(heads);
    EXPECT_THAT(seen.calls, AllOf(SizeIs(2), Each(HasSubstr(" addend"))));
    EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));

    Network rows; // of a larger tensor
    const ValueId all = rows.input(dtype, {9, 4});
    rows.output(rows.op(
        "add", {sliced(rows, all, {2, 0}, {5, 4}), rows.linear(rows.input(dtype, {3, 5}), rows.input(dtype, {4, 5}))}));
    seen = computed(rows);
    EXPECT_THAT(seen.calls, AllOf(SizeIs(1), Each(HasSubstr(" addend"))));
    EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));

    Network two; // one is added to the other
    const ValueId x = two.input(dtype, {3, 5});
    const auto product = [&] { return two.linear(x, two.input(dtype, {4, 5})); };
    const ValueId one = product(), other = product();
    two.output(two.op("add", {one, other}));
    seen = computed(two);
    EXPECT_THAT(seen.calls, AllOf(SizeIs(2), Contains(HasSubstr(" addend")).Times(1)));
    EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
  }
}

TEST(CudaAddends, NarrowOperandsOfWideProducts) {
  Network net;
  const auto wide = [&](std::vector<int64_t> dims) {
    return net.op("convert", {net.input(MORTISE_BF16, std::move(dims))}, {text("dtype", "f32")});
  };
  net.output(net.op("add", {net.linear(wide({3, 6}), wide({4, 6})), net.input(MORTISE_F32, {3, 4})}));
  const Computed seen = computed(net);
  EXPECT_THAT(seen.calls, AllOf(SizeIs(1), Each(AllOf(HasSubstr(" addend"), HasSubstr(" widened")))));
  EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
}

// What is added lies in the workspace until the last product has read it, though steps between them need memory, too.
TEST(CudaAddends, AStreamOfResidualsStaysUntilItIsAdded) {
  Network net;
  const auto layer = [&](ValueId x) { return net.linear(x, net.input(MORTISE_F32, {8, 8})); };
  ValueId x = layer(net.input(MORTISE_F32, {6, 8}));
  for (int i = 0; i < 3; ++i)
    x = net.op("add", {x, layer(layer(layer(x)))});
  net.output(layer(x));
  const Computed seen = computed(net);
  EXPECT_THAT(seen.calls, AllOf(SizeIs(11), Contains(HasSubstr(" addend")).Times(3)));
  EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
}

// A layer of a network that normalises what it adds to: one kernel less writes, and none adds.
TEST(CudaAddends, BlocksOfATransformer) {
  for (const bool bias : {false, true}) {
    Network net;
    const auto linear = [&](ValueId x, int64_t from, int64_t to) {
      return net.linear(x, net.weight({to, from}, MORTISE_BF16), bias ? net.weight({to}, MORTISE_BF16) : ir::noValue);
    };
    const auto normalised = [&](ValueId x) {
      return net.op("rms_norm", {x, net.weight({64}, MORTISE_BF16)}, {integer("axis", 2), real("epsilon", 1e-5)});
    };
    ValueId x = net.op("exp", {net.input(MORTISE_BF16, {2, 32, 64})}); // made by a group, read by two
    for (int layer = 0; layer < 2; ++layer) {
      x = net.op("add", {x, linear(net.op("tanh", {linear(normalised(x), 64, 64)}), 64, 64)});
      x = net.op("add", {x, linear(net.op("tanh", {linear(normalised(x), 64, 128)}), 128, 64)});
    }
    net.output(normalised(x));
    net.output(x);
    const Computed seen = queued(net.finish());
    EXPECT_THAT(seen.calls, AllOf(SizeIs(8), Contains(HasSubstr(" addend")).Times(4)));
    EXPECT_THAT(seen.steps, Not(HasSubstr("add")));
  }
}

TEST(CudaAddends, AddressesMayBeAlignedAsElementsAre) {
  for (const bool bias : {false, true}) {
    Network net;
    const ValueId x = net.input(MORTISE_BF16, {8, 8}), w = net.input(MORTISE_BF16, {8, 8});
    const ValueId c = net.input(MORTISE_BF16, {8, 8});
    net.output(net.op("add", {net.linear(x, w, bias ? net.input(MORTISE_BF16, {8}) : ir::noValue), c}));
    const Session session;
    MortiseDevice *device = session.devices[0];
    MortiseStream *stream = makeStream(device);
    const MortiseAddress memory = makeMemory(device, 8192);
    std::memset(pointer(memory), 0, 8192);
    {
      configureBlas("");
      const Region region(device, net.finish());
      configureBlas("");
      for (const int skewed : {0, 1, 2, 3, 4})
        for (const uint64_t skew : {0, 2, 16}) {
          const auto at = [&](int place) {
            return memory + static_cast<uint64_t>(place) * 1024 + (place == skewed ? skew : 0);
          };
          std::vector<MortiseAddress> in{at(0), at(1), at(2)};
          if (bias)
            in.push_back(at(3));
          const auto done = region.enqueue(stream, in, {at(4)});
          EXPECT_TRUE(done) << done.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
        }
      EXPECT_THAT(blasCalls("cublasLtMatmul"), AllOf(SizeIs(15), Each(HasSubstr(" addend"))));
      // With a bias, kernels were chosen before; without, for two alignments of each of four tensors.
      EXPECT_THAT(blasCalls("cublasLtMatmulAlgoGetHeuristic"), SizeIs(bias ? 0 : 8));
    }
    destroyStream(stream);
    freeMemory(device, memory, 8192);
  }
}

// ---- What it does not

TEST(CudaAddends, WhatAGroupAdds) {
  constexpr int32_t dtype = MORTISE_BF16;
  struct Case {
    const char *name;
    std::function<void(Network &, ValueId product)> build;
  };
  const auto c = [](Network &net) { return net.input(dtype, {16, 8}); };
  const Case cases[] = {
      {"the product is a result as well",
       [&](Network &net, ValueId y) {
         net.output(y);
         net.output(net.op("add", {y, c(net)}));
       }},
      {"so is a view of it",
       [&](Network &net, ValueId y) {
         const ValueId view = net.reshape(y, {8, 16});
         net.output(view);
         net.output(net.op("add", {view, net.input(dtype, {8, 16})}));
       }},
      {"others read the product",
       [&](Network &net, ValueId y) {
         net.output(net.op("add", {y, c(net)}));
         net.output(net.op("exp", {y}));
       }},
      {"the product and itself", [&](Network &net, ValueId y) { net.output(net.op("add", {y, y})); }},
      {"the addend is made of the product",
       [&](Network &net, ValueId y) { net.output(net.op("add", {y, net.op("exp", {y})})); }},
      {"one row for all",
       [&](Network &net, ValueId y) {
         net.output(net.op("add", {y, net.broadcast(net.input(dtype, {8}), {16, 8}, {1})}));
       }},
      {"every second row",
       [&](Network &net, ValueId y) {
         net.output(net.op("add", {y, sliced(net, net.input(dtype, {16, 12}), {0, 0}, {16, 8})}));
       }},
      {"the product is turned",
       [&](Network &net, ValueId y) {
         net.output(net.op("add", {net.transpose(y, {1, 0}), net.input(dtype, {8, 16})}));
       }},
      {"the product is converted",
       [&](Network &net, ValueId y) {
         net.output(net.op("add", {net.op("convert", {y}, {text("dtype", "f32")}), net.input(MORTISE_F32, {16, 8})}));
       }},
      {"the product is multiplied",
       [&](Network &net, ValueId y) { net.output(net.op("add", {net.op("mul", {y, c(net)}), c(net)})); }},
      {"the difference", [&](Network &net, ValueId y) { net.output(net.op("sub", {y, c(net)})); }},
      {"a group makes the addend, for nothing else",
       [&](Network &net, ValueId y) { net.output(net.op("add", {y, net.op("exp", {c(net)})})); }},
      {"a group makes the addend, and reads it behind",
       [&](Network &net, ValueId y) {
         const ValueId made = net.op("exp", {c(net)});
         net.output(net.op("mul", {net.op("add", {y, made}), made}));
       }},
      {"only the next group reads the sum",
       [&](Network &net, ValueId y) { net.output(net.op("exp", {net.op("add", {y, c(net)})})); }},
      {"the addend is a literal",
       [&](Network &net, ValueId y) { net.output(net.op("add", {y, net.splat(2, {16, 8}, dtype)})); }},
  };
  for (const Case &each : cases) {
    SCOPED_TRACE(each.name);
    Network net;
    each.build(net, net.linear(net.input(dtype, {16, 32}), net.input(dtype, {8, 32})));
    const Computed seen = queued(net.finish());
    EXPECT_THAT(seen.calls, AllOf(SizeIs(1), Each(Not(HasSubstr(" addend")))));
    EXPECT_THAT(seen.steps, HasSubstr("cuda.pointwise"));
  }
}

// Of no dimensions, which is as dense as the product of two vectors is.
TEST(CudaAddends, ALiteralIsAddedByAGroup) {
  Network net;
  const ValueId literal = net.scalar(2, MORTISE_F64);
  const ValueId x = net.op("mul", {net.input(MORTISE_F64, {8}), net.broadcast(literal, {8}, {})});
  net.output(net.op("add", {net.dot(x, net.input(MORTISE_F64, {8}), {}, {}, {0}, {0}), literal}));
  EXPECT_THAT(queued(net.finish()).calls, AllOf(SizeIs(1), Each(Not(HasSubstr(" addend")))));
}

// What a group makes for the caller.
TEST(CudaAddends, AResultIsThere) {
  Network net;
  const ValueId made = net.op("exp", {net.input(MORTISE_BF16, {16, 32})});
  net.output(made);
  const ValueId y = net.linear(net.input(MORTISE_BF16, {16, 32}), net.input(MORTISE_BF16, {32, 32}));
  net.output(net.op("add", {y, made}));
  EXPECT_THAT(queued(net.finish()).calls, AllOf(SizeIs(1), Each(HasSubstr(" addend"))));
}

// What a group makes and reads before the product is there.
TEST(CudaAddends, WhatAnotherGroupHasReadIsThere) {
  Network net;
  const ValueId made = net.op("exp", {net.input(MORTISE_BF16, {16, 32})});
  const ValueId y = net.linear(net.op("softmax", {made}, {integer("axis", 1)}), net.input(MORTISE_BF16, {32, 32}));
  net.output(net.op("add", {y, made}));
  EXPECT_THAT(queued(net.finish()).calls, AllOf(SizeIs(1), Each(HasSubstr(" addend"))));
}

// Its next product reads the sum from memory.
TEST(CudaAddends, ASumThatAProductReadsIsTheLibrarys) {
  Network net;
  const ValueId y = net.linear(net.input(MORTISE_BF16, {16, 32}), net.input(MORTISE_BF16, {32, 32}));
  const ValueId sum = net.op("add", {y, net.input(MORTISE_BF16, {16, 32})});
  net.output(net.linear(net.reshape(sum, {4, 4, 32}), net.input(MORTISE_BF16, {32, 32})));
  const Computed seen = computed(net);
  EXPECT_THAT(seen.calls, AllOf(SizeIs(2), Contains(HasSubstr(" addend")).Times(1)));
  EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
}

TEST(CudaAddends, AProductOfAGroupKeepsItsAddition) {
  const auto build = [](Network &net) {
    const ValueId y = net.linear(net.input(MORTISE_BF16, {1, 64}), net.input(MORTISE_BF16, {32, 64}));
    net.output(net.op("add", {y, net.input(MORTISE_BF16, {1, 32})}));
    return net.finish();
  };
  Network group, library;
  EXPECT_THAT(queued(build(group)).calls, IsEmpty());
  EXPECT_THAT(queued(build(library), "", {{"products", "library"}}).calls,
              AllOf(SizeIs(1), Each(HasSubstr(" addend"))));
}

// ---- Rounding

std::shared_ptr<const Graph> withBias(int32_t dtype, int64_t terms = 6) {
  Network net;
  const ValueId x = net.input(dtype, {5, terms}), w = net.input(dtype, {4, terms}), b = net.input(dtype, {4});
  net.output(net.op("add", {net.linear(x, w, b), net.input(dtype, {5, 4})}));
  return net.finish();
}

TEST(CudaAddends, KernelsThatRoundBeforeAreFound) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    for (const int64_t terms : {1, 6})
      for (const char *settings : {"early=2", "between=2", "early=1 between=2"}) {
        SCOPED_TRACE(std::string(dtypeName(dtype)) + " " + settings);
        const Computed seen = queued(withBias(dtype, terms), settings);
        EXPECT_THAT(seen.calls, AllOf(SizeIs(1), Each(HasSubstr(" addend bias"))));
        EXPECT_THAT(seen.calls, Each(AllOf(Not(HasSubstr(" early")), Not(HasSubstr(" between")))));
        EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
      }
}

// That the same kernel adds biases alone as it should says nothing of addends.
TEST(CudaAddends, WhereNoKernelIsProvedAGroupAdds) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    const Session session;
    configureBlas("between=16");
    const Region alone(session.devices[0], product(dtype, 8, true));
    const Region region(session.devices[0], withBias(dtype));
    EXPECT_THAT(region.text(), AllOf(HasSubstr("cublaslt.matmul"), HasSubstr("cuda.pointwise")));
    configureBlas("");
  }
  EXPECT_THAT(queued(withBias(MORTISE_F32), "between=16").steps, Not(HasSubstr("cuda."))); // needs no proof
}

// As the graph says: nothing is tried, and the bits are those of two roundings.
TEST(CudaAddends, WithoutABiasAProductMayBeRoundedBefore) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    Network net;
    const ValueId y = net.linear(net.input(dtype, {5, 6}), net.input(dtype, {4, 6}));
    net.output(net.op("add", {y, net.input(dtype, {5, 4})}));
    const auto graph = net.finish();
    const Session session;
    configureBlas("early=16");
    Region region(session.devices[0], graph);
    EXPECT_THAT(blasCalls("cublasLtMatmul"), IsEmpty());
    runAndCompare(session.devices[0], region, graph->view());
    EXPECT_THAT(blasCalls("cublasLtMatmul"), Each(AllOf(HasSubstr(" addend"), HasSubstr(" early"))));
    configureBlas("");
  }
}

TEST(CudaAddends, AFailureOfATrialIsAnError) {
  const Session session;
  session.warmUp();
  session.configure("fail=cuMemcpyDtoHAsync_v2:1:2");
  try {
    const Region region(session.devices[0], withBias(MORTISE_BF16));
    FAIL() << "expected an error";
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_OUT_OF_MEMORY);
  }
  session.configure("");
}

// ---- Symbols

TEST(CudaAddends, SymbolsMayHaveAnyValues) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16}) {
    const auto build = [&](Network &net, int64_t batch, int64_t tokens) {
      const ValueId x = net.reshape(net.input(dtype, {batch, tokens, 12}), {batch * tokens, 12});
      const ValueId y = net.linear(x, net.input(dtype, {5, 12}), net.input(dtype, {5}));
      net.output(net.op("add", {net.input(dtype, {batch, tokens, 5}), net.reshape(y, {batch, tokens, 5})}));
    };
    Network general;
    build(general, 30011, 9973);
    const auto symbolic = withSymbols(general.finish()->view(), {{30011, "batch", 0}, {9973, "tokens", 0}});
    const Session session;
    configureBlas("");
    Region region(session.devices[0], symbolic);
    EXPECT_EQ(region.steps, 1u);
    EXPECT_THAT(region.text(), Not(HasSubstr("cuda.")));
    for (const auto &[batch, tokens] : {std::pair{2, 7}, {1, 7}, {3, 1}, {1, 1}, {2, 0}, {5, 16}}) {
      SCOPED_TRACE(std::to_string(batch) + ", " + std::to_string(tokens));
      Network network;
      build(network, batch, tokens);
      region.prepare({batch, tokens});
      runAndCompare(session.devices[0], region, network.finish()->view());
    }
    configureBlas("between=16"); // as biases alone, what is proved for no other values is refused
    if (isNarrow(dtype)) {
      try {
        region.prepare({4, 4});
        FAIL() << "expected an error";
      } catch (const Failed &failed) {
        EXPECT_EQ(failed.error.code, MORTISE_UNSUPPORTED);
        EXPECT_THAT(failed.error.message, HasSubstr("library_bias"));
      }
    }
    configureBlas("");
  }
}

// A sum over a symbol that may be 0 is no call of the library then.
TEST(CudaAddends, SumsThatMayHaveNoTerms) {
  for (const int64_t least : {0, 1}) {
    Network net;
    const ValueId y = net.linear(net.input(MORTISE_F32, {16, 9973}), net.input(MORTISE_F32, {8, 9973}));
    net.output(net.op("add", {y, net.input(MORTISE_F32, {16, 8})}));
    const auto symbolic = withSymbols(net.finish()->view(), {{9973, "terms", least}});
    const Session session;
    const Region region(session.devices[0], symbolic);
    EXPECT_EQ(region.text().find("cuda.") == std::string::npos, least == 1) << region.text();
  }
}

} // namespace
} // namespace mortise::test
