// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sort and top_k by kernels of GPUs, against the reference interpreter: rows of one chunk, and runs that are merged.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

struct Sorted {
  V values, positions;
};

Sorted sort(TestGraph &b, V x, int64_t axis, bool descending) {
  const MortiseType &type = *x->type;
  V values = b.op("sort", {x}, type.dtype, Dims(type.dims, type.dims + type.rank),
                  {{"axis", axis}, {"descending", descending}, {"stable", true}});
  return {values, b.positions()};
}

Sorted topK(TestGraph &b, V x, int64_t axis, int64_t k, bool largest) {
  const MortiseType &type = *x->type;
  Dims dims(type.dims, type.dims + type.rank);
  dims[static_cast<size_t>(axis)] = k;
  V values = b.op("top_k", {x}, type.dtype, dims, {{"axis", axis}, {"k", k}, {"largest", largest}, {"sorted", true}});
  return {values, b.positions()};
}

void checkBoth(TestGraph &b, V x, const Sorted &sorted, Fill how, const std::string &what) {
  b.output(sorted.values), b.output(sorted.positions);
  Oracle oracle(b);
  oracle.fill(x, how);
  oracle.checkSimt(equal, what);
}

std::vector<int32_t> dtypes() {
  std::vector<int32_t> all;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype)
    if (dtypeBits(dtype) >= (isFloat(dtype) ? 16U : 8U))
      all.push_back(dtype);
  return all;
}

TEST(Sort, AlongEachAxisOfEachType) {
  for (const int32_t dtype : dtypes())
    for (const Dims &dims : {Dims{1}, Dims{5}, Dims{3, 200}, Dims{2, 9, 4}, Dims{4, 1, 3}})
      for (int64_t axis = 0; axis < static_cast<int64_t>(dims.size()); ++axis)
        for (const bool descending : {false, true})
          for (const Fill how : {Fill::Small, Fill::Hostile}) {
            TestGraph b;
            V x = b.input(dtype, dims);
            checkBoth(b, x, sort(b, x, axis, descending), how, dtypeName(dtype));
            if (testing::Test::HasFatalFailure())
              return;
          }
}

// Of one, two and three merges, with last runs of one element.
TEST(Sort, RowsOfManyChunks) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_I64, MORTISE_BF16})
    for (const auto &[dims, axis] : {std::pair{Dims{1024}, 0},
                                     {Dims{2, 1025}, 1},
                                     {Dims{4096}, 0},
                                     {Dims{4097, 2}, 0},
                                     {Dims{3, 5000}, 1},
                                     {Dims{70001}, 0}})
      for (const Fill how : {Fill::Small, Fill::Hostile}) {
        TestGraph b;
        V x = b.input(dtype, dims);
        checkBoth(b, x, sort(b, x, axis, how == Fill::Small), how, dtypeName(dtype));
        if (testing::Test::HasFatalFailure())
          return;
      }
}

TEST(Sort, TheFirstOnesOfARow) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_I64, MORTISE_UI8})
    for (const auto &[dims, k] : {std::pair{Dims{3, 8}, 2},
                                  {Dims{2, 50}, 50},
                                  {Dims{5, 50}, 0},
                                  {Dims{2, 30000}, 1},
                                  {Dims{2, 5000}, 40},
                                  {Dims{1, 5000}, 1500},
                                  {Dims{1, 5000}, 5000}})
      for (const bool largest : {false, true}) {
        TestGraph b;
        V x = b.input(dtype, dims);
        checkBoth(b, x, topK(b, x, 1, k, largest), Fill::Hostile, dtypeName(dtype));
        if (testing::Test::HasFatalFailure())
          return;
      }
}

TEST(Sort, NothingToSort) {
  for (const Dims &dims : {Dims{0}, Dims{0, 4}, Dims{4, 0}}) {
    TestGraph b;
    V x = b.input(MORTISE_F32, dims);
    checkBoth(b, x, sort(b, x, static_cast<int64_t>(dims.size()) - 1, false), Fill::Plain, "empty");
  }
}

// Views in front are read in place, what is computed in front and behind has groups of its own, and a result may have
// no reader.
TEST(Sort, AmongOtherNodes) {
  for (const int64_t length : {60, 3000}) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {length, 6});
    V turned = b.op("transpose", {x}, MORTISE_F32, {6, length}, {{"permutation", Dims{1, 0}}});
    V part = b.op("slice", {turned}, MORTISE_F32, {3, length},
                  {{"starts", Dims{1, 0}}, {"limits", Dims{6, length}}, {"strides", Dims{2, 1}}});
    const Sorted first = sort(b, part, 1, true);
    b.output(b.op("neg", {first.values}, MORTISE_F32, {3, length}));
    b.output(b.op("take_along", {part, first.positions}, MORTISE_F32, {3, length}, {{"axis", 1}}));
    V sum = b.op("add", {part, part}, MORTISE_F32, {3, length});
    b.output(sort(b, sum, 0, false).positions);
    Oracle oracle(b);
    oracle.fill(x, Fill::Plain);
    oracle.checkSimt(equal, "among others");
    EXPECT_EQ(std::ranges::count(oracle.groups, GroupKind::Sort, &Group::kind), 2);
    const auto sorted = std::ranges::find(oracle.groups, GroupKind::Sort, &Group::kind);
    EXPECT_EQ(sorted->inputs, std::vector<uint32_t>{x->index}); // the views are read in place
  }
}

// One function for all lengths: whether a kernel has something to merge is found out at each launch.
TEST(Sort, RowsOfAnyLength) {
  const auto build = [](TestGraph &b, const Dim &rows, const Dim &length) {
    V x = b.symbolicInput(MORTISE_F32, {rows, length});
    V values =
        b.symbolicOp("sort", {x}, MORTISE_F32, {rows, length}, {{"axis", 1}, {"descending", false}, {"stable", true}});
    b.output(values), b.output(b.positions());
    return x;
  };
  TestGraph symbolic;
  const Dim rows = symbolic.symbol("r", 1), length = symbolic.symbol("n", 1);
  build(symbolic, rows, length);
  const MortiseGraph &graph = symbolic.view();
  const std::vector<Group> groups = groupsOf(graph);
  const std::vector<EmulatedFunction> kernels = kernelsOf(graph, groups);
  for (const auto &[count, extent] : {std::pair{3, 1}, {5, 37}, {1, 1024}, {2, 1025}, {1, 4096}, {2, 20000}}) {
    TestGraph b;
    V x = build(b, count, extent);
    Oracle oracle(b);
    oracle.fill(x, Fill::Hostile);
    oracle.interpret("symbolic");
    const int64_t values[] = {count, extent};
    oracle.run(groups, kernels, values, equal, std::to_string(count) + "x" + std::to_string(extent) + " ");
  }
}

// Positions have 32 bits, and runs are merged that far.
TEST(Sort, RowsThatAreTooLongHaveNoGrid) {
  TestGraph b;
  const Dim length = b.symbol("n", 0);
  b.output(b.symbolicOp("sort", {b.symbolicInput(MORTISE_F32, {length})}, MORTISE_F32, {length},
                        {{"axis", 0}, {"descending", false}, {"stable", true}}));
  b.output(b.positions());
  const MortiseGraph &graph = b.view();
  const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  ASSERT_TRUE(parts) << parts.error().message;
  const auto compiler = SimtCompiler::create(*SimtTarget::cuda(9, 0, 1));
  const auto functions = (*compiler)->compile(graph, parts->groups);
  ASSERT_TRUE(functions) << functions.error().message;
  const auto blocksOf = [&](size_t launch, int64_t extent) {
    return *functions->at(0)->launches[launch].blocks.evaluate(std::vector<int64_t>{extent});
  };
  constexpr int64_t longest = INT64_C(1) << 31;
  EXPECT_EQ(blocksOf(0, longest), longest / 1024);
  EXPECT_GE(blocksOf(0, longest + 1), longest);
  EXPECT_EQ(blocksOf(1, 0), 0);
  EXPECT_EQ(blocksOf(1, 1024), 0); // one run, which has nothing to merge
  EXPECT_GE(blocksOf(1, 1025), 2 * 1024 / 256);
}

} // namespace
