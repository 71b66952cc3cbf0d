// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What an executable tells of itself: memory, times, kernels.
#include "executable.hpp"

#include <algorithm>

namespace mortise::runtime {

void Executable::addClocks(const Specialisation &specialisation, const Context &context) {
  const std::lock_guard lock(mutex);
  for (size_t i = 0; i < clocks.size(); ++i) {
    Clocks &sums = clocks[i];
    if (sums.kernel != specialisation.kernels[i]) {
      sums.kernel = specialisation.kernels[i];
      sums.ns.assign(std::max<size_t>(specialisation.steps(i).size(), 1), 0);
    }
    sums.steps = specialisation.steps(i);
    for (size_t j = 0; j < sums.ns.size(); ++j)
      sums.ns[j] += context.clocks()[specialisation.clocks[i] + j];
  }
}

uint64_t Executable::arenaBytes() const {
  const std::lock_guard lock(mutex);
  return largestArena;
}

std::vector<uint64_t> Executable::spaceBytes() const {
  std::vector<uint64_t> bytes(layout->spaces.size());
  if (layout->plan->symbols.empty())
    bytes = *fixedSpaceBytes(*layout); // load() has checked it
  return bytes;
}

uint64_t Executable::packedBytes() const {
  const std::lock_guard lock(mutex);
  if (!current)
    return 0;
  uint64_t bytes = current->packedBytes;
  for (const auto &specialisation : current->specialisations)
    bytes += specialisation->packedBytes;
  return bytes;
}

ValuesReport Executable::valuesReport() const {
  const std::lock_guard lock(mutex);
  ValuesReport report{.limit = specializeLimit, .met = readies, .dropped = dropped, .specialised = compiled};
  if (current)
    for (const auto &specialisation : current->specialisations) {
      ++report.ready;
      for (const MortiseInstance *instance : specialisation->instances)
        report.instances += instance != nullptr;
    }
  return report;
}

std::vector<RegionReport> Executable::report() const {
  const std::lock_guard lock(mutex);
  const Specialisation *latest = nullptr;
  if (current)
    for (const auto &specialisation : current->specialisations)
      if (!latest || latest->lastUse < specialisation->lastUse)
        latest = specialisation.get();
  std::vector<RegionReport> reports;
  for (size_t i = 0; i < layout->regions.size(); ++i) {
    const plan::RegionT &region = *layout->plan->regions[i];
    RegionReport &report = reports.emplace_back(
        RegionReport{region.device, region.plugin, region.lowering, region.nodes, region.cost_ns, {}, {}, 0});
    if (region.specialise)
      report.specialised = region.specialise_reason.empty() ? "needs static" : region.specialise_reason;
    if (!region.specialise)
      report.cached = layout->regions[i].kernel->cached;
    report.kernels = region.specialise ? compiledByRegion[i] : layout->regions[i].first == i;
    const Clocks &measured = clocks[i];
    const std::vector<StepInfo> *steps = measured.kernel             ? &measured.steps
                                         : latest                    ? &latest->steps(i)
                                         : layout->regions[i].kernel ? &layout->regions[i].kernel->steps
                                                                     : nullptr;
    if (steps)
      for (const StepInfo &step : *steps)
        report.steps.push_back({step.name, step.lowering, 0, step.bytes, step.flops});
    if (report.steps.empty())
      report.steps.push_back({region.lowering, region.lowering});
    for (size_t j = 0; j < measured.ns.size() && j < report.steps.size(); ++j)
      report.steps[j].ns = measured.ns[j];
  }
  return reports;
}

} // namespace mortise::runtime
