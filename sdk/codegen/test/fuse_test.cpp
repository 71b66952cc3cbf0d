// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test_graph.hpp"

#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

TEST(Fuse, ResidualAndNormShareAGroup) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {32, 64}), r = b.input(MORTISE_F32, {32, 64}), s = b.input(MORTISE_F32, {64}),
    t = b.input(MORTISE_F32, {64});
  V sum = b.op("add", {x, r}, MORTISE_F32, {32, 64});
  V norm = b.op("layer_norm", {sum, s, t}, MORTISE_F32, {32, 64}, {{"axis", 1}, {"epsilon", 1e-5}});
  b.output(sum), b.output(norm);
  const MortiseGraph &graph = b.view();
  auto result = fuse({&graph, {}, {}, {}}, testTarget(2));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->groups.size(), 1u);
  EXPECT_EQ(result->groups[0].outputs.size(), 2u);
  EXPECT_EQ(result->groups[0].kind, GroupKind::Rows);
}

// norm -> dot -> residual add must not become one group around the dot.
TEST(Fuse, NoCycleAroundATakenNode) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {32, 64}), w = b.input(MORTISE_F32, {64, 64});
  V e = b.op("exp", {x}, MORTISE_F32, {32, 64});
  V d = b.op("dot", {e, w}, MORTISE_F32, {32, 64});
  V sum = b.op("add", {d, e}, MORTISE_F32, {32, 64});
  b.output(sum);
  const MortiseGraph &graph = b.view();
  auto result = fuse({&graph, {false, true, false}, {}, {}}, testTarget(2));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->groups.size(), 2u);
  EXPECT_EQ(result->groups[0].outputs[0], e->index);
}

// A path may lead behind a group's last node and back, through a group that makes an early and a late output: e and the
// sum must not become one group, because they would need f, whose group needs the dot, which needs e.
TEST(Fuse, NoCycleThroughAGroupOfEarlyAndLateOutputs) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {32, 64}), y = b.input(MORTISE_F32, {32, 64}), w = b.input(MORTISE_F32, {64, 64});
  V e = b.op("exp", {x}, MORTISE_F32, {32, 64});
  V f = b.op("exp", {y}, MORTISE_F32, {32, 64});
  V square = b.op("mul", {f, f}, MORTISE_F32, {32, 64});
  V sum = b.op("add", {e, f}, MORTISE_F32, {32, 64});
  V d = b.op("dot", {e, w}, MORTISE_F32, {32, 64});
  V late = b.op("add", {d, square}, MORTISE_F32, {32, 64});
  b.output(f), b.output(sum), b.output(late);
  const MortiseGraph &graph = b.view();
  auto result = fuse({&graph, {false, false, false, false, true, false}, {}, {}}, testTarget(2));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->groups.size(), 3u);
  EXPECT_EQ(result->groups[0].outputs[0], e->index);
  EXPECT_EQ(result->groups[1].outputs, (std::vector<uint32_t>{late->index, f->index}));
  EXPECT_EQ(result->groups[2].outputs[0], sum->index);
}

TEST(Fuse, LibraryReadsThroughViews) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {2, 16, 64}), w = b.input(MORTISE_F32, {16, 16});
  V e = b.op("exp", {x}, MORTISE_F32, {2, 16, 64});
  V heads = b.op("reshape", {e}, MORTISE_F32, {2, 16, 4, 16}, {{"shape", Dims{2, 16, 4, 16}}});
  V turned = b.op("transpose", {heads}, MORTISE_F32, {2, 4, 16, 16}, {{"permutation", Dims{0, 2, 1, 3}}});
  V d = b.op("dot", {turned, w}, MORTISE_F32, {2, 4, 16, 16});
  b.output(d);
  const MortiseGraph &graph = b.view();
  auto result = fuse({&graph, {false, false, false, true}, {}, {}}, testTarget(2));
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->groups.size(), 1u);
  ASSERT_TRUE(result->views[turned->index]);
  EXPECT_EQ(result->views[turned->index]->base, e->index);
  EXPECT_EQ(result->views[turned->index]->strides, (std::vector<Dim>{1024, 16, 64, 1}));
}

TEST(Fuse, UnsupportedNodeIsNamed) {
  TestGraph b;
  V x = b.input(MORTISE_F8E5M2, {4});
  b.output(b.op("exp", {x}, MORTISE_F8E5M2, {4}));
  const MortiseGraph &graph = b.view();
  auto result = fuse({&graph, {}, {}, {}}, testTarget(2));
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("f8E5M2"), std::string::npos);
}
