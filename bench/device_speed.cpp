// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory-bound kernels of one device beside a copy of as many bytes, all queued back to back on tensors that lie there.
// Prints one line of JSON for each case: GB/s, medians of interleaved rounds (each input is read once, each output
// written once); of the copy the better of two, the device's own (`driver_copy_gbps`) and a kernel's that changes
// signs, because copies of a driver may be slow (an eighth of a kernel's, on an H200 through Vulkan); and `error`: the
// greatest distance of some elements from their values in f64, in units in the last place of the result's type at the
// largest of them. Arguments: a device, and the MiB of a tensor. MORTISE_* configure the rest.
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
#include <iostream>
#include <limits>
#include <random>

namespace {
using namespace mortise;
using bench::get;
using namespace mortise::api;
using Clock = std::chrono::steady_clock;
using Numbers = std::vector<double>;

constexpr int rounds = 7;
constexpr double roundSeconds = 0.05, epsilon = 1e-6;

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

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

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

  std::vector<double> times, copyTimes, signTimes;
  for (Work *work : {&kernel, &copy, &signs})
    work->seconds(queue, 2);
  const int calls = std::max(1, static_cast<int>(roundSeconds / copy.seconds(queue, 1)));
  for (int round = 0; round < rounds; ++round) {
    times.push_back(kernel.seconds(queue, calls));
    copyTimes.push_back(copy.seconds(queue, calls));
    signTimes.push_back(signs.seconds(queue, calls));
  }
  get(api::copy(result.tensor(), to.tensor));
  Host sent(MORTISE_UI8, half), received(MORTISE_UI8, half);
  get(api::copy(sent.tensor(), from.tensor));
  get(api::copy(received.tensor(), target.tensor));
  if (sent.bytes != received.bytes)
    get<void>(Error{MORTISE_INTERNAL, "the device's copy has not copied"});
  const auto rate = [&](const std::vector<double> &seconds) {
    return static_cast<double>(bytes) / median(seconds) / 1e9;
  };
  return {{"name", one.name()},
          {"gbps", rate(times)},
          {"copy_gbps", std::max(rate(copyTimes), rate(signTimes))},
          {"driver_copy_gbps", rate(copyTimes)},
          {"error", errorOf(one, hosts, result)}};
}

} // namespace

int main(int argc, char **argv) {
  const int64_t megabytes = argc == 3 ? std::atoll(argv[2]) : 0;
  if (megabytes < 1) {
    std::fprintf(stderr, "usage: mortise_device_speed DEVICE MIB\n");
    return 2;
  }
  Session session = get(Session::create({{"device", argv[1]}}));
  const Device device = get(session.device(argv[1]));
  std::vector<Case> cases;
  for (const Kind kind : {Kind::Softmax, Kind::LayerNorm, Kind::RmsNormSilu, Kind::BiasGeluResidual, Kind::ColumnSum})
    for (const auto &[columns, dtype] :
         {std::pair<int64_t, int32_t>{4096, MORTISE_BF16}, {4096, MORTISE_F32}, {1000, MORTISE_BF16}})
      cases.push_back(
          {kind, dtype, (megabytes << 20) / (columns * static_cast<int64_t>(dtypeBits(dtype)) / 8), columns});
  for (const Case &one : cases)
    std::cout << measure(session, device, argv[1], one).dump() << std::endl;
}
