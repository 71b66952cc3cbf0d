// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random library calls against the reference: products and convolutions whose operands are transposed, sliced and
// broadcast, with chains of what may be fused behind them, and results that are stored through views. Run at every
// instruction set that the machine has, because oneDNN has other implementations for each.
//
// MORTISE_TEST_FUSION_SEED repeats a run (each program's seed is the first one's plus its number), and
// MORTISE_TEST_FUSION_PROGRAMS says how many programs to make.
#include "network.hpp"

#include <mortise/reference/formats.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <limits>
#include <numeric>
#include <random>
#include <unistd.h>

namespace mortise::test {
namespace {

using Dims = std::vector<int64_t>;

uint64_t currentSeed = 0;

// A crash ends the process before GoogleTest names the program.
void reportCrash(int number) {
  char line[96];
  int length = std::snprintf(line, sizeof line, "signal %d in MORTISE_TEST_FUSION_SEED=%llu\n", number,
                             static_cast<unsigned long long>(currentSeed));
  [[maybe_unused]] auto written = write(STDERR_FILENO, line, static_cast<size_t>(length));
  std::signal(number, SIG_DFL);
  std::raise(number);
}

uint64_t number(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

class Program {
public:
  explicit Program(uint64_t seed) : random(seed) {}
  void product();
  void convolution();
  void siblings();
  Network net;
  int32_t dtype = MORTISE_F32;
  // In bf16 and f16 values are small integers until the last op, so that the interpreter, which rounds after each op,
  // and fused ops, which do not, agree. (A rounding that the interpreter's own values do not need, but a neighbour's
  // does, is not seen by the measured error: sums that cancel in 8 bits would be held to less than one of them.)
  bool isWhole() const { return dtype != MORTISE_F32; }

private:
  int64_t below(int64_t count) { return static_cast<int64_t>(random() % static_cast<uint64_t>(count)); }
  bool chance(int percent) { return below(100) < percent; }
  int64_t extent() {
    static constexpr int64_t some[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 33};
    return some[below(std::size(some))];
  }
  std::vector<int64_t> order(size_t rank) {
    std::vector<int64_t> list(rank);
    std::iota(list.begin(), list.end(), 0);
    std::shuffle(list.begin(), list.end(), random);
    return list;
  }
  ValueId leaf(const Dims &dims, bool constant) { return constant ? net.weight(dims, dtype) : net.input(dtype, dims); }
  ValueId operand(const Dims &dims, bool constant);
  ValueId splat(double value, ValueId like) { return net.splat(value, net.dims(like), dtype); }
  ValueId clip(ValueId x, bool lowFirst) {
    const double high = isWhole() ? 3 : 0.75;
    for (bool low : {lowFirst, !lowFirst})
      x = low ? net.op("max", {splat(0, x), x}) : net.op("min", {x, splat(high, x)});
    return x;
  }
  ValueId hardSwish(ValueId x, bool divides) {
    ValueId gate = net.op("min", {net.op("relu", {net.op("add", {x, splat(3, x)})}), splat(6, x)});
    ValueId product = net.op("mul", {x, gate});
    return divides ? net.op("div", {product, splat(6, x)}) : net.op("mul", {product, splat(1.0 / 6, x)});
  }
  ValueId epilogue(ValueId value);
  ValueId behindViews(ValueId value);
  void pickType() { dtype = chance(70) ? MORTISE_F32 : chance(50) ? MORTISE_BF16 : MORTISE_F16; }

  std::mt19937_64 random;
};

// A value of these extents: an input or weight, seen through views.
ValueId Program::operand(const Dims &dims, bool constant) {
  switch (dims.empty() ? 0 : below(6)) {
  case 1: { // stored in another order
    std::vector<int64_t> permutation = order(dims.size());
    Dims stored(dims.size());
    for (size_t i = 0; i < dims.size(); ++i)
      stored[permutation[i]] = dims[i];
    return net.transpose(leaf(stored, constant), permutation);
  }
  case 2: { // a part, from some start, in steps
    Dims stored = dims, starts(dims.size(), 0), limits = dims, strides(dims.size(), 1);
    const size_t axis = static_cast<size_t>(below(static_cast<int64_t>(dims.size())));
    starts[axis] = below(3);
    strides[axis] = 1 + below(2);
    limits[axis] = starts[axis] + (dims[axis] - 1) * strides[axis] + 1;
    stored[axis] = limits[axis] + below(3);
    return net.op("slice", {leaf(stored, constant)},
                  {ints("starts", starts), ints("limits", limits), ints("strides", strides)});
  }
  case 3: { // repeated along some of the dimensions
    Dims stored, axes;
    for (size_t i = 0; i < dims.size(); ++i)
      if (chance(50)) {
        stored.push_back(dims[i]);
        axes.push_back(static_cast<int64_t>(i));
      }
    return net.broadcast(leaf(stored, constant), dims, axes);
  }
  case 4: { // merged or split
    int64_t count = 1;
    for (int64_t dim : dims)
      count *= dim;
    return net.reshape(leaf({count}, constant), dims);
  }
  default:
    return leaf(dims, constant);
  }
}

ValueId Program::epilogue(ValueId value) {
  const Dims dims = net.dims(value);
  // What error_bounds.hpp measures knows no error of a result that happens to be exact, and may miss one that is below
  // the next number. The library's functions err there, by a unit in the last place, which a sum that cancels would
  // show. So there is no logistic of a clip's zeros, and no sum behind an approximated function.
  bool zeros = false, approximated = false;
  for (int64_t left = below(5); left > 0; --left) {
    static constexpr const char *activations[] = {"logistic", "relu", "tanh", "silu", "gelu"};
    static constexpr const char *operations[] = {"add", "mul", "sub", "add"};
    if (chance(15)) {
      const bool swish = chance(50);
      zeros = true;
      approximated |= swish;
      value = swish ? hardSwish(value, chance(50)) : clip(value, chance(50));
      if (swish && isWhole())
        break;
      continue;
    }
    if (chance(30)) {
      const char *name =
          zeros ? activations[1 + below(std::size(activations) - 1)] : activations[below(std::size(activations))];
      (std::string_view(name) == "relu" ? zeros : approximated) = true;
      std::vector<Attribute> attributes;
      if (std::string_view(name) == "gelu")
        attributes.push_back(text("approximate", chance(50) ? "tanh" : "none"));
      value = net.op(name, {value}, attributes);
      if (isWhole() && std::string_view(name) != "relu")
        break;
      continue;
    }
    ValueId other = chance(20) ? net.splat((isWhole() ? 1 : 0.25) * static_cast<double>(below(8)) - 1, dims, dtype)
                               : operand(dims, chance(50));
    const char *name = approximated ? "mul" : operations[below(std::size(operations))];
    value = chance(50) ? net.op(name, {value, other}) : net.op(name, {other, value});
  }
  return value;
}

ValueId Program::behindViews(ValueId value) {
  for (int64_t left = below(3); left > 0; --left) {
    Dims dims = net.dims(value);
    if (chance(60)) {
      value = net.transpose(value, order(dims.size()));
    } else if (dims.size() > 1 && chance(60)) {
      const size_t at = static_cast<size_t>(below(static_cast<int64_t>(dims.size()) - 1));
      dims[at] *= dims[at + 1];
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(at) + 1);
      value = net.reshape(value, dims);
    } else {
      for (size_t i = 0; i < dims.size(); ++i)
        if (dims[i] % 2 == 0) {
          dims[i] /= 2;
          dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(i) + 1, 2);
          break;
        }
      value = net.reshape(value, dims);
    }
  }
  return value;
}

void Program::product() {
  pickType();
  const bool constant = chance(50);
  ValueId value;
  if (chance(30) && dtype == MORTISE_F32) { // hosts decompose what the plugin refuses
    Dims x;
    for (int64_t rank = below(3); rank > 0; --rank)
      x.push_back(extent());
    x.push_back(extent());
    const int64_t columns = extent();
    const bool transposed = chance(50);
    ValueId weight = operand(transposed ? Dims{x.back(), columns} : Dims{columns, x.back()}, constant);
    value =
        net.linear(operand(x, false), weight, chance(50) ? operand({columns}, chance(50)) : ir::noValue, transposed);
  } else {
    // Each dimension has a role; both sides list theirs in an order of their own.
    Dims batch, rows, columns, inner;
    for (auto [list, most] : {std::pair{&batch, 3}, std::pair{&rows, 3}, std::pair{&columns, 3}})
      for (int64_t count = below(most); count > 0; --count)
        list->push_back(extent());
    inner.push_back(extent());
    Dims sides[2], batches[2], sums[2];
    for (int side = 0; side < 2; ++side) {
      const Dims &own = side ? columns : rows;
      const size_t rank = batch.size() + own.size() + 1;
      std::vector<int64_t> place = order(rank);
      std::sort(place.begin() + static_cast<std::ptrdiff_t>(batch.size()), place.end() - 1);
      sides[side].resize(rank);
      for (size_t i = 0; i < batch.size(); ++i)
        sides[side][place[i]] = batch[i];
      for (size_t i = 0; i < own.size(); ++i)
        sides[side][place[batch.size() + i]] = own[i];
      sides[side][place[rank - 1]] = inner[0];
      batches[side].assign(place.begin(), place.begin() + static_cast<std::ptrdiff_t>(batch.size()));
      sums[side] = {place[rank - 1]};
    }
    value = net.dot(operand(sides[0], false), operand(sides[1], constant), batches[0], batches[1], sums[0], sums[1]);
  }
  value = epilogue(value);
  if (chance(15))
    net.output(value);
  net.output(behindViews(value));
}

void Program::convolution() {
  pickType();
  const size_t spatial = 1 + static_cast<size_t>(below(3));
  const int64_t kind = below(3); // plain, depthwise, two groups
  const int64_t in = kind == 2 ? 2 * (1 + below(9)) : 1 + below(20);
  const int64_t out = kind == 1 ? in * (1 + below(2)) : kind == 2 ? 2 * (1 + below(9)) : 1 + below(20);
  const int64_t groups = kind == 0 ? 1 : kind == 1 ? in : 2;
  Dims x{1 + below(3), in}, w{out, in / groups}, strides, low, dilations;
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t window = 1 + below(3);
    w.push_back(window);
    strides.push_back(1 + below(2));
    dilations.push_back(1 + below(2));
    low.push_back(below(2));
    x.push_back((window - 1) * dilations.back() + 1 + below(9));
  }
  ValueId value = net.convolution(operand(x, false), operand(w, chance(80)), strides, low, groups, dilations);
  const Dims dims = net.dims(value);
  if (chance(50)) {
    value = net.op("add", {value, net.broadcast(leaf({out}, chance(80)), dims, {1})});
  }
  if (chance(30) && dtype == MORTISE_F32) {
    ValueId positive = net.op("exp", {net.weight({out})});
    value = net.op("batch_norm", {value, net.weight({out}), net.weight({out}), net.weight({out}), positive},
                   {real("epsilon", 1e-5)});
  }
  if (chance(30) && !isWhole()) { // a second one, in the first one's layout
    value = chance(50) ? net.op("relu", {value}) : clip(value, chance(50));
    const bool depthwise = chance(50);
    const int64_t window = depthwise ? 3 : 1;
    Dims second{out, depthwise ? 1 : out};
    second.resize(2 + spatial, window);
    value = net.convolution(value, net.weight(second, dtype), Dims(spatial, 1 + below(2)), Dims(spatial, window / 2),
                            depthwise ? out : 1);
  }
  value = epilogue(value);
  if (chance(15))
    net.output(value);
  net.output(behindViews(value));
}

// Products of one input by weights, which the plugin may merge, seen through views, with convolutions behind some.
void Program::siblings() {
  const int64_t positions = 3 + below(9), depth = extent();
  const ValueId x = operand({1 + below(2), positions, depth}, false);
  for (int64_t left = 2 + below(3); left > 0; --left) {
    const int64_t all = 2 + below(14);
    ValueId value = net.linear(x, leaf({all, depth}, true), chance(50) ? leaf({all}, true) : ir::noValue);
    Dims starts(3, 0), limits = net.dims(value);
    if (chance(40)) { // a part of its columns
      starts[2] = below(all);
      limits[2] = starts[2] + 1 + below(all - starts[2]);
      value = net.op("slice", {value}, {ints("starts", starts), ints("limits", limits), ints("strides", {1, 1, 1})});
    }
    if (chance(70)) {
      const int64_t channels = limits[2] - starts[2], window = 1 + below(3);
      const bool depthwise = chance(50);
      const ValueId w = leaf({depthwise ? channels : 1 + below(9), depthwise ? 1 : channels, window}, true);
      value = net.convolution(net.transpose(value, {0, 2, 1}), w, {1 + below(2)}, {below(window)},
                              depthwise ? channels : 1);
    }
    net.output(behindViews(epilogue(value)));
  }
}

// Integers of -2 to 2.
void wholeFill(const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
  std::mt19937_64 random(position * 7919 + 17);
  reference::visitElement(value.type->dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto *data = reinterpret_cast<typename Kind::Storage *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(*data); ++i)
      data[i] = Kind::store(static_cast<typename Kind::Compute>(static_cast<int64_t>(random() % 5) - 2));
  });
}

void run(void (Program::*make)()) {
  const uint64_t seed = number("MORTISE_TEST_FUSION_SEED", 1);
  const uint64_t programs = number("MORTISE_TEST_FUSION_PROGRAMS", 150);
  std::printf("MORTISE_TEST_FUSION_SEED=%llu MORTISE_TEST_FUSION_PROGRAMS=%llu\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(programs));
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    std::signal(signal, reportCrash);
  for (uint64_t i = 0; i < programs; ++i) {
    currentSeed = seed + i;
    SCOPED_TRACE("MORTISE_TEST_FUSION_SEED=" + std::to_string(currentSeed) + " MORTISE_TEST_FUSION_PROGRAMS=1");
    Program program(currentSeed);
    (program.*make)();
    Check how;
    how.fill = program.isWhole() ? wholeFill : randomFill;
    check(program.net, how);
  }
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    std::signal(signal, SIG_DFL);
}

TEST(RandomFusion, Products) { run(&Program::product); }
TEST(RandomFusion, Convolutions) { run(&Program::convolution); }
TEST(RandomFusion, Siblings) { run(&Program::siblings); }

// Where oneDNN has no bf16, a few rows of it are a loop of our own, which reads the weights as they lie.
TEST(Fusion, FewRowsOfBrainFloats) {
  for (int64_t rows : {1, 2, 3, 4, 5})
    for (int64_t depth : {512, 611}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(depth));
      Network net;
      ValueId x = net.input(MORTISE_BF16, {rows, depth}), w = net.weight({130, depth}, MORTISE_BF16);
      net.output(net.transpose(net.op("silu", {net.dot(x, w, {}, {}, {1}, {1})}), {1, 0}));
      Check how;
      how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
        randomFill(value, position, bytes);
        auto *data = reinterpret_cast<uint16_t *>(bytes.data());
        if (position == 0)
          data[bytes.size() / sizeof *data - 1] = 0x7fc0; // NaN, in the last row alone
        else
          data[7] = 0x7f80; // infinity
      };
      auto compiled = check(net, how);
      ASSERT_TRUE(compiled);
      const char *level = std::getenv("MORTISE_CPU_ISA");
      if (level && std::string_view(level) == "x86-64-v3") {
        EXPECT_EQ(compiled->hasStep("cpu.few_rows"), rows < 5) << compiled->text();
      }
    }
}

// A few rows of f32 are one as well, with a bias or without, and read the weights as they lie.
TEST(Fusion, FewRowsOfFloats) {
  for (int64_t rows : {1, 2, 3, 4, 5})
    for (int64_t depth : {512, 611})
      for (bool bias : {false, true}) {
        SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(depth) + (bias ? " + bias" : ""));
        Network net;
        ValueId x = net.input(MORTISE_F32, {rows, depth}), w = net.weight({130, depth});
        ValueId y = net.dot(x, w, {}, {}, {1}, {1});
        if (bias)
          y = net.op("add", {y, net.broadcast(net.weight({130}), {rows, 130}, {1})});
        net.output(net.op("silu", {y}));
        Check how;
        how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
          randomFill(value, position, bytes);
          auto *data = reinterpret_cast<float *>(bytes.data());
          if (position == 0)
            data[bytes.size() / sizeof *data - 1] = NAN; // in the last row alone
          else if (position == 1)
            data[7] = INFINITY;
        };
        auto compiled = check(net, how);
        ASSERT_TRUE(compiled);
        const char *level = std::getenv("MORTISE_CPU_ISA");
        if (!level || std::string_view(level) != "x86-64-v2") {
          EXPECT_EQ(compiled->hasStep("cpu.few_rows"), rows < 5) << compiled->text();
        }
      }
}

ValueId activate(Network &net, ValueId x, bool swish) {
  const auto constant = [&](double value) { return net.splat(value, net.dims(x)); };
  if (!swish)
    return net.op("min", {net.op("max", {x, constant(0)}), constant(0.5)});
  ValueId gate = net.op("min", {net.op("relu", {net.op("add", {x, constant(3)})}), constant(6)});
  return net.op("div", {net.op("mul", {x, gate}), constant(6)});
}

// Clips and hard-swish are fused, in blocked layouts, and hide no NaN.
TEST(Fusion, ClipsAndHardSwishOfConvolutions) {
  for (bool depthwise : {false, true})
    for (bool swish : {false, true}) {
      Network net;
      ValueId x = net.input(MORTISE_F32, {1, 32, 9, 9});
      ValueId w = net.weight({32, depthwise ? 1 : 32, 3, 3});
      ValueId y = net.convolution(x, w, {1, 1}, {1, 1}, depthwise ? 32 : 1);
      y = activate(net, y, swish);
      net.output(y);
      Check how;
      how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
        randomFill(value, position, bytes);
        auto *data = reinterpret_cast<float *>(bytes.data());
        for (size_t i = 0; i < bytes.size() / sizeof *data && position != 0; ++i)
          data[i] = std::abs(data[i]); // weights, so that infinity stays infinity
        if (position == 0) {
          data[40] = std::numeric_limits<float>::quiet_NaN();
          data[81] = std::numeric_limits<float>::infinity();
          data[162] = -0.0f;
        }
      };
      auto compiled = check(net, how);
      ASSERT_TRUE(compiled);
      for (const MortiseStep *step : compiled->steps())
        EXPECT_TRUE(std::string_view(step->lowering) == "onednn.reorder" ||
                    std::string_view(step->lowering) == (depthwise ? "cpu.depthwise" : "onednn.convolution"))
            << compiled->text();
    }
}

// An image of one element is row-major and channels last at once; its padded pool is not.
TEST(Fusion, PoolsOfOneElement) {
  for (int64_t channels : {8, 16, 24, 40}) {
    SCOPED_TRACE(std::to_string(channels) + " channels");
    Network net;
    ValueId x = net.input(MORTISE_F32, {2, 8, 3, 3});
    ValueId y = net.convolution(x, net.weight({channels, 8, 3, 3}), {1, 1}, {0, 0});
    net.output(net.op("sum_pool", {y},
                      {ints("window", {2, 2}), ints("strides", {1, 1}), ints("low", {1, 1}), ints("high", {1, 1}),
                       ints("dilations", {1, 1})}));
    ASSERT_TRUE(check(net));
  }
}

// The loop applies the activation before it as well: to rows in parts, at borders, and to channels that fill no vector.
TEST(Fusion, DepthwiseConvolutionsWithTheActivationOfTheirInput) {
  struct Case {
    int64_t channels, height, width, windowHeight, windowWidth, stride, low;
  };
  for (const Case &c :
       {Case{8, 9, 9, 3, 3, 1, 1}, Case{12, 9, 9, 3, 3, 2, 1}, Case{16, 3, 180, 3, 3, 1, 1},
        Case{40, 33, 3, 5, 5, 2, 2}, Case{17, 5, 110, 5, 5, 2, 2}, Case{3, 6, 11, 1, 7, 1, 0},
        Case{24, 11, 6, 7, 1, 1, 0}, Case{48, 3, 3, 3, 3, 1, 0}, Case{2, 7, 7, 3, 3, 1, 2}, Case{24, 1, 1, 3, 3, 1, 2}})
    for (bool swish : {false, true})
      for (bool activated : {false, true}) {
        SCOPED_TRACE(std::to_string(c.channels) + " channels, " + std::to_string(c.windowHeight) + "x" +
                     std::to_string(c.windowWidth) + (swish ? ", hard-swish" : ", clip"));
        Network net;
        ValueId x = net.input(MORTISE_F32, {2, 3, c.height, c.width});
        ValueId y = net.convolution(x, net.weight({c.channels, 3, 1, 1}), {1, 1}, {0, 0});
        y = activate(net, y, swish);
        y = net.convolution(y, net.weight({c.channels, 1, c.windowHeight, c.windowWidth}), {c.stride, c.stride},
                            {c.low, c.low}, c.channels);
        y = net.op("add", {y, net.broadcast(net.weight({c.channels}), net.dims(y), {1})});
        if (activated)
          y = activate(net, y, swish);
        net.output(y);
        Check how;
        how.fill = [](const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
          randomFill(value, position, bytes);
          if (position == 0) // in the last image alone
            reinterpret_cast<float *>(bytes.data())[bytes.size() / sizeof(float) - 3] =
                std::numeric_limits<float>::quiet_NaN();
        };
        auto compiled = check(net, how);
        ASSERT_TRUE(compiled);
        EXPECT_TRUE(compiled->hasStep("cpu.depthwise")) << compiled->text();
        EXPECT_FALSE(compiled->hasStep("generated")) << compiled->text();
      }
}

} // namespace
} // namespace mortise::test
