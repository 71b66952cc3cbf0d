// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the kit does not ask of the vulkan plugin: how devices are found, chosen and missed, and the limits of launches.
#include "session.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <random>

namespace mortise::test {
namespace {

// Mesa's name for what lavapipe computes with.
constexpr char lavapipe[] = "llvmpipe";

TEST(VulkanPlugin, WithoutALoaderThereIsNoDeviceWithAReason) {
  setenv("MORTISE_VULKAN_LOADER", "/nowhere/libvulkan.so.1", 1);
  const auto found = start("", "/nowhere/libvulkan.so.1");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, MORTISE_NOT_FOUND);
  EXPECT_NE(found.error().message.find("install libvulkan1"), std::string::npos) << found.error().message;
  unsetenv("MORTISE_VULKAN_LOADER");
}

TEST(VulkanPlugin, ALoaderThatTheEnvironmentDoesNotNameIsRefused) {
  const auto found = start("", "/tmp/clone/libvulkan.so.1");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, MORTISE_INVALID_ARGUMENT);
  EXPECT_NE(found.error().message.find("MORTISE_VULKAN_LOADER"), std::string::npos) << found.error().message;
}

class Lavapipe : public testing::Test {
protected:
  void SetUp() override {
    const auto found = start(lavapipe);
    if (!found && found.error().code == MORTISE_NOT_FOUND)
      GTEST_SKIP() << "no lavapipe: install mesa-vulkan-drivers (Debian); " << found.error().message;
    ASSERT_TRUE(found) << found.error().message;
    info = found->front();
    device = info->device;
  }
  const MortiseDeviceInfo *info = nullptr;
  MortiseDevice *device = nullptr;
};

std::string uuidText(const uint8_t *bytes) {
  std::string text;
  char digits[3];
  for (int i = 0; i < 16; ++i) {
    std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += digits;
  }
  return text;
}

TEST_F(Lavapipe, IsChosenByNameUuidOrNumber) {
  EXPECT_EQ(std::string(info->kind), "vulkan");
  EXPECT_EQ(info->automatic, 0U);
  const auto same = start(uuidText(info->uuid));
  ASSERT_TRUE(same);
  ASSERT_EQ(same->size(), 1U);
  EXPECT_EQ(std::string(same->front()->name), info->name);
  const auto none = start("a device that nobody has");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, MORTISE_NOT_FOUND);
  EXPECT_NE(none.error().message.find("is not what the option device names"), std::string::npos);
  const auto first = start("0");
  ASSERT_TRUE(first);
  EXPECT_EQ(first->size(), 1U);
}

TEST_F(Lavapipe, MoreArgumentsThanALaunchPasses) {
  constexpr int count = 40;
  Network net;
  ValueId sum = net.input(MORTISE_F32, {100});
  for (int i = 1; i < count; ++i)
    sum = net.op("add", {sum, net.input(MORTISE_F32, {100})});
  net.output(sum);
  const Region region(device, net.finish());
  EXPECT_EQ(region.steps, 1U);
  Stream stream(device);
  std::vector<MortiseAddress> inputs;
  for (int i = 0; i < count; ++i)
    inputs.push_back(stream.put(std::vector<float>(100, static_cast<float>(i))));
  const MortiseAddress result = stream.allocate(400);
  for (int run = 0; run < 3; ++run)
    ASSERT_TRUE(region.enqueue(stream, inputs, {result}));
  EXPECT_EQ(stream.take<float>(result, 100), std::vector<float>(100, count * (count - 1) / 2.0f));
}

// Two whole rows of blocks and a shorter one, which has a dispatch of its own.
TEST_F(Lavapipe, GridsOfSeveralRows) {
  constexpr int64_t count = 2 * 32768 * 2048 + 5 * 2048; // of 256 threads with 8 bytes each
  Network net;
  const ValueId x = net.input(MORTISE_I8, {count});
  net.output(net.op("neg", {x}));
  const Region region(device, net.finish());
  Stream stream(device);
  std::vector<int8_t> values(count);
  for (int64_t i = 0; i < count; ++i)
    values[i] = static_cast<int8_t>(i % 127);
  const MortiseAddress from = stream.put(values), to = stream.allocate(count);
  ASSERT_TRUE(region.enqueue(stream, {from}, {to}));
  const auto found = stream.take<int8_t>(to, count);
  for (int64_t i = 0; i < count; ++i)
    ASSERT_EQ(found[i], -(i % 127)) << i;
}

TEST_F(Lavapipe, AddressesOfAnyAlignment) {
  Network net;
  const ValueId x = net.input(MORTISE_BF16, {4096});
  net.output(net.op("neg", {x}));
  const Region region(device, net.finish());
  Stream stream(device);
  std::vector<uint16_t> values(4096 + 8);
  std::iota(values.begin(), values.end(), 0);
  const MortiseAddress from = stream.put(values), to = stream.put(std::vector<uint16_t>(4096 + 8, 7));
  for (uint64_t shift : {0, 1, 3, 8}) {
    ASSERT_TRUE(region.enqueue(stream, {from + 2 * shift}, {to + 2 * shift}));
    const auto found = stream.take<uint16_t>(to, 4096 + 8);
    for (uint64_t i = 0; i < 4096; ++i)
      ASSERT_EQ(found[shift + i], (shift + i) ^ 0x8000) << shift << " " << i;
  }
}

// What llvmpipe would fold away.
TEST_F(Lavapipe, ConstantsKeepTheirMeaning) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{-infinity, infinity, std::nanf(""), -0.0f, 2, 1e-42f, -3, 0};
  const auto compute = [&](const std::function<ValueId(Network &, ValueId)> &make) {
    Network net;
    const ValueId x = net.input(MORTISE_F32, {8});
    net.output(make(net, x));
    const Region region(device, net.finish());
    Stream stream(device);
    const MortiseAddress from = stream.put(values), to = stream.allocate(32);
    EXPECT_TRUE(region.enqueue(stream, {from}, {to}));
    return stream.take<float>(to, 8);
  };
  const auto zero = [](Network &net) { return net.splat(0, {8}); };
  const auto product = compute([&](Network &net, ValueId x) { return net.op("mul", {x, zero(net)}); });
  const auto sum = compute([&](Network &net, ValueId x) { return net.op("add", {x, zero(net)}); });
  const auto difference = compute([&](Network &net, ValueId x) { return net.op("sub", {x, x}); });
  const auto ratio = compute([&](Network &net, ValueId x) { return net.op("div", {zero(net), x}); });
  const auto byZero = compute([&](Network &net, ValueId x) { return net.op("div", {x, zero(net)}); });
  const auto same = [](float found, float expected) {
    return std::isnan(expected) ? std::isnan(found)
                                : found == expected && std::signbit(found) == std::signbit(expected);
  };
  for (size_t i = 0; i < values.size(); ++i) {
    const float x = values[i], nothing = 0;
    EXPECT_TRUE(same(product[i], x * nothing)) << x << " * 0 = " << product[i];
    EXPECT_TRUE(same(sum[i], x + nothing)) << x << " + 0 = " << sum[i];
    EXPECT_TRUE(same(difference[i], x - x)) << x << " - " << x << " = " << difference[i];
    EXPECT_TRUE(same(ratio[i], nothing / x)) << "0 / " << x << " = " << ratio[i];
    EXPECT_TRUE(same(byZero[i], x / nothing)) << x << " / 0 = " << byZero[i];
  }
}

// Teams of all sizes, with exchanges within subgroups and through shared memory: whole numbers, whose sums are exact.
TEST_F(Lavapipe, ReductionsWithAndWithoutSubgroups) {
  for (const char *subgroups : {"on", "off"}) {
    const auto found = start(lavapipe, "libvulkan.so.1", "known", subgroups);
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_EQ(found->size(), 1U);
    MortiseDevice *which = found->front()->device;
    for (const int64_t length : {1, 3, 7, 8, 31, 64, 100, 513, 4096, 20000}) {
      constexpr int64_t rows = 5;
      Network net;
      const ValueId x = net.input(MORTISE_F32, {rows, length});
      net.output(net.op("reduce_sum", {x}, {ints("axes", {1})}));
      net.output(net.op("reduce_sum", {x}, {ints("axes", {0})}));
      const Region region(which, net.finish());
      Stream stream(which);
      std::vector<float> values(rows * length), sums(rows), columns(length);
      for (int64_t i = 0; i < rows * length; ++i) {
        values[i] = static_cast<float>(i * 7 % 13);
        sums[i / length] += values[i];
        columns[i % length] += values[i];
      }
      const MortiseAddress from = stream.put(values), first = stream.allocate(4 * rows),
                           second = stream.allocate(4 * length);
      ASSERT_TRUE(region.enqueue(stream, {from}, {first, second}));
      EXPECT_EQ(stream.take<float>(first, rows), sums) << subgroups << " " << length;
      EXPECT_EQ(stream.take<float>(second, length), columns) << subgroups << " " << length;
    }
  }
}

// llvmpipe leaves all loops after 65,535 iterations. One thread sums a row in order.
TEST_F(Lavapipe, LoopsThatTheDriverWouldLeaveAreRefused) {
  // Sums of sums along columns, which one thread goes through.
  const auto sums = [](int64_t length) {
    Network net;
    const ValueId x = net.op("cumsum", {net.input(MORTISE_I32, {length, 2})}, {integer("axis", 0)});
    net.output(net.op("cumsum", {x}, {integer("axis", 0)}));
    return net.finish();
  };
  constexpr int64_t length = 65000;
  const Region region(device, sums(length));
  Stream stream(device);
  const MortiseAddress from = stream.put(std::vector<int32_t>(2 * length, 1)), to = stream.allocate(8 * length);
  ASSERT_TRUE(region.enqueue(stream, {from}, {to}));
  std::vector<int32_t> expected;
  for (int64_t i = 1; i <= length; ++i)
    expected.insert(expected.end(), 2, static_cast<int32_t>(i * (i + 1) / 2));
  EXPECT_EQ(stream.take<int32_t>(to, 2 * length), expected);
  try {
    const Region longer(device, sums(66000));
    ADD_FAILURE() << "66,000 iterations were compiled";
  } catch (const Failed &failed) {
    EXPECT_EQ(failed.error.code, MORTISE_UNSUPPORTED);
    EXPECT_NE(failed.error.message.find("at most 65535 iterations"), std::string::npos) << failed.error.message;
  }
}

// As on a driver of which nothing is known.
TEST_F(Lavapipe, QuotientsAreExactThroughF64) {
  const auto found = start(lavapipe, "libvulkan.so.1", "promised");
  ASSERT_TRUE(found) << found.error().message;
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(std::string(found->front()->features).find("quotients"), std::string::npos);
  constexpr int64_t count = 1 << 16;
  Network net;
  const ValueId x = net.input(MORTISE_F32, {count}), y = net.input(MORTISE_F32, {count});
  net.output(net.op("div", {x, y}));
  net.output(net.op("sqrt", {x}));
  const Region region(found->front()->device, net.finish());
  Stream stream(found->front()->device);
  std::mt19937 random(5);
  std::vector<float> left(count), right(count);
  for (int64_t i = 0; i < count; ++i) { // of all magnitudes, results that are subnormal among them
    left[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
    right[i] = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (i % 4 == 0)
      left[i] = std::ldexp(1 + static_cast<float>(random() % 8), -140),
      right[i] = static_cast<float>(1 + random() % 64);
  }
  const MortiseAddress a = stream.put(left), b = stream.put(right), c = stream.allocate(4 * count),
                       d = stream.allocate(4 * count);
  ASSERT_TRUE(region.enqueue(stream, {a, b}, {c, d}));
  const auto quotients = stream.take<float>(c, count), roots = stream.take<float>(d, count);
  const auto same = [](float result, float expected) {
    return std::isnan(expected) ? std::isnan(result)
                                : std::bit_cast<uint32_t>(result) == std::bit_cast<uint32_t>(expected);
  };
  for (int64_t i = 0; i < count; ++i) {
    ASSERT_TRUE(same(quotients[i], left[i] / right[i])) << left[i] << " / " << right[i] << " = " << quotients[i];
    ASSERT_TRUE(same(roots[i], std::sqrt(left[i]))) << "sqrt " << left[i] << " = " << roots[i];
  }
}

// As on a driver whose comparisons and conversions of f32 take subnormal numbers for 0.
TEST_F(Lavapipe, SubnormalNumbersAreComparedAndConverted) {
  const auto found = start(lavapipe, "libvulkan.so.1", "promised");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_NE(std::string(found->front()->features).find("flushes"), std::string::npos) << found->front()->features;
  std::vector<float> left, right; // all pairs
  const float least = std::numeric_limits<float>::denorm_min(), top = std::bit_cast<float>(0x007fffffU),
              normal = std::numeric_limits<float>::min(), inf = INFINITY;
  for (const float x : {0.0f, -0.0f, least, -least, top, -top, normal, -normal, 1.0f, -1.5f, inf, -inf, NAN})
    for (const float y : {0.0f, -0.0f, least, -least, top, -top, normal, -normal, 1.0f, -1.5f, inf, -inf, NAN})
      left.push_back(x), right.push_back(y);
  const auto count = static_cast<int64_t>(left.size());
  constexpr const char *directions[] = {"eq", "ne", "lt", "le", "gt", "ge"};
  Network net;
  const ValueId x = net.input(MORTISE_F32, {count}), y = net.input(MORTISE_F32, {count});
  for (const char *direction : directions)
    net.output(net.op("compare", {x, y}, {text("direction", direction)}));
  net.output(net.op("max", {x, y}));
  net.output(net.op("min", {x, y}));
  const ValueId wide = net.op("convert", {x}, {text("dtype", "f64")});
  net.output(wide);
  net.output(net.op("convert", {net.op("mul", {wide, net.op("convert", {y}, {text("dtype", "f64")})})},
                    {text("dtype", "f32")})); // rounded, to subnormal numbers too
  const Region region(found->front()->device, net.finish());
  Stream stream(found->front()->device);
  std::vector<MortiseAddress> to;
  for (size_t i = 0; i < 10; ++i)
    to.push_back(stream.allocate(8 * left.size()));
  ASSERT_TRUE(region.enqueue(stream, {stream.put(left), stream.put(right)}, to));
  for (size_t d = 0; d < std::size(directions); ++d) {
    const auto results = stream.take<uint8_t>(to[d], left.size());
    for (size_t i = 0; i < left.size(); ++i) {
      const float a = left[i], b = right[i];
      const bool expected[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
      ASSERT_EQ(results[i], expected[d]) << a << " " << directions[d] << " " << b;
    }
  }
  const auto largest = stream.take<float>(to[6], left.size()), smallest = stream.take<float>(to[7], left.size());
  const auto widened = stream.take<double>(to[8], left.size());
  const auto products = stream.take<float>(to[9], left.size());
  const auto same = [](double result, double expected) {
    return std::isnan(expected) ? std::isnan(result)
                                : result == expected && std::signbit(result) == std::signbit(expected);
  };
  for (size_t i = 0; i < left.size(); ++i) {
    const float a = left[i], b = right[i], none = a + b;
    EXPECT_TRUE(same(widened[i], a)) << a;
    EXPECT_TRUE(same(products[i], static_cast<float>(double(a) * double(b))))
        << a << " * " << b << " gave " << products[i];
    if (a == b)
      continue; // zeros, whose signs the language orders
    EXPECT_TRUE(same(largest[i], std::isnan(none) && (std::isnan(a) || std::isnan(b)) ? none : std::max(a, b)));
    EXPECT_TRUE(same(smallest[i], std::isnan(none) && (std::isnan(a) || std::isnan(b)) ? none : std::min(a, b)));
  }
}

TEST_F(Lavapipe, NumbersOf64BitsAreRoundedToEven) {
  const std::vector<double> given{0.0,        0.25,         0.5,          1.0,        1.5,    2.5,   3.5,      0.75,
                                  1e15 + 0.5, 0x1p51 + 0.5, 0x1p52 - 0.5, 0x1p52 + 1, 0x1p53, 1e300, INFINITY, NAN};
  std::vector<double> x = given;
  for (const double each : given)
    x.push_back(-each);
  Network net;
  net.output(net.op("round", {net.input(MORTISE_F64, {static_cast<int64_t>(x.size())})}));
  const Region region(device, net.finish());
  Stream stream(device);
  const MortiseAddress to = stream.allocate(8 * x.size());
  ASSERT_TRUE(region.enqueue(stream, {stream.put(x)}, {to}));
  const std::vector<double> found = stream.take<double>(to, x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double expected = std::nearbyint(x[i]);
    EXPECT_TRUE(std::isnan(expected) ? std::isnan(found[i])
                                     : found[i] == expected && std::signbit(found[i]) == std::signbit(expected))
        << x[i] << " gave " << found[i];
  }
}

// llvmpipe finds no number that was widened from i32 to i64 less than a constant, and all of them at least as large.
TEST_F(Lavapipe, WidenedNumbersAreComparedWithConstants) {
  const std::vector<int32_t> x{5, 1, -6, -9, 2, 100, -128, 0, 7, -7, INT32_MAX, INT32_MIN};
  const std::vector<int64_t> constants{0, -7, 7, INT64_C(1) << 40, -(INT64_C(1) << 40)};
  const char *const directions[] = {"lt", "le", "gt", "ge"};
  Network net;
  const ValueId wide =
      net.op("convert", {net.input(MORTISE_I32, {static_cast<int64_t>(x.size())})}, {text("dtype", "i64")});
  for (const int64_t constant : constants)
    for (const char *direction : directions)
      net.output(net.op("compare",
                        {wide, net.splat(static_cast<double>(constant), {static_cast<int64_t>(x.size())}, MORTISE_I64)},
                        {text("direction", direction)}));
  const Region region(device, net.finish());
  Stream stream(device);
  std::vector<MortiseAddress> results;
  for (size_t i = 0; i < constants.size() * std::size(directions); ++i)
    results.push_back(stream.allocate(x.size()));
  ASSERT_TRUE(region.enqueue(stream, {stream.put(x)}, results));
  size_t result = 0;
  for (const int64_t constant : constants)
    for (const char *direction : directions) {
      const std::vector<uint8_t> found = stream.take<uint8_t>(results[result++], x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        const int64_t number = x[i];
        const bool isLess = direction[0] == 'l', holds = isLess ? number < constant : number > constant;
        EXPECT_EQ(found[i] != 0, holds || (direction[1] == 'e' && number == constant))
            << number << " " << direction << " " << constant;
      }
    }
}

TEST_F(Lavapipe, CopiesHappenInTheStreamsOrder) {
  Network net;
  const ValueId x = net.input(MORTISE_I32, {1 << 20});
  net.output(net.op("add", {x, x}));
  const Region region(device, net.finish());
  Stream stream(device);
  const std::vector<int32_t> ones(1 << 20, 1), sevens(1 << 20, 7);
  const MortiseAddress a = stream.put(ones), b = stream.allocate(4 << 20), c = stream.allocate(4 << 20);
  ASSERT_TRUE(region.enqueue(stream, {a}, {b}));
  stream.upload(a, sevens.data(), 4 << 20); // behind the kernel that reads it
  stream.copy(c, b, 4 << 20);
  ASSERT_TRUE(region.enqueue(stream, {a}, {b}));
  EXPECT_EQ(stream.take<int32_t>(c, 1 << 20), std::vector<int32_t>(1 << 20, 2));
  EXPECT_EQ(stream.take<int32_t>(b, 1 << 20), std::vector<int32_t>(1 << 20, 14));
}

TEST_F(Lavapipe, StepsAreTimed) {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {256, 1024});
  net.output(net.op("reduce_sum", {net.op("exp", {x})}, {ints("axes", {0})}));
  const Region region(device, net.finish());
  Stream stream(device);
  const MortiseAddress from = stream.put(std::vector<float>(256 * 1024, 0)), to = stream.allocate(4096);
  std::vector<uint64_t> times(region.steps);
  ASSERT_TRUE(region.enqueue(stream, {from}, {to}, times.data()));
  EXPECT_EQ(stream.take<float>(to, 1024), std::vector<float>(1024, 256));
  for (const uint64_t time : times)
    EXPECT_GT(time, 0U);
}

TEST_F(Lavapipe, WhatDoesNotFitIsRefusedAndTheStreamGoesOn) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.bytes = uint64_t{1} << 40;
  const auto asked = call(vulkanPlugin().memory_allocate, args);
  ASSERT_FALSE(asked);
  EXPECT_EQ(asked.error().code, MORTISE_OUT_OF_MEMORY) << asked.error().message;
  Stream stream(device);
  EXPECT_TRUE(stream.wait());
}

TEST_F(Lavapipe, ForeignMemoryFailsTheStreamUntilItIsReset) {
  Stream stream(device);
  int32_t word = 0;
  const MortiseAddress mine = stream.allocate(4);
  EXPECT_THROW(stream.copy(mine, reinterpret_cast<MortiseAddress>(&word), 4), Failed);
  const auto failed = stream.wait();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, MORTISE_INVALID_ARGUMENT);
  MortiseStreamArgs args{};
  args.device = device;
  args.stream = stream.handle;
  ASSERT_TRUE(call(vulkanPlugin().stream_reset, args));
  EXPECT_TRUE(stream.wait());
}

} // namespace
} // namespace mortise::test
