// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and pools of the cuda plugin on a stand-in for the library that computes convolutions. Generated kernels
// compute nothing here, so that regions whose numbers are compared with the interpreter's have none: tensors that are
// dense with channels first and last, and what the library does behind a convolution.
#include "session.hpp"

#include <mortise/threads.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

extern "C" void omp_set_num_threads(int);
extern "C" int omp_get_max_threads(void);

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Each;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

constexpr int32_t narrow[] = {MORTISE_F16, MORTISE_BF16};

struct Form {
  std::vector<int64_t> x, weight, strides, low, high, dilations;
  int64_t groups = 1;
};
std::vector<Attribute> attributesOf(const Form &form) {
  return {ints("strides", form.strides), ints("low", form.low), ints("high", form.high),
          ints("dilations", form.dilations), integer("groups", form.groups)};
}
ValueId convolved(Network &net, const Form &form, int32_t dtype) {
  return net.op("convolution", {net.input(dtype, form.x), net.input(dtype, form.weight)}, attributesOf(form));
}
// With scale and bias of its channels, where wanted.
ValueId fused(Network &net, const Form &form, int32_t dtype, bool scale, bool bias, const std::string &activation,
              uint32_t flags = 0) {
  const int64_t channels = form.weight[0];
  std::vector<Attribute> attributes = attributesOf(form);
  attributes.push_back(text("activation", activation));
  const ValueId x = net.input(dtype, form.x), weight = net.input(dtype, form.weight, flags);
  return net.op("fused_convolution",
                {x, weight, scale ? net.input(dtype, {channels}, flags) : ir::noValue,
                 bias ? net.input(dtype, {channels}, flags) : ir::noValue},
                attributes);
}
// Dense with channels first and last: no group moves anything.
const Form points{{3, 16, 1, 1}, {8, 16, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}};
// Of which kernels have to move what is stored.
const Form image{{2, 16, 9, 9}, {8, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};

size_t count(const std::string &text, const std::string &part) {
  size_t found = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

// ---- Numbers

TEST(CudaConvolutions, OfSinglePrecisionAreReadAndWrittenAsTheyLie) {
  const Form forms[] = {{{2, 3, 7}, {4, 3, 3}, {1}, {1}, {1}, {1}},
                        {{2, 3, 9, 8}, {4, 3, 3, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
                        {{2, 3, 9, 8}, {4, 3, 3, 3}, {2, 1}, {1, 2}, {1, 2}, {1, 1}},
                        {{1, 2, 9, 9}, {2, 2, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}},
                        {{2, 6, 5, 5}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
                        {{2, 4, 5, 5}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 4},
                        {{1, 2, 4, 5, 3}, {3, 2, 2, 3, 1}, {1, 2, 1}, {1, 1, 0}, {1, 1, 0}, {1, 1, 1}},
                        {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}}};
  for (const Form &form : forms)
    for (const uint64_t skew : {0, 4, 12}) { // tensors that begin between 16 bytes are copied
      SCOPED_TRACE(testing::PrintToString(form.x) + testing::PrintToString(form.weight) + std::to_string(skew));
      const Session session;
      Network net;
      net.output(convolved(net, form, MORTISE_F32));
      const auto graph = net.finish();
      Region region(session.devices[0], graph);
      configureDnn("");
      runAndCompare(session.devices[0], region, graph->view(), skew);
      EXPECT_THAT(dnnLines("execute"), AllOf(SizeIs(2), Each(HasSubstr(" first"))));
      EXPECT_THAT(dnnLines("WRONG"), IsEmpty());
    }
}

TEST(CudaConvolutions, OfNarrowNumbersAreFinishedByTheLibraryAndRoundedOnce) {
  for (const int32_t dtype : narrow)
    for (const bool scale : {false, true})
      for (const bool bias : {false, true})
        for (const char *activation : {"none", "relu"})
          for (const uint64_t skew : {0, 2}) {
            SCOPED_TRACE(std::string(dtypeName(dtype)) + " " + activation + std::to_string(scale) +
                         std::to_string(bias) + std::to_string(skew));
            const Session session;
            Network net;
            net.output(fused(net, points, dtype, scale, bias, activation));
            const auto graph = net.finish();
            Region region(session.devices[0], graph);
            EXPECT_EQ(region.steps, 1u) << region.text();
            configureDnn("");
            runAndCompare(session.devices[0], region, graph->view(), skew);
            EXPECT_THAT(dnnLines("execute"), SizeIs(2));
            EXPECT_THAT(dnnLines("WRONG"), IsEmpty());
          }
}

TEST(CudaConvolutions, AnAdditionBehindOneIsTheLibrarysToo) {
  for (const bool relu : {false, true})
    for (const bool first : {false, true}) {
      const Session session;
      Network net;
      const ValueId sums = fused(net, points, MORTISE_BF16, true, true, "none");
      const ValueId other = net.input(MORTISE_BF16, {3, 8, 1, 1});
      ValueId y = net.op("add", first ? std::vector{sums, other} : std::vector{other, sums});
      if (relu)
        y = net.op("relu", {y});
      net.output(y);
      const auto graph = net.finish();
      Region region(session.devices[0], graph);
      EXPECT_EQ(region.steps, 1u) << region.text();
      configureDnn("");
      runAndCompare(session.devices[0], region, graph->view());
      EXPECT_THAT(dnnLines("execute"),
                  AllOf(SizeIs(2), Each(EndsWith(relu ? " scale bias addend relu" : " scale bias addend"))));
      EXPECT_THAT(dnnLines("WRONG"), IsEmpty());
    }
}

// Of two convolutions that are added, the second one adds the first one's result. A result with other users is stored.
TEST(CudaConvolutions, WhatIsAddedMayBeAConvolution) {
  const Session session;
  Network net;
  const ValueId first = fused(net, points, MORTISE_BF16, false, true, "none");
  const ValueId second = fused(net, points, MORTISE_BF16, true, false, "none");
  net.output(net.op("relu", {net.op("add", {first, second})}));
  const auto graph = net.finish();
  Region region(session.devices[0], graph);
  EXPECT_EQ(region.steps, 2u) << region.text();
  configureDnn("");
  runAndCompare(session.devices[0], region, graph->view());
  const std::vector<std::string> lines = dnnLines("execute");
  ASSERT_THAT(lines, SizeIs(4));
  EXPECT_THAT(lines[0], AllOf(HasSubstr(" bias"), Not(HasSubstr("addend"))));
  EXPECT_THAT(lines[1], HasSubstr(" scale addend relu"));

  Network used;
  const ValueId sums = fused(used, points, MORTISE_BF16, false, false, "none");
  used.output(used.op("add", {sums, used.input(MORTISE_BF16, {3, 8, 1, 1})}));
  used.output(sums);
  const Region two(session.devices[0], used.finish());
  EXPECT_THAT(two.text(), HasSubstr("cuda.pointwise"));
}

// ---- What the library lacks

TEST(CudaConvolutions, WithoutAFusedEngineAGroupFinishesSumsOfSinglePrecision) {
  for (const char *activation : {"relu", "silu", "gelu", "gelu_tanh"}) {
    const Session session; // what the library lacks is remembered
    const bool isTheirs = activation == std::string("relu");
    Network net;
    net.output(fused(net, points, MORTISE_BF16, true, true, activation));
    configureDnn(isTheirs ? "refuse=fused" : "");
    const Region region(session.devices[0], net.finish());
    EXPECT_THAT(region.text(), AllOf(HasSubstr("cudnn.convolution"), HasSubstr("cuda.pointwise")));
    EXPECT_EQ(region.steps, 2u);
    EXPECT_THAT(dnnLines("plan"), AllOf(SizeIs(1), Each(HasSubstr(" widened"))));
  }
}

TEST(CudaConvolutions, WithoutAnEngineForNarrowNumbersTheyAreConverted) {
  for (const char *refused : {"refuse=narrow", "refuse=fused refuse=widened"}) {
    const Session session;
    Network net;
    net.output(fused(net, points, MORTISE_F16, true, false, "relu"));
    configureDnn(refused);
    const Region region(session.devices[0], net.finish());
    EXPECT_EQ(count(region.text(), "cuda.pointwise"), 2u)
        << region.text(); // two operands by one launch, and the result
    EXPECT_EQ(count(region.text(), "convert"), 3u) << region.text();
    EXPECT_THAT(dnnLines("plan"), AllOf(SizeIs(1), Each(Not(HasSubstr("widened")))));
  }
}

std::vector<std::string> plansOf(const std::string &settings, int32_t dtype, Region::How how = {}) {
  const Session session;
  Network net;
  net.output(convolved(net, points, dtype));
  configureDnn(settings);
  const Region region(session.devices[0], net.finish(), how);
  return dnnLines("plan");
}

TEST(CudaConvolutions, EnginesThatAreLessExactThanAskedForAreLeftOut) {
  const std::string exact = " engine=exact:-:0";
  for (const char *notes : {"2", "3", "5", "0+6", "7", "8"}) // sums of f16, FFT, Winograd
    for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
      EXPECT_THAT(plansOf("engine=other:" + std::string(notes) + ":0" + exact, dtype),
                  AllOf(SizeIs(1), Each(HasSubstr("plan exact"))))
          << notes;
  for (const char *notes : {"0", "1", "0+1"}) { // tensor cores, of TF32
    const std::string settings = "engine=tensor:" + std::string(notes) + ":0" + exact;
    EXPECT_THAT(plansOf(settings, MORTISE_F32), Each(HasSubstr("plan exact"))) << notes;
    EXPECT_THAT(plansOf(settings, MORTISE_F32, {.precision = MORTISE_PRECISION_HIGH}), Each(HasSubstr("plan tensor")))
        << notes;
  }
  EXPECT_THAT(plansOf("engine=tensor:0:0" + exact, MORTISE_BF16), Each(HasSubstr("plan tensor")));
  EXPECT_THAT(plansOf("engine=narrowing:1:0" + exact, MORTISE_BF16), Each(HasSubstr("plan exact")));
}

// Of the others, some round before they add a bias, and some lose subnormal numbers.
TEST(CudaConvolutions, OnlyEnginesThatCompileRoundSums) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const bool bias : {false, true}) {
      if (bias && dtype == MORTISE_F32)
        continue; // a group adds it
      const Session session;
      Network net;
      net.output(fused(net, points, dtype, false, bias, "none"));
      const auto graph = net.finish();
      configureDnn("engine=fixed:-:0 engine=compiled:-:0");
      Region region(session.devices[0], graph);
      runAndCompare(session.devices[0], region, graph->view());
      EXPECT_THAT(dnnLines("execute"),
                  AllOf(SizeIs(2), Each(StartsWith(dtype == MORTISE_F32 ? "execute fixed" : "execute compiled"))));
    }
}

// Looking for an engine takes long.
TEST(CudaConvolutions, WhatTheLibraryLacksIsAskedForOnce) {
  const Session session;
  Network net;
  net.output(fused(net, points, MORTISE_BF16, true, true, "relu"));
  const auto graph = net.finish();
  configureDnn("engine=broken:-:0 broken=broken");
  EXPECT_THROW(Region(session.devices[0], graph), Failed);
  const size_t plans = dnnLines("plan").size();
  EXPECT_GT(plans, 0u);
  EXPECT_THROW(Region(session.devices[0], graph), Failed);
  EXPECT_THAT(dnnLines("plan"), SizeIs(plans));
}

TEST(CudaConvolutions, DeterministicEnginesAreChosenWhereTheyAreAskedFor) {
  const std::string settings = "engine=hasty:4:0 engine=steady:-:0";
  EXPECT_THAT(plansOf(settings, MORTISE_F32), Each(HasSubstr("plan hasty")));
  EXPECT_THAT(plansOf(settings, MORTISE_F32, {.deterministic = true}), Each(HasSubstr("plan steady")));
}

TEST(CudaConvolutions, EnginesThatFailOrWantTooMuchMemoryArePassedOver) {
  EXPECT_THAT(plansOf("engine=broken:-:0 engine=large:-:999999999 engine=good:-:4096 broken=broken", MORTISE_F32),
              testing::ElementsAre(HasSubstr("plan broken"), HasSubstr("plan large"), HasSubstr("plan good")));
  try {
    plansOf("engine=large:-:999999999 engine=rounding:2:0", MORTISE_F32);
    FAIL() << "expected an error";
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(failed.what(), AllOf(HasSubstr("999999999 bytes"), HasSubstr("less exact")));
  }
}

TEST(CudaConvolutions, EveryCallOfTheLibraryMayFail) {
  size_t failures = 0;
  for (const char *function : {"cudnnCreate", "cudnnBackendCreateDescriptor", "cudnnBackendSetAttribute",
                               "cudnnBackendFinalize", "cudnnBackendGetAttribute"})
    for (int call = 1; call < 60; ++call) {
      const Session session;
      Network net;
      net.output(convolved(net, points, MORTISE_F32));
      configureDnn("fail=" + std::string(function) + ":" + std::to_string(call) + ":4003");
      const std::string before = dnnCounts().substr(0, dnnCounts().find(' '));
      try {
        const Region region(session.devices[0], net.finish());
      } catch (const Failed &failed) {
        ++failures;
        EXPECT_THAT(failed.what(), AllOf(HasSubstr(function), HasSubstr("4003"), HasSubstr("the stand-in says so")));
        EXPECT_THAT(dnnCounts(), StartsWith(before + " ")) << function << call;
      }
    }
  EXPECT_GT(failures, 80u);
  const Session session;
  for (const char *function : {"cudnnBackendExecute", "cudnnSetStream", "cudnnBackendFinalize"}) {
    Network net;
    net.output(convolved(net, points, MORTISE_F32));
    configureDnn("");
    const Region region(session.devices[0], net.finish());
    configureDnn("fail=" + std::string(function) + ":1:5001");
    MortiseStream *stream = makeStream(session.devices[0]);
    const auto queued = region.enqueue(stream, {4096, 8192}, {12288});
    ASSERT_FALSE(queued);
    EXPECT_THAT(queued.error().message, AllOf(HasSubstr(function), HasSubstr("cuda:0"), HasSubstr("convolution")));
    destroyStream(stream);
  }
}

// ---- Layouts

// Values between convolutions keep the order in which the library reads them.
TEST(CudaConvolutions, ValuesBetweenThemAreStoredWithChannelsLast) {
  const Session session;
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {2, 16, 9, 9});
  const auto next = [&](ValueId from) {
    return net.op("convolution", {from, net.weight({16, 16, 3, 3}, MORTISE_BF16)}, attributesOf(image));
  };
  ValueId y = next(x);
  y = net.op("exp", {y});
  y = next(net.op("mul", {y, net.broadcast(net.weight({16}, MORTISE_BF16), {2, 16, 9, 9}, {1})}));
  net.output(next(y));
  configureDnn("");
  const Region region(session.devices[0], net.finish());
  EXPECT_THAT(dnnLines("plan"), Each(HasSubstr(" last")));
  // The input, what is between the first two, and the output. Weights are turned when they are bound.
  EXPECT_EQ(region.steps, 6u) << region.text();
}

TEST(CudaConvolutions, PaddingOfOneSideIsAGroups) {
  const Session session;
  Form form = image;
  form.low = {0, 1};
  form.high = {2, 1};
  Network net;
  net.output(convolved(net, form, MORTISE_F32));
  configureDnn("");
  const Region region(session.devices[0], net.finish());
  EXPECT_EQ(region.steps, 2u) << region.text();
  EXPECT_THAT(dnnLines("plan"), AllOf(SizeIs(1), Each(AllOf(HasSubstr("2x16x11x9"), HasSubstr("padding=0,1")))));
}

TEST(CudaConvolutions, PoolsAreMadeOfSlicesBesideThem) {
  const Session session;
  for (const char *op : {"max_pool", "sum_pool"}) {
    Network net;
    const ValueId y = fused(net, image, MORTISE_BF16, true, true, "relu", MORTISE_VALUE_CONSTANT);
    const ValueId pooled = net.op(op, {y},
                                  {ints("window", {3, 3}), ints("strides", {2, 2}), ints("low", {1, 1}),
                                   ints("high", {1, 1}), ints("dilations", {1, 1})});
    Form next = points;
    next.x = {2, 8, 5, 5};
    next.weight = {4, 8, 1, 1};
    net.output(net.op("convolution", {pooled, net.weight(next.weight, MORTISE_BF16)}, attributesOf(next)));
    const Region region(session.devices[0], net.finish());
    // The input, the pool and the output.
    EXPECT_EQ(region.steps, 5u) << region.text();
  }
}

// ---- The library

// Equal convolutions, one behind another.
std::shared_ptr<const Graph> chainOf(int count) {
  Network net;
  ValueId x = net.input(MORTISE_F32, {1, 4, 6, 6});
  for (int i = 0; i < count; ++i)
    x = net.convolution(x, net.input(MORTISE_F32, {4, 4, 3, 3}), {1, 1}, {1, 1});
  net.output(x);
  return net.finish();
}

// Also when the region that they were prepared for is gone: preparing takes long.
TEST(CudaConvolutions, EqualOnesArePreparedOnce) {
  const Session session;
  const auto graph = chainOf(3);
  configureDnn("");
  for (int i = 0; i < 2; ++i)
    const Region region(session.devices[0], graph);
  EXPECT_THAT(dnnLines("plan"), SizeIs(1));
}

// However few threads compute: torchrun gives each process one.
TEST(CudaConvolutions, ArePreparedByThreadsOfTheirOwn) {
  if (compileThreads() < 2)
    GTEST_SKIP() << "one processor";
  const Session session;
  Network net;
  net.output(convolved(net, points, MORTISE_F32));
  net.output(convolved(net, image, MORTISE_F32));
  const auto graph = net.finish();
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  configureDnn("together=2");
  EXPECT_NO_THROW(Region(session.devices[0], graph));
  omp_set_num_threads(before);
  EXPECT_THAT(dnnLines("plan"), SizeIs(2));
}

// One region for all batches and heights.
TEST(CudaConvolutions, ExtentsMayBeSymbols) {
  const auto build = [](Network &net, int64_t batch, int64_t height) {
    net.output(net.convolution(net.input(MORTISE_F32, {batch, 3, height, 8}), net.input(MORTISE_F32, {4, 3, 3, 3}),
                               {1, 1}, {1, 1}));
  };
  Network general;
  build(general, 30011, 9973);
  const Session session;
  Region region(session.devices[0], withSymbols(general.finish()->view(), {{30011, "batch", 0}, {9973, "height", 1}}));
  for (const auto &[batch, height] : {std::pair{2, 7}, {1, 4}, {0, 5}, {3, 1}}) {
    SCOPED_TRACE(std::to_string(batch) + ", " + std::to_string(height));
    Network network;
    build(network, batch, height);
    configureDnn("");
    region.prepare({batch, height});
    runAndCompare(session.devices[0], region, network.finish()->view());
    EXPECT_THAT(dnnLines("WRONG"), IsEmpty());
  }
}

TEST(CudaConvolutions, AreCapturedWhereTheUserWantsGraphs) {
  const Session session;
  const auto graph = chainOf(5);
  configureDnn("");
  for (const char *graphs : {"on", "all"}) {
    Region region(session.devices[0], graph, Region::How{.options = {{"graphs", graphs}}});
    session.configure("");
    runAndCompare(session.devices[0], region, graph->view());
    EXPECT_EQ(session.callsOf("cuStreamBeginCapture_v2"), graphs == std::string("all") ? 5u : 0u);
    EXPECT_THAT(dnnLines("WRONG"), IsEmpty());
  }
}

// ---- Refusals

std::shared_ptr<const Graph> oneConvolution(const Form &form, int32_t dtype = MORTISE_F32) {
  Network net;
  net.output(convolved(net, form, dtype));
  return net.finish();
}

TEST(CudaConvolutions, WhatThePluginLacksIsAnswer) {
  const Session session;
  EXPECT_EQ(propose(session.devices[0], oneConvolution(image, MORTISE_BF16)->view()).candidates, 1u);
  EXPECT_EQ(propose(session.devices[0], oneConvolution(image, MORTISE_F64)->view()).candidates, 1u); // a group
  Form nothing = image;
  nothing.x[1] = nothing.weight[1] = 0;
  EXPECT_EQ(propose(session.devices[0], oneConvolution(nothing)->view()).reason, MORTISE_REASON_SIZE);
  Network large;
  large.output(large.op("max_pool", {large.input(MORTISE_F32, {1, 1, 20, 20})},
                        {ints("window", {9, 9}), ints("strides", {1, 1}), ints("low", {0, 0}), ints("high", {0, 0}),
                         ints("dilations", {1, 1})}));
  const Answer pool = propose(session.devices[0], large.finish()->view());
  EXPECT_EQ(pool.reason, MORTISE_REASON_SIZE);
  EXPECT_THAT(pool.detail, HasSubstr("at most 64 elements"));
}

TEST(CudaConvolutions, WithoutTheLibraryTheyAreGenerated) {
  const auto graph = oneConvolution(image, MORTISE_BF16);
  const auto said = [&](const char *library) {
    const Session session("", MORTISE_TEST_STAND_IN, MORTISE_TEST_BLAS_STAND_IN, library);
    std::string text = saidWhenTaken(session, graph->view());
    const Region region(session.devices[0], graph);
    EXPECT_EQ(region.steps, 1U);
    EXPECT_THAT(region.text(), HasSubstr("cuda.product"));
    return text;
  };
  EXPECT_THAT(said("/nowhere/libcudnn.so.9"),
              AllOf(HasSubstr("convolutions are computed by generated kernels"), HasSubstr("/nowhere/libcudnn.so.9"),
                    HasSubstr("pip install nvidia-cudnn-cu13"), HasSubstr("MORTISE_CUDA_CUDNN")));
  EXPECT_THAT(said("libm.so.6"), HasSubstr("cudnnBackendExecute"));
  EXPECT_THAT(said("off"), IsEmpty());
}

// Images have three channels, of which the library reads no 16 bytes at once. With all that stands behind it it is one
// kernel, whose result the library reads as it is.
TEST(CudaConvolutions, OfFewChannelsAreGeneratedAndStoredWithChannelsLast) {
  const Form first{{2, 3, 16, 16}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {3, 3}, {1, 1}};
  const Form second{{2, 16, 8, 8}, {8, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16}) {
    const Session session;
    Network net;
    const ValueId x = fused(net, first, dtype, true, true, "relu", MORTISE_VALUE_CONSTANT);
    net.output(
        net.op("convolution", {x, net.input(dtype, second.weight, MORTISE_VALUE_CONSTANT)}, attributesOf(second)));
    configureDnn("");
    const Region region(session.devices[0], net.finish());
    const bool isGenerated = dtype != MORTISE_F32;
    EXPECT_EQ(count(region.text(), "cudnn.convolution"), isGenerated ? 1U : 2U) << region.text();
    EXPECT_EQ(count(region.text(), "cuda.product"), isGenerated ? 1U : 0U) << region.text();
    if (isGenerated) // the convolutions, and the output with channels first
      EXPECT_EQ(region.steps, 3U) << region.text();
  }
}

TEST(CudaConvolutions, TheCopyThatTheProcessHasIsTaken) {
  const Session session("", MORTISE_TEST_STAND_IN, MORTISE_TEST_BLAS_STAND_IN, "auto");
  configureDnn(""); // by which the stand-in is loaded
  EXPECT_EQ(propose(session.devices[0], oneConvolution(image)->view()).candidates, 1u);
}

} // namespace
} // namespace mortise::test
