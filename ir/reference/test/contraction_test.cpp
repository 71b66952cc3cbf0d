// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

using namespace mortise;
using namespace mortise::test;

namespace {
Data dot(Data lhs, Data rhs, Dims result, Dims lhsBatch, Dims rhsBatch, Dims lhsContract, Dims rhsContract) {
  return runOp("dot", {lhs, rhs}, lhs.dtype, result,
               {integers("lhs_batch", lhsBatch), integers("rhs_batch", rhsBatch), integers("lhs_contract", lhsContract),
                integers("rhs_contract", rhsContract)});
}
} // namespace

TEST(Dot, SmallByHand) {
  for (int32_t dtype : {f64, f32, f16, bf16, f8e5, i64, i32, i16, i8})
    expectValues(dot({dtype, {2, 2}, {1, 2, 3, 4}}, {dtype, {2, 2}, {1, -1, 0, 2}}, {2, 2}, {}, {}, {1}, {0}),
                 {1, 3, 3, 5});
  expectValues(dot({ui8, {1, 2}, {200, 200}}, {ui8, {2, 1}, {1, 1}}, {1, 1}, {}, {}, {1}, {0}), {144});
  expectValues(dot({i4, {1, 2}, {7, 7}}, {i4, {2, 1}, {2, 1}}, {1, 1}, {}, {}, {1}, {0}), {5}); // 21 wraps
}

TEST(Dot, SumsOfNothingAreZero) {
  expectValues(dot({f32, {2, 0}, {}}, {f32, {0, 2}, {}}, {2, 2}, {}, {}, {1}, {0}), {0, 0, 0, 0});
  EXPECT_TRUE(dot({f32, {0, 3}, {}}, counting(f32, {3, 2}), {0, 2}, {}, {}, {1}, {0}).values.empty());
  expectValues(dot(vector(f32, {1, 2, 3}), vector(f32, {4, 5, 6}), {}, {}, {}, {0}, {0}), {32});
  expectValues(dot(vector(f32, {2, 3}), vector(f32, {5, 7}), {2, 2}, {}, {}, {}, {}), {10, 14, 15, 21});
}

// Shapes just below and above the block sizes (64, 128, 256) and the tile size (4), with batches and several contracted
// dimensions.
TEST(Dot, AgainstThreeLoops) {
  for (int64_t M : {1, 3, 65, 130})
    for (int64_t N : {1, 5, 129})
      for (int64_t K : {1, 7, 300}) {
        Data a = noise(f32, {M, K}, 3), b = noise(f32, {N, K}, 5);
        std::vector<double> expected;
        for (int64_t m = 0; m < M; ++m)
          for (int64_t n = 0; n < N; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < K; ++k)
              sum += a.values[size_t(m * K + k)] * b.values[size_t(n * K + k)];
            expected.push_back(rounded(f32, sum));
          }
        expectValues(dot(a, b, {M, N}, {}, {}, {1}, {1}), expected);
      }
}

TEST(Dot, BatchesAndSeveralContractions) {
  // lhs [K1, B, M, K2], rhs [B, K2, N, K1]: result [B, M, N].
  int64_t B = 2, M = 3, N = 4, K1 = 5, K2 = 6;
  Data a = noise(f64, {K1, B, M, K2}, 3), b = noise(f64, {B, K2, N, K1}, 5);
  std::vector<double> expected;
  for (int64_t i = 0; i < B; ++i)
    for (int64_t m = 0; m < M; ++m)
      for (int64_t n = 0; n < N; ++n) {
        double sum = 0;
        for (int64_t k = 0; k < K1; ++k)
          for (int64_t l = 0; l < K2; ++l)
            sum += a.values[size_t(((k * B + i) * M + m) * K2 + l)] * b.values[size_t(((i * K2 + l) * N + n) * K1 + k)];
        expected.push_back(sum);
      }
  expectNear(dot(a, b, {B, M, N}, {1}, {0}, {0, 3}, {3, 1}), expected, 1e-14);
}

TEST(Dot, AccumulatesInF64) {
  // In f32, 1e8 + 1 - 1e8 is 0; in f16, 2048 + 1 + 1 is 2048.
  expectValues(dot(vector(f32, {1e8, 1, -1e8}), vector(f32, {1, 1, 1}), {}, {}, {}, {0}, {0}), {1});
  expectValues(dot(vector(f16, {2048, 1, 1}), vector(f16, {1, 1, 1}), {}, {}, {}, {0}, {0}), {2050});
  expectValues(dot(vector(f32, {NaN, 1}), vector(f32, {0, 1}), {}, {}, {}, {0}, {0}), {NaN});
  expectValues(dot(vector(f32, {inf, 1}), vector(f32, {0, 1}), {}, {}, {}, {0}, {0}), {NaN});
}

TEST(Dot, Refusals) {
  auto error = [](Dims lhs, Dims rhs, Dims lhsContract, Dims rhsContract) {
    return opError("dot", {counting(f32, lhs), counting(f32, rhs)}, f32, {2, 2},
                   {integers("lhs_batch", {}), integers("rhs_batch", {}), integers("lhs_contract", lhsContract),
                    integers("rhs_contract", rhsContract)});
  };
  EXPECT_NE(error({2, 3}, {4, 2}, {1}, {0}).find("differ"), std::string::npos);
  EXPECT_NE(error({2, 3}, {3, 2}, {2}, {0}).find("there is none"), std::string::npos);
  EXPECT_NE(error({2, 3}, {3, 2}, {1, 1}, {0, 0}).find("twice"), std::string::npos);
  EXPECT_NE(error({2, 3}, {3, 3}, {1}, {0}).find("expected the result"), std::string::npos);
}

TEST(Linear, WithAndWithoutBiasAndTransposition) {
  Data x = noise(f32, {2, 3, 4}, 1), weight = noise(f32, {5, 4}, 2), bias = noise(f32, {5}, 3);
  Data transposed = runOp("transpose", {weight}, f32, {4, 5}, {integers("permutation", {1, 0})});
  std::vector<double> plain, biased;
  for (int64_t m = 0; m < 6; ++m)
    for (int64_t n = 0; n < 5; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < 4; ++k)
        sum += x.values[size_t(m * 4 + k)] * weight.values[size_t(n * 4 + k)];
      plain.push_back(rounded(f32, sum));
      biased.push_back(rounded(f32, sum + bias.values[size_t(n)]));
    }
  Attribute straight = flag("weight_transposed", false), turned = flag("weight_transposed", true);
  expectValues(runOp("linear", {x, weight, absent()}, f32, {2, 3, 5}, {straight}), plain);
  expectValues(runOp("linear", {x, weight}, f32, {2, 3, 5}, {straight}), plain);
  expectValues(runOp("linear", {x, weight, bias}, f32, {2, 3, 5}, {straight}), biased);
  expectValues(runOp("linear", {x, transposed, bias}, f32, {2, 3, 5}, {turned}), biased);
  expectValues(runOp("linear", {vector(f32, {-1}), {f32, {1, 1}, {0.0}}}, f32, {1}, {straight}), {0.0}); // 0 + -1 * 0
  EXPECT_NE(opError("linear", {x, transposed, bias}, f32, {2, 3, 5}, {straight}), "");
}
