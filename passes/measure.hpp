// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times what plugins offer, for the mode max-autotune. Links no LLVM.
#pragma once

#include "propose.hpp"

#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/program.hpp>

#include <map>
#include <memory>
#include <mutex>

namespace mortise::passes {

// Dense numbers of a type that do not matter for the time: no NaN, no denormal, and integers that are valid indices.
std::vector<std::byte> plainNumbers(const MortiseType &type);

// A tensor of plain numbers in the memory where the device's kernels find it, or in the host's.
struct Buffer {
  std::vector<std::byte> bytes;
  runtime::DeviceMemory memory;
  runtime::Tensor tensor; // points into one of them, and to the dims of the type
};
Result<Buffer> bufferFor(const MortiseType &type, const runtime::Device *home); // NULL: the host's

// The time of all steps in all profiled runs of the program, as plugins clocked them.
double stepsNs(const runtime::Program &program);

class Measurements {
public:
  explicit Measurements(std::shared_ptr<const runtime::Registry> registry) : registry(std::move(registry)) {}

  // Replaces the costs of candidates, which are of `target`, by measured times of their regions. A region of symbols is
  // measured with typical numbers for them. What cannot be measured, or would need more than `mostBytes` of tensors,
  // costs what its plugin says, times the median by which that plugin has been wrong on this device.
  //
  // A time is kept on disk beside the kernels, by region, device and driver; a later process measures nothing again.
  void correct(const MortiseGraph &graph, const Target &target, std::span<Candidate> candidates);

  // The median of what was measured on the device, divided by what its plugin had said: kept on disk by correct(), for
  // the modes that measure nothing. 1 where nothing is known.
  static double bias(const runtime::Device &device, const runtime::OpenedKernelCache &cache);

  static constexpr uint64_t mostBytes = UINT64_C(256) << 20;

private:
  double measured(const MortiseGraph &graph, const Target &target, const Candidate &candidate); // NaN: it cannot be
  void keepBias(const runtime::Device &device);

  std::shared_ptr<const runtime::Registry> registry;
  std::mutex mutex;
  std::map<std::string, double> known;                           // by cacheKey, ns
  std::map<const runtime::Device *, std::vector<double>> ratios; // measured / predicted
};

} // namespace mortise::passes
