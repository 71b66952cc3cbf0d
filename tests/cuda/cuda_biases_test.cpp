// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Biases of f16 and bf16, which some of the library's kernels add to a product that they have rounded: which kernels
// are taken, and what is said where there is none.
#include "session.hpp"
#include "wide_biases.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/interpreter.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

std::string allocations(const Session &session) {
  const std::string counts = session.counts();
  return counts.substr(0, counts.find(' '));
}

// The symptom of such a kernel does not depend on the operands' layout or on the number of terms.
TEST(CudaBiases, KernelsThatRoundBeforeAreFoundInAllLayouts) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    for (const int64_t terms : {1, 2, 6})
      for (const bool transposed : {false, true})
        for (const bool turned : {false, true}) { // x lies column by column
          SCOPED_TRACE(std::string(dtypeName(dtype)) + " " + std::to_string(terms) + (transposed ? " transposed" : "") +
                       (turned ? " turned" : ""));
          const auto build = [&](Network &net) {
            const ValueId x =
                turned ? net.transpose(net.input(dtype, {terms, 5}), {1, 0}) : net.input(dtype, {5, terms});
            const ValueId w =
                net.input(dtype, transposed ? std::vector<int64_t>{terms, 4} : std::vector<int64_t>{4, terms});
            net.output(net.linear(x, w, net.input(dtype, {4}), transposed));
          };
          Network right, early;
          build(right), build(early);
          Computed seen = computed(right);
          EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
          seen = computed(early, {.blas = "early=2"});
          EXPECT_THAT(seen.calls, AllOf(SizeIs(1), Each(HasSubstr(" bias")), Each(Not(HasSubstr(" early")))));
          EXPECT_THAT(seen.steps, Not(HasSubstr("cuda.")));
        }
}

TEST(CudaBiases, AKernelIsProvedOnceForAllExtents) {
  const Session session;
  session.warmUp();
  const std::string before = allocations(session);
  configureBlas("early=1");
  {
    const Region region(session.devices[0], product(MORTISE_BF16, 8, true));
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(6)); // two kernels for each of three alignments
    EXPECT_THAT(blasCalls("cublasLtMatmul"), Contains(HasSubstr(" early")).Times(3));
    const Region larger(session.devices[0], product(MORTISE_BF16, 16, true));
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(6));
    const Region other(session.devices[0], product(MORTISE_F16, 8, true));
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(12));
    const Region wide(session.devices[0], product(MORTISE_F32, 8, true)); // rounds as often as any f32 sum
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(12));
  }
  EXPECT_EQ(allocations(session), before);
}

// Its product is stored in f32 then, and the operands are read as they are.
TEST(CudaBiases, WithoutAKernelThatRoundsOnceAGroupAddsTheBias) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    SCOPED_TRACE(dtypeName(dtype));
    Network net;
    const ValueId x = net.input(dtype, {2, 3, 6}), w = net.input(dtype, {4, 6});
    const ValueId y = net.linear(x, w, net.input(dtype, {4}));
    net.output(net.linear(net.op("relu", {y}), net.input(dtype, {5, 4})));
    const auto graph = net.finish();
    const Session session;
    configureBlas("early=16");
    const Region region(session.devices[0], graph);
    configureBlas("");
    EXPECT_EQ(region.steps, 3u) << region.text();
    EXPECT_THAT(region.text(), AllOf(HasSubstr("cublaslt.matmul"), HasSubstr("cuda.pointwise")));
  }
}

TEST(CudaBiases, AWideBiasGivesTheSameLinear) {
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16})
    for (const bool transposed : {false, true}) {
      SCOPED_TRACE(std::string(dtypeName(dtype)) + (transposed ? " transposed" : ""));
      Network net;
      const ValueId x = net.op("relu", {net.input(dtype, {2, 3, 6})});
      const ValueId w = net.input(dtype, transposed ? std::vector<int64_t>{6, 4} : std::vector<int64_t>{4, 6});
      net.output(net.op("neg", {net.linear(x, w, net.input(dtype, {4}), transposed)}));
      const auto graph = net.finish();
      const MortiseGraph &before = graph->view();
      const std::vector<uint32_t> linears{1};
      cuda::WideBiases rewriter(linears);
      const Result<MortiseGraph> after = rewriter.rewrite(before);
      ASSERT_TRUE(after) << after.error().message;
      EXPECT_EQ(rewriter.origins.size(), after->node_count);
      EXPECT_EQ(rewriter.origins.front(), std::vector<uint32_t>{0});
      EXPECT_EQ(rewriter.origins.back(), std::vector<uint32_t>{2});
      for (size_t n = 0; n < after->node_count; ++n)
        if (std::string_view(after->nodes[n]->op) == "mortise.linear") {
          EXPECT_EQ(after->nodes[n]->operand_count, 2u);
        }
      std::vector<std::vector<std::byte>> inputs(before.input_count);
      std::vector<const void *> given;
      for (size_t i = 0; i < inputs.size(); ++i) {
        inputs[i].resize(byteSize(*before.inputs[i]->type));
        randomFill(*before.inputs[i], i, inputs[i]);
        given.push_back(inputs[i].data());
      }
      std::vector<std::byte> wanted(byteSize(*before.outputs[0]->type)), got(wanted.size());
      const std::vector<void *> want{wanted.data()}, result{got.data()};
      ASSERT_TRUE(reference::interpret(before, given, want));
      ASSERT_TRUE(reference::interpret(*after, given, result));
      const auto differences = conformance::Judge(before, given).differences(0, got, wanted);
      ASSERT_TRUE(differences) << differences.error().message;
      EXPECT_EQ(*differences, "");
    }
}

// What is proved for typical values of symbols may not be for others.
TEST(CudaBiases, WithoutAKernelForOtherValuesTheErrorSaysWhatToDo) {
  Network net;
  net.output(
      net.linear(net.input(MORTISE_BF16, {9973, 6}), net.input(MORTISE_BF16, {4, 6}), net.input(MORTISE_BF16, {4})));
  const auto symbolic = withSymbols(net.finish()->view(), {{9973, "tokens", 0}});
  const Session session;
  configureBlas("");
  Region region(session.devices[0], symbolic);
  configureBlas("early=16");
  try {
    region.prepare({5});
    FAIL() << "expected an error";
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(failed.error.message, AllOf(HasSubstr("cuda:0"), HasSubstr("bf16"), HasSubstr("among the 16"),
                                            HasSubstr("set the option library_bias to off")));
  }
  configureBlas("");
}

// Nothing is chosen, and nothing proved, while calls are queued.
TEST(CudaBiases, KernelsForAllAlignmentsAreChosenBefore) {
  const Session session;
  MortiseDevice *device = session.devices[0];
  MortiseStream *stream = makeStream(device);
  const MortiseAddress memory = makeMemory(device, 8192);
  std::memset(pointer(memory), 0, 8192);
  const auto queue = [&](const Region &region, int skewed, uint64_t skew) {
    const auto at = [&](int place) {
      return memory + static_cast<uint64_t>(place) * 1024 + (place == skewed ? skew : 0);
    };
    return region.enqueue(stream, {at(0), at(1), at(2)}, {at(3)});
  };
  {
    configureBlas("");
    const Region region(device, product(MORTISE_BF16, 8, true));
    configureBlas("");
    for (const int skewed : {0, 1, 2, 3})
      for (const uint64_t skew : {0, 2, 4, 16, 128}) {
        const auto queued = queue(region, skewed, skew);
        EXPECT_TRUE(queued) << queued.error().message << testing::PrintToString(blasCalls("cublasLtMatmul"));
      }
    EXPECT_THAT(blasCalls("cublasLtMatmul"), SizeIs(20));
    EXPECT_THAT(blasCalls("cublasLtMatmulAlgoGetHeuristic"), IsEmpty());
  }
  {
    configureBlas("least=16");
    const Region region(device, product(MORTISE_BF16, 8, true));
    configureBlas("");
    EXPECT_TRUE(queue(region, 0, 16));
    const auto refused = queue(region, 0, 8);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(refused.error().message,
                AllOf(HasSubstr("multiples of 16 bytes"), HasSubstr("align them"), HasSubstr("library_bias")));
  }
  destroyStream(stream);
  freeMemory(device, memory, 8192);
}

// A trial gives back its memory, and what has failed is tried again.
TEST(CudaBiases, EveryFailureOfATrialIsAStatusAndLeavesNothing) {
  const Session session;
  session.warmUp();
  const auto graph = product(MORTISE_BF16, 8, true);
  const std::string before = allocations(session);
  for (const char *function :
       {"cuMemAllocAsync", "cuMemsetD8Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuStreamSynchronize"}) {
    SCOPED_TRACE(function);
    session.configure("fail=" + std::string(function) + ":1:2");
    try {
      const Region region(session.devices[0], graph);
      FAIL() << "expected an error";
    } catch (const Failed &failed) {
      EXPECT_EQ(failed.error.code, MORTISE_OUT_OF_MEMORY);
      EXPECT_THAT(failed.error.message, HasSubstr("cuda:0: cu"));
    }
    EXPECT_EQ(allocations(session), before);
  }
  session.configure("");
  const Region region(session.devices[0], graph);
}

} // namespace
} // namespace mortise::test
