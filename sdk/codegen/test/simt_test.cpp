// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules of GPUs that small graphs do not get: rows in registers, rows in loops, long reductions shared by blocks.
#include "families.hpp"
#include "oracle.hpp"

#include "schedule/simt.hpp"

#include <set>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

// The kernels that the only group of the graph becomes.
size_t kernelCount(const MortiseGraph &graph) {
  const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  const auto functions = Emulator::shared().compile(graph, parts->groups);
  return functions && functions->size() == 1 ? functions->at(0).kernels.size() : 0;
}

// Sums of columns weighted by another tensor.
void weightedColumns(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  V x = b.input(dtype, {rows, length}), weights = b.input(dtype, {rows, length});
  V product = b.op("mul", {x, weights}, dtype, {rows, length});
  b.output(b.op("reduce_sum", {product}, dtype, {length}, {{"axes", Dims{0}}}));
}
// All rows have the weights in common.
void weightedSoftmax(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  const Dims dims{rows, length};
  V x = b.input(dtype, dims), weights = b.input(dtype, {length});
  V wide = b.op("broadcast", {weights}, dtype, dims, {{"shape", dims}, {"axes", Dims{1}}});
  b.output(b.op("softmax", {b.op("mul", {x, wide}, dtype, dims)}, dtype, dims, {{"axis", 1}}));
}
// Two tensors of which each pass reads both.
void sumOfTwo(TestGraph &b, int32_t dtype, int64_t rows, int64_t length) {
  const Dims dims{rows, length};
  V x = b.input(dtype, dims), y = b.input(dtype, dims);
  b.output(b.op("softmax", {b.op("add", {x, y}, dtype, dims)}, dtype, dims, {{"axis", 1}}));
}

// A reduction of which several blocks have parts, and a second kernel combines those.
void checkParts(const char *op, int32_t dtype, const Dims &dims, int64_t axis) {
  TestGraph b;
  V x = b.input(dtype, dims);
  Dims kept = dims;
  kept.erase(kept.begin() + axis);
  b.output(std::string_view(op) == "argmax" ? b.op(op, {x}, MORTISE_I64, kept, {{"axis", axis}})
                                            : b.op(op, {x}, dtype, kept, {{"axes", Dims{axis}}}));
  const std::string what = std::string(op) + " " + dtypeName(dtype) + " " + std::to_string(dims[0]) + " ";
  EXPECT_EQ(kernelCount(b.view()), 2U) << what;
  Oracle oracle(b);
  oracle.fill(x, Fill::Plain);
  oracle.check(std::string_view(op) == "reduce_sum" ? roundings : equal, what);
}

TEST(Simt, LongReductionsAreSharedByBlocks) {
  for (const char *op : {"reduce_sum", "reduce_max", "argmax"})
    for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_BF16, MORTISE_I64, MORTISE_I8, MORTISE_I1}) {
      if (dtype == MORTISE_I1 && std::string_view(op) != "reduce_max")
        continue;
      for (const auto &[dims, axis] :
           {std::pair(Dims{6000, 24}, 0), {Dims{6001, 3}, 0}, {Dims{2, 400000}, 1}, {Dims{200001}, 0}}) {
        checkParts(op, dtype, dims, axis);
        if (HasFatalFailure())
          return;
      }
    }
}

// As an H200 is. The emulated GPU has so few threads that small tensors get these schedules.
SimtTarget largeGpu() {
  SimtTarget target;
  target.sharedBytes = 227 << 10;
  return target;
}

SimtSchedule scheduleOf(void (*family)(TestGraph &, int32_t, int64_t, int64_t), int32_t dtype, int64_t rows,
                        int64_t length, const SimtTarget &target = largeGpu()) {
  TestGraph b;
  family(b, dtype, rows, length);
  const MortiseGraph &graph = b.view();
  const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  const auto plan = LoopPlan::make(std::move(*buildDag(graph, parts->groups.at(0))), simtFuseTarget());
  return scheduleSimt(**plan, target);
}

// 128 bytes of each thread are under way, and the blocks of all parts fill the device: 132 multiprocessors with four
// blocks each.
TEST(Simt, ColumnsAreReadBySixteenBytesWithManyLoadsInFlight) {
  for (const auto &[rows, length] :
       {std::pair<int64_t, int64_t>(65536, 4096), {262144, 1024}, {30000, 5000}, {4096, 65536}})
    for (const auto &[dtype, lanes] : {std::pair(MORTISE_BF16, 8U), {MORTISE_F16, 8U}, {MORTISE_F32, 4U}}) {
      const SimtSchedule schedule = scheduleOf(columns, dtype, rows, length);
      const std::string what = dtypeName(dtype) + (" " + std::to_string(rows)) + "x" + std::to_string(length);
      EXPECT_EQ(schedule.lanes, lanes) << what;
      EXPECT_EQ(schedule.unroll, 8U) << what;
      EXPECT_EQ(schedule.resident * schedule.threads(), 1024U) << what;
      const double rounds = static_cast<double>(*schedule.blocks().number() * schedule.parts) / 528;
      EXPECT_GT(rounds / std::ceil(rounds), 0.95) << what << " in " << schedule.parts << " parts";
    }
  EXPECT_EQ(scheduleOf(columns, MORTISE_BF16, 65536, 4096).parts, 66U); // 16 rounds of eight rows: nothing is folded
  EXPECT_EQ(scheduleOf(columns, MORTISE_BF16, 262144, 1024).parts, 262U);
  // Odd lengths have narrow loads, and few columns a subgroup side by side.
  EXPECT_EQ(scheduleOf(columns, MORTISE_BF16, 65536, 4095).unroll, 8U);
  EXPECT_EQ(scheduleOf(columns, MORTISE_BF16, 4000000, 128).lanes, 4U);
  // A second stream takes half of the loads; few rows have no more of them than a thread has steps.
  EXPECT_EQ(scheduleOf(weightedColumns, MORTISE_BF16, 65536, 4096).unroll, 4U);
  EXPECT_LE(scheduleOf(columns, MORTISE_BF16, 16, 262144).unroll, 4U);
}

// A number of parts that threads of the second kernel do not share evenly.
TEST(Simt, AnyNumberOfPartsIsCombined) {
  for (const int64_t rows : {3000, 5001})
    for (const char *op : {"reduce_sum", "reduce_max", "argmax", "argmin"})
      for (const Fill fill : {Fill::Plain, Fill::Hostile}) {
        TestGraph b;
        const int64_t length = 328; // 41 vectors
        V x = b.input(MORTISE_BF16, {rows, length});
        const bool isArg = op[0] == 'a';
        b.output(isArg ? b.op(op, {x}, MORTISE_I64, {length}, {{"axis", 0}})
                       : b.op(op, {x}, MORTISE_BF16, {length}, {{"axes", Dims{0}}}));
        Oracle oracle(b);
        oracle.fill(x, fill);
        oracle.check(std::string_view(op) == "reduce_sum" ? roundings : equal, op + (" " + std::to_string(rows)));
        if (HasFatalFailure())
          return;
      }
}

// Whole vectors of columns in parts, with steps that no unrolled loop divides.
TEST(Simt, WideColumnsAreSharedByBlocks) {
  for (const char *op : {"reduce_sum", "reduce_max", "argmax"})
    for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_BF16, MORTISE_I8}) {
      for (const Dims &dims : {Dims{1000, 256}, {2057, 248}, {2, 700, 128}}) {
        checkParts(op, dtype, dims, static_cast<int64_t>(dims.size()) - 2);
        if (HasFatalFailure())
          return;
      }
    }
}

// Additions of terms with deviation s, in pairs, have an error of w s sqrt(n log2 n / 6), where w is half a unit in the
// last place: each rounds a sum of m terms, and is off by w s sqrt(m / 6) then.
TEST(Simt, SumsOfManyTermsKeepTheirDigits) {
  const int64_t rows = 16384, length = 256;
  TestGraph b;
  V x = b.input(MORTISE_F32, {rows, length});
  V sum = b.op("reduce_sum", {x}, MORTISE_F32, {length}, {{"axes", Dims{0}}});
  b.output(sum);
  Oracle oracle(b);
  oracle.fill(x, Fill::Plain);
  oracle.checkSimt(roundings);
  double squares = 0;
  for (int64_t i = 0; i < length; ++i) {
    const double off =
        element(oracle.memory.at(sum->index), MORTISE_F32, i) - element(oracle.expected.at(sum->index), MORTISE_F32, i);
    squares += off * off;
  }
  const double pairs = 0x1p-24 * 3 * std::sqrt(rows * std::log2(rows) / 6);
  EXPECT_LT(std::sqrt(squares / length), 1.4 * pairs);
}

// All threads of a subgroup store a row's result, each in its own order of exchanges, which the emulator draws.
TEST(Simt, NanOfManyKindsGiveTheSameBitsEachTime) {
  for (const char *op : {"reduce_min", "reduce_max", "reduce_sum", "reduce_prod"}) {
    const int64_t length = 3000;
    TestGraph b;
    V x = b.input(MORTISE_F32, {length});
    V result = b.op(op, {x}, MORTISE_F32, {}, {{"axes", Dims{0}}});
    b.output(result);
    const MortiseGraph &graph = b.view();
    const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    const auto functions = Emulator::shared().compile(graph, parts->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    Memory memory(graph);
    auto *bits = reinterpret_cast<uint32_t *>(memory.at(x->index));
    for (uint32_t i = 0; i < length; ++i)
      bits[i] = (i % 2 ? 0xffc00000U : 0x7fc00000U) + i; // quiet ones, of both signs
    std::set<uint32_t> seen;
    for (int round = 0; round < 12; ++round) {
      runGroup(parts->groups[0], functions->at(0), memory);
      seen.insert(*reinterpret_cast<const uint32_t *>(memory.at(result->index)));
    }
    EXPECT_EQ(seen.size(), 1U) << op;
    EXPECT_GT(*seen.begin() & 0x7fffffffU, 0x7f800000U) << op;
  }
}

TEST(Simt, SharedReductionsStoreWhatFollows) {
  TestGraph b; // mean and a function of it, beside a sum
  V x = b.input(MORTISE_F32, {9000, 12});
  V sum = b.op("reduce_sum", {x}, MORTISE_F32, {12}, {{"axes", Dims{0}}});
  V top = b.op("reduce_max", {x}, MORTISE_F32, {12}, {{"axes", Dims{0}}});
  b.output(b.op("exp", {b.op("neg", {top}, MORTISE_F32, {12})}, MORTISE_F32, {12}));
  b.output(sum);
  Oracle oracle(b);
  oracle.fill(x, Fill::Plain);
  oracle.check(roundings);
}

// The innermost loop has fewer steps than a team has threads, which take the channels by turns then.
TEST(Simt, RowsOfShortRows) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_BF16})
    for (const auto &[channels, inner] :
         {std::pair<int64_t, int64_t>(66, 3), {700, 3}, {1502, 3}, {514, 8}, {130, 24}}) {
      TestGraph b;
      const Dims dims{2, channels, inner};
      V x = b.input(dtype, dims), scale = b.input(dtype, {channels}), bias = b.input(dtype, {channels});
      b.output(b.op("group_norm", {x, scale, bias}, dtype, dims, {{"groups", 2}, {"epsilon", 1e-5}}));
      Oracle oracle(b);
      for (const V value : {x, scale, bias})
        oracle.fill(value, Fill::Plain);
      oracle.check(roundings, dtypeName(dtype) + (" " + std::to_string(channels)) + " " + std::to_string(inner));
      if (HasFatalFailure())
        return;
    }
}

// As AMD's CDNA has them: what a team of more than 32 threads combines without the block's memory, and columns of 64.
TEST(Simt, SubgroupsOf64) {
  const Emulator::Subgroups wide(64);
  for (const int64_t length : {1, 37, 64, 200, 1000, 4096, 20000})
    for (const char *op : {"softmax", "cumsum", "reduce_sum", "argmax"}) {
      TestGraph b;
      V x = b.input(MORTISE_F32, {5, length});
      const bool reduces = op[0] == 'r' || op[0] == 'a';
      if (op[0] == 'r')
        b.output(b.op("reduce_sum", {x}, MORTISE_F32, {length}, {{"axes", Dims{0}}}));
      b.output(op[0] == 'r'   ? b.op(op, {x}, MORTISE_F32, {5}, {{"axes", Dims{1}}})
               : op[0] == 'a' ? b.op(op, {x}, MORTISE_I64, {5}, {{"axis", 1}})
                              : b.op(op, {x}, MORTISE_F32, {5, length}, {{"axis", 1}}));
      Oracle oracle(b);
      oracle.fill(x, Fill::Plain);
      oracle.check(reduces && op[0] == 'a' ? equal : roundings, op + (" " + std::to_string(length)));
      if (HasFatalFailure())
        return;
    }
}

// Rows that begin anywhere between aligned vectors.
TEST(Simt, OddRowsAreReadBySixteenBytes) {
  for (const auto &[family, length, lanes] : {std::tuple(&softmax, 4097, 8U),
                                              {&pointwise, 4095, 8U},
                                              {&norm, 1001, 8U},
                                              {&largest, 2051, 8U},
                                              {&norm, 4098, 8U},
                                              {&softmax, 100, 4U},
                                              {&softmax, 101, 1U},
                                              {&softmax, 1004, 4U}}) {
    const SimtSchedule schedule = scheduleOf(family, MORTISE_BF16, 65536, length);
    EXPECT_EQ(schedule.lanes, lanes) << length;
    EXPECT_EQ(schedule.peeled.has_value(), lanes == 8) << length;
  }
  EXPECT_FALSE(scheduleOf(pointwise, MORTISE_BF16, 2, 1000003).peeled) << "two blocks for a large tensor";
  for (const int32_t dtype : {MORTISE_BF16, MORTISE_F16, MORTISE_F32, MORTISE_I8})
    for (const int64_t length : {257, 258, 1023, 2051})
      for (const auto family : {softmax, pointwise, norm, largest}) {
        if (dtype == MORTISE_I8 && family != largest)
          continue;
        TestGraph b;
        family(b, dtype, 19, length);
        Oracle oracle(b);
        for (size_t i = 0; i < oracle.graph.input_count; ++i)
          oracle.fill(oracle.graph.inputs[i], length == 1023 ? Fill::Hostile : Fill::Plain);
        oracle.check(family == largest ? equal : roundings,
                     std::string(dtypeName(dtype)) + " " + std::to_string(length));
        if (HasFatalFailure())
          return;
      }
}

// One long row is shared by blocks, the first of which has its edge.
TEST(Simt, OddRowsAreSharedByBlocks) {
  for (const int64_t rows : {1, 2})
    for (const char *op : {"reduce_sum", "reduce_max"}) {
      TestGraph b;
      V x = b.input(MORTISE_F32, {rows, 300007});
      b.output(b.op(op, {x}, MORTISE_F32, {rows}, {{"axes", Dims{1}}}));
      EXPECT_EQ(kernelCount(b.view()), 2U);
      Oracle oracle(b);
      oracle.fill(x, Fill::Small);
      oracle.check(equal, op);
    }
}

// What registers do not hold of a row lies in the block's memory, with the values that would be computed again; two
// blocks have to fit a multiprocessor before one of them has more than it needs. Where it is too small, rows come
// again.
TEST(Simt, LongRowsAreKeptWhereTheyFit) {
  const SimtTarget large = largeGpu(), old = *SimtTarget::cuda(7, 5, 1), amd = *SimtTarget::rocm("gfx942", 1);
  const SimtTarget least;
  struct Case {
    const SimtTarget &target;
    int32_t dtype;
    int64_t length;
    unsigned copies;
    bool isLooped, keepsRow, keepsValues;
    unsigned resident;
  };
  for (const auto &[target, dtype, length, copies, isLooped, keepsRow, keepsValues, resident] :
       {Case{large, MORTISE_BF16, 4096, 4, false, false, false, 0},
        {large, MORTISE_BF16, 16384, 4, false, false, false, 0},
        {large, MORTISE_BF16, 16392, 4, true, true, true, 2},
        {large, MORTISE_BF16, 33001, 4, true, true, true, 2},
        {large, MORTISE_BF16, 65536, 4, true, true, false, 2},
        {large, MORTISE_BF16, 131072, 4, true, true, false, 0},
        {large, MORTISE_BF16, 140000, 3, true, false, false, 0},
        {large, MORTISE_F32, 32768, 8, true, true, false, 2},
        {large, MORTISE_F32, 57344, 8, true, true, false, 0},
        {large, MORTISE_F32, 80000, 6, true, false, false, 0},
        {old, MORTISE_BF16, 30000, 4, true, true, false, 2},
        {amd, MORTISE_BF16, 30000, 4, true, true, false, 2},
        {amd, MORTISE_BF16, 65536, 3, true, false, false, 0},
        {least, MORTISE_BF16, 32768, 3, true, false, false, 0}}) {
    const SimtSchedule schedule = scheduleOf(softmax, dtype, 8192, length, target);
    const std::string what = dtypeName(dtype) + (" " + std::to_string(length));
    EXPECT_EQ(schedule.copies, copies) << what;
    EXPECT_EQ(schedule.isLooped, isLooped) << what;
    EXPECT_EQ(schedule.keepsRow, keepsRow) << what;
    EXPECT_EQ(schedule.keepsValues, keepsValues) << what;
    EXPECT_EQ(schedule.resident, resident) << what;
  }
  // One pass reads nothing twice; what all rows have in common is not kept with each.
  EXPECT_FALSE(scheduleOf(largest, MORTISE_BF16, 8192, 32768).keepsRow);
  EXPECT_TRUE(scheduleOf(weightedSoftmax, MORTISE_BF16, 8192, 120000).keepsRow);
  EXPECT_FALSE(scheduleOf(sumOfTwo, MORTISE_BF16, 8192, 120000).keepsRow);
}

TEST(Simt, LongRows) {
  for (const auto family : {softmax, norm, weightedSoftmax, sumOfTwo})
    for (const int32_t dtype : {MORTISE_BF16, MORTISE_F32})
      for (const int64_t length : {16392, 33001, 60000, 180000}) {
        if (length == 180000 && family != softmax)
          continue;
        TestGraph b;
        family(b, dtype, 3, length);
        Oracle oracle(b);
        for (size_t i = 0; i < oracle.graph.input_count; ++i)
          oracle.fill(oracle.graph.inputs[i], length == 33001 ? Fill::Hostile : Fill::Plain);
        oracle.check(roundings, dtypeName(dtype) + (" " + std::to_string(length)));
        if (HasFatalFailure())
          return;
      }
}

// Three to six vectors a thread, so that few threads have none in the last round.
TEST(Simt, RowsOfAnyLengthLeaveFewThreadsIdle) {
  for (const auto &[length, team, copies] : {std::tuple(3000, 64U, 6U),
                                             {4096, 128U, 4U},
                                             {5120, 128U, 5U},
                                             {10000, 256U, 5U},
                                             {1536, 32U, 6U},
                                             {1000, 32U, 4U},
                                             {12288, 256U, 6U},
                                             {16384, 512U, 4U}}) {
    const SimtSchedule schedule = scheduleOf(softmax, MORTISE_BF16, 65536, length);
    EXPECT_EQ(schedule.team, team) << length;
    EXPECT_EQ(schedule.copies, copies) << length;
    EXPECT_FALSE(schedule.isLooped) << length;
    EXPECT_EQ(schedule.teams == 1, team >= 64) << length; // with a block for itself, whose barriers hold up no other
  }
  for (const auto family : {softmax, norm, largest})
    for (const int64_t length : {3000, 5120, 5003, 10000, 1536}) {
      TestGraph b;
      family(b, MORTISE_BF16, 5, length);
      Oracle oracle(b);
      for (size_t i = 0; i < oracle.graph.input_count; ++i)
        oracle.fill(oracle.graph.inputs[i], length == 5120 ? Fill::Hostile : Fill::Plain);
      oracle.check(family == largest ? equal : roundings, std::to_string(length));
      if (HasFatalFailure())
        return;
    }
}

// Rows for all threads: few of a subgroup share one.
TEST(Simt, ManyShortRows) {
  EXPECT_EQ(scheduleOf(softmax, MORTISE_BF16, 524288, 256).team, 8U);
  EXPECT_EQ(scheduleOf(softmax, MORTISE_BF16, 64, 256).team, 32U);
  for (const int64_t length : {8, 64, 200, 256, 264, 513, 1000}) {
    TestGraph b;
    softmax(b, MORTISE_BF16, 131, length);
    Oracle oracle(b);
    oracle.fill(oracle.graph.inputs[0], Fill::Plain);
    oracle.check(roundings, std::to_string(length));
    if (HasFatalFailure())
      return;
  }
}

TEST(Simt, RowsOfAllLengths) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16})
    for (const int64_t length : {8, 40, 64, 257, 1000, 1024, 3000, 4096, 4097, 20000, 40000}) {
      TestGraph b;
      V x = b.input(dtype, {5, length});
      b.output(b.op("softmax", {x}, dtype, {5, length}, {{"axis", 1}}));
      EXPECT_EQ(kernelCount(b.view()), 1U) << length;
      Oracle oracle(b);
      oracle.fill(x, Fill::Plain);
      oracle.check(roundings, dtypeName(dtype) + std::string(" ") + std::to_string(length));
      if (HasFatalFailure())
        return;
    }
}

} // namespace
