// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// golden/vN.mrtg: what version N wrote for Samples.h. Every later version reads it. MORTISE_TEST_WRITE_GOLDEN=1 writes
// the file of the present version where it is missing; a file that exists is never rewritten.
#include "Samples.h"
#include <mortise/portable/Graph.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::test;

namespace {
std::vector<char> slurp(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
} // namespace

TEST(Golden, VersionOneIsReadAndStillWritten) {
  std::string path = std::string(MORTISE_GOLDEN_DIRECTORY) + "/v1.mrtg";
  ViewBuilder b;
  everything(b);
  auto now = Graph::copy(b.view());
  ASSERT_TRUE(now) << now.error().message;
  std::span<const std::byte> bytes = (*now)->bytes();
  if (std::getenv("MORTISE_TEST_WRITE_GOLDEN") && !std::filesystem::exists(path))
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char *>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  std::vector<char> golden = slurp(path);
  ASSERT_FALSE(golden.empty()) << path << " is missing";
  auto then = Graph::read(std::as_bytes(std::span(golden)));
  ASSERT_TRUE(then) << then.error().message;
  // The same graph, so that writing what was read gives what is written today.
  auto again = Graph::copy((*then)->view());
  ASSERT_TRUE(again);
  EXPECT_TRUE(std::ranges::equal((*again)->bytes(), bytes));
  // What version 1 can say is still written as version 1.
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(golden)), bytes));
}
