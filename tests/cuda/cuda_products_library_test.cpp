// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The library of products: which is taken, what it refuses, and what a product costs.
#include "session.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

namespace mortise::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST(CudaProducts, AreProposedWithTheirCost) {
  const Session session;
  const auto cost = [&](int32_t dtype, int32_t precision = MORTISE_PRECISION_HIGHEST) {
    const Answer answer = propose(session.devices[0], product(dtype, 8192)->view(), precision);
    EXPECT_EQ(answer.candidates, 1u) << answer.detail;
    EXPECT_EQ(answer.flops, 2.0 * 8192 * 8192 * 8192);
    return answer.costNs;
  };
  EXPECT_GT(cost(MORTISE_F32), 5 * cost(MORTISE_F32, MORTISE_PRECISION_HIGH));
  EXPECT_GT(cost(MORTISE_F32), 10 * cost(MORTISE_F16));
  EXPECT_NEAR(cost(MORTISE_F16), 2.0 * 8192 * 8192 * 8192 / 0.7e15 * 1e9, 1e6);
}

TEST(CudaProducts, WhatTheLibraryLacksIsDecomposedOrGenerated) {
  const Session session;
  const Answer answer = propose(session.devices[0], product(MORTISE_F64, 8, true)->view()); // a bias
  EXPECT_EQ(answer.reason, MORTISE_REASON_DTYPE);
  EXPECT_THAT(answer.detail, HasSubstr("decomposition"));
  Network net;
  net.output(net.dot(net.input(MORTISE_I32, {4, 4}), net.input(MORTISE_I32, {4, 4}), {}, {}, {1}, {0}));
  const Region region(session.devices[0], net.finish());
  EXPECT_THAT(region.text(), HasSubstr("cuda.product"));
}

TEST(CudaProducts, BiasesAreTheLibrarysUnlessTheUserWantsNone) {
  const Session session;
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_BF16}) {
    const auto graph = product(dtype, 8, true);
    EXPECT_EQ(propose(session.devices[0], graph->view()).candidates, 1u);
    const Answer answer =
        propose(session.devices[0], graph->view(), MORTISE_PRECISION_HIGHEST, {{"library_bias", "off"}});
    if (dtype == MORTISE_F32) { // rounds once anyway
      EXPECT_EQ(answer.candidates, 1u);
      continue;
    }
    EXPECT_EQ(answer.candidates, 0u);
    EXPECT_EQ(answer.reason, MORTISE_REASON_OPTION);
    EXPECT_THAT(answer.detail, AllOf(HasSubstr("library_bias"), HasSubstr("decomposition")));
  }
  try {
    propose(session.devices[0], product(MORTISE_BF16, 8, true)->view(), MORTISE_PRECISION_HIGHEST,
            {{"library_bias", "sometimes"}});
    FAIL() << "expected an error";
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_INVALID_ARGUMENT);
    EXPECT_THAT(failed.error.message, HasSubstr("option library_bias: expected on or off, found sometimes"));
  }
}

TEST(CudaProducts, WithoutTheLibraryTheyAreGenerated) {
  const auto graph = product(MORTISE_BF16, 64, true);
  const Session absent("", MORTISE_TEST_STAND_IN, "/nowhere/libcublasLt.so.13");
  EXPECT_THAT(saidWhenTaken(absent, graph->view()),
              AllOf(HasSubstr("products are computed by generated kernels"), HasSubstr("/nowhere/libcublasLt.so.13"),
                    HasSubstr("pip install nvidia-cublas"), HasSubstr("MORTISE_CUDA_CUBLASLT")));
  EXPECT_THAT(saidWhenTaken(absent, graph->view()), IsEmpty()); // once
  const Session other("", MORTISE_TEST_STAND_IN, "libm.so.6");
  EXPECT_THAT(saidWhenTaken(other, graph->view()), HasSubstr("cublasLtMatmul"));
  const Session off("", MORTISE_TEST_STAND_IN, "off");
  EXPECT_THAT(saidWhenTaken(off, graph->view()), IsEmpty());
  for (const Session *session : {&absent, &other, &off}) {
    const Region region(session->devices[0], graph);
    EXPECT_EQ(region.steps, 1U);
    EXPECT_THAT(region.text(), HasSubstr("cuda.product"));
  }
}

// PyTorch's, in most processes.
TEST(CudaProducts, ACopyThatIsLoadedIsShared) {
  configureBlas(""); // loads the stand-in
  const Session session("", MORTISE_TEST_STAND_IN, "auto");
  EXPECT_EQ(propose(session.devices[0], product(MORTISE_F32, 8)->view()).candidates, 1u);
  Region region(session.devices[0], product(MORTISE_F32, 8));
  EXPECT_THAT(blasCalls("cublasLtCreate"), SizeIs(1));
  const Session older("version=12040", MORTISE_TEST_STAND_IN, "auto"); // this driver does not run that library
  EXPECT_THAT(saidWhenTaken(older, product(MORTISE_F32, 8)->view()), HasSubstr("(libcublasLt.so.12)"));
}

TEST(CudaProducts, OnlyTheEnvironmentNamesAnotherLibrary) {
  (void)start("/nowhere/else.so", "auto");
  const MortiseOption options[] = {{"cublaslt", "/tmp/from-a-clone.so"}};
  MortiseInitializeArgs args{};
  args.host = detail::hostTable;
  args.options = options;
  args.option_count = 1;
  const auto refused = call(testedPlugin().initialize, args);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("MORTISE_CUDA_CUBLASLT"));
}

TEST(CudaProducts, EveryFailureOfTheLibraryIsAStatusAndLeavesNothing) {
  struct Injected {
    int status;
    MortiseCode code;
  };
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16}) // of which bf16 tries kernels
    for (const char *function :
         {"cublasLtCreate", "cublasLtMatmulDescCreate", "cublasLtMatmulDescSetAttribute", "cublasLtMatrixLayoutCreate",
          "cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceSetAttribute", "cublasLtMatmulAlgoGetHeuristic",
          "cublasLtMatmul"})
      for (const Injected &injected : {Injected{1, MORTISE_VERSION_MISMATCH},
                                       {3, MORTISE_OUT_OF_MEMORY},
                                       {14, MORTISE_INTERNAL},
                                       {15, MORTISE_UNSUPPORTED},
                                       {77, MORTISE_INTERNAL}})
        for (const int number : {1, 2, 3}) {
          // What the library does not support with a bias it computes without, and a group adds the bias (CudaBiases).
          const bool isRefusal = dtype == MORTISE_BF16 && injected.code == MORTISE_UNSUPPORTED;
          if (isRefusal && number > 1 && function == std::string("cublasLtMatmulAlgoGetHeuristic"))
            continue; // no kernel for other alignments: KernelsForAllAlignmentsAreChosenBefore
          SCOPED_TRACE(function + std::string(" ") + std::to_string(injected.status) + " " + std::to_string(number));
          const auto graph = product(dtype, 8, true);
          const Session session;
          MortiseDevice *device = session.devices[0];
          MortiseStream *stream = makeStream(device);
          const MortiseAddress memory = makeMemory(device, 4096);
          const std::string before = blasCounts();
          configureBlas("fail=" + std::string(function) + ":" + std::to_string(number) + ":" +
                        std::to_string(injected.status));
          const auto run = [&]() -> Result<void> {
            try {
              const Region region(device, graph);
              return region.enqueue(stream, {memory, memory + 256, memory + 512 + 4}, {memory + 1024});
            } catch (const Failed &failed) {
              return failed.error;
            }
          };
          const Result<void> done = run();
          if (!done) {
            EXPECT_EQ(done.error().code, injected.code);
            EXPECT_THAT(done.error().message, AllOf(HasSubstr(function), HasSubstr("cuda:0")));
          }
          EXPECT_TRUE(!done || isRefusal || blasCalls(function).size() < static_cast<size_t>(number));
          EXPECT_TRUE(done || !isRefusal);
          configureBlas("");
          EXPECT_EQ(blasCounts(), before);
          MortiseStreamArgs args{};
          args.stream = stream;
          ASSERT_TRUE(call(testedPlugin().stream_reset, args));
          const auto again = run();
          EXPECT_TRUE(again) << again.error().message;
          EXPECT_EQ(blasCounts(), before);
          freeMemory(device, memory, 4096);
          destroyStream(stream);
        }
}

TEST(CudaProducts, NoAlgorithmIsAClearError) {
  const Session session;
  configureBlas("none");
  try {
    Region region(session.devices[0], product(MORTISE_F32, 8));
    FAIL();
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_UNSUPPORTED);
    EXPECT_THAT(failed.error.message, AllOf(HasSubstr("matmul"), HasSubstr("other extents")));
  }
  configureBlas("");
}

// The library's own errors do not tell that the device is lost.
TEST(CudaProducts, ALostDeviceIsFoundOut) {
  const Session session;
  MortiseStream *stream = makeStream(session.devices[0]);
  const MortiseAddress memory = makeMemory(session.devices[0], 4096);
  Region region(session.devices[0], product(MORTISE_F32, 8));
  configureBlas("fail=cublasLtMatmul:1:13");
  session.configure("fail=cuStreamQuery:1:700");
  const auto lost = region.enqueue(stream, {memory, memory + 256}, {memory + 1024});
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, MORTISE_DEVICE_LOST);
  EXPECT_THAT(lost.error().message, HasSubstr("CUBLAS_STATUS_EXECUTION_FAILED"));
  configureBlas("");
  EXPECT_THROW(destroyStream(stream), Failed); // its memory is given back all the same
}

} // namespace
} // namespace mortise::test
