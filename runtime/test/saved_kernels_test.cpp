// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the host does with kernel_save and kernel_load, and with what they return.
#include "fixtures.hpp"

#include <mortise/runtime/plan_generated.h>
#include <mortise/runtime/program_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mortise::runtime::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

struct Outcome {
  std::string cached, step; // of the report
  float value = 0;          // of the sum of 5 and 5
};

Outcome outcomeOf(Program &program) {
  const std::vector<int64_t> dims{1};
  std::vector<float> in{5}, out{0};
  const std::vector<Tensor> inputs(program.plan().inputs.size(), tensorOf(in, dims));
  const Tensor output = tensorOf(out, dims);
  EXPECT_TRUE(program.run(inputs, {&output, 1}));
  const RegionReport region = program.report().at(0);
  return {region.cached, region.steps.at(0).name, out[0]};
}

std::shared_ptr<const plan::PlanT> sumPlan() {
  PlanMaker maker(std::vector<int64_t>{1});
  const uint32_t x = maker.input(), other = maker.input(), y = maker.output();
  maker.enqueue(maker.region({x, other}, {y}));
  return maker.plan;
}

Outcome runIn(const Folder &folder, const std::string &cache) {
  auto program = Program::load(sumPlan(), loadFrom(folder.path(), cache));
  EXPECT_TRUE(program) << (program ? "" : program.error().message);
  return program ? outcomeOf(**program) : Outcome();
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
  EXPECT_EQ(first.value, 10);
  const Outcome second = runIn(folder, cache.string());
  EXPECT_THAT(second.cached, HasSubstr(test.cached));
  EXPECT_EQ(second.step, test.step);
  EXPECT_EQ(second.value, 10);
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

SavedProgram savedBy(const Folder &folder) {
  const auto program = Program::load(sumPlan(), loadFrom(folder.path(), "off"));
  EXPECT_TRUE(program) << (program ? "" : program.error().message);
  if (!program)
    return {};
  const auto bytes = writeProgram((*program)->plan(), (*program)->saveKernels());
  auto read = bytes ? readProgram(*bytes) : Result<SavedProgram>(bytes.error());
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? std::move(*read) : SavedProgram();
}

Outcome runWith(const Folder &folder, const SavedProgram &saved) {
  const auto program = Program::load(saved.plan, loadFrom(folder.path(), "off"), {.kernels = saved.kernels});
  EXPECT_TRUE(program) << (program ? "" : program.error().message);
  return program ? outcomeOf(**program) : Outcome();
}

TEST_P(SavedKernels, InAProgramsFileAreUsedOrCompiledAgainWithTheReason) {
  const Case &test = GetParam();
  Folder folder;
  folder.add(test.fixture);
  const SavedProgram saved = savedBy(folder);
  const bool saves = !test.files.empty();
  EXPECT_EQ(saved.kernels.size(), saves ? 1u : 0u);
  const Outcome found = runWith(folder, saved);
  const std::string why = test.cached;
  EXPECT_THAT(found.cached, HasSubstr(why == "hit"                  ? "saved"
                                      : why.starts_with("there is") ? "kernel_cache is off"
                                                                    : why));
  EXPECT_EQ(found.step, test.step);
  EXPECT_EQ(found.value, 10);
}

class KernelsInAProgramsFile : public testing::Test {
protected:
  void SetUp() override {
    folder.add("saving_none");
    saved = savedBy(folder);
    ASSERT_EQ(saved.kernels.size(), 1u);
  }
  Folder folder;
  SavedProgram saved;
};

TEST_F(KernelsInAProgramsFile, OfAnotherBuildAreCompiledAgain) {
  std::string &key = saved.kernels[0].key;
  const size_t build = key.find("\"build\":\"") + 9;
  key[build] = key[build] == '0' ? '1' : '0';
  const Outcome found = runWith(folder, saved);
  EXPECT_THAT(found.cached, HasSubstr("another build of the plugin"));
  EXPECT_EQ(found.step, "sum");
  EXPECT_EQ(found.value, 10);
}

TEST_F(KernelsInAProgramsFile, OfNoRegionAreRefused) {
  saved.kernels[0].region = 1;
  const auto bytes = writeProgram(*saved.plan, saved.kernels);
  ASSERT_TRUE(bytes);
  const auto read = readProgram(*bytes);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, MORTISE_CORRUPT);
  EXPECT_THAT(read.error().message, HasSubstr("of no region"));
}

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
