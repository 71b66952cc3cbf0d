// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of all families through the plugin, on GPUs with waves of 64 and of 32 threads, as the interpreter computes
// them.
#include "session.hpp"

#include "../../sdk/codegen/test/families.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::test {
namespace {

using testing::IsEmpty;

class RocmKernels : public testing::TestWithParam<const char *> {};

// Addresses that are multiples of 256 bytes, and some that are not: each has code of its own.
TEST_P(RocmKernels, OfAllFamiliesEqualTheInterpreter) {
  const Session session("arch=" + std::string(GetParam()));
  ASSERT_FALSE(session.devices.empty()) << session.log;
  // The others have the schedules of one of these two, so that a few graphs show that they are right, too.
  const bool isWhole = GetParam() == std::string("gfx942") || GetParam() == std::string("gfx1100");
  size_t compared = 0;
  codegen::test::forEachGraph([&](const std::string &name, const MortiseGraph &view) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < view.output_count; ++i)
      bytes += byteSize(*view.outputs[i]->type);
    if (bytes > (isWhole ? 1 << 20 : 1 << 13))
      return;
    SCOPED_TRACE(name);
    auto graph = Graph::copy(view);
    ASSERT_TRUE(graph) << graph.error().message;
    Region region(session.devices[0], *graph);
    runAndCompare(session.devices[0], region, (*graph)->view(), compared % 3 == 0 ? 8 : 0);
    ++compared;
  });
  EXPECT_GT(compared, isWhole ? 80U : 40U);
  EXPECT_THAT(session.problems(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(Architectures, RocmKernels,
                         testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto &info) { return std::string(info.param); });

} // namespace
} // namespace mortise::test
