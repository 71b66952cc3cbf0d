// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "measure.hpp"

#include "plan_writer.hpp"
#include "symbols.hpp"

#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/kernel_cache.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace mortise::passes {
namespace {

using Clock = std::chrono::steady_clock;

// A region runs at least three times: until it has run enoughRuns times and for enoughTime, or for mostTime.
constexpr int enoughRuns = 9;
constexpr auto enoughTime = std::chrono::milliseconds(2), mostTime = std::chrono::milliseconds(50);

void warn(const std::string &text) { runtime::host().log(MORTISE_WARNING, ("max-autotune: " + text).c_str()); }

// The time of one run of a static graph that is one region of the target, in ns: the least of several runs, because all
// that disturbs a run makes it longer.
Result<double> timeOf(const std::shared_ptr<const Graph> &graph, const Target &target, const Candidate &candidate,
                      const std::shared_ptr<const runtime::Registry> &registry) {
  const MortiseGraph &view = graph->view();
  uint64_t bytes = 0;
  for (size_t i = 0; i < view.input_count; ++i)
    bytes += byteSize(*view.inputs[i]->type);
  for (size_t i = 0; i < view.output_count; ++i)
    bytes += byteSize(*view.outputs[i]->type);
  if (bytes > Measurements::mostBytes)
    return Error{MORTISE_OUT_OF_MEMORY, "its tensors take " + std::to_string(bytes) + " bytes, more than " +
                                            std::to_string(Measurements::mostBytes)};
  Placement placement;
  Candidate &whole = placement.regions.emplace_back(candidate);
  whole.target = 0;
  whole.specialised.clear();
  whole.inPlace.clear();
  whole.nodes.resize(view.node_count);
  std::iota(whole.nodes.begin(), whole.nodes.end(), 0);
  const runtime::Device *home = target.device->inHostMemory() ? nullptr : target.device;
  const Homes homes{std::vector(view.input_count, home), std::vector(view.output_count, home)};
  auto plan = writePlan(view, placement, {target}, {}, homes);
  if (!plan)
    return plan.error();
  std::vector<Buffer> buffers; // the program reads the constants as long as it lives
  auto program = runtime::Program::load(std::move(*plan), registry);
  if (!program)
    return program.error();
  std::vector<runtime::Tensor> inputs, outputs;
  bool constants = false;
  for (size_t i = 0; i < view.input_count + view.output_count; ++i) {
    const bool isInput = i < view.input_count;
    const MortiseValue &value = isInput ? *view.inputs[i] : *view.outputs[i - view.input_count];
    const bool constant = isInput && (value.flags & MORTISE_VALUE_CONSTANT);
    auto buffer = bufferFor(*value.type, constant ? nullptr : home);
    if (!buffer)
      return buffer.error();
    constants |= constant;
    (isInput ? inputs : outputs).push_back(buffer->tensor);
    buffers.push_back(std::move(*buffer)); // its vector keeps its bytes where they are
  }
  for (size_t i = 0; i < view.alias_count; ++i)
    outputs[view.aliases[i]->output].data = nullptr; // it is written to the input's memory
  if (constants)
    if (auto bound = (*program)->bindConstants(inputs); !bound)
      return bound.error();
  double least = std::numeric_limits<double>::infinity();
  const Clock::time_point start = Clock::now();
  const auto enough = [&](int runs) {
    const Clock::duration spent = Clock::now() - start;
    return runs >= 3 && (spent >= mostTime || (runs >= enoughRuns && spent >= enoughTime));
  };
  for (int run = -1; run < 0 || !enough(run); ++run) {
    const double before = stepsNs(**program);
    const Clock::time_point begin = Clock::now();
    if (auto ran = (*program)->runProfiled(inputs, outputs); !ran)
      return ran.error();
    const double wall = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    const double steps = stepsNs(**program) - before;
    // Where the plugin clocks neither steps nor events, and where its process copies around the steps.
    const double ns = steps > 0 && !target.device->hidesMemory() ? steps : wall;
    if (run < 0 && Clock::now() - start > mostTime)
      return ns;
    if (run >= 0) // the first run makes what later ones find
      least = std::min(least, ns);
  }
  return least;
}

} // namespace

std::vector<std::byte> plainNumbers(const MortiseType &type) {
  std::vector<std::byte> bytes(byteSize(type));
  for (size_t i = 0; type.dtype == MORTISE_F32 && i < bytes.size() / sizeof(float); ++i) {
    const float number = static_cast<float>(i % 127) / 64 - 1;
    std::memcpy(bytes.data() + i * sizeof number, &number, sizeof number);
  }
  return bytes;
}

Result<Buffer> bufferFor(const MortiseType &type, const runtime::Device *home) {
  Buffer made{plainNumbers(type), {}, {}};
  made.tensor = {made.bytes.data(), type.dtype, type.rank, type.dims, nullptr, home};
  if (home == nullptr)
    return made;
  auto memory = runtime::DeviceMemory::allocate(home->owner(), 0, std::max<uint64_t>(made.bytes.size(), 1));
  if (!memory)
    return memory.error();
  made.memory = std::move(*memory);
  made.tensor.data = pointer(made.memory.address());
  if (auto copied = runtime::copyNow({&home->owner(), made.memory.address()}, {nullptr, addressOf(made.bytes.data())},
                                     made.bytes.size());
      !copied)
    return copied.error();
  made.bytes = {};
  return made;
}

double stepsNs(const runtime::Program &program) {
  double sum = 0;
  for (const runtime::RegionReport &region : program.report())
    for (const runtime::StepReport &step : region.steps)
      sum += static_cast<double>(step.ns);
  return sum;
}

double Measurements::measured(const MortiseGraph &graph, const Target &target, const Candidate &candidate) {
  constexpr double unknown = std::numeric_limits<double>::quiet_NaN();
  if (!candidate.forms.empty())
    return unknown; // alone it would run with the conversions on both sides
  Result<Region> region = extractRegion(graph, candidate.nodes);
  if (!region)
    return unknown;
  std::shared_ptr<const Graph> numbers = region->graph;
  if (numbers->view().symbol_count) {
    auto specialised = specialise(numbers->view(), typicalValues(numbers->view()));
    if (!specialised)
      return unknown;
    numbers = *specialised;
  }
  auto form = canonical(numbers->view()); // so that equal layers are measured once
  if (!form)
    return unknown;
  numbers = std::move(*form);
  const bool lasts = target.device->info.fingerprint != nullptr;
  const std::vector<MortiseOption> options = target.optionViews();
  const std::string key =
      runtime::cacheKey("time", *target.device, candidate.lowering, options, target.asked, {}, numbers->bytes()) +
      (lasts ? "" : target.device->name());
  if (const auto found = known.find(key); found != known.end())
    return found->second;
  const runtime::OpenedKernelCache &cache = registry->cache();
  double ns = unknown;
  if (lasts && cache)
    if (const auto kept = (*cache)->find(key); kept && kept->size() == sizeof ns)
      std::memcpy(&ns, kept->data(), sizeof ns);
  if (!(ns >= 0 && std::isfinite(ns))) {
    const Result<double> timed = timeOf(numbers, target, candidate, registry);
    ns = timed ? *timed : unknown;
    if (!timed)
      warn(candidate.lowering + " of " + std::to_string(candidate.nodes.size()) + " nodes on '" +
           target.device->name() + "' cannot be measured, and costs what its plugin says: " + timed.error().message);
    else if (lasts && cache)
      if (auto stored = (*cache)->store(key, std::as_bytes(std::span(&ns, 1))); !stored)
        warn("a measured time is not kept on disk: " + stored.error().message);
  }
  known.emplace(key, ns);
  return ns;
}

namespace {

std::string biasKey(const runtime::Device &device) { return runtime::cacheKey("bias", device, "", {}, {}, {}, {}); }

double medianOf(std::vector<double> list) {
  std::ranges::nth_element(list, list.begin() + static_cast<ptrdiff_t>(list.size() / 2));
  return list[list.size() / 2];
}

} // namespace

void Measurements::keepBias(const runtime::Device &device) {
  constexpr size_t enough = 3;
  const runtime::OpenedKernelCache &cache = registry->cache();
  if (ratios[&device].size() < enough || device.info.fingerprint == nullptr || !cache)
    return;
  const double median = medianOf(ratios[&device]);
  if (auto stored = (*cache)->store(biasKey(device), std::as_bytes(std::span(&median, 1))); !stored)
    warn("how wrong the costs of '" + device.name() + "' are is not kept on disk: " + stored.error().message);
}

double Measurements::bias(const runtime::Device &device, const runtime::OpenedKernelCache &cache) {
  double kept = 1;
  if (device.info.fingerprint && cache)
    if (const auto found = (*cache)->find(biasKey(device)); found && found->size() == sizeof kept)
      std::memcpy(&kept, found->data(), sizeof kept);
  return std::isfinite(kept) && kept > 0 ? kept : 1;
}

void Measurements::correct(const MortiseGraph &graph, const Target &target, std::span<Candidate> candidates) {
  const std::lock_guard lock(mutex);
  std::vector<double> &wrong = ratios[target.device];
  std::vector<Candidate *> rest;
  for (Candidate &candidate : candidates) {
    const double ns = measured(graph, target, candidate);
    if (std::isnan(ns)) {
      rest.push_back(&candidate);
      continue;
    }
    if (candidate.costNs > 0)
      wrong.push_back(ns / candidate.costNs);
    candidate.costNs = ns;
  }
  if (rest.size() < candidates.size())
    keepBias(*target.device);
  if (rest.empty() || wrong.empty())
    return;
  const double median = medianOf(wrong);
  for (Candidate *candidate : rest)
    candidate->costNs *= median;
}

} // namespace mortise::passes
