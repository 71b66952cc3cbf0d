// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code of GPUs that a later process need not generate.
#include "families.hpp"

#include <mortise/codegen/simt.hpp>

#include <gtest/gtest.h>

#include <functional>
#include <set>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

using Functions = std::vector<std::shared_ptr<const SimtFunction>>;

std::vector<SimtTarget> targets() {
  VulkanFeatures narrow; // constants of graphs lie in memory, and many arguments in a table
  narrow.f32 = narrow.f64 = {true, true, true};
  narrow.doubles = narrow.exactQuotients = true;
  return {*SimtTarget::cuda(9, 0, 1), *SimtTarget::vulkan(narrow, 1), *SimtTarget::rocm("gfx942", 1)};
}

std::vector<std::byte> saved(const SimtFunction &function, const std::string &native = "") {
  std::vector<std::byte> bytes;
  saveFunction(bytes, function, native);
  return bytes;
}

void expectSame(const SimtFunction &found, const SimtFunction &wanted) {
  EXPECT_EQ(found.key, wanted.key);
  EXPECT_EQ(found.code, wanted.code);
  EXPECT_EQ(found.alignedCode, wanted.alignedCode);
  EXPECT_EQ(found.alignment, wanted.alignment);
  EXPECT_EQ(found.hasTable, wanted.hasTable);
  EXPECT_EQ(found.constants, wanted.constants);
  EXPECT_EQ(found.scratchBytes, wanted.scratchBytes);
  EXPECT_EQ(found.bytes, wanted.bytes);
  EXPECT_EQ(found.flops, wanted.flops);
  EXPECT_EQ(found.over, wanted.over);
  ASSERT_EQ(found.arguments.size(), wanted.arguments.size());
  for (size_t i = 0; i < found.arguments.size(); ++i) {
    EXPECT_EQ(found.arguments[i].kind, wanted.arguments[i].kind);
    EXPECT_EQ(found.arguments[i].index, wanted.arguments[i].index);
  }
  ASSERT_EQ(found.launches.size(), wanted.launches.size());
  for (size_t i = 0; i < found.launches.size(); ++i) {
    const SimtLaunch &x = found.launches[i], &y = wanted.launches[i];
    EXPECT_EQ(x.entry, y.entry);
    EXPECT_EQ(x.blocks, y.blocks);
    EXPECT_EQ(x.threads, y.threads);
    EXPECT_EQ(x.sharedBytes, y.sharedBytes);
    EXPECT_EQ(x.awaits, y.awaits);
    EXPECT_EQ(x.iterations, y.iterations);
  }
}

// A sum with more addends than a launch passes, and with numbers that are part of the graph; rows over symbols; columns
// that several blocks share.
void forEachOther(const std::function<void(const std::string &, const MortiseGraph &)> &use) {
  TestGraph many;
  V sum = many.input(MORTISE_F32, {64});
  for (int i = 1; i < 40; ++i)
    sum = many.op("add", {sum, many.input(MORTISE_F32, {64})}, MORTISE_F32, {64});
  std::vector<float> numbers(64);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  many.output(many.op("add", {sum, many.constant<float>(MORTISE_F32, {64}, numbers)}, MORTISE_F32, {64}));
  use("many arguments", many.view());
  TestGraph rows;
  const Dim b = rows.symbol("b", 1), s = rows.symbol("s", 2);
  V x = rows.symbolicInput(MORTISE_F32, {b, s});
  rows.output(rows.symbolicOp("softmax", {x}, MORTISE_F32, {b, s}, {{"axis", 1}}));
  use("rows over symbols", rows.view());
  TestGraph columns;
  V tall = columns.input(MORTISE_F32, {6000, 24});
  columns.output(columns.op("reduce_sum", {tall}, MORTISE_F32, {24}, {{"axes", Dims{0}}}));
  use("parts of columns", columns.view());
}

TEST(SimtSaved, FunctionsAreReadAsTheyWere) {
  for (const SimtTarget &target : targets()) {
    const auto compiler = std::move(*SimtCompiler::create(target));
    size_t constants = 0, tables = 0, scratch = 0, parts = 0;
    const auto check = [&](const std::string &name, const MortiseGraph &graph) {
      SCOPED_TRACE(target.chip + " " + name);
      const auto groups = fuse({&graph, {}, {}, {}}, simtFuseTarget());
      ASSERT_TRUE(groups) << groups.error().message;
      const auto functions = compiler->compile(graph, groups->groups);
      ASSERT_TRUE(functions) << functions.error().message;
      std::vector<std::byte> bytes;
      for (const auto &function : *functions) {
        saveFunction(bytes, *function, "of " + function->launches[0].entry);
        constants += function->constants.size(), tables += function->hasTable, parts += function->launches.size() > 1;
        scratch += function->scratchBytes != Dim(0);
      }
      const auto read = loadFunctions(bytes);
      ASSERT_TRUE(read) << read.error().message;
      ASSERT_EQ(read->size(), functions->size());
      for (size_t i = 0; i < read->size(); ++i) {
        expectSame(*read->at(i), *functions->at(i));
        EXPECT_EQ(read->at(i)->native, "of " + functions->at(i)->launches[0].entry);
      }
    };
    forEachGraph(check);
    forEachOther(check);
    EXPECT_GT(scratch, 0U);
    EXPECT_GT(parts, 0U);
    const bool isVulkan = target.triple.starts_with("spirv");
    EXPECT_EQ(tables > 0, isVulkan);
    EXPECT_EQ(constants > 0, isVulkan); // others have them in the code
  }
}

TEST(SimtSaved, GroupsWhoseFunctionsWereReadAreNotCompiled) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {64, 128});
  b.output(b.op("softmax", {x}, MORTISE_F32, {64, 128}, {{"axis", 1}}));
  const MortiseGraph &graph = b.view();
  const auto groups = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  for (const SimtTarget &target : targets()) {
    const Functions made = *std::move(*SimtCompiler::create(target))->compile(graph, groups->groups);
    const Functions read = *loadFunctions(saved(*made.at(0)));
    const auto later = std::move(*SimtCompiler::create(target));
    later->add(read);
    EXPECT_EQ(later->compile(graph, groups->groups)->at(0), read[0]);
    later->remove(read);
    const Functions again = *later->compile(graph, groups->groups);
    EXPECT_NE(again.at(0), read[0]);
    EXPECT_EQ(again.at(0)->key, read[0]->key);
    later->add(read); // what is there stays
    later->remove(read);
    EXPECT_EQ(later->compile(graph, groups->groups)->at(0), again[0]);
  }
}

TEST(SimtSaved, AttentionsAreKeptByTheirCode) {
  const SimtTarget target = *SimtTarget::cuda(9, 0, 1);
  AttentionCode code{.depth = 64, .width = 64, .subgroups = 4};
  const auto made = *std::move(*SimtCompiler::create(target))->compile(code);
  const auto later = std::move(*SimtCompiler::create(target));
  const Functions read = *loadFunctions(saved(*made));
  later->add(read);
  EXPECT_EQ(*later->compile(code), read[0]);
  std::set<std::string> names{code.name()};
  const auto differs = [&](auto change) {
    AttentionCode other = code;
    change(other);
    EXPECT_TRUE(names.insert(other.name()).second) << other.name();
  };
  differs([](AttentionCode &c) { c.dtype = MORTISE_F16; });
  differs([](AttentionCode &c) { c.depth = 80; });
  differs([](AttentionCode &c) { c.width = 80; });
  differs([](AttentionCode &c) { c.mask = AttentionCode::Mask::Hides; });
  differs([](AttentionCode &c) { c.mask = AttentionCode::Mask::Adds; });
  differs([](AttentionCode &c) { c.causal = true; });
  differs([](AttentionCode &c) { c.subgroups = 2; });
  differs([](AttentionCode &c) { c.split = AttentionCode::Split::Keys; });
  differs([](AttentionCode &c) { c.split = AttentionCode::Split::Keys, c.subgroups = 2; });
  differs([](AttentionCode &c) { c.split = AttentionCode::Split::Keys, c.cluster = 4; });
  differs([](AttentionCode &c) { c.readsAhead = false; });
}

TEST(SimtSaved, DamageIsFound) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {6000, 24});
  b.output(b.op("reduce_sum", {x}, MORTISE_F32, {24}, {{"axes", Dims{0}}}));
  const MortiseGraph &graph = b.view();
  const auto groups = fuse({&graph, {}, {}, {}}, simtFuseTarget());
  const Functions made = *std::move(*SimtCompiler::create(targets()[0]))->compile(graph, groups->groups);
  const std::vector<std::byte> whole = saved(*made.at(0), "pipelines");
  ASSERT_TRUE(loadFunctions(whole));
  EXPECT_TRUE(loadFunctions({})->empty());
  for (size_t size = 1; size < whole.size(); size += 7) {
    const auto read = loadFunctions(std::span(whole).first(size));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, MORTISE_CORRUPT);
  }
  for (size_t at = 0; at < whole.size(); ++at) { // whatever becomes of a length, nothing is read beyond the end
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0xff};
    (void)loadFunctions(damaged);
  }
  for (size_t at = 0; at < 8; ++at) { // the length of the key
    std::vector<std::byte> damaged = whole;
    damaged[at] ^= std::byte{0x40};
    EXPECT_FALSE(loadFunctions(damaged)) << at;
  }
}

} // namespace
