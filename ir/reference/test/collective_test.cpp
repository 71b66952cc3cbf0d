// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run_op.hpp"

namespace mortise::test {
namespace {

// Runs one collective on all ranks: the results by rank, or the error's text.
struct Ranks {
  std::vector<std::vector<double>> values;
  std::string error;
};
Ranks runRanks(const std::string &op, const std::vector<Data> &xs, Dims dims, std::vector<Attribute> attributes,
               int32_t dtype = 0) {
  ViewBuilder builder;
  std::vector<const MortiseValue *> operands;
  if (!xs[0].dims.empty() || op != "rank")
    operands.push_back(builder.input(xs[0].dtype, xs[0].dims));
  dtype = dtype ? dtype : xs[0].dtype;
  builder.output(builder.op(op, operands, dtype, dims, std::move(attributes)));
  std::vector<std::vector<uint8_t>> in, out;
  std::vector<std::vector<const void *>> inputs;
  std::vector<std::vector<void *>> outputs;
  for (const Data &x : xs) {
    in.push_back(encode(x));
    out.emplace_back(byteSize(*builder.view().outputs[0]->type) + 8);
  }
  for (size_t r = 0; r < xs.size(); ++r) {
    inputs.emplace_back(operands.size(), in[r].data());
    outputs.push_back({out[r].data()});
  }
  Result<void> done = reference::interpretRanks(builder.view(), inputs, outputs);
  if (!done)
    return {{}, done.error().message};
  Ranks result;
  for (auto &bytes : out)
    result.values.push_back(decode(dtype, bytes, static_cast<size_t>(elementCount(*builder.view().outputs[0]->type))));
  return result;
}
using Values = std::vector<std::vector<double>>;
std::vector<Attribute> grouped(std::vector<int64_t> groups, int64_t size, std::vector<Attribute> rest = {}) {
  rest.push_back(integers("groups", std::move(groups)));
  rest.push_back(integer("group_size", size));
  return rest;
}

TEST(Collective, AllReduce) {
  std::vector<Data> xs{vector(f32, {1, -0.0}), vector(f32, {2, 0.0}), vector(f32, {4, NaN}), vector(f32, {8, 1})};
  Ranks found = runRanks("all_reduce", xs, {2}, grouped({0, 2, 1, 3}, 2, {string("reduction", "sum")}));
  for (size_t r : {0, 2}) {
    EXPECT_EQ(found.values[r][0], 5);
    EXPECT_TRUE(std::isnan(found.values[r][1]));
  }
  EXPECT_EQ(found.values[1], std::vector<double>({10, 1}));
  EXPECT_EQ(found.values[3], std::vector<double>({10, 1}));
  found = runRanks("all_reduce", xs, {2}, grouped({0, 1, 2, 3}, 2, {string("reduction", "max")}));
  EXPECT_EQ(found.values[0], std::vector<double>({2, 0}));
  EXPECT_FALSE(std::signbit(found.values[0][1])); // +0 is above -0
  std::vector<Data> bytes{vector(i8, {100}), vector(i8, {100})};
  EXPECT_EQ(runRanks("all_reduce", bytes, {1}, grouped({0, 1}, 2, {string("reduction", "sum")})).values,
            Values({{-56}, {-56}}));
  EXPECT_EQ(runRanks("all_reduce", bytes, {1}, grouped({0, 1}, 2, {string("reduction", "prod")})).values,
            Values({{16}, {16}}));
}

// All members sum in the group's order, so all round alike. 2^24 + 1 + 1 is exact in f64.
TEST(Collective, SumsAccumulateWide) {
  std::vector<Data> xs{vector(f32, {16777216}), vector(f32, {1}), vector(f32, {1})};
  Ranks found = runRanks("all_reduce", xs, {1}, grouped({0, 1, 2}, 3, {string("reduction", "sum")}));
  EXPECT_EQ(found.values, Values({{16777218}, {16777218}, {16777218}}));
}

TEST(Collective, AllGatherAndReduceScatterAndAllToAll) {
  std::vector<Data> xs;
  for (int r = 0; r < 4; ++r)
    xs.push_back(counting(i32, {2, 2}, 10 * r));
  Ranks found = runRanks("all_gather", xs, {2, 4}, grouped({0, 1, 3, 2}, 2, {integer("axis", 1)}));
  EXPECT_EQ(found.values[0], std::vector<double>({0, 1, 10, 11, 2, 3, 12, 13}));
  EXPECT_EQ(found.values[1], found.values[0]);
  EXPECT_EQ(found.values[2], std::vector<double>({30, 31, 20, 21, 32, 33, 22, 23})); // the group's order
  found = runRanks("reduce_scatter", xs, {1, 2},
                   grouped({0, 1, 2, 3}, 2, {integer("axis", 0), string("reduction", "sum")}));
  EXPECT_EQ(found.values, Values({{10, 12}, {14, 16}, {50, 52}, {54, 56}}));
  found = runRanks("all_to_all", xs, {1, 4},
                   grouped({0, 1, 2, 3}, 2, {integer("split_axis", 0), integer("concat_axis", 1)}));
  EXPECT_EQ(found.values, Values({{0, 1, 10, 11}, {2, 3, 12, 13}, {20, 21, 30, 31}, {22, 23, 32, 33}}));
}

TEST(Collective, BroadcastPermuteAndRank) {
  std::vector<Data> xs{vector(i4, {1, -1, 2}), vector(i4, {3, 4, 5}), vector(i4, {6, 7, -8})};
  EXPECT_EQ(runRanks("collective_broadcast", xs, {3}, grouped({1, 0, 2}, 3)).values,
            Values({{3, 4, 5}, {3, 4, 5}, {3, 4, 5}}));
  EXPECT_EQ(runRanks("collective_permute", xs, {3}, {integers("pairs", {0, 2, 2, 0}), integer("rank_count", 3)}).values,
            Values({{6, 7, -8}, {0, 0, 0}, {1, -1, 2}}));
  EXPECT_EQ(runRanks("rank", {scalar(i64, 0), scalar(i64, 0)}, {}, {integer("rank_count", 2)}, i64).values,
            Values({{0}, {1}}));
}

TEST(Collective, OneRankAloneAndRefusals) {
  Data x = vector(f32, {1, 2});
  expectValues(runOp("all_reduce", {x}, f32, {2}, grouped({0}, 1, {string("reduction", "sum")})), {1, 2});
  std::string error = opError("all_reduce", {x}, f32, {2}, grouped({0, 1}, 2, {string("reduction", "sum")}));
  EXPECT_NE(error.find("is for 2 ranks, and one is running; interpretRanks runs several"), std::string::npos) << error;
  EXPECT_NE(runRanks("all_reduce", {x, x, x}, {2}, grouped({0, 1}, 2, {string("reduction", "sum")}))
                .error.find("is for 2 ranks, and 3 are running"),
            std::string::npos);
  EXPECT_NE(opError("all_reduce", {x}, f32, {2}, grouped({0, 0}, 1, {string("reduction", "sum")})).find("once"),
            std::string::npos);
  EXPECT_NE(
      opError("reduce_scatter", {x}, f32, {2}, grouped({0, 1, 2}, 3, {integer("axis", 0), string("reduction", "sum")}))
          .find("divides"),
      std::string::npos);
}

} // namespace
} // namespace mortise::test
