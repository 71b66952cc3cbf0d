// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PTX of each family of kernels for each generation of chips, assembled where NVIDIA's assembler is installed. What the
// kernels compute is tested by emulation (oracle.hpp) and, on a GPU, by the conformance kit.
#include "families.hpp"

#include <mortise/codegen/simt.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

constexpr std::pair<int, int> capabilities[] = {{7, 5}, {8, 0}, {8, 6}, {8, 9}, {9, 0}, {10, 0}, {12, 0}};

// The assembler's path; empty where there is none.
std::string assembler() {
  if (const char *named = std::getenv("MORTISE_PTXAS"))
    return named;
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "";
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    const std::string found = path.substr(begin, end - begin) + "/ptxas";
    if (std::filesystem::exists(found))
      return found;
    begin = end + 1;
  }
  return "";
}

constexpr const char *noAssembler = "no ptxas in PATH: install nvidia-cuda-nvcc==13.0.88 (PyPI), or set MORTISE_PTXAS";

class PtxTest : public testing::TestWithParam<std::pair<int, int>> {
protected:
  void assemble(const std::string &name, const SimtFunction &function) {
    const auto [major, minor] = GetParam();
    const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / ("ptx" + std::to_string(getpid()));
    std::filesystem::create_directories(folder);
    for (const std::string *code : {&function.code, &function.alignedCode}) {
      if (code->empty() || HasFailure())
        continue;
      std::ofstream(folder / "kernel.ptx") << *code;
      const std::string command = assembler() + " -arch=sm_" + std::to_string(major * 10 + minor) + " -o " +
                                  (folder / "kernel.cubin").string() + " " + (folder / "kernel.ptx").string();
      EXPECT_EQ(std::system(command.c_str()), 0) << name << "\n" << *code; // NOLINT(*-command-processor,cert-env33-c)
    }
    std::filesystem::remove_all(folder);
  }
  // Each kernel of each family, by name.
  void forEachKernel(const std::function<void(const std::string &, const SimtFunction &)> &use) {
    const auto [major, minor] = GetParam();
    const auto target = SimtTarget::cuda(major, minor, 1);
    ASSERT_TRUE(target) << target.error().message;
    const auto compiler = SimtCompiler::create(*target);
    ASSERT_TRUE(compiler) << compiler.error().message;
    forEachGraph([&](const std::string &name, const MortiseGraph &graph) {
      const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
      ASSERT_TRUE(parts) << name << ": " << parts.error().message;
      const auto functions = (*compiler)->compile(graph, parts->groups);
      ASSERT_TRUE(functions) << name << ": " << functions.error().message;
      for (const auto &function : *functions)
        use(name, *function);
    });
  }
};

TEST_P(PtxTest, KernelsAreForTheChipAndCallNothing) {
  const auto [major, minor] = GetParam();
  const std::string chip = ".target sm_" + std::to_string(major * 10 + minor);
  size_t kernels = 0;
  forEachKernel([&](const std::string &name, const SimtFunction &function) {
    for (const std::string *code : {&function.code, &function.alignedCode})
      if (!code->empty()) {
        ++kernels;
        EXPECT_NE(code->find(chip), std::string::npos) << name;
        for (const SimtLaunch &launch : function.launches)
          EXPECT_NE(code->find(".entry " + launch.entry + "("), std::string::npos) << name;
        EXPECT_EQ(code->find("call.uni"), std::string::npos) << name << " calls a function:\n" << *code;
        // What is not said to be rounded, the driver's assembler may fuse, which would break the sums of two numbers.
        for (const char *fusible : {"add.f", "sub.f", "mul.f"})
          EXPECT_EQ(code->find(fusible), std::string::npos) << name << " leaves rounding open:\n" << *code;
      }
  });
  EXPECT_GT(kernels, (families.size() - 1) * 9);
}

TEST_P(PtxTest, RowsAreReadBySixteenBytes) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  const auto count = [](const std::string &text, const std::string &part) {
    size_t found = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
      ++found;
    return found;
  };
  // Where kernels overlap, what they read may change before they begin in earnest.
  const char *const load = GetParam().first >= 9 ? "ld.global." : "ld.global.nc.";
  // Four vectors a thread, read once and written once. Odd rows begin anywhere between them: a thread has an element of
  // their ends, too.
  for (const auto &[length, singles] : {std::pair(4096, 0U), {4097, 1U}}) {
    TestGraph b;
    softmax(b, MORTISE_BF16, 64, length);
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const SimtFunction &function = *functions->at(0);
    ASSERT_EQ(function.alignment, 16U);
    EXPECT_EQ(count(function.alignedCode, std::string(load) + "v4"), 4U) << function.alignedCode;
    EXPECT_EQ(count(function.alignedCode, std::string(load) + "b16"), singles) << function.alignedCode;
    EXPECT_EQ(count(function.alignedCode, "st.global.v4"), 4U);
    EXPECT_EQ(count(function.code, std::string(load) + "v4"), 0U);
  }
}

// Short kernels wait for those before them, before they read anything, and let the next one begin.
TEST_P(PtxTest, ShortKernelsOverlap) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  for (const auto &[rows, isShort] : {std::pair(64, true), {100000, false}}) {
    TestGraph b;
    softmax(b, MORTISE_BF16, rows, 4096);
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const SimtFunction &function = *functions->at(0);
    const bool awaits = isShort && GetParam().first >= 9;
    EXPECT_EQ(function.launches[0].awaits, awaits);
    for (const std::string *code : {&function.code, &function.alignedCode}) {
      const size_t wait = code->find("griddepcontrol.wait"), next = code->find("griddepcontrol.launch_dependents");
      EXPECT_EQ(wait != code->npos, awaits);
      EXPECT_EQ(next != code->npos, awaits);
      if (awaits)
        EXPECT_LT(wait, code->find("ld.global"));
      EXPECT_EQ(code->find("ld.global.nc") == code->npos, awaits);
    }
  }
}

// Weights, which no kernel writes, are under way while a product waits for the kernels before it; its other operand,
// and weights that may have changed, are read behind the wait.
TEST_P(PtxTest, WeightsAreReadBeforeTheWait) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  const bool awaits = GetParam().first >= 9;
  for (const bool areBound : {true, false}) {
    TestGraph b;
    V x = b.input(MORTISE_BF16, {1, 2048});
    V w = areBound ? b.weight(MORTISE_BF16, {512, 2048}) : b.input(MORTISE_BF16, {512, 2048});
    b.output(b.op("linear", {x, w}, MORTISE_BF16, {1, 512}, {{"weight_transposed", false}}));
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const SimtFunction &function = *functions->at(0);
    EXPECT_EQ(function.launches[0].awaits, awaits);
    const std::string &code = function.alignedCode;
    const size_t wait = code.find("griddepcontrol.wait");
    size_t before = 0, loads = 0;
    for (size_t at = code.find("ld.global"); at != code.npos; at = code.find("ld.global", at + 1), ++loads)
      before += at < wait && wait != code.npos;
    EXPECT_EQ(before, awaits && areBound ? loads / 2 : 0) << code;
    EXPECT_GT(loads, 1U);
    EXPECT_EQ(code.find("ld.global.nc") == code.npos, awaits);
  }
}

// Kernels declare at most 48 KB of a block's memory. A launch asks for what rows need: the elements that registers do
// not hold, of two bytes, and of four where there is room for values that would be computed again.
TEST_P(PtxTest, LongRowsLieInMemoryThatTheLaunchAsksFor) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  for (const auto &[length, bytes] : {std::pair(4096, 0U), {20000, 6U * (20000 - 16384)}, {300000, 0U}}) {
    TestGraph b;
    softmax(b, MORTISE_BF16, 64, length);
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    ASSERT_TRUE(functions) << functions.error().message;
    const SimtFunction &function = *functions->at(0);
    ASSERT_EQ(function.launches.size(), 1U);
    EXPECT_EQ(function.launches[0].sharedBytes, bytes);
    // The chip copies what is aligned while threads go on.
    const bool isKept = bytes > 0, isAside = isKept && GetParam().first >= 8;
    EXPECT_EQ(function.alignedCode.find("cp.async.cg.shared.global") != std::string::npos, isAside);
    EXPECT_EQ(function.alignedCode.find("cp.async.wait_all") != std::string::npos, isAside);
    EXPECT_EQ(function.code.find("cp.async"), std::string::npos);
    for (const std::string *code : {&function.code, &function.alignedCode})
      EXPECT_EQ(code->find(".extern .shared .align 16 .b8") != std::string::npos, isKept) << *code;
  }
}

// Four blocks share a multiprocessor: 64 registers a thread.
TEST_P(PtxTest, ColumnsLimitTheirRegistersAndPassTheCacheBy) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  TestGraph b;
  columns(b, MORTISE_BF16, 65536, 4096);
  const MortiseGraph &graph = b.view();
  const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
  ASSERT_TRUE(functions) << functions.error().message;
  ASSERT_EQ(functions->at(0)->launches.size(), 2U);
  EXPECT_EQ(functions->at(0)->launches[0].blocks, Dim(1056));
  const std::string &code = functions->at(0)->alignedCode;
  EXPECT_NE(code.find(".minnctapersm 4"), std::string::npos);
  // Nothing is read twice, which the nearest cache is told where the version of PTX has words for it.
  const bool hasHints = GetParam() >= std::pair(8, 9);
  EXPECT_EQ(code.find("ld.global.nc.L1::no_allocate.v4") != std::string::npos, hasHints);
  EXPECT_EQ(code.find("ld.global.nc.v4") == std::string::npos, hasHints);
}

TEST_P(PtxTest, ApproximateInstructionsAreForNarrowResults) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  const auto approximates = [&](int32_t dtype) {
    TestGraph b;
    pointwise(b, dtype, 64, 4096);
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    return functions && functions->at(0)->code.find("ex2.approx") != std::string::npos;
  };
  EXPECT_TRUE(approximates(MORTISE_BF16));
  EXPECT_TRUE(approximates(MORTISE_F16));
  EXPECT_FALSE(approximates(MORTISE_F32));
}

// The conversions of GPUs and their neg give each NaN one payload.
TEST_P(PtxTest, MovesAndSignsKeepThePayloadOfNan) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  const auto codeOf = [&](int32_t dtype, const Dims &dims, const std::function<V(TestGraph &, V, V)> &make) {
    TestGraph b;
    V x = b.input(dtype, dims), y = b.input(dtype, dims);
    b.output(make(b, x, y));
    const MortiseGraph &graph = b.view();
    const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
    return functions ? functions->at(0)->code : functions.error().message;
  };
  const auto chosen = [](TestGraph &b, V x, V y) {
    V all = b.input(MORTISE_I1, {64});
    return b.op("select", {all, x, b.op("neg", {y}, MORTISE_F16, {64})}, MORTISE_F16, {64});
  };
  const std::string moved = codeOf(MORTISE_F16, {64}, chosen);
  ASSERT_NE(moved.find(".entry"), std::string::npos) << moved;
  EXPECT_EQ(moved.find("cvt.f32.f16"), std::string::npos) << moved;
  for (const int32_t dtype : {MORTISE_F32, MORTISE_F64, MORTISE_F16, MORTISE_BF16})
    for (const Dims &dims : {Dims{}, Dims{3}, Dims{64}}) {
      const std::string code = codeOf(dtype, dims, [&](TestGraph &b, V x, V) { return b.op("neg", {x}, dtype, dims); });
      ASSERT_NE(code.find(".entry"), std::string::npos) << code;
      for (const char *lossy : {"neg.f", "neg.b", "cvt.f32", "cvt.rn"})
        EXPECT_EQ(code.find(lossy), std::string::npos) << lossy << "\n" << code;
    }
}

TEST_P(PtxTest, KernelsAssemble) {
  if (assembler().empty())
    GTEST_SKIP() << noAssembler;
  forEachKernel([&](const std::string &name, const SimtFunction &function) { assemble(name, function); });
}

// Attention on tensor cores, without calls, and with its rows read by 16 bytes where they are aligned.
TEST_P(PtxTest, AttentionsAreProductsOfMatrices) {
  const auto target = SimtTarget::cuda(GetParam().first, GetParam().second, 1);
  const auto compiler = SimtCompiler::create(*target);
  using Mask = AttentionCode::Mask;
  using Split = AttentionCode::Split;
  for (const AttentionCode &code : {AttentionCode{MORTISE_BF16, 64, 64, Mask::None, false, 4},
                                    {MORTISE_BF16, 128, 128, Mask::None, true, 4},
                                    {MORTISE_F16, 128, 128, Mask::Adds, true, 1},
                                    {MORTISE_F16, 24, 40, Mask::Hides, true, 2},
                                    {MORTISE_BF16, 8, 8, Mask::Adds, false, 1},
                                    {MORTISE_BF16, 64, 64, Mask::Hides, false, 4},
                                    {MORTISE_BF16, 64, 64, Mask::Hides, false, 4, Split::Queries, false},
                                    {MORTISE_BF16, 64, 64, Mask::None, true, 4, Split::Queries, false},
                                    {MORTISE_BF16, 64, 64, Mask::Hides, false, 8, Split::Keys},
                                    {MORTISE_BF16, 128, 128, Mask::Hides, false, 8, Split::Keys},
                                    {MORTISE_BF16, 64, 64, Mask::Hides, false, 8, Split::Keys, true, 2},
                                    {MORTISE_F16, 128, 128, Mask::Adds, true, 8, Split::Keys, true, 8},
                                    {MORTISE_F16, 128, 128, Mask::Adds, true, 4, Split::Keys},
                                    {MORTISE_F16, 24, 40, Mask::None, true, 1, Split::Keys}}) {
    if (code.cluster > target->cluster)
      continue;
    const auto function = (*compiler)->compile(code);
    if (GetParam().first < 8) {
      ASSERT_FALSE(function);
      EXPECT_EQ(function.error().code, MORTISE_UNSUPPORTED);
      continue;
    }
    ASSERT_TRUE(function) << function.error().message;
    EXPECT_EQ(*function, *(*compiler)->compile(code)) << "compiled twice";
    EXPECT_EQ((*function)->launches[0].threads, 32 * code.subgroups);
    const bool overlaps = code.split == Split::Keys && GetParam().first >= 9;
    EXPECT_EQ((*function)->launches[0].awaits, overlaps);
    for (const std::string *text : {&(*function)->code, &(*function)->alignedCode}) {
      EXPECT_NE(text->find("mma.sync.aligned.m16n8k16.row.col.f32."), std::string::npos) << *text;
      EXPECT_EQ(text->find("call.uni"), std::string::npos) << *text;
      EXPECT_EQ(text->find(".local"), std::string::npos) << "values in memory:\n" << *text;
      // What a kernel reads before the one before it has ended must not be taken for memory that stays as it is. How a
      // mask lies is looked at when the kernel runs.
      const bool readsVectors = text != &(*function)->code || (code.mask == Mask::Hides && code.tileKeys() == 64);
      EXPECT_EQ(text->find(overlaps ? "ld.global.v4" : "ld.global.nc.v4") != std::string::npos, readsVectors);
      EXPECT_EQ(text->find("ldmatrix.sync.aligned.m8n8.x4.") != std::string::npos, code.split == Split::Queries);
      EXPECT_EQ(text->find("griddepcontrol.wait") != std::string::npos, overlaps);
      EXPECT_EQ(text->find(".reqnctapercluster " + std::to_string(code.cluster)) != std::string::npos,
                code.cluster > 1);
      EXPECT_EQ(text->find("ld.shared::cluster.") != std::string::npos, code.cluster > 1) << *text;
      if (overlaps)
        EXPECT_EQ(text->find("ld.global.nc"), std::string::npos) << *text;
    }
    if (!assembler().empty())
      assemble(code.name(), **function);
    if (HasFailure())
      return;
  }
}

INSTANTIATE_TEST_SUITE_P(Chips, PtxTest, testing::ValuesIn(capabilities),
                         [](const auto &i) { return "sm" + std::to_string(i.param.first * 10 + i.param.second); });

TEST(SimtTarget, OldChipsAreRefusedAndNewOnesGetTheNewestKnown) {
  const auto old = SimtTarget::cuda(7, 0, 1);
  ASSERT_FALSE(old);
  EXPECT_EQ(old.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(old.error().message.find("found 7.0"), std::string::npos);
  EXPECT_EQ(SimtTarget::cuda(8, 7, 1)->chip, "sm_86");
  EXPECT_EQ(SimtTarget::cuda(13, 0, 1)->chip, "sm_120");
}

} // namespace
