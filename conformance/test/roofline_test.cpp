// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Work of ops against numbers by hand, shares, and what reports make of them.
#include <cases/case.hpp>
#include <kit/report.hpp>

#include <gmock/gmock.h>

#include <mortise/reference/interpreter.hpp>

#include <cstring>

namespace mortise::conformance {
namespace {

using testing::HasSubstr;
using testing::Not;

// A graph of one node on inputs of the given extents, in f32 unless a type is given.
class OneOp {
public:
  const MortiseValue *input(Dims dims, int32_t dtype = MORTISE_F32) {
    const MortiseValue *made = builder.input(dtype, std::move(dims));
    of.inputs.emplace_back(byteSize(*made->type));
    return made;
  }
  const MortiseValue *offsets(const std::vector<int64_t> &numbers) {
    const MortiseValue *made = input({static_cast<int64_t>(numbers.size())}, MORTISE_I64);
    std::memcpy(of.inputs.back().data(), numbers.data(), of.inputs.back().size());
    return made;
  }
  Work work(const std::string &op, const std::vector<const MortiseValue *> &operands, Dims to,
            std::vector<Attribute> attributes = {}) {
    builder.output(builder.op(op, operands, MORTISE_F32, std::move(to), std::move(attributes)));
    builder.lastNode().since = infoOf(opNamed(("mortise." + op).c_str()))->since;
    MortiseGraph view = builder.view();
    view.opset = MORTISE_OPSET;
    auto graph = Graph::copy(view);
    EXPECT_TRUE(graph) << graph.error().message;
    of.plain = *graph;
    EXPECT_EQ(reference::refuse(*of.plain->view().nodes[0]).detail, "");
    return workOf(of);
  }

private:
  ViewBuilder builder;
  Case of;
};

void expectWork(const Work &work, double bytes, double flops, bool ofProducts) {
  EXPECT_EQ(work.bytes, bytes);
  EXPECT_EQ(work.flops, flops);
  EXPECT_EQ(work.ofProducts, ofProducts);
}

const std::vector<Attribute> unpadded = {test::integers("dilations", {1, 1}), test::integers("high", {0, 0}),
                                         test::integers("low", {0, 0}), test::integers("strides", {1, 1})};
std::vector<Attribute> with(std::vector<Attribute> list, Attribute more) {
  list.push_back(std::move(more));
  return list;
}

TEST(ConformanceWork, OfElementwiseOps) {
  OneOp add, relu;
  expectWork(add.work("add", {add.input({3, 5}), add.input({3, 5})}, {3, 5}), 3 * 15 * 4, 15, false);
  expectWork(relu.work("relu", {relu.input({7})}, {7}), 2 * 7 * 4, 7, false);
}

TEST(ConformanceWork, OfReductionsIsThatOfTheirOperand) {
  OneOp sum;
  expectWork(sum.work("reduce_sum", {sum.input({6, 10})}, {6}, {test::integers("axes", {1})}), 66 * 4, 60, false);
}

TEST(ConformanceWork, OfProducts) {
  OneOp dot, linear, quantised;
  const std::vector<Attribute> axes = {test::integers("lhs_batch", {}), test::integers("lhs_contract", {1}),
                                       test::integers("rhs_batch", {}), test::integers("rhs_contract", {0})};
  expectWork(dot.work("dot", {dot.input({3, 4}), dot.input({4, 5})}, {3, 5}, axes), (12 + 20 + 15) * 4, 2 * 3 * 4 * 5,
             true);
  expectWork(linear.work("linear", {linear.input({2, 3, 4}), linear.input({5, 4}), linear.input({5})}, {2, 3, 5},
                         {test::flag("weight_transposed", false)}),
             (24 + 20 + 5 + 30) * 4, 2 * 6 * 4 * 5, true);
  const auto *x = quantised.input({6, 4}), *weight = quantised.input({5, 4}, MORTISE_I8);
  expectWork(quantised.work("quantized_linear", {x, weight, quantised.input({5}), nullptr, nullptr}, {6, 5},
                            {test::flag("weight_transposed", false)}),
             (24 + 5 + 30) * 4 + 20, 2 * 6 * 4 * 5, true);
}

TEST(ConformanceWork, OfWindows) {
  OneOp convolution, fused, pool;
  const auto grouped = with(unpadded, test::integer("groups", 2));
  // Each of 4 outputs reads 3 of 6 channels, through 3 x 2 elements.
  const double products = 4 * 3 * 4 * 3 * 3 * 2;
  expectWork(convolution.work("convolution", {convolution.input({1, 6, 5, 5}), convolution.input({4, 3, 3, 2})},
                              {1, 4, 3, 4}, grouped),
             (150 + 72 + 48) * 4, 2 * products, true);
  expectWork(fused.work("fused_convolution", {fused.input({1, 6, 5, 5}), fused.input({4, 3, 3, 2}), nullptr, nullptr},
                        {1, 4, 3, 4}, with(grouped, test::string("activation", "none"))),
             (150 + 72 + 48) * 4, 2 * products, true);
  expectWork(
      pool.work("max_pool", {pool.input({1, 2, 5, 5})}, {1, 2, 4, 3}, with(unpadded, test::integers("window", {2, 3}))),
      (50 + 24) * 4, 24 * 6, false);
}

TEST(ConformanceWork, OfAttentionLeavesOutWhatIsHidden) {
  for (const bool causal : {false, true}) {
    OneOp op;
    // 2 heads, 3 queries and 5 keys of depth 4, values of 6.
    const Work work =
        op.work("attention", {op.input({1, 2, 3, 4}), op.input({1, 2, 5, 4}), op.input({1, 2, 5, 6}), nullptr},
                {1, 2, 3, 6}, {test::flag("causal", causal), test::real("scale", 0.5)});
    expectWork(work, (24 + 40 + 60 + 36) * 4, 2 * 2 * (causal ? 1 + 2 + 3 : 3 * 5) * (4 + 6), true);
  }
}

TEST(ConformanceWork, OfRaggedAttentionIsThatOfItsSequences) {
  for (const bool causal : {false, true}) {
    OneOp op;
    // Sequences of 2 queries and 3 keys, and of 1 and 1; a query and two keys belong to none.
    const Work work = op.work(
        "ragged_attention",
        {op.input({4, 1, 4}), op.input({6, 1, 4}), op.input({6, 1, 2}), op.offsets({0, 2, 3}), op.offsets({1, 4, 5})},
        {4, 1, 2}, {test::flag("causal", causal), test::real("scale", 0.5)});
    expectWork(work, (3 * 4 + 4 * 4 + 4 * 2 + 8) * 4 + 2 * 3 * 8, 2 * (causal ? 3 + 2 + 1 : 2 * 3 + 1) * (4 + 2), true);
  }
}

TEST(ConformanceWork, LeavesOutWhatIsNotRead) {
  OneOp take, slice;
  expectWork(
      take.work("take", {take.input({100, 8}), take.input({3}, MORTISE_I64)}, {3, 8}, {test::integer("axis", 0)}),
      2 * 24 * 4 + 3 * 8, 24, false);
  expectWork(slice.work("slice", {slice.input({10, 10})}, {2, 10},
                        {test::integers("limits", {2, 10}), test::integers("starts", {0, 0}),
                         test::integers("strides", {1, 1})}),
             2 * 20 * 4, 20, false);
}

Speed speedOf(Work work, double runSeconds) {
  return {.coldSeconds = 0.02,
          .warmSeconds = 0.001,
          .runSeconds = runSeconds,
          .medianSeconds = runSeconds * 1.5,
          .runs = 7,
          .work = work,
          .bandwidth = 1e9,
          .peak = 1e10};
}

TEST(ConformanceSpeeds, TheRoofIsTheSlowerOfCopiesAndProducts) {
  const Speed copied = speedOf({4e6, 1e6, true}, 0.008), multiplied = speedOf({1e6, 1e8, true}, 0.02);
  EXPECT_FALSE(copied.isBoundByPeak());
  EXPECT_DOUBLE_EQ(copied.roofSeconds(), 0.004);
  EXPECT_DOUBLE_EQ(copied.share(), 0.5);
  EXPECT_TRUE(multiplied.isBoundByPeak());
  EXPECT_DOUBLE_EQ(multiplied.roofSeconds(), 0.01);
  EXPECT_DOUBLE_EQ(multiplied.share(), 0.5);
}

TEST(ConformanceSpeeds, ProductsBoundNothingElse) {
  EXPECT_DOUBLE_EQ(speedOf({1e6, 1e8, false}, 0.02).roofSeconds(), 0.001);
  Speed unknown = speedOf({1e6, 1e8, true}, 0.02);
  unknown.peak = 0;
  EXPECT_DOUBLE_EQ(unknown.roofSeconds(), 0.001);
  EXPECT_FALSE(unknown.json().contains("peak"));
}

constexpr const char *add = "perf/speed/add/f32/bulk/dense/random/#1",
                     *mul = "perf/speed/mul/bf16/bulk/dense/random/#1",
                     *dot = "perf/speed/dot/f32/bulk/dense/random/plain/#1";

TEST(ConformanceSpeeds, VerdictsKeepThem) {
  Verdict made{.id = add};
  made.speed = speedOf({4e6, 1e6, false}, 0.008);
  const Verdict read = Verdict::read(made.json());
  ASSERT_TRUE(read.speed);
  EXPECT_EQ(read.speed->json(), made.speed->json());
  EXPECT_EQ(made.json()["perf"]["share"], 0.5);
  EXPECT_FALSE(Verdict::read(Verdict{.id = add}.json()).speed);
}

Json reportOfSpeeds() {
  Json cases = Json::array();
  for (const auto &[id, speed] :
       {std::pair(add, speedOf({4e6, 1e6, false}, 0.008)), std::pair(mul, speedOf({4e6, 1e6, false}, 0.04)),
        std::pair(dot, speedOf({1e6, 1e8, true}, 0.0125))}) {
    Verdict verdict{.id = id};
    verdict.speed = speed;
    cases.push_back(verdict.json());
  }
  return {{"cases", cases}};
}

TEST(ConformanceSpeeds, ATerminalIsToldOfFamiliesAndTheSlowest) {
  EXPECT_EQ(speedsText(reportOfSpeeds()),
            "median share of the roofline: contraction 80 % (1), elementwise 50 % (2)\n"
            "slowest: mul in bf16 10 % (40 ms), add in f32 50 % (8 ms), dot, plain in f32 80 % (12.5 ms)\n");
  EXPECT_EQ(speedsText({{"cases", Json::array({Verdict{.id = add}.json()})}}), "");
}

TEST(ConformanceSpeeds, ThePageHasAPictureAndATable) {
  const std::string page = rooflinesText(reportOfSpeeds());
  size_t points = 0;
  for (size_t at = page.find("<circle"); at != std::string::npos; at = page.find("<circle", at + 1))
    ++points;
  EXPECT_EQ(points, 3u);
  EXPECT_THAT(page, HasSubstr("mul in bf16: 10 % of its roof, which copies make; 40 ms, 25 M/s, 100 MB/s"));
  EXPECT_THAT(page, HasSubstr("dot, plain in f32: 80 % of its roof, which products make"));
  EXPECT_THAT(page, HasSubstr("products of f32: 10 G/s"));
  EXPECT_LT(page.find("<tr><th>mul</th>"), page.find("<tr><th>add</th>"));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, Not(HasSubstr("inf")));
  EXPECT_EQ(rooflinesText({{"cases", Json::array({Verdict{.id = add}.json()})}}), "");
}

// All at one place: an axis needs a length all the same.
TEST(ConformanceSpeeds, APictureOfOnePointIsFinite) {
  Verdict verdict{.id = add};
  verdict.speed = speedOf({1e6, 1e6, false}, 0.001);
  verdict.speed->peak = 0;
  const std::string page = rooflinesText({{"cases", Json::array({verdict.json()})}});
  EXPECT_THAT(page, testing::AllOf(HasSubstr("<circle"), Not(HasSubstr("nan")), Not(HasSubstr("inf"))));
}

} // namespace
} // namespace mortise::conformance
