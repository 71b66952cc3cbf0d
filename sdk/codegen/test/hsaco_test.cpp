// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code objects of each family of kernels for AMD's architectures: what their metadata says, and which instructions they
// have. None has run on a GPU; what the kernels compute is tested by emulation (oracle.hpp).
#include "families.hpp"
#include "hsaco.hpp"
#include "product_graphs.hpp"

#include <mortise/codegen/simt.hpp>

#include <gmock/gmock.h>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

using testing::HasSubstr;

class HsacoTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    const auto target = SimtTarget::rocm(GetParam(), 1);
    ASSERT_TRUE(target) << target.error().message;
    wave = target->subgroup;
    auto made = SimtCompiler::create(*target);
    ASSERT_TRUE(made) << made.error().message;
    compiler = std::move(*made);
  }
  std::unique_ptr<SimtCompiler> compiler;
  unsigned wave = 0;
};

TEST_P(HsacoTest, KernelsAreForTheChipAndStayInRegisters) {
  size_t kernels = 0;
  forEachGraph([&](const std::string &name, const MortiseGraph &graph) {
    const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    ASSERT_TRUE(parts) << name << ": " << parts.error().message;
    const auto functions = compiler->compile(graph, parts->groups);
    ASSERT_TRUE(functions) << name << ": " << functions.error().message;
    for (const auto &function : *functions)
      for (const std::string *code : {&function->code, &function->alignedCode}) {
        if (code->empty())
          continue;
        const auto read = readHsaco(*code);
        ASSERT_TRUE(read) << name << ": " << read.error().message;
        EXPECT_EQ(read->chip, GetParam()) << name;
        ASSERT_EQ(read->kernels.size(), function->launches.size()) << name;
        for (size_t i = 0; i < function->launches.size(); ++i) {
          const HsacoKernel &kernel = read->kernels[i];
          ++kernels;
          EXPECT_EQ(kernel.name, function->launches[i].entry);
          EXPECT_EQ(kernel.blockThreads, function->launches[i].threads) << name;
          EXPECT_EQ(kernel.wave, wave) << name;
          EXPECT_EQ(kernel.argumentBytes, 8 * function->arguments.size()) << name;
          EXPECT_EQ(excess(kernel), "") << name << " " << kernel.name;
        }
      }
  });
  EXPECT_GT(kernels, (families.size() - 1) * 9);
}

// Four vectors of 16 bytes a thread, read once and written once; sums of neighbours without the block's memory.
TEST_P(HsacoTest, RowsAreReadBySixteenBytesAndCombinedInRegisters) {
  TestGraph b;
  softmax(b, MORTISE_BF16, 64, 4096);
  const MortiseGraph &graph = b.view();
  const auto functions = compiler->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
  ASSERT_TRUE(functions) << functions.error().message;
  const SimtFunction &function = *functions->at(0);
  ASSERT_EQ(function.alignment, 16U);
  const auto text = disassemble(function.alignedCode);
  ASSERT_TRUE(text) << text.error().message;
  const auto count = [&](const std::string &part) {
    size_t found = 0;
    for (size_t at = text->find(part); at != std::string::npos; at = text->find(part, at + 1))
      ++found;
    return found;
  };
  const bool hasBits = wave == 32; // gfx11 and gfx12 count bits in the names of loads
  EXPECT_EQ(count(hasBits ? "global_load_b128" : "global_load_dwordx4"), 4U) << *text;
  EXPECT_EQ(count(hasBits ? "global_store_b128" : "global_store_dwordx4"), 4U) << *text;
  EXPECT_EQ(count("flat_"), 0U) << *text;
  EXPECT_GE(count(" quad_perm:[1,0,3,2]"), 2U) << *text; // of the largest, and of the sum
}

// gfx90a's would take subnormal numbers for 0.
TEST_P(HsacoTest, NarrowProductsMultiplyMatrices) {
  for (const auto &[dtype, name] : {std::pair(MORTISE_F16, "f16"), {MORTISE_BF16, "bf16"}, {MORTISE_F32, "none"}}) {
    TestGraph b;
    V x = b.input(dtype, {100, 70}), w = b.input(dtype, {70, 64});
    b.output(matmul(b, x, w));
    const MortiseGraph &graph = b.view();
    const auto functions = compiler->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const auto text = disassemble(functions->at(0)->code);
    ASSERT_TRUE(text) << text.error().message;
    const std::string_view chip = GetParam();
    const std::string unit = chip.starts_with("gfx9") ? "v_mfma_f32_16x16x" : "v_wmma_f32_16x16x";
    const std::string instruction = unit + (chip == "gfx950" ? "32_" : "16_") + name;
    EXPECT_EQ(text->find(instruction) != std::string::npos, dtype != MORTISE_F32 && chip != "gfx90a")
        << instruction << "\n"
        << *text;
    EXPECT_EQ(text->find(unit) != std::string::npos, dtype != MORTISE_F32 && chip != "gfx90a");
  }
}

// What a row needs of the 64 KB that a block may have is declared.
TEST_P(HsacoTest, LongRowsAreKeptWhereTheyFit) {
  for (const auto &[length, isKept] : {std::pair(4096, false), {32768, true}, {65536, false}}) {
    TestGraph b;
    softmax(b, MORTISE_BF16, 64, length);
    const MortiseGraph &graph = b.view();
    const auto functions = compiler->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const SimtFunction &function = *functions->at(0);
    EXPECT_EQ(function.launches[0].sharedBytes, 0U);
    const auto read = readHsaco(function.alignedCode);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->kernels[0].sharedBytes >= 32768, isKept) << length; // for what registers do not hold
    EXPECT_EQ(excess(read->kernels[0]), "") << length;
  }
}

// A constant of the graph is part of the code object, and read by its own kind of load.
TEST_P(HsacoTest, ConstantsArePartOfTheCode) {
  TestGraph b;
  V x = b.input(MORTISE_F32, {3, 64});
  std::vector<float> numbers(64);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = 1.5F + static_cast<float>(i);
  V table = b.constant(MORTISE_F32, {64}, numbers);
  V wide = b.op("broadcast", {table}, MORTISE_F32, {3, 64}, {{"shape", Dims{3, 64}}, {"axes", Dims{1}}});
  b.output(b.op("mul", {x, wide}, MORTISE_F32, {3, 64}));
  const MortiseGraph &graph = b.view();
  const auto functions = compiler->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
  ASSERT_TRUE(functions) << functions.error().message;
  const std::string &code = functions->at(0)->code;
  EXPECT_NE(code.find(std::string(reinterpret_cast<const char *>(numbers.data()), 64 * sizeof(float))),
            std::string::npos);
  const auto text = disassemble(code);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->find("flat_"), std::string::npos) << *text;
}

INSTANTIATE_TEST_SUITE_P(Chips, HsacoTest, testing::Values("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"),
                         [](const auto &chip) { return std::string(chip.param); });

TEST(SimtTarget, ArchitecturesOfAmdAreKnownWithoutWhatIsSwitchedOn) {
  const auto known = SimtTarget::rocm("gfx90a:sramecc+:xnack-", 1);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->chip, "gfx90a");
  EXPECT_EQ(known->subgroup, 64U);
  const auto old = SimtTarget::rocm("gfx803", 1);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, MORTISE_UNSUPPORTED);
  EXPECT_THAT(old.error().message, HasSubstr("gfx1201, found gfx803"));
}

TEST(Hsaco, WhatIsNoneIsSaidToBeNone) {
  EXPECT_FALSE(readHsaco("no code object"));
  HsacoKernel kernel;
  kernel.wave = 64, kernel.blockThreads = 1024, kernel.vgprs = 128;
  EXPECT_EQ(excess(kernel), "");
  kernel.vgprs = 129;
  EXPECT_THAT(excess(kernel), HasSubstr("544 registers of a SIMD"));
  kernel.vgprs = 1, kernel.scratchBytes = 4;
  EXPECT_THAT(excess(kernel), HasSubstr("4 bytes of scratch"));
}

} // namespace
