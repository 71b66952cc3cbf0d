// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Updates by kernels of GPUs, against the reference interpreter: scatters, and puts whose updates are sorted.
#include "oracle.hpp"

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

constexpr const char *modes[] = {"set", "add", "mul", "max", "min"};

bool suits(int32_t dtype, const std::string &mode) { return dtype != MORTISE_I1 || mode == "set" || mode == "max"; }

// Indices from below the first one to behind the last, so that some count from the end and some are out of range.
void fillIndices(Oracle &oracle, V indices, int64_t extent, unsigned seed) {
  std::mt19937 engine(seed);
  for (int64_t i = 0; i < elementCount(*indices->type); ++i)
    setElement(
        oracle.memory.at(indices->index), indices->type->dtype, i,
        static_cast<double>(static_cast<int64_t>(engine() % static_cast<unsigned>(2 * extent + 2)) - extent - 1));
}

void check(TestGraph &b, V x, V indices, V updates, V result, int64_t extent, const std::string &mode, bool isOver) {
  b.output(result);
  Oracle oracle(b);
  if (isOver)
    oracle.memory.writeOver(result->index, x->index);
  oracle.fill(x, Fill::Plain), oracle.fill(updates, Fill::Plain);
  fillIndices(oracle, indices, extent, 7);
  const bool rounds = isFloat(x->type->dtype) && (mode.starts_with("add") || mode.starts_with("mul"));
  oracle.checkSimt(rounds ? roundings : equal, mode + (isOver ? " in place " : " "));
  ASSERT_EQ(oracle.groups.size(), 1u);
}

TEST(Scatter, AlongAnAxis) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_BF16, MORTISE_F64, MORTISE_I64, MORTISE_I32, MORTISE_UI8})
    for (const std::string mode : modes)
      for (const auto &[dims, indexDims, axis] : {std::tuple{Dims{7}, Dims{30}, 0},
                                                  {Dims{5, 9}, Dims{4, 9}, 0},
                                                  {Dims{5, 9}, Dims{3, 20}, 1},
                                                  {Dims{40, 60}, Dims{90, 50}, 0},
                                                  {Dims{2, 3, 4}, Dims{2, 700, 4}, 1}})
        for (const bool isOver : {false, true}) {
          if (mode == "mul" && isFloat(dtype) && indexDims.size() > 2)
            continue; // products of so many numbers leave the range, in one order earlier than in another
          TestGraph b;
          V x = b.input(dtype, dims), u = b.input(dtype, indexDims);
          V i = b.input(isOver ? MORTISE_I32 : MORTISE_I64, indexDims);
          V y = b.op("scatter_along", {x, i, u}, dtype, dims, {{"axis", axis}, {"mode", mode.c_str()}});
          check(b, x, i, u, y, dims[static_cast<size_t>(axis)], mode + " " + dtypeName(dtype), isOver);
          if (HasFatalFailure())
            return;
        }
}

TEST(Scatter, AtCoordinates) {
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F16, MORTISE_I8})
    for (const std::string mode : modes)
      for (const auto &[dims, indexDims] : {std::pair{Dims{6, 5}, Dims{20, 1}},
                                            {Dims{6, 6}, Dims{4, 9, 2}},
                                            {Dims{6, 6, 33}, Dims{50, 2}},
                                            {Dims{4, 3}, Dims{5, 0}},
                                            {Dims{5}, Dims{1}}})
        for (const bool isOver : {false, true}) {
          const auto depth = static_cast<size_t>(indexDims.back());
          Dims updateDims(indexDims.begin(), indexDims.end() - 1);
          updateDims.insert(updateDims.end(), dims.begin() + static_cast<ptrdiff_t>(depth), dims.end());
          TestGraph b;
          V x = b.input(dtype, dims), i = b.input(MORTISE_I64, indexDims), u = b.input(dtype, updateDims);
          V y = b.op("scatter_nd", {x, i, u}, dtype, dims, {{"mode", mode.c_str()}});
          check(b, x, i, u, y, dims[0], mode + " " + dtypeName(dtype), isOver);
          if (HasFatalFailure())
            return;
        }
}

// As the gradient of an embedding has them: more updates than would happen in their order, or sums that are rounded
// once.
TEST(Scatter, PutsOfManyUpdates) {
  for (const auto &[dtype, count] :
       {std::pair{MORTISE_F32, 3000}, {MORTISE_I32, 100}, {MORTISE_BF16, 5}, {MORTISE_F16, 2000}})
    for (const std::string mode : {"set", "add"})
      for (const int64_t axis : {0, 1})
        for (const bool isOver : {false, true}) {
          const Dims dims{17, 12};
          Dims updateDims = dims;
          updateDims[static_cast<size_t>(axis)] = count;
          TestGraph b;
          V x = b.input(dtype, dims), i = b.input(MORTISE_I64, {count}), u = b.input(dtype, updateDims);
          V y = b.op("put", {x, i, u}, dtype, dims, {{"axis", axis}, {"mode", mode.c_str()}});
          check(b, x, i, u, y, dims[static_cast<size_t>(axis)], mode + " " + dtypeName(dtype), isOver);
          if (HasFatalFailure())
            return;
        }
}

TEST(Scatter, Truths) {
  for (const std::string mode : modes)
    if (suits(MORTISE_I1, mode)) {
      TestGraph b;
      V x = b.input(MORTISE_I1, {9}), i = b.input(MORTISE_I64, {40}), u = b.input(MORTISE_I1, {40});
      check(b, x, i, u, b.op("scatter_along", {x, i, u}, MORTISE_I1, {9}, {{"axis", 0}, {"mode", mode.c_str()}}), 9,
            mode, false);
    }
}

TEST(Scatter, NothingToUpdate) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {4, 3}), i = b.input(MORTISE_I64, {0, 3}), u = b.input(MORTISE_F32, {0, 3});
  check(b, x, i, u, b.op("scatter_along", {x, i, u}, MORTISE_F32, {4, 3}, {{"axis", 0}, {"mode", "add"}}), 4, "none",
        false);
}

// What updates, indices and operand are made of is computed by the kernels that read it.
TEST(Scatter, OfComputedOperands) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {50, 8}), i = b.input(MORTISE_I64, {200}), u = b.input(MORTISE_F32, {8, 200});
  V zeros = b.op("sub", {x, x}, MORTISE_F32, {50, 8});
  V moved = b.op("add", {i, b.constant<int64_t>(MORTISE_I64, {200}, std::vector<int64_t>(200, 1))}, MORTISE_I64, {200});
  V places = b.op("reshape", {moved}, MORTISE_I64, {200, 1}, {{"shape", Dims{200, 1}}});
  V turned = b.op("transpose", {u}, MORTISE_F32, {200, 8}, {{"permutation", Dims{1, 0}}});
  V y = b.op("scatter_nd", {zeros, places, b.op("neg", {turned}, MORTISE_F32, {200, 8})}, MORTISE_F32, {50, 8},
             {{"mode", "add"}});
  b.output(b.op("exp", {y}, MORTISE_F32, {50, 8}));
  Oracle oracle(b);
  for (V each : {x, u})
    oracle.fill(each, Fill::Small);
  fillIndices(oracle, i, 50, 3);
  oracle.checkSimt({2}, "computed");
  EXPECT_EQ(oracle.groups.size(), 2u);
}

// One function for all extents: how many updates there are, and how far apart the elements are that they go to.
TEST(Scatter, OfAnyExtents) {
  for (const bool isAlong : {false, true}) {
    const auto build = [&](TestGraph &b, const Dim &rows, const Dim &columns, const Dim &count) {
      V x = b.symbolicInput(MORTISE_F32, {rows, columns});
      V i = b.symbolicInput(MORTISE_I64, isAlong ? Extents{count, columns} : Extents{count, 1});
      V u = b.symbolicInput(MORTISE_F32, {count, columns});
      std::vector<Attr> attributes{{"mode", "add"}};
      if (isAlong)
        attributes.emplace_back("axis", 0);
      b.output(
          b.symbolicOp(isAlong ? "scatter_along" : "scatter_nd", {x, i, u}, MORTISE_F32, {rows, columns}, attributes));
      return std::array{x, i, u};
    };
    TestGraph symbolic;
    const Dim rows = symbolic.symbol("r", 1), columns = symbolic.symbol("c", 1), count = symbolic.symbol("n", 0);
    build(symbolic, rows, columns, count);
    const MortiseGraph &graph = symbolic.view();
    const std::vector<Group> groups = groupsOf(graph);
    const std::vector<EmulatedFunction> kernels = kernelsOf(graph, groups);
    for (const auto &[extent, width, updates] :
         {std::tuple{3, 6, 1}, {1, 5, 500}, {40, 3, 1024}, {7, 1, 5000}, {5, 4, 0}}) {
      TestGraph b;
      const auto [x, i, u] = build(b, extent, width, updates);
      Oracle oracle(b);
      oracle.fill(x, Fill::Plain), oracle.fill(u, Fill::Plain);
      fillIndices(oracle, i, extent, 5);
      oracle.interpret("symbolic");
      const int64_t values[] = {extent, width, updates};
      oracle.run(groups, kernels, values, roundings,
                 std::to_string(extent) + "x" + std::to_string(width) + " of " + std::to_string(updates) + " ");
    }
  }
}

} // namespace
