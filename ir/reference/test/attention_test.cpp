// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

#include <numeric>

using namespace mortise;
using namespace mortise::test;

namespace {
Data attention(const Data &q, const Data &k, const Data &v, const Data &mask, double scale, bool causal) {
  return runOp("attention", {q, k, v, mask}, q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]},
               {real("scale", scale), flag("causal", causal)});
}

// Attention by its definition: scores, mask, softmax, sum, with whole matrices.
std::vector<double> define(const Data &q, const Data &k, const Data &v, const Data &mask, double scale, bool causal) {
  int64_t B = q.dims[0], H = q.dims[1], Q = q.dims[2], D = q.dims[3], G = k.dims[1], K = k.dims[2], E = v.dims[3];
  std::vector<double> all;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t h = 0; h < H; ++h)
      for (int64_t i = 0; i < Q; ++i) {
        int64_t group = b * G + h * G / H;
        std::vector<double> weights;
        double total = 0;
        for (int64_t j = 0; j < K; ++j) {
          double score = 0;
          for (int64_t d = 0; d < D; ++d)
            score += q.values[size_t(((b * H + h) * Q + i) * D + d)] * k.values[size_t((group * K + j) * D + d)];
          score *= scale;
          if (mask.given) {
            auto at = [&](size_t d, int64_t x) { return mask.dims[d] == 1 ? 0 : x; };
            double m = mask.values[size_t(
                ((at(0, b) * mask.dims[1] + at(1, h)) * mask.dims[2] + at(2, i)) * mask.dims[3] + at(3, j))];
            score = mask.dtype == i1 ? (m != 0 ? score : -inf) : score + m;
          }
          weights.push_back(causal && j > i ? 0 : std::exp(score));
          total += weights.back();
        }
        for (int64_t e = 0; e < E; ++e) {
          double sum = 0;
          for (int64_t j = 0; j < K; ++j)
            sum += weights[size_t(j)] * v.values[size_t((group * K + j) * E + e)];
          all.push_back(total == 0 ? 0 : rounded(q.dtype, sum / total));
        }
      }
  return all;
}
} // namespace

TEST(Attention, AgainstTheDefinition) {
  for (int32_t dtype : {f64, f32, f16, bf16})
    for (int64_t groups : {1, 2, 4})
      for (bool causal : {false, true}) {
        Data q = noise(dtype, {2, 4, 3, 5}, 1), k = noise(dtype, {2, groups, 6, 5}, 2),
             v = noise(dtype, {2, groups, 6, 7}, 3);
        Data added = noise(dtype, {2, 1, 3, 6}, 4), seen{i1, {1, 4, 1, 6}, {}};
        for (int i = 0; i < 24; ++i)
          seen.values.push_back(i % 6 == 0 || i % 5 == 0);
        double tolerance = dtype == f64 ? 1e-14 : (dtype == f32 ? 1e-7 : 1e-2);
        for (const Data &mask : {absent(), added, seen})
          expectNear(attention(q, k, v, mask, 0.5, causal), define(q, k, v, mask, 0.5, causal), tolerance);
      }
}

TEST(Attention, AQueryThatSeesNoKeyGivesZero) {
  Data q = noise(f32, {1, 1, 2, 3}, 1), k = noise(f32, {1, 1, 2, 3}, 2), v = noise(f32, {1, 1, 2, 2}, 3);
  Data found = attention(q, k, v, {i1, {1, 1, 2, 2}, {0, 0, 0, 1}}, 1, false);
  expectValues(found, {0, 0, v.values[2], v.values[3]});
  found = attention(q, k, v, {f32, {1, 1, 2, 2}, {-inf, -inf, -inf, 0}}, 1, false);
  expectValues(found, {0, 0, v.values[2], v.values[3]});
  found = attention(q, k, v, {i1, {1, 1, 1, 2}, {0, 1}}, 1, true);
  expectValues(found, {0, 0, v.values[2], v.values[3]}); // query 0 may see key 0 only
  expectValues(attention(q, {f32, {1, 1, 0, 3}, {}}, {f32, {1, 1, 0, 2}, {}}, absent(), 1, false), {0, 0, 0, 0});
}

// A batch that stands in place of heads may be empty. Queries without keys' heads are refused, and none is divided by
// 0.
TEST(Attention, NoHeads) {
  const Data none{f32, {2, 0, 3, 4}, {}}, noBias{f32, {2, 0, 3, 3}, {}};
  expectValues(attention(none, none, none, absent(), 1, false), {});
  expectValues(attention(none, none, none, noBias, 1, true), {});
  const Data key = counting(f32, {2, 1, 3, 4}), query = counting(f32, {2, 2, 3, 4});
  expectValues(attention(none, key, key, absent(), 1, false), {});
  EXPECT_NE(opError("attention", {query, none, none}, f32, {2, 2, 3, 4}, {real("scale", 1), flag("causal", false)})
                .find("multiple of the key heads, found 2 and 0"),
            std::string::npos);
}

// A hidden key has weight 0 for any k, but 0 times a NaN or infinite v is NaN.
TEST(Attention, HiddenKeysHaveWeightZero) {
  Data q{f32, {1, 1, 1, 1}, {1}}, k{f32, {1, 1, 2, 1}, {1, NaN}}, v{f32, {1, 1, 2, 1}, {5, 7}};
  Data mask{i1, {1, 1, 1, 2}, {1, 0}}, wild{f32, {1, 1, 2, 1}, {5, NaN}};
  expectValues(attention(q, k, v, mask, 1, false), {5});
  expectValues(attention(q, k, v, absent(), 1, true), {5});
  expectValues(attention(q, k, v, absent(), 1, false), {NaN});
  expectValues(attention(q, k, wild, mask, 1, false), {NaN});
  expectValues(attention(q, k, wild, absent(), 1, true), {NaN});
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Data q{f32, {1, 1, 1, 1}, {1000}}, k{f32, {1, 1, 2, 1}, {1000, -1000}}, v{f32, {1, 1, 2, 1}, {5, 7}};
  expectValues(attention(q, k, v, absent(), 1, false), {5});
}

TEST(Attention, Refusals) {
  Data q = counting(f32, {1, 3, 2, 4}), k = counting(f32, {1, 2, 2, 4});
  EXPECT_NE(
      opError("attention", {q, k, k}, f32, {1, 3, 2, 4}, {real("scale", 1), flag("causal", false)}).find("multiple"),
      std::string::npos);
  Data three = counting(f32, {1, 3, 2, 4}), mask = counting(f32, {1, 1, 2, 3});
  EXPECT_NE(opError("attention", {q, three, three, mask}, f32, {1, 3, 2, 4}, {real("scale", 1), flag("causal", false)})
                .find("broadcast"),
            std::string::npos);
  EXPECT_NE(opError("attention", {q, three, three, counting(i32, {1, 1, 2, 2})}, f32, {1, 3, 2, 4},
                    {real("scale", 1), flag("causal", false)})
                .find("mask"),
            std::string::npos);
}

namespace {
std::vector<Data> forward(const Data &q, const Data &k, const Data &v, const Data &mask, double scale, bool causal) {
  const int32_t wide = q.dtype == f64 ? f64 : f32;
  return runOps("attention_forward", {q, k, v, mask},
                {{q.dtype, {q.dims[0], q.dims[1], q.dims[2], v.dims[3]}}, {wide, {q.dims[0], q.dims[1], q.dims[2]}}},
                {real("scale", scale), flag("causal", causal)});
}
std::vector<Data> gradients(const Data &q, const Data &k, const Data &v, const Data &gradient, const Data &mask,
                            double scale, bool causal) {
  const auto made = forward(q, k, v, mask, scale, causal);
  return runOps("attention_gradient", {q, k, v, made[0], made[1], gradient, mask},
                {{q.dtype, q.dims}, {k.dtype, k.dims}, {v.dtype, v.dims}},
                {real("scale", scale), flag("causal", causal)});
}
} // namespace

TEST(AttentionForward, GivesTheLogarithmsOfTheSums) {
  const Data q{f32, {1, 1, 2, 1}, {1, 2}}, k{f32, {1, 1, 2, 1}, {1, 3}}, v{f32, {1, 1, 2, 1}, {5, 7}};
  const auto all = forward(q, k, v, absent(), 0.5, false);
  expectNear(all[1], {std::log(std::exp(0.5) + std::exp(1.5)), std::log(std::exp(1.0) + std::exp(3.0))}, 1e-7);
  expectValues(all[0], attention(q, k, v, absent(), 0.5, false).values);
  expectNear(forward(q, k, v, absent(), 0.5, true)[1], {0.5, std::log(std::exp(1.0) + std::exp(3.0))}, 1e-7);
  // A query that sees nothing, or whose scores are all -inf, has 0; a NaN score gives NaN.
  expectValues(forward(q, k, v, {i1, {1, 1, 2, 2}, {0, 0, 0, 1}}, 0.5, false)[1], {0, 3});
  expectValues(forward(q, k, v, {f32, {1, 1, 1, 2}, {-inf, -inf}}, 0.5, false)[1], {0, 0});
  expectValues(forward(q, {f32, {1, 1, 2, 1}, {1, NaN}}, v, absent(), 0.5, false)[1], {NaN, NaN});
  // The scores may be large.
  expectValues(forward({f32, {1, 1, 1, 1}, {1000}}, {f32, {1, 1, 2, 1}, {1000, -1000}}, v, absent(), 1, false)[1],
               {1e6});
  const Data none{f32, {1, 1, 0, 1}, {}};
  expectValues(forward(q, none, none, absent(), 1, false)[1], {0, 0});
}

// Beside differences of attention itself, in f64.
TEST(AttentionGradient, IsTheGradient) {
  const Data q = noise(f64, {1, 4, 3, 2}, 1), k = noise(f64, {1, 2, 4, 2}, 2), v = noise(f64, {1, 2, 4, 3}, 3),
             gradient = noise(f64, {1, 4, 3, 3}, 4), added = noise(f64, {1, 1, 3, 4}, 5);
  const Data seen{i1, {1, 1, 3, 4}, {1, 0, 1, 1, 0, 0, 0, 0, 1, 1, 0, 1}};
  for (const Data &mask : {absent(), added, seen})
    for (const bool causal : {false, true}) {
      const auto loss = [&](const std::vector<Data> &operands) {
        const Data y = attention(operands[0], operands[1], operands[2], mask, 0.7, causal);
        return std::inner_product(y.values.begin(), y.values.end(), gradient.values.begin(), 0.0);
      };
      const auto found = gradients(q, k, v, gradient, mask, 0.7, causal);
      for (size_t operand = 0; operand < 3; ++operand) {
        std::vector<double> expected;
        std::vector<Data> operands = {q, k, v};
        for (double &number : operands[operand].values) {
          constexpr double step = 1e-5;
          number += step;
          const double above = loss(operands);
          number -= 2 * step;
          expected.push_back((above - loss(operands)) / (2 * step));
          number += step;
        }
        expectNear(found[operand], expected, 1e-8);
      }
    }
}

// 0 for a query that sees nothing, in each dtype as in f64, and by the formula for sums that are not attention's.
TEST(AttentionGradient, OfHostileOperands) {
  const Data q{f32, {1, 1, 2, 1}, {1, 2}}, k{f32, {1, 1, 2, 1}, {1, 3}}, v{f32, {1, 1, 2, 1}, {5, 7}},
      gradient{f32, {1, 1, 2, 1}, {1, 1}}, seen{i1, {1, 1, 2, 2}, {0, 0, 0, 1}};
  const auto blind = gradients(q, k, v, gradient, seen, 0.5, false);
  expectValues(blind[0], {0, 0});
  expectValues(blind[1], {0, 0});
  expectValues(blind[2], {0, 1});
  const auto run = [&](double sum, double of) {
    return runOps("attention_gradient",
                  {{f32, {1, 1, 1, 1}, {1}},
                   {f32, {1, 1, 1, 1}, {2}},
                   {f32, {1, 1, 1, 1}, {3}},
                   {f32, {1, 1, 1, 1}, {1}},
                   {f32, {1, 1, 1}, {sum}},
                   {f32, {1, 1, 1, 1}, {of}},
                   absent()},
                  {{f32, {1, 1, 1, 1}}, {f32, {1, 1, 1, 1}}, {f32, {1, 1, 1, 1}}},
                  {real("scale", 1), flag("causal", false)});
  };
  const auto twice = run(2, 1); // weight 1, change 1 * (3 - 1)
  expectValues(twice[0], {4});
  expectValues(twice[1], {2});
  expectValues(twice[2], {1});
  expectValues(run(-200, 1)[2], {inf});
  expectValues(run(200, 1)[2], {0});
  expectValues(run(NaN, 1)[2], {NaN});
  expectValues(run(2, inf)[0], {NaN}); // inf - inf
}

TEST(AttentionGradient, Refusals) {
  const Data x = counting(f32, {1, 2, 3, 4}), sums = counting(f32, {1, 2, 3}), other = counting(f32, {1, 2, 3, 5});
  const auto error = [&](const std::vector<Data> &operands) {
    OpRun run;
    const Result<void> result = run.run("attention_gradient", operands, {{f32, x.dims}, {f32, x.dims}, {f32, x.dims}},
                                        {real("scale", 1), flag("causal", false)});
    return result ? std::string() : result.error().message;
  };
  EXPECT_EQ(error({x, x, x, x, sums, x, absent()}), "");
  EXPECT_NE(error({x, x, x, x, sums, other, absent()}), "");
  EXPECT_NE(error({x, x, x, other, sums, x, absent()}), "");
  EXPECT_NE(error({x, x, x, x, x, x, absent()}), "");
  EXPECT_NE(error({x, x, x, x, {f64, {1, 2, 3}, sums.values}, x, absent()}), "");
  EXPECT_NE(error({x, x, x, x, sums, x, counting(f32, {1, 1, 3, 2})}).find("broadcast"), std::string::npos);
}

namespace {
Data ragged(const Data &q, const Data &k, const Data &v, const Data &qOffsets, const Data &kOffsets, bool causal) {
  return runOp("ragged_attention", {q, k, v, qOffsets, kOffsets}, q.dtype, {q.dims[0], q.dims[1], v.dims[2]},
               {real("scale", 0.5), flag("causal", causal)});
}
// Rows first .. last - 1 of [rows, heads, size] as [1, heads, rows, size].
Data sequence(const Data &packed, int64_t first, int64_t last) {
  Data result{packed.dtype, {1, packed.dims[1], last - first, packed.dims[2]}, {}};
  for (int64_t h = 0; h < packed.dims[1]; ++h)
    for (int64_t row = first; row < last; ++row)
      for (int64_t d = 0; d < packed.dims[2]; ++d)
        result.values.push_back(packed.values[static_cast<size_t>((row * packed.dims[1] + h) * packed.dims[2] + d)]);
  return result;
}
} // namespace

// Each sequence gives what `attention` gives for it alone. For `causal`, which counts from the end here, `attention`
// gets an explicit mask.
TEST(RaggedAttention, IsAttentionPerSequence) {
  Data q = noise(f32, {9, 4, 3}, 1), k = noise(f32, {12, 2, 3}, 2), v = noise(f32, {12, 2, 5}, 3);
  Dims qo{1, 4, 4, 6, 8}, ko{0, 5, 7, 7, 11};
  Data qOffsets = vector(i64, {1, 4, 4, 6, 8}), kOffsets = vector(i64, {0, 5, 7, 7, 11});
  for (bool causal : {false, true}) {
    Data all = ragged(q, k, v, qOffsets, kOffsets, causal);
    for (size_t n = 0; n < 4; ++n) {
      int64_t queries = qo[n + 1] - qo[n], keys = ko[n + 1] - ko[n];
      Data mask{i1, {1, 1, queries, keys}, {}};
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t j = 0; j < keys; ++j)
          mask.values.push_back(!causal || keys - j >= queries - i);
      if (queries == 0)
        continue;
      Data expected =
          runOp("attention",
                {sequence(q, qo[n], qo[n + 1]), sequence(k, ko[n], ko[n + 1]), sequence(v, ko[n], ko[n + 1]), mask},
                f32, {1, 4, queries, 5}, {real("scale", 0.5), flag("causal", false)});
      expectNear(sequence(all, qo[n], qo[n + 1]), expected.values, 1e-6);
    }
    for (int64_t row : {int64_t(0), int64_t(8)}) // padding
      expectValues(sequence(all, row, row + 1), std::vector<double>(20, 0.0));
  }
}

// Offsets may hold any numbers.
TEST(RaggedAttention, NoHeads) {
  const Data none{f32, {4, 0, 2}, {}}, offsets{i64, {2}, {0, 4}};
  expectValues(ragged(none, none, none, offsets, offsets, false), {});
}

TEST(RaggedAttention, HostileOffsets) {
  Data q = noise(f32, {4, 1, 2}), v = noise(f32, {4, 1, 2}, 2);
  for (const std::vector<double> &offsets :
       {std::vector<double>{5, 3, -1}, {0, 0, 0}, {-1e15, 1e15, 2}, {1e15, 1e15, 1e15}, {-3, -2, -1}}) {
    Data result = ragged(q, q, v, vector(i64, offsets), vector(i64, offsets), true);
    for (double value : result.values)
      EXPECT_TRUE(std::isfinite(value));
  }
  EXPECT_NE(opError("ragged_attention", {q, q, v, vector(i64, {0}), vector(i32, {0})}, f32, {4, 1, 2},
                    {real("scale", 1), flag("causal", false)}),
            "");
  EXPECT_NE(opError("ragged_attention", {q, q, v, {i64, {0}, {}}, {i64, {0}, {}}}, f32, {4, 1, 2},
                    {real("scale", 1), flag("causal", false)})
                .find("at least one"),
            std::string::npos);
}

TEST(Rope, TurnsPairs) {
  Data x{f32, {1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, cos = noise(f32, {1, 2, 4}, 1), sin = noise(f32, {1, 1, 4}, 2);
  std::vector<double> halves, pairs;
  for (size_t s = 0; s < 2; ++s)
    for (size_t d = 0; d < 4; ++d) {
      const double *row = &x.values[s * 4];
      double half = d < 2 ? -row[d + 2] : row[d - 2], pair = d % 2 ? row[d - 1] : -row[d + 1];
      halves.push_back(row[d] * cos.values[s * 4 + d] + half * sin.values[d]);
      pairs.push_back(row[d] * cos.values[s * 4 + d] + pair * sin.values[d]);
    }
  expectNear(runOp("rope", {x, cos, sin}, f32, {1, 2, 4}, {flag("interleaved", false)}), halves, 1e-6);
  expectNear(runOp("rope", {x, cos, sin}, f32, {1, 2, 4}, {flag("interleaved", true)}), pairs, 1e-6);
  EXPECT_NE(opError("rope", {noise(f32, {3}), noise(f32, {3}), noise(f32, {3})}, f32, {3}, {flag("interleaved", true)})
                .find("even"),
            std::string::npos);
}
