// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products of the cuda plugin on a stand-in for the library that computes them, compared with the interpreter.
// Generated kernels compute nothing here, so that regions with numbers have products only.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr int32_t floats[] = {MORTISE_F32, MORTISE_F16, MORTISE_BF16, MORTISE_F64};

bool isNarrow(int32_t dtype) { return dtype == MORTISE_F16 || dtype == MORTISE_BF16; }
ValueId widened(Network &net, ValueId x) { return net.op("convert", {x}, {text("dtype", "f32")}); }

// ---- Numbers

TEST(CudaProducts, AllFormsOfDot) {
  struct Form {
    std::vector<int64_t> lhs, rhs, lhsBatch, rhsBatch, lhsSum, rhsSum;
  };
  const Form forms[] = {{{5, 7}, {7, 3}, {}, {}, {1}, {0}},
                        {{7, 5}, {7, 3}, {}, {}, {0}, {0}},
                        {{5, 7}, {3, 7}, {}, {}, {1}, {1}},
                        {{7, 5}, {3, 7}, {}, {}, {0}, {1}},
                        {{4, 5, 7}, {4, 7, 3}, {0}, {0}, {2}, {1}},
                        {{2, 3, 5, 7}, {2, 3, 4, 7}, {0, 1}, {0, 1}, {3}, {3}},
                        {{7}, {7}, {}, {}, {0}, {0}},
                        {{5}, {3}, {}, {}, {}, {}},
                        {{7}, {7, 3}, {}, {}, {0}, {0}},
                        {{5, 7}, {7}, {}, {}, {1}, {0}},
                        {{2, 5, 7}, {7, 3, 4}, {}, {}, {2}, {0}},
                        {{6, 1, 7}, {6, 7, 1}, {0}, {0}, {2}, {1}},
                        {{1, 1}, {1, 1}, {}, {}, {1}, {0}},
                        {{5, 2, 7}, {2, 7, 3}, {}, {}, {1, 2}, {0, 1}},
                        {{5, 2, 7}, {2, 7, 3}, {}, {}, {2, 1}, {1, 0}}};
  for (const int32_t dtype : floats)
    for (const Form &form : forms) {
      SCOPED_TRACE(std::string(dtypeName(dtype)) + " " + testing::PrintToString(form.lhs) +
                   testing::PrintToString(form.rhs));
      Network net;
      net.output(net.dot(net.input(dtype, form.lhs), net.input(dtype, form.rhs), form.lhsBatch, form.rhsBatch,
                         form.lhsSum, form.rhsSum));
      const Computed seen = computed(net);
      EXPECT_THAT(seen.calls, SizeIs(1));
      EXPECT_THAT(seen.steps, AllOf(HasSubstr("cublaslt.matmul"), Not(HasSubstr("cuda."))));
    }
}

TEST(CudaProducts, LinearWithAndWithoutBias) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16})
    for (const bool transposed : {false, true})
      for (const bool bias : {false, true})
        for (const std::vector<int64_t> &x : {std::vector<int64_t>{6}, {5, 6}, {2, 3, 6}}) {
          SCOPED_TRACE(std::string(dtypeName(dtype)) + testing::PrintToString(x) + (transposed ? " transposed" : ""));
          Network net;
          const ValueId in = net.input(dtype, x);
          const ValueId w = net.input(dtype, transposed ? std::vector<int64_t>{6, 4} : std::vector<int64_t>{4, 6});
          net.output(net.linear(in, w, bias ? net.input(dtype, {4}) : ir::noValue, transposed));
          const Computed seen = computed(net);
          ASSERT_THAT(seen.calls, SizeIs(1));
          EXPECT_EQ(seen.calls[0].ends_with(" bias"), bias);
        }
}

// What was converted to f32 is read as it was, and the result is stored in f32: no kernel converts anything.
TEST(CudaProducts, NarrowOperandsOfWideProducts) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    for (const uint64_t skew : {0, 4}) {
      SCOPED_TRACE(dtypeName(dtype));
      const HowComputed how{.skew = skew};
      Network plain;
      const ValueId w = widened(plain, plain.input(dtype, {4, 6}));
      plain.output(plain.linear(widened(plain, plain.input(dtype, {2, 5, 6})), w));
      plain.output(plain.linear(widened(plain, plain.input(dtype, {3, 6})), w));
      Computed seen = computed(plain, how);
      EXPECT_THAT(seen.calls, AllOf(SizeIs(2), Each(HasSubstr(" widened"))));
      EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));

      Network heads; // the scores of attention, in two calls
      const ValueId q = widened(heads, heads.input(dtype, {2, 3, 5, 4}));
      const ValueId k = widened(heads, heads.input(dtype, {2, 7, 3, 4}));
      heads.output(
          heads.dot(heads.reshape(q, {2, 3, 5, 4}), heads.transpose(k, {0, 2, 1, 3}), {0, 1}, {0, 1}, {3}, {3}));
      seen = computed(heads, how);
      EXPECT_THAT(seen.calls, AllOf(SizeIs(2), Each(HasSubstr(" widened"))));
      EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));

      Network empty;
      empty.output(
          empty.linear(widened(empty, empty.input(dtype, {3, 0})), widened(empty, empty.input(dtype, {5, 0}))));
      EXPECT_THAT(computed(empty, how).calls, IsEmpty());
    }
}

// Their results are in f32 in any case, but the operands are not exact in one narrow type.
TEST(CudaProducts, OtherOperandsOfWideProductsAreConverted) {
  const auto callsOf = [](const std::function<void(Network &)> &build) {
    Network net;
    build(net);
    const Session session;
    const std::shared_ptr<const Graph> graph = net.finish();
    Region region(session.devices[0], graph);
    configureBlas("");
    std::vector<MortiseAddress> in, out;
    for (size_t i = 0; i < graph->view().input_count; ++i)
      in.push_back(makeMemory(session.devices[0], 4096));
    for (size_t i = 0; i < graph->view().output_count; ++i)
      out.push_back(makeMemory(session.devices[0], 4096));
    MortiseStream *stream = makeStream(session.devices[0]);
    EXPECT_TRUE(region.enqueue(stream, in, out));
    destroyStream(stream);
    for (const std::vector<MortiseAddress> &list : {in, out})
      for (const MortiseAddress address : list)
        freeMemory(session.devices[0], address, 4096);
    return blasCalls("cublasLtMatmul");
  };
  EXPECT_THAT(callsOf([](Network &net) {
                net.output(net.linear(widened(net, net.input(MORTISE_F16, {5, 6})),
                                      widened(net, net.input(MORTISE_BF16, {4, 6}))));
              }),
              AllOf(SizeIs(1), Not(Contains(HasSubstr("widened")))));
  EXPECT_THAT(callsOf([](Network &net) {
                net.output(net.linear(widened(net, net.input(MORTISE_BF16, {5, 6})), net.input(MORTISE_F32, {4, 6})));
              }),
              AllOf(SizeIs(1), Not(Contains(HasSubstr("widened")))));
  EXPECT_THAT(callsOf([](Network &net) {
                net.output(net.linear(widened(net, net.input(MORTISE_I16, {5, 6})),
                                      widened(net, net.input(MORTISE_I16, {4, 6}))));
              }),
              AllOf(SizeIs(1), Not(Contains(HasSubstr("widened")))));
}

// The decomposition of linear with a bias, which rounds once: two steps, and none that converts operands.
TEST(CudaProducts, LinearWithABiasOfNarrowNumbers) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    Network net;
    const ValueId y = net.linear(widened(net, net.input(dtype, {16, 32})), widened(net, net.input(dtype, {8, 32})));
    const ValueId bias = net.broadcast(widened(net, net.input(dtype, {8})), {16, 8}, {1});
    net.output(net.op("tanh", {net.op("convert", {net.op("add", {y, bias})}, {text("dtype", dtypeName(dtype))})}));
    const Session session;
    Region region(session.devices[0], net.finish());
    EXPECT_EQ(region.steps, 2u);
    EXPECT_THAT(region.text(), StartsWith("cublaslt.matmul matmul 16x32x8\ncuda.pointwise "));
  }
}

TEST(CudaProducts, ViewsAreReadInPlace) {
  for (const int32_t dtype : floats) {
    SCOPED_TRACE(dtypeName(dtype));
    Network heads; // of attention: [batch, tokens, heads, depth], read as [batch, heads, ...]
    const ValueId q = heads.transpose(heads.input(dtype, {2, 5, 3, 4}), {0, 2, 1, 3});
    const ValueId k = heads.transpose(heads.input(dtype, {2, 7, 3, 4}), {0, 2, 1, 3});
    heads.output(heads.dot(q, k, {0, 1}, {0, 1}, {3}, {3}));
    Computed seen = computed(heads);
    EXPECT_THAT(seen.calls, SizeIs(2)); // batch and heads do not lie in one stride
    EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));

    Network repeated; // one weight for the whole batch
    const ValueId w = repeated.broadcast(repeated.input(dtype, {6, 3}), {4, 6, 3}, {1, 2});
    repeated.output(repeated.dot(repeated.input(dtype, {4, 5, 6}), w, {0}, {0}, {2}, {1}));
    seen = computed(repeated);
    ASSERT_THAT(seen.calls, SizeIs(1));
    EXPECT_THAT(seen.calls[0], HasSubstr("steps=0,"));

    Network slices;
    const ValueId all = slices.input(dtype, {5, 12});
    const auto part = [&](int64_t start) {
      return slices.op("slice", {all},
                       {ints("starts", {0, start}), ints("limits", {5, start + 6}), ints("strides", {1, 1})});
    };
    slices.output(slices.dot(part(0), part(5), {}, {}, {1}, {1}));
    slices.output(slices.dot(part(6), part(1), {}, {}, {0}, {0}));
    const ValueId biases = slices.input(dtype, {20});
    const ValueId bias =
        slices.op("slice", {biases}, {ints("starts", {7}), ints("limits", {12}), ints("strides", {1})});
    if (dtype != MORTISE_F64)
      slices.output(slices.linear(part(2), part(3), bias));
    seen = computed(slices);
    EXPECT_THAT(seen.calls, SizeIs(dtype == MORTISE_F64 ? 2 : 3));
    EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
  }
}

TEST(CudaProducts, ChainsAndReshapesOfResults) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {6, 8}), w = net.input(MORTISE_F32, {8, 8});
  const ValueId y = net.linear(net.linear(net.linear(x, w), w, net.input(MORTISE_F32, {8})), w);
  net.output(net.reshape(net.reshape(y, {2, 3, 8}), {2, 3, 2, 4}));
  const Computed seen = computed(net);
  EXPECT_THAT(seen.calls, SizeIs(3));
  EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
}

TEST(CudaProducts, ResultsMayBeReadAndListedTwice) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {6, 8}), w = net.input(MORTISE_F32, {8, 8}, MORTISE_VALUE_CONSTANT);
  const ValueId y = net.linear(x, w), flat = net.reshape(y, {48});
  net.output(y);
  net.output(net.linear(y, w));
  net.output(y);
  net.output(net.dot(net.transpose(y, {1, 0}), y, {}, {}, {1}, {0}));
  net.output(net.dot(flat, flat, {}, {}, {0}, {0}));
  const Computed seen = computed(net);
  EXPECT_THAT(seen.calls, SizeIs(4));
  EXPECT_THAT(seen.steps, AllOf(HasSubstr("cuda.copy"), Not(HasSubstr("cuda.pointwise"))));
}

TEST(CudaProducts, EmptySumsAreZeroOrTheBias) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {3, 0}), w = net.input(MORTISE_F32, {5, 0});
  net.output(net.dot(x, w, {}, {}, {1}, {1}));
  net.output(net.linear(x, w, net.input(MORTISE_F32, {5})));
  net.output(net.dot(net.input(MORTISE_F16, {2, 0, 4}), net.input(MORTISE_F16, {2, 4, 3}), {0}, {0}, {2}, {1}));
  net.output(
      net.linear(net.input(MORTISE_BF16, {3, 0}), net.input(MORTISE_BF16, {5, 0}), net.input(MORTISE_BF16, {5})));
  EXPECT_THAT(computed(net).calls, IsEmpty());
}

// Elements that start anywhere: what the library chose for aligned addresses may not run with these.
TEST(CudaProducts, AddressesMayBeAlignedAsElementsAre) {
  for (const int32_t dtype : floats)
    for (const uint64_t skew : {8, 16, 24}) {
      Network net;
      const ValueId x = net.input(dtype, {4, 5, 6}), w = net.input(dtype, {3, 6});
      net.output(net.dot(x, net.input(dtype, {4, 6, 3}), {0}, {0}, {2}, {1}));
      net.output(dtype == MORTISE_F64 ? net.linear(x, w) : net.linear(x, w, net.input(dtype, {3})));
      computed(net, {.skew = skew});
    }
  Network net;
  const ValueId x = net.input(MORTISE_F16, {5, 6}), w = net.input(MORTISE_F16, {3, 6});
  net.output(net.linear(x, w));
  net.output(net.linear(x, w, net.input(MORTISE_F16, {3})));
  computed(net, {.skew = 2});
}

// One region, and each address in turn.
TEST(CudaProducts, EachAlignmentHasAnAlgorithmOfItsOwn) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  const MortiseAddress memory = makeMemory(device, 8192);
  std::memset(pointer(memory), 0, 8192);
  {
    const auto graph = product(MORTISE_F32, 8, true);
    const Region region(device, graph);
    configureBlas("");
    for (int round = 0; round < 2; ++round)
      for (const int skewed : {-1, 0, 1, 2, 3}) {
        const auto at = [&](int place) {
          return memory + static_cast<uint64_t>(place) * 1024 + (place == skewed ? 4 : 0);
        };
        const auto queued = region.enqueue(stream, {at(0), at(1), at(2)}, {at(3)});
        EXPECT_TRUE(queued) << queued.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
      }
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(10));
    EXPECT_THAT(blasCalls("cublasLtMatmulAlgoGetHeuristic"), SizeIs(4));
  }
  freeMemory(device, memory, 8192);
  destroyStream(stream);
}

TEST(CudaProducts, OnlyLowerPrecisionAllowsTensorFloats) {
  for (const int32_t dtype : floats)
    for (const int32_t precision : {MORTISE_PRECISION_HIGHEST, MORTISE_PRECISION_HIGH, MORTISE_PRECISION_MEDIUM}) {
      Network net;
      net.output(net.dot(net.input(dtype, {4, 6}), net.input(dtype, {6, 3}), {}, {}, {1}, {0}));
      const Computed seen = computed(net, {.precision = precision});
      ASSERT_THAT(seen.calls, SizeIs(1));
      EXPECT_EQ(seen.calls[0].ends_with(" tf32"), dtype == MORTISE_F32 && precision != MORTISE_PRECISION_HIGHEST);
    }
}

// One kernel for all values; a network with the numbers is the oracle.
TEST(CudaProducts, SymbolsMayHaveAnyValues) {
  const auto build = [](Network &net, int64_t batch, int64_t tokens) {
    const ValueId x = net.input(MORTISE_F32, {batch, tokens, 3, 4}), y = net.input(MORTISE_F32, {batch, tokens, 3, 4});
    const ValueId flat = net.reshape(x, {batch, tokens, 12});
    net.output(net.linear(flat, net.input(MORTISE_F32, {5, 12}), net.input(MORTISE_F32, {5})));
    net.output(net.dot(flat, net.reshape(y, {batch, tokens, 12}), {0}, {0}, {2}, {2}));
    net.output(net.dot(flat, net.reshape(y, {batch, tokens, 12}), {0}, {0}, {1}, {1})); // sums over a symbol
    const ValueId w = net.broadcast(net.input(MORTISE_F32, {12, 2}), {batch, 12, 2}, {1, 2});
    net.output(net.dot(flat, w, {0}, {0}, {2}, {1}));
  };
  Network general;
  build(general, 30011, 9973);
  const auto symbolic = withSymbols(general.finish()->view(), {{30011, "batch", 0}, {9973, "tokens", 0}});
  const Session session;
  Region region(session.devices[0], symbolic);
  EXPECT_THAT(region.text(), Not(HasSubstr("cuda.")));
  for (const auto &[batch, tokens] : {std::pair{2, 7}, {1, 7}, {3, 1}, {1, 1}, {2, 0}, {0, 3}, {5, 16}}) {
    SCOPED_TRACE(std::to_string(batch) + ", " + std::to_string(tokens));
    Network network;
    build(network, batch, tokens);
    region.prepare({batch, tokens});
    runAndCompare(session.devices[0], region, network.finish()->view());
  }
}

// Whatever the order of dimensions, through whatever views, and with something to add or not: what no kernel is needed
// for is right, and no call is one that the library would refuse.
TEST(CudaProducts, RandomDotsThroughRandomViews) {
  std::mt19937_64 random(7);
  const auto upTo = [&](int64_t most) { return static_cast<int64_t>(random() % static_cast<uint64_t>(most + 1)); };
  size_t compared = 0, added = 0;
  for (int round = 0; round < 600; ++round) {
    SCOPED_TRACE(round);
    const int32_t dtype = floats[upTo(3)];
    const bool isWide = isNarrow(dtype) && upTo(1) == 0;
    Network net;
    // Extents of batch, rest and sum, in a random order on each side.
    struct Axis {
      char kind;
      int64_t number, extent;
    };
    const auto extents = [&](int64_t most) {
      std::vector<int64_t> list(static_cast<size_t>(upTo(most)));
      for (int64_t &extent : list)
        extent = upTo(9) == 0 ? 0 : 1 + upTo(3);
      return list;
    };
    const std::vector<int64_t> batch = extents(2), summed = extents(2);
    const auto operand = [&](std::vector<int64_t> &batchDims, std::vector<int64_t> &sumDims) {
      std::vector<Axis> axes;
      const std::vector<int64_t> rest = extents(2);
      for (const auto &[kind, list] : {std::pair{'b', &batch}, std::pair{'s', &summed}, std::pair{'r', &rest}})
        for (size_t i = 0; i < list->size(); ++i)
          axes.push_back({kind, static_cast<int64_t>(i), (*list)[i]});
      if (upTo(2) == 0)
        std::ranges::shuffle(axes, random);
      std::vector<int64_t> dims;
      for (const Axis &axis : axes)
        dims.push_back(axis.extent);
      for (const auto &[kind, list] : {std::pair{'b', &batchDims}, std::pair{'s', &sumDims}})
        for (int64_t number = 0; number < 3; ++number)
          for (size_t i = 0; i < axes.size(); ++i)
            if (axes[i].kind == kind && axes[i].number == number)
              list->push_back(static_cast<int64_t>(i));
      // The value is a view of an input, which may be converted before or behind it.
      const bool early = upTo(1) == 0;
      const auto source = [&](const std::vector<int64_t> &shape) {
        const ValueId made = net.input(dtype, shape);
        return isWide && early ? widened(net, made) : made;
      };
      const auto view = [&](ValueId made) { return isWide && !early ? widened(net, made) : made; };
      std::vector<int64_t> order(dims.size()), stored, starts;
      std::iota(order.begin(), order.end(), 0);
      switch (upTo(3)) {
      case 0:
        return view(source(dims));
      case 1: // transposed
        std::ranges::shuffle(order, random);
        stored.resize(dims.size());
        for (size_t i = 0; i < dims.size(); ++i)
          stored[static_cast<size_t>(order[i])] = dims[i];
        return view(net.transpose(source(stored), order));
      case 2: { // repeated
        std::vector<int64_t> kept;
        for (size_t i = 0; i < dims.size(); ++i)
          if (upTo(2) != 0) {
            kept.push_back(static_cast<int64_t>(i));
            stored.push_back(dims[i]);
          }
        return view(net.broadcast(source(stored), dims, kept));
      }
      default: { // cut out
        std::vector<int64_t> limits;
        for (const int64_t extent : dims) {
          starts.push_back(upTo(2));
          limits.push_back(starts.back() + extent);
          stored.push_back(limits.back() + upTo(2));
        }
        return view(net.op(
            "slice", {source(stored)},
            {ints("starts", starts), ints("limits", limits), ints("strides", std::vector<int64_t>(dims.size(), 1))}));
      }
      }
    };
    std::vector<int64_t> lhsBatch, rhsBatch, lhsSum, rhsSum;
    const ValueId lhs = operand(lhsBatch, lhsSum), rhs = operand(rhsBatch, rhsSum);
    ValueId result = net.dot(lhs, rhs, lhsBatch, rhsBatch, lhsSum, rhsSum);
    if (upTo(1) == 0)
      result = net.op("add", {result, net.input(isWide ? MORTISE_F32 : dtype, net.dims(result))});
    net.output(result);
    const Session session;
    const std::shared_ptr<const Graph> graph = net.finish();
    configureBlas("");
    Region region(session.devices[0], graph);
    if (region.text().find("cuda.") == std::string::npos) {
      runAndCompare(session.devices[0], region, graph->view());
      ++compared;
      added += graph->view().input_count == 3;
    } else { // generated kernels compute nothing here: only whether the library accepts the calls
      MortiseStream *stream = makeStream(session.devices[0]);
      const MortiseAddress memory = makeMemory(session.devices[0], 1 << 20);
      std::memset(pointer(memory), 0, 1 << 20);
      std::vector<MortiseAddress> inputs{memory, memory + (1 << 18), memory + (3 << 18)};
      inputs.resize(graph->view().input_count);
      const auto queued = region.enqueue(stream, inputs, {memory + (1 << 19)});
      EXPECT_TRUE(queued) << queued.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
      freeMemory(session.devices[0], memory, 1 << 20);
      destroyStream(stream);
    }
    if (HasFailure()) {
      std::string text;
      for (size_t i = 0; i < graph->view().value_count; ++i)
        text += typeString(*graph->view().values[i]->type) + " ";
      FAIL() << text << testing::PrintToString(lhsBatch) << testing::PrintToString(rhsBatch)
             << testing::PrintToString(lhsSum) << testing::PrintToString(rhsSum);
    }
  }
  EXPECT_GT(compared, 200u);
  EXPECT_GT(added, 70u);
}

// ---- Steps

// Generated kernels make dense what the library cannot read.
TEST(CudaProducts, OperandsThatTheLibraryCannotReadAreMadeDense) {
  const auto stepsOf = [](Network &net) {
    const Session session;
    Region region(session.devices[0], net.finish());
    return region.text();
  };
  Network strided; // every second column
  const ValueId x = strided.input(MORTISE_F32, {6, 16});
  const ValueId half =
      strided.op("slice", {x}, {ints("starts", {0, 0}), ints("limits", {6, 16}), ints("strides", {1, 2})});
  strided.output(strided.dot(half, strided.input(MORTISE_F32, {8, 3}), {}, {}, {1}, {0}));
  EXPECT_THAT(stepsOf(strided), AllOf(HasSubstr("cuda.pointwise"), HasSubstr("cublaslt.matmul matmul 6x8x3")));

  Network repeated; // one row for all
  const ValueId row = repeated.broadcast(repeated.input(MORTISE_F32, {8}), {6, 8}, {1});
  repeated.output(repeated.dot(row, repeated.input(MORTISE_F32, {8, 3}), {}, {}, {1}, {0}));
  EXPECT_THAT(stepsOf(repeated), HasSubstr("cuda.pointwise"));

  Network many; // heads and batch in two strides, too many for a call each
  const ValueId q = many.transpose(many.input(MORTISE_F16, {16, 5, 8, 4}), {0, 2, 1, 3});
  const ValueId k = many.transpose(many.input(MORTISE_F16, {16, 7, 8, 4}), {0, 2, 1, 3});
  many.output(many.dot(q, k, {0, 1}, {0, 1}, {3}, {3}));
  EXPECT_THAT(stepsOf(many), AllOf(HasSubstr("cuda.pointwise"), HasSubstr("matmul 128x5x4x7")));

  Network crossed; // sums in another order on each side
  crossed.output(
      crossed.dot(crossed.input(MORTISE_BF16, {5, 6, 3}), crossed.input(MORTISE_BF16, {3, 6}), {}, {}, {1, 2}, {1, 0}));
  EXPECT_THAT(stepsOf(crossed), AllOf(HasSubstr("cuda.pointwise"), HasSubstr("matmul 5x18x1")));

  Network last; // the batch comes last
  last.output(last.dot(last.input(MORTISE_F32, {5, 6, 4}), last.input(MORTISE_F32, {6, 3, 4}), {2}, {2}, {1}, {0}));
  EXPECT_THAT(stepsOf(last), AllOf(HasSubstr("cuda.pointwise"), HasSubstr("matmul 4x5x6x3")));

  Network literal;
  literal.output(literal.dot(literal.input(MORTISE_F32, {5, 6}), literal.splat(2, {6, 3}), {}, {}, {1}, {0}));
  EXPECT_THAT(stepsOf(literal), AllOf(HasSubstr("cuda.pointwise"), HasSubstr("matmul 5x6x3")));

  Network turned; // a result that is wanted in another order
  turned.output(turned.transpose(
      turned.dot(turned.input(MORTISE_F32, {5, 6}), turned.input(MORTISE_F32, {6, 3}), {}, {}, {1}, {0}), {1, 0}));
  EXPECT_THAT(stepsOf(turned), testing::MatchesRegex("cublaslt.matmul[^\n]*\ncuda.pointwise[^\n]*\n"));

  Network bias;
  const ValueId one = bias.broadcast(bias.input(MORTISE_F32, {1}), {3}, {0});
  bias.output(bias.linear(bias.input(MORTISE_F32, {5, 6}), bias.input(MORTISE_F32, {3, 6}), one));
  EXPECT_THAT(stepsOf(bias), HasSubstr("cuda.pointwise"));
}

TEST(CudaProducts, KernelsStandAroundProducts) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {6, 8});
  for (int layer = 0; layer < 3; ++layer)
    x = net.op("softmax", {net.linear(net.op("exp", {x}), net.input(MORTISE_F32, {8, 8}), net.input(MORTISE_F32, {8}))},
               {integer("axis", 1)});
  net.output(x);
  const Session session;
  configureBlas("workspace=4096");
  Region region(session.devices[0], net.finish());
  EXPECT_EQ(blasCalls("cublasLtMatmulAlgoGetHeuristic").size(), 1u); // equal products are prepared once
  EXPECT_THAT(region.text(), testing::MatchesRegex("(cuda[^\n]*\n(cuda[^\n]*\n)?cublaslt[^\n]*\n)+cuda[^\n]*\n"));
  EXPECT_LE(region.workspaceBytes, 3u * 4096); // steps share it
  EXPECT_GE(region.workspaceBytes, 4096u);
}

// A state that a product still reads is updated behind it.
TEST(CudaProducts, AStateThatAProductReadsIsUpdatedAtTheEnd) {
  Network net;
  const ValueId state = net.input(MORTISE_F32, {8, 8}, MORTISE_VALUE_STATE);
  net.output(net.dot(state, net.input(MORTISE_F32, {8, 8}), {}, {}, {1}, {0}), 0);
  const Session session;
  Region region(session.devices[0], net.finish());
  EXPECT_THAT(region.text(), AllOf(HasSubstr("cublaslt.matmul"), HasSubstr("cuda.copy")));
}

// One prepared product, whose bias is another one in each thread.
TEST(CudaProducts, ThreadsMayShareAProduct) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  const Region region(device, product(MORTISE_F32, 8, true));
  const Region other(device, product(MORTISE_F32, 8, true)); // shares it as well
  constexpr int threads = 8;
  const MortiseAddress memory = makeMemory(device, threads * 4096);
  std::memset(pointer(memory), 0, threads * 4096);
  std::vector<std::thread> running;
  std::atomic<int> wrong = 0;
  for (int thread = 0; thread < threads; ++thread)
    running.emplace_back([&, thread] {
      const MortiseAddress own = memory + static_cast<uint64_t>(thread) * 4096;
      MortiseStream *stream = makeStream(device);
      for (int i = 0; i < 8; ++i)
        pointer<float>(own + 2048)[i] = static_cast<float>(thread + 1);
      for (int round = 0; round < 200; ++round) {
        const Region &used = round % 2 ? region : other;
        const uint64_t skew = round % 3 == 0 ? 4 : 0; // other alignments meanwhile
        wrong += !used.enqueue(stream, {own, own + 1024 + skew, own + 2048}, {own + 3072});
        wrong += pointer<float>(own + 3072)[63] != static_cast<float>(thread + 1);
      }
      destroyStream(stream);
    });
  for (std::thread &each : running)
    each.join();
  EXPECT_EQ(wrong, 0);
  freeMemory(device, memory, threads * 4096);
}

} // namespace
} // namespace mortise::test
