// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host does with kernel_save and kernel_load, and with what they return.
#include "fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mortise::runtime::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  std::string cached, step; // of the report
  float value = 0;          // of a program that adds 1 to 5
};

Outcome runIn(const Folder &folder, const std::string &cache) {
  const auto registry = loadFrom(folder.path(), cache);
  PlanMaker maker(std::vector<int64_t>{1});
  const uint32_t x = maker.input(), y = maker.output();
  maker.enqueue(maker.region({x}, {y}));
  auto program = Program::load(maker.plan, registry);
  EXPECT_TRUE(program) << (program ? "" : program.error().message);
  if (!program)
    return {};
  const std::vector<int64_t> dims{1};
  std::vector<float> in{5}, out{0};
  const Tensor input = tensorOf(in, dims), output = tensorOf(out, dims);
  EXPECT_TRUE((*program)->run({&input, 1}, {&output, 1}));
  const RegionReport region = (*program)->report().at(0);
  return {region.cached, region.steps.at(0).name, out[0]};
}

std::map<std::string, int> extensionsIn(const fs::path &folder) {
  std::map<std::string, int> found;
  for (const auto &entry : fs::directory_iterator(folder))
    ++found[entry.path().extension().string()];
  return found;
}

struct Case {
  const char *fixture, *cached, *step; // of the second program
  std::map<std::string, int> files;    // by extension, after it
};

class SavedKernels : public testing::TestWithParam<Case> {};

TEST_P(SavedKernels, AreUsedOrCompiledAgainWithTheReason) {
  const Case &test = GetParam();
  Folder folder;
  folder.add(test.fixture);
  const fs::path cache = fs::path(folder.path()) / "kernels";
  const Outcome first = runIn(folder, cache.string());
  EXPECT_EQ(first.step, "sum");
  EXPECT_EQ(first.value, 6);
  const Outcome second = runIn(folder, cache.string());
  EXPECT_THAT(second.cached, HasSubstr(test.cached));
  EXPECT_EQ(second.step, test.step);
  EXPECT_EQ(second.value, 6);
  EXPECT_EQ(extensionsIn(cache), test.files);
}

INSTANTIATE_TEST_SUITE_P(, SavedKernels,
                         testing::Values(Case{"saving_none", "hit", "loaded sum", {{".kernel", 1}}},
                                         Case{"saving_fails_to_save", "there is no entry", "sum", {}},
                                         Case{"saving_refuses_saved",
                                              "kernel_load: expected kernels of this week, found older ones",
                                              "sum",
                                              {{".kernel", 1}, {".damaged", 1}}},
                                         Case{"saving_loads_nothing",
                                              "kernel_load: expected a kernel or a status, found neither",
                                              "sum",
                                              {{".kernel", 1}, {".damaged", 1}}},
                                         Case{"good", "the plugin keeps no kernels of this device", "sum", {}}),
                         [](const auto &info) { return std::string(info.param.fixture); });

TEST(KernelsWithoutACache, ReportTheReason) {
  Folder folder;
  folder.add("saving_none");
  EXPECT_EQ(runIn(folder, "off").cached, "kernel_cache is off");
  const fs::path open = fs::path(folder.path()) / "open";
  fs::create_directory(open);
  fs::permissions(open, fs::perms::all);
  EXPECT_THAT(runIn(folder, open.string()).cached, HasSubstr("chmod go-w"));
  EXPECT_TRUE(fs::is_empty(open));
}

} // namespace
} // namespace mortise::runtime::test
