// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory-bound kernels of one device beside a copy of as many bytes, all queued back to back on tensors that lie there.
// Prints one line of JSON for each case: GB/s by the host's clock, medians of interleaved rounds (each input is read
// once, each output written once); of the copy the better of two, the device's own (`driver_copy_gbps`) and a kernel's
// that changes signs, because copies of a driver may be slow (an eighth of a kernel's, on an H200 through Vulkan);
// `device_gbps`: of single calls by the device's clock; `spread`: what the rounds differ by, relative to the median,
// and `rounds`, how many there were until they agreed; and `error`: the greatest distance of some elements from their
// values in f64, in units in the last place of the result's type at the largest of them. Arguments: a device, and the
// MiB of a tensor. MORTISE_* configure the rest.
#include "get.hpp"

#include <mortise/graph.hpp>
#include <mortise/mortise.hpp>
#include <mortise/reference/formats.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <limits>
#include <random>
#include <tuple>

namespace {
using namespace mortise;
using bench::get;
using namespace mortise::api;
using Clock = std::chrono::steady_clock;
using Numbers = std::vector<double>;

constexpr size_t rounds = 7, mostRounds = 60; // the last ones count, once they agree within `agreement`
constexpr double roundSeconds = 0.05, epsilon = 1e-6, agreement = 0.03;
// A GPU that waits for the host lowers its clocks and takes a while to raise them again: an H200 ran everything, copies
// too, at a fifth to a half of its speed for half a second, and short of it for longer.
constexpr double warmSeconds = 1.5;

enum class Kind : uint8_t { Softmax, LayerNorm, RmsNormSilu, BiasGeluResidual, ColumnSum };
constexpr const char *names[] = {"softmax", "layer_norm", "rms_norm_silu", "bias_gelu_residual", "column_sum"};

struct Case {
  Kind kind;
  int32_t dtype;
  int64_t rows, columns;
  std::string name() const {
    return std::string(names[static_cast<size_t>(kind)]) + " " + std::to_string(rows) + "x" + std::to_string(columns) +
           " " + dtypeName(dtype);
  }
  std::vector<std::vector<int64_t>> inputs() const {
    const std::vector<int64_t> all{rows, columns}, row{columns};
    switch (kind) {
    case Kind::LayerNorm:
      return {all, row, row};
    case Kind::RmsNormSilu:
      return {all, row};
    case Kind::BiasGeluResidual:
      return {all, row, all};
    default:
      return {all};
    }
  }
  std::vector<int64_t> output() const {
    return kind == Kind::ColumnSum ? std::vector{columns} : std::vector{rows, columns};
  }
};

uint32_t build(Builder &b, const Case &one, const std::vector<uint32_t> &in) {
  switch (one.kind) {
  case Kind::Softmax:
    return get(b.op("mortise.softmax", {in[0]}, {{"axis", 1}}));
  case Kind::LayerNorm:
    return get(b.op("mortise.layer_norm", {in[0], in[1], in[2]}, {{"axis", 1}, {"epsilon", epsilon}}));
  case Kind::RmsNormSilu:
    return get(
        b.op("mortise.silu", {get(b.op("mortise.rms_norm", {in[0], in[1]}, {{"axis", 1}, {"epsilon", epsilon}}))}));
  case Kind::BiasGeluResidual: {
    const uint32_t bias = get(b.op("mortise.broadcast", {in[1]},
                                   {{"shape", std::vector{one.rows, one.columns}}, {"axes", std::vector<int64_t>{1}}}));
    const uint32_t sum = get(b.op("mortise.add", {in[0], bias}));
    return get(b.op("mortise.add", {get(b.op("mortise.gelu", {sum}, {{"approximate", "none"}})), in[2]}));
  }
  case Kind::ColumnSum:
    return get(b.op("mortise.reduce_sum", {in[0]}, {{"axes", std::vector<int64_t>{0}}}));
  }
  std::abort();
}

// A row of the result from that of the operands; of a sum of columns, a column from a column.
Numbers exact(const Case &one, const std::vector<Numbers> &in) {
  const Numbers &x = in[0];
  const auto count = static_cast<double>(x.size());
  Numbers y(x.size());
  double sum = 0;
  switch (one.kind) {
  case Kind::Softmax: {
    const double top = *std::ranges::max_element(x);
    for (const double each : x)
      sum += std::exp(each - top);
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = std::exp(x[i] - top) / sum;
    break;
  }
  case Kind::LayerNorm: {
    double squares = 0;
    for (const double each : x)
      sum += each;
    for (const double each : x)
      squares += (each - sum / count) * (each - sum / count);
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = (x[i] - sum / count) / std::sqrt(squares / count + epsilon) * in[1][i] + in[2][i];
    break;
  }
  case Kind::RmsNormSilu:
    for (const double each : x)
      sum += each * each;
    for (size_t i = 0; i < x.size(); ++i) {
      const double normal = x[i] / std::sqrt(sum / count + epsilon) * in[1][i];
      y[i] = normal / (1 + std::exp(-normal));
    }
    break;
  case Kind::BiasGeluResidual:
    for (size_t i = 0; i < x.size(); ++i)
      y[i] = 0.5 * (x[i] + in[1][i]) * std::erfc(-(x[i] + in[1][i]) / std::sqrt(2.0)) + in[2][i];
    break;
  case Kind::ColumnSum:
    for (const double each : x)
      sum += each;
    return {sum};
  }
  return y;
}

// ---- Tensors

int64_t count(const std::vector<int64_t> &dims) {
  int64_t all = 1;
  for (const int64_t dim : dims)
    all *= dim;
  return all;
}

struct Host { // dense
  int32_t dtype;
  std::vector<int64_t> dims;
  std::vector<std::byte> bytes;
  Host(int32_t dtype, const std::vector<int64_t> &dims)
      : dtype(dtype), dims(dims), bytes(static_cast<size_t>(count(dims)) * dtypeBits(dtype) / 8) {}
  double at(int64_t i) const {
    return reference::visitElement(dtype, [&]<typename T>(T) {
      return static_cast<double>(T::load(reinterpret_cast<const typename T::Storage *>(bytes.data())[i]));
    });
  }
  void set(int64_t i, double value) {
    reference::visitElement(dtype, [&]<typename T>(T) {
      reinterpret_cast<typename T::Storage *>(bytes.data())[i] = T::store(static_cast<typename T::Compute>(value));
    });
  }
  // Numbers i0, i0 + step ..
  Numbers some(int64_t first, int64_t step, int64_t many) const {
    Numbers found;
    for (int64_t i = 0; i < many; ++i)
      found.push_back(at(first + i * step));
    return found;
  }
  Tensor tensor() { return {bytes.data(), dtype, dims}; }
};

struct OnDevice {
  Memory memory;
  Tensor tensor;
  MortiseTensor view;
  OnDevice(Device device, int32_t dtype, const std::vector<int64_t> &dims)
      : memory(get(Memory::allocate(device, static_cast<uint64_t>(count(dims)) * dtypeBits(dtype) / 8))),
        tensor(memory.data(), dtype, dims, device), view(tensor.view()) {}
};

// Some millions of random numbers, repeated.
Host randomNumbers(int32_t dtype, const std::vector<int64_t> &dims, std::mt19937_64 &random) {
  Host host(dtype, dims);
  std::normal_distribution<float> normal;
  const int64_t all = count(dims), fresh = std::min<int64_t>(all, 4'194'301);
  for (int64_t i = 0; i < fresh; ++i)
    host.set(i, normal(random));
  const size_t size = dtypeBits(dtype) / 8;
  for (int64_t i = fresh; i < all; i += fresh)
    std::copy_n(host.bytes.data(), std::min(fresh, all - i) * size, host.bytes.data() + i * size);
  return host;
}

// ---- Measuring

struct Work {
  Program program;
  std::vector<const MortiseTensor *> inputs, outputs;
  double seconds(Queue &queue, int calls) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i)
      get(program.enqueue(queue, inputs, outputs));
    get(queue.wait());
    return std::chrono::duration<double>(Clock::now() - begin).count() / calls;
  }
};

// Seconds of the steps of one call, by the device's clock where the plugin reads it.
double deviceSeconds(Work &work) {
  const auto steps = [&] { // nanoseconds, of all profiled calls together
    double all = 0;
    const auto report = nlohmann::json::parse(get(work.program.report()));
    for (const auto &region : report.at("placement"))
      for (const auto &step : region.at("steps"))
        all += step.at("ns").get<double>();
    return all;
  };
  const double before = steps();
  get(take(mortise_program_profile(work.program.get(), work.inputs.data(), work.inputs.size(), work.outputs.data(),
                                   work.outputs.size())));
  return (steps() - before) * 1e-9;
}

// The seconds of the last rounds.
class Rounds {
public:
  void add(double seconds) {
    last.push_back(seconds);
    if (last.size() > rounds)
      last.pop_front();
  }
  double median() const { return sorted()[last.size() / 2]; }
  double spread() const {
    const std::vector<double> all = sorted();
    return (all.back() - all.front()) / median();
  }
  static bool faster(const Rounds &one, const Rounds &other) { return one.median() < other.median(); }

private:
  std::vector<double> sorted() const {
    std::vector<double> all(last.begin(), last.end());
    std::ranges::sort(all);
    return all;
  }
  std::deque<double> last;
};

// The greatest distance in units in the last place.
double errorOf(const Case &one, const std::vector<Host> &in, const Host &out) {
  const double unit = one.dtype == MORTISE_F32 ? 0x1p-23 : 0x1p-7;
  double worst = 0;
  const bool columns = one.kind == Kind::ColumnSum;
  for (const int64_t at :
       {int64_t{0}, (columns ? one.columns : one.rows) / 2, (columns ? one.columns : one.rows) - 1}) {
    std::vector<Numbers> operands;
    for (const Host &each : in)
      operands.push_back(columns ? each.some(at, one.columns, one.rows)
                                 : each.some(each.dims.size() == 1 ? 0 : at * one.columns, 1, one.columns));
    const Numbers wanted = exact(one, operands),
                  found = columns ? out.some(at, 1, 1) : out.some(at * one.columns, 1, one.columns);
    double largest = std::numeric_limits<double>::min();
    for (const double each : wanted)
      largest = std::max(largest, std::abs(each));
    if (columns) // terms that cancel are not the sum's own size
      largest = std::max(largest, std::sqrt(static_cast<double>(one.rows)));
    for (size_t i = 0; i < wanted.size(); ++i) {
      const double distance = std::abs(found[i] - wanted[i]) / std::exp2(std::floor(std::log2(largest))) / unit;
      worst = std::isnan(distance) ? std::numeric_limits<double>::infinity() : std::max(worst, distance);
    }
  }
  return worst;
}

nlohmann::ordered_json measure(Session &session, Device device, const std::string &place, const Case &one) {
  std::mt19937_64 random(one.columns);
  Queue queue = get(Queue::create(device));
  std::vector<Host> hosts;
  std::vector<OnDevice> tensors;
  uint64_t bytes = 0;
  Builder builder = get(session.builder(one.name()));
  std::vector<uint32_t> values;
  for (const std::vector<int64_t> &dims : one.inputs()) {
    hosts.push_back(randomNumbers(one.dtype, dims, random));
    tensors.emplace_back(device, one.dtype, dims);
    get(copy(tensors.back().tensor, hosts.back().tensor()));
    bytes += hosts.back().bytes.size();
    values.push_back(get(builder.input("x" + std::to_string(values.size()), one.dtype, dims)));
    get(builder.inputDevice(values.size() - 1, device));
  }
  Host result(one.dtype, one.output());
  bytes += result.bytes.size();
  get(builder.output(build(builder, one, values)));
  get(builder.outputDevice(0, device));
  OnDevice to(device, one.dtype, one.output());
  Work kernel{get(session.compile(builder, {{"device", place}})), {}, {&to.view}};
  for (const OnDevice &each : tensors)
    kernel.inputs.push_back(&each.view);

  // A result that is an input: the device's own copy.
  const std::vector<int64_t> half{static_cast<int64_t>(bytes / 2)}; // read and written
  Builder copying = get(session.builder("copy"));
  get(copying.output(get(copying.input("from", MORTISE_UI8, half))));
  get(copying.inputDevice(0, device));
  get(copying.outputDevice(0, device));
  const OnDevice from(device, MORTISE_UI8, half), target(device, MORTISE_UI8, half);

  const std::vector<int64_t> words{static_cast<int64_t>(bytes / 8)};
  Builder changing = get(session.builder("neg"));
  get(changing.output(get(changing.op("mortise.neg", {get(changing.input("from", MORTISE_F32, words))}))));
  get(changing.inputDevice(0, device));
  get(changing.outputDevice(0, device));
  const OnDevice numbers(device, MORTISE_F32, words), changed(device, MORTISE_F32, words);
  Work signs{get(session.compile(changing, {{"device", place}})), {&numbers.view}, {&changed.view}};
  Work copy{get(session.compile(copying, {{"device", place}})), {&from.view}, {&target.view}};

  for (Work *work : {&kernel, &copy})
    work->seconds(queue, 2);
  for (const auto begin = Clock::now(); Clock::now() - begin < std::chrono::duration<double>(warmSeconds);)
    signs.seconds(queue, 20);
  const int calls = std::max(1, static_cast<int>(roundSeconds / copy.seconds(queue, 1)));
  Rounds times, copyTimes, signTimes, deviceTimes;
  size_t round = 0;
  const auto apart = [&] { return std::max(times.spread(), std::min(copyTimes, signTimes, Rounds::faster).spread()); };
  while (round < rounds || (round < mostRounds && apart() > agreement)) {
    times.add(kernel.seconds(queue, calls));
    copyTimes.add(copy.seconds(queue, calls));
    signTimes.add(signs.seconds(queue, calls));
    ++round;
  }
  for (size_t i = 0; i < rounds; ++i)
    deviceTimes.add(deviceSeconds(kernel));
  get(api::copy(result.tensor(), to.tensor));
  Host sent(MORTISE_UI8, half), received(MORTISE_UI8, half);
  get(api::copy(sent.tensor(), from.tensor));
  get(api::copy(received.tensor(), target.tensor));
  if (sent.bytes != received.bytes)
    get<void>(Error{MORTISE_INTERNAL, "the device's copy has not copied"});
  const auto rate = [&](const Rounds &seconds) { return static_cast<double>(bytes) / seconds.median() / 1e9; };
  return {{"name", one.name()},
          {"gbps", rate(times)},
          {"copy_gbps", std::max(rate(copyTimes), rate(signTimes))},
          {"driver_copy_gbps", rate(copyTimes)},
          {"device_gbps", rate(deviceTimes)},
          {"spread", apart()},
          {"rounds", round},
          {"error", errorOf(one, hosts, result)}};
}

} // namespace

int main(int argc, char **argv) {
  const int64_t megabytes = argc >= 3 ? std::strtoll(argv[2], nullptr, 10) : 0;
  const std::vector<std::string_view> wanted(argv + std::min(argc, 3), argv + argc);
  if (megabytes < 1) {
    std::fprintf(stderr, "usage: mortise_device_speed DEVICE MIB [softmax|layer_norm|rms_norm_silu|...]...\n");
    return 2;
  }
  Session session = get(Session::create({{"device", argv[1]}}));
  const Device device = get(session.device(argv[1]));
  std::vector<Case> cases;
  for (const Kind kind : {Kind::Softmax, Kind::LayerNorm, Kind::RmsNormSilu, Kind::BiasGeluResidual, Kind::ColumnSum}) {
    if (!wanted.empty() && std::ranges::find(wanted, names[static_cast<size_t>(kind)]) == wanted.end())
      continue;
    for (const auto &[columns, bytes, dtype] : {std::tuple<int64_t, int64_t, int32_t>{4096, 2, MORTISE_BF16},
                                                {4096, 4, MORTISE_F32},
                                                {1000, 2, MORTISE_BF16}})
      cases.push_back({kind, dtype, (megabytes << 20) / (columns * bytes), columns});
  }
  for (const Case &one : cases)
    std::cout << measure(session, device, argv[1], one).dump() << std::endl;
}
