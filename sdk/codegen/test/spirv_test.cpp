// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// SPIR-V of each family of kernels, through spirv-val. What the kernels compute is tested by emulation (oracle.hpp),
// and on lavapipe by the conformance kit (tests/vulkan).
#include "families.hpp"
#include "product_graphs.hpp"
#include "spirv_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <set>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

constexpr uint32_t opCapability = 17, opExecutionMode = 16, opLoad = 61, opDecorate = 71;

// Of each instruction with this number: its words behind the first.
std::vector<std::vector<uint32_t>> instructions(const std::string &code, uint32_t number) {
  std::vector<uint32_t> words(code.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.data(), words.size() * sizeof(uint32_t));
  std::vector<std::vector<uint32_t>> found;
  for (size_t at = 5; at < words.size() && words[at] >> 16; at += words[at] >> 16)
    if ((words[at] & 0xffff) == number)
      found.emplace_back(words.begin() + static_cast<ptrdiff_t>(at) + 1,
                         words.begin() + static_cast<ptrdiff_t>(at + (words[at] >> 16)));
  return found;
}

std::set<uint32_t> capabilities(const std::string &code) {
  std::set<uint32_t> all;
  for (const auto &each : instructions(code, opCapability))
    all.insert(each[0]);
  return all;
}

Result<std::shared_ptr<const SimtFunction>> compileFirst(TestGraph &b, const VulkanFeatures &features) {
  const auto target = SimtTarget::vulkan(features, 1);
  if (!target)
    return target.error();
  const auto compiler = SimtCompiler::create(*target);
  const MortiseGraph &graph = b.view();
  const auto functions = (*compiler)->compile(graph, fuse({&graph, {}, {}, {}}, simtFuseTarget())->groups);
  if (!functions)
    return functions.error();
  return functions->at(0);
}

TEST(Spirv, KernelsOfAllFamiliesAreValid) {
  if (!canValidate())
    GTEST_SKIP() << "no validator: install spirv-tools (Debian) and configure again";
  forEachGraph([](const std::string &name, const MortiseGraph &graph) {
    const auto parts = fuse({&graph, {}, {}, {}}, simtFuseTarget());
    ASSERT_TRUE(parts) << name << ": " << parts.error().message;
    EXPECT_EQ(invalidSpirv(graph, parts->groups), "") << name;
  });
}

TEST(Spirv, TheValidatorFindsABrokenModule) {
  if (!canValidate())
    GTEST_SKIP() << "no validator: install spirv-tools (Debian) and configure again";
  TestGraph b;
  softmax(b, MORTISE_F32, 3, 37);
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  std::string code = (*function)->code;
  code.resize(code.size() - sizeof(uint32_t)); // OpFunctionEnd
  EXPECT_NE(invalidSpirv(code), "");
}

TEST(Spirv, CapabilitiesAreThoseThatTheCodeUses) {
  constexpr uint32_t int64 = 11, int16 = 22, int8 = 39, float64 = 10, denormals = 4464, specials = 4466, nearest = 4467;
  const auto of = [](int32_t dtype, const VulkanFeatures &features) {
    TestGraph b;
    V x = b.input(dtype, {64});
    b.output(b.op("neg", {x}, dtype, {64}));
    auto function = compileFirst(b, features);
    return function ? capabilities((*function)->code) : std::set<uint32_t>{};
  };
  const VulkanFeatures none;
  const std::set<uint32_t> plain = of(MORTISE_F32, none);
  EXPECT_TRUE(plain.contains(int64));
  for (const uint32_t each : {int16, int8, float64, denormals, specials, nearest})
    EXPECT_FALSE(plain.contains(each)) << each;
  const std::set<uint32_t> careful = of(MORTISE_F32, allFeatures());
  for (const uint32_t each : {denormals, specials, nearest})
    EXPECT_TRUE(careful.contains(each)) << each;
  EXPECT_TRUE(of(MORTISE_F64, allFeatures()).contains(float64));
  EXPECT_TRUE(of(MORTISE_BF16, none).contains(int16));
  EXPECT_TRUE(of(MORTISE_I8, none).contains(int8));
}

// They need the Vulkan memory model, by which loads and stores say what other threads may see.
TEST(Spirv, NarrowProductsMultiplyMatricesWhereTheDeviceHasThem) {
  constexpr uint32_t opMemoryModel = 14, opStore = 62, opConstant = 43, opControlBarrier = 224, opMultiply = 4459;
  constexpr uint32_t glsl = 1, vulkan = 3, nonPrivate = 0x20, visible = 0x6000;
  VulkanFeatures both = allFeatures();
  both.subgroup = 32, both.halfMatrices = both.brainMatrices = true;
  VulkanFeatures half = both, none = both, narrow = both;
  half.brainMatrices = none.halfMatrices = none.brainMatrices = false;
  narrow.subgroup = 16;
  const auto multiplies = [&](const VulkanFeatures &features, int32_t dtype) {
    TestGraph b;
    V x = b.input(dtype, {100, 70}), w = b.input(dtype, {70, 64});
    b.output(matmul(b, x, w));
    auto function = compileFirst(b, features);
    EXPECT_TRUE(function) << function.error().message;
    const std::string &code = (*function)->code;
    const bool found = !instructions(code, opMultiply).empty();
    EXPECT_EQ(instructions(code, opMemoryModel)[0][1], found ? vulkan : glsl);
    if (found) {
      for (const auto &each : instructions(code, opControlBarrier)) // its semantics is a constant's number
        EXPECT_EQ(each.size(), 3U);
      EXPECT_TRUE(std::ranges::any_of(instructions(code, opStore), [&](const std::vector<uint32_t> &store) {
        return store.size() == 3 && store[2] == nonPrivate;
      }));
      EXPECT_TRUE(std::ranges::any_of(instructions(code, opConstant), [&](const std::vector<uint32_t> &constant) {
        return constant.size() == 3 && (constant[2] & visible) == visible;
      }));
    }
    return found;
  };
  for (const int32_t dtype : {MORTISE_F16, MORTISE_BF16}) {
    EXPECT_TRUE(multiplies(both, dtype));
    EXPECT_EQ(multiplies(half, dtype), dtype == MORTISE_F16);
    EXPECT_FALSE(multiplies(none, dtype));
    EXPECT_FALSE(multiplies(narrow, dtype));
  }
  EXPECT_FALSE(multiplies(both, MORTISE_F32));
}

TEST(Spirv, WhatADeviceLacksIsRefused) {
  TestGraph doubles;
  V x = doubles.input(MORTISE_F64, {64});
  doubles.output(doubles.op("neg", {x}, MORTISE_F64, {64}));
  const auto refused = compileFirst(doubles, VulkanFeatures());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(refused.error().message.find("shaderFloat64"), std::string::npos) << refused.error().message;

  VulkanFeatures small;
  small.sharedBytes = 256;
  TestGraph sums;
  columns(sums, MORTISE_F32, 64, 4096);
  const auto large = compileFirst(sums, small);
  ASSERT_FALSE(large);
  EXPECT_NE(large.error().message.find("at most 256 bytes of shared memory"), std::string::npos)
      << large.error().message;

  VulkanFeatures few;
  few.blockThreads = 128;
  const auto target = SimtTarget::vulkan(few, 1);
  ASSERT_FALSE(target);
  EXPECT_EQ(target.error().code, MORTISE_UNSUPPORTED);
}

// What a row needs of a block's memory is declared, where the device has it.
TEST(Spirv, LongRowsAreKeptWhereTheDeviceHasTheMemory) {
  constexpr uint32_t opConstant = 43, opTypeArray = 28;
  TestGraph b;
  softmax(b, MORTISE_BF16, 3, 24000); // of which registers hold 16384
  for (const auto &[bytes, isKept] : {std::pair(32768U, true), {16384U, false}}) {
    VulkanFeatures features = allFeatures();
    features.sharedBytes = bytes;
    auto function = compileFirst(b, features);
    ASSERT_TRUE(function) << function.error().message;
    EXPECT_EQ((*function)->launches[0].sharedBytes, 0U);
    if (canValidate())
      EXPECT_EQ(invalidSpirv((*function)->code), "");
    std::set<uint32_t> numbers; // constants of what is left
    for (const auto &each : instructions((*function)->code, opConstant))
      if (each.size() == 3 && each[2] == 24000 - 16384)
        numbers.insert(each[1]);
    const auto arrays = instructions((*function)->code, opTypeArray);
    EXPECT_EQ(std::ranges::any_of(arrays, [&](const auto &each) { return numbers.contains(each[2]); }), isKept);
  }
}

TEST(Spirv, NothingIsContracted) {
  constexpr uint32_t noContraction = 42, opFAdd = 129, opFSub = 131, opFMul = 133;
  TestGraph b;
  softmax(b, MORTISE_F32, 64, 4096);
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  std::set<uint32_t> decorated;
  for (const auto &each : instructions((*function)->code, opDecorate))
    if (each[1] == noContraction)
      decorated.insert(each[0]);
  size_t count = 0;
  for (const uint32_t op : {opFAdd, opFSub, opFMul})
    for (const auto &each : instructions((*function)->code, op)) {
      ++count;
      EXPECT_TRUE(decorated.contains(each[1])) << "the result " << each[1];
    }
  EXPECT_GT(count, 16U);
}

// Vulkan's division may be off by more than two units in the last place. With a fused multiply-add f64 is left for
// what f32 has no room for, in a branch.
TEST(Spirv, QuotientsAreTakenInF64WhereTheDriverIsLoose) {
  constexpr uint32_t opFDiv = 136, opTypeFloat = 22, opSelectionMerge = 247;
  size_t branches = 0;
  const auto widths = [&](const VulkanFeatures &features, const char *op) {
    TestGraph b;
    V x = b.input(MORTISE_F32, {64});
    b.output(op == std::string("div") ? b.op(op, {x, b.input(MORTISE_F32, {64})}, MORTISE_F32, {64})
                                      : b.op(op, {x}, MORTISE_F32, {64}));
    auto function = compileFirst(b, features);
    std::set<uint32_t> found;
    if (!function)
      return found;
    EXPECT_EQ(invalidSpirv((*function)->code), "");
    std::map<uint32_t, uint32_t> types;
    for (const auto &each : instructions((*function)->code, opTypeFloat))
      types[each[0]] = each[1];
    for (const auto &each : instructions((*function)->code, opFDiv))
      found.insert(types[each[0]]);
    branches = instructions((*function)->code, opSelectionMerge).size();
    return found;
  };
  VulkanFeatures loose = allFeatures();
  loose.exactQuotients = false;
  EXPECT_EQ(widths(allFeatures(), "div"), std::set<uint32_t>{32});
  EXPECT_EQ(widths(loose, "div"), std::set<uint32_t>{64});
  const size_t without = branches;
  EXPECT_EQ(widths(loose, "rsqrt"), std::set<uint32_t>{64});
  VulkanFeatures known = loose;
  known.exactFunctions = known.flushesSubnormals = true;
  EXPECT_EQ(widths(known, "div"), std::set<uint32_t>{64});
  EXPECT_EQ(branches, without + 1);
  EXPECT_EQ(widths(known, "rsqrt"), std::set<uint32_t>{64});
  EXPECT_EQ(branches, without + 2); // a root and a quotient
  const auto refusal = [](const VulkanFeatures &features, const char *op) {
    TestGraph b;
    V x = b.input(MORTISE_F64, {64});
    b.output(b.op(op, {x}, MORTISE_F64, {64}));
    const auto compiled = compileFirst(b, features);
    return compiled ? MORTISE_OK : compiled.error().code;
  };
  for (const char *op : {"rsqrt", "sqrt"}) {
    EXPECT_EQ(refusal(loose, op), MORTISE_UNSUPPORTED); // f64 has nothing wider
    EXPECT_EQ(refusal(known, op), MORTISE_OK);
  }
  loose.doubles = false;
  TestGraph b;
  V x = b.input(MORTISE_F32, {64});
  b.output(b.op("sqrt", {x}, MORTISE_F32, {64}));
  const auto refused = compileFirst(b, loose);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
}

// Why the graph that `make` makes is refused; empty if it compiles.
template <typename Make> std::string refusalOf(Make make, const VulkanFeatures &features) {
  TestGraph b;
  make(b);
  const auto compiled = compileFirst(b, features);
  return compiled ? std::string() : compiled.error().message;
}

// They are compiled for each shape then.
TEST(Spirv, WidePositionsAreRefusedWhereADriverGetsThemWrong) {
  VulkanFeatures wrong = allFeatures();
  wrong.widePositions = false;
  const auto convolution = [](TestGraph &b, const Dim &size) {
    const Dim to = floorDiv(size - 1, Dim(2)) + 1;
    V x = b.symbolicInput(MORTISE_F32, {1, 8, size, size}), w = b.input(MORTISE_F32, {8, 8, 3, 3});
    b.output(b.symbolicOp("convolution", {x, w}, MORTISE_F32, {1, 8, to, to},
                          {{"strides", Dims{2, 2}},
                           {"low", Dims{1, 1}},
                           {"high", Dims{1, 1}},
                           {"dilations", Dims{1, 1}},
                           {"groups", int64_t{1}}}));
  };
  const auto symbolic = [&](TestGraph &b) { convolution(b, b.symbol("n", 2)); };
  const auto fixed = [&](TestGraph &b) { convolution(b, 56); };
  const auto product = [](TestGraph &b) {
    const Dim rows = b.symbol("n", 1);
    V x = b.symbolicInput(MORTISE_F32, {rows, 64}), w = b.input(MORTISE_F32, {64, 64});
    b.output(b.symbolicOp("linear", {x, w}, MORTISE_F32, {rows, 64}));
  };
  const auto scatters = [](TestGraph &b, const Dim &rows) {
    V x = b.symbolicInput(MORTISE_F32, {rows, 6}), at = b.symbolicInput(MORTISE_I64, {rows, 6});
    V updates = b.symbolicInput(MORTISE_F32, {rows, 6});
    b.output(b.symbolicOp("scatter_along", {x, at, updates}, MORTISE_F32, {rows, 6}, {{"axis", 0}, {"mode", "set"}}));
  };
  const auto symbolicScatter = [&](TestGraph &b) { scatters(b, b.symbol("n", 1)); };
  const auto fixedScatter = [&](TestGraph &b) { scatters(b, 500); };
  for (const auto &make : std::initializer_list<std::function<void(TestGraph &)>>{symbolic, symbolicScatter}) {
    EXPECT_EQ(refusalOf(make, allFeatures()), "");
    EXPECT_NE(refusalOf(make, wrong).find("compile for each shape"), std::string::npos);
  }
  for (const auto &make : std::initializer_list<std::function<void(TestGraph &)>>{fixed, fixedScatter, product})
    EXPECT_EQ(refusalOf(make, wrong), "");
}

// Of a driver that is known for them; only results that are rounded to 16 bits may be so exact.
TEST(Spirv, FunctionsOfKnownDriversAreUsed) {
  constexpr uint32_t opExtInst = 12, exp2 = 29, fma = 50; // of GLSL.std.450
  const auto functions = [](const VulkanFeatures &features, int32_t dtype) {
    TestGraph b;
    V x = b.input(dtype, {64});
    b.output(b.op("gelu", {x}, dtype, {64}, {{"approximate", "none"}}));
    b.output(b.op("exp", {x}, dtype, {64}));
    auto function = compileFirst(b, features);
    std::set<uint32_t> found;
    EXPECT_TRUE(function) << function.error().message;
    if (!function)
      return found;
    EXPECT_EQ(invalidSpirv((*function)->code), "");
    for (const auto &each : instructions((*function)->code, opExtInst))
      found.insert(each[3]);
    return found;
  };
  VulkanFeatures known = allFeatures();
  EXPECT_FALSE(functions(known, MORTISE_BF16).contains(exp2) || functions(known, MORTISE_BF16).contains(fma));
  known.exactFunctions = known.flushesSubnormals = true;
  EXPECT_TRUE(functions(known, MORTISE_BF16).contains(exp2) && functions(known, MORTISE_BF16).contains(fma));
  EXPECT_FALSE(functions(known, MORTISE_F32).contains(exp2));
  EXPECT_TRUE(functions(known, MORTISE_F32).contains(fma));
}

// Where comparisons take subnormal numbers for 0, and so does the instruction that a compiler makes of a maximum.
TEST(Spirv, ComparisonsThatSubnormalsDecideAreThoseOfIntegers) {
  enum : uint32_t { ULess = 176, SLess = 177, Less = 184 };
  const auto comparisons = [](auto make) {
    VulkanFeatures flushes = allFeatures();
    flushes.flushesSubnormals = true;
    TestGraph b;
    make(b, b.input(MORTISE_F32, {64}));
    auto function = compileFirst(b, flushes);
    std::set<uint32_t> found;
    EXPECT_TRUE(function) << function.error().message;
    for (const uint32_t each : {ULess, SLess, Less})
      if (function && !instructions((*function)->code, each).empty())
        found.insert(each);
    return found;
  };
  const auto isBelow = [](TestGraph &b, V x, V y) {
    return b.op("compare", {x, y}, MORTISE_I1, {64}, {{"direction", "lt"}});
  };
  const auto all = [](TestGraph &b, float value) {
    return b.constant(MORTISE_F32, {64}, std::vector<float>(64, value));
  };
  using Found = std::set<uint32_t>;
  // The last thread's elements are told by an unsigned or signed comparison of indices in all of them.
  const Found none = comparisons([&](TestGraph &b, V x) { b.output(b.op("abs", {x}, MORTISE_F32, {64})); });
  const auto beside = [&](const Found &found) {
    Found rest;
    std::ranges::set_difference(found, none, std::inserter(rest, rest.end()));
    return rest;
  };
  EXPECT_EQ(beside(comparisons([&](TestGraph &b, V x) { b.output(isBelow(b, x, all(b, 3))); })), Found{Less});
  EXPECT_FALSE(comparisons([&](TestGraph &b, V x) { b.output(isBelow(b, x, all(b, 0))); }).contains(Less));
  EXPECT_FALSE(
      comparisons([&](TestGraph &b, V x) { b.output(isBelow(b, x, b.input(MORTISE_F32, {64}))); }).contains(Less));
  EXPECT_FALSE(
      comparisons([&](TestGraph &b, V x) { b.output(b.op("min", {x, all(b, 3)}, MORTISE_F32, {64})); }).contains(Less));
  EXPECT_FALSE(comparisons([&](TestGraph &b, V x) {
                 V limit = all(b, 3);
                 b.output(b.op("select", {isBelow(b, x, limit), x, limit}, MORTISE_F32, {64}));
               }).contains(Less));
}

TEST(Spirv, AlignedRowsAreReadBySixteenBytes) {
  TestGraph b;
  softmax(b, MORTISE_BF16, 64, 4096);
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  ASSERT_EQ((*function)->alignment, 16U);
  const auto wide = [](const std::string &code) { // loads that count on 16 bytes
    return std::ranges::count_if(instructions(code, opLoad), [](const auto &each) { return each.back() == 16; });
  };
  EXPECT_EQ(wide((*function)->alignedCode), 4); // vectors of a thread
  EXPECT_EQ(wide((*function)->code), 0);
}

// Two bf16 are a word, whose upper half is a f32 already: of two operands with eight elements each only the lower
// halves are moved, and of the results none.
TEST(Spirv, HalvesOfWordsStayWhereTheyAre) {
  constexpr uint32_t opShiftLeftLogical = 196;
  TestGraph b;
  const Dims dims{64, 4096};
  b.output(b.op("add", {b.input(MORTISE_BF16, dims), b.input(MORTISE_BF16, dims)}, MORTISE_BF16, dims));
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_EQ(invalidSpirv((*function)->alignedCode), "");
  EXPECT_EQ(instructions((*function)->alignedCode, opShiftLeftLogical).size(), 8U);
}

// More arguments than a launch can pass lie in a table.
TEST(Spirv, ManyArgumentsLieInATable) {
  const auto hasTable = [](int inputs) {
    TestGraph b;
    V sum = b.input(MORTISE_F32, {64});
    for (int i = 1; i < inputs; ++i)
      sum = b.op("add", {sum, b.input(MORTISE_F32, {64})}, MORTISE_F32, {64});
    b.output(sum);
    auto function = compileFirst(b, allFeatures());
    EXPECT_TRUE(function) << function.error().message;
    EXPECT_EQ(invalidSpirv((*function)->code), "");
    return (*function)->hasTable;
  };
  EXPECT_FALSE(hasTable(15)); // and the output: 128 bytes
  EXPECT_TRUE(hasTable(16));
}

// Drivers take long to compile arrays of constants.
TEST(Spirv, ConstantsOfAGraphAreArguments) {
  TestGraph b;
  std::vector<float> numbers(64);
  for (size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(i);
  V x = b.input(MORTISE_F32, {64});
  V table = b.constant<float>(MORTISE_F32, {64}, numbers);
  b.output(b.op("add", {x, table}, MORTISE_F32, {64}));
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  EXPECT_EQ(invalidSpirv((*function)->code), "");
  ASSERT_EQ((*function)->constants.size(), 1U);
  EXPECT_EQ((*function)->constants[0], std::string(reinterpret_cast<const char *>(numbers.data()), 256));
  EXPECT_EQ((*function)->arguments.back().kind, SimtArgument::Constant);
}

TEST(Spirv, SubgroupsExchangeByThemselvesWhereTheDeviceHasIt) {
  constexpr uint32_t opShuffleXor = 346, opControlBarrier = 224;
  const auto counts = [](unsigned subgroup) {
    VulkanFeatures features = allFeatures();
    features.subgroup = subgroup;
    TestGraph b;
    softmax(b, MORTISE_F32, 64, 96);
    auto function = compileFirst(b, features);
    EXPECT_TRUE(function) << function.error().message;
    EXPECT_EQ(invalidSpirv((*function)->code), "");
    return std::pair{instructions((*function)->code, opShuffleXor).size(),
                     instructions((*function)->code, opControlBarrier).size()};
  };
  EXPECT_EQ(counts(0).first, 0U);
  EXPECT_GT(counts(0).second, 0U);
  EXPECT_EQ(counts(32), std::pair(counts(0).second, size_t{0}));
  VulkanFeatures odd = allFeatures();
  odd.subgroup = 24;
  EXPECT_FALSE(SimtTarget::vulkan(odd, 1));
}

TEST(Spirv, BlocksHaveAsManyThreadsAsTheLaunchSays) {
  constexpr uint32_t localSize = 17;
  TestGraph b;
  softmax(b, MORTISE_F32, 64, 4096);
  auto function = compileFirst(b, allFeatures());
  ASSERT_TRUE(function) << function.error().message;
  size_t found = 0;
  for (const auto &mode : instructions((*function)->code, opExecutionMode))
    if (mode[1] == localSize) {
      EXPECT_EQ(mode[2], (*function)->launches[found++].threads);
      EXPECT_EQ(mode[3] * mode[4], 1U);
    }
  EXPECT_EQ(found, (*function)->launches.size());
}

} // namespace
