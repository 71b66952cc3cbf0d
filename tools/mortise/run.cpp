// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "run.hpp"

#include <mortise/reference/formats.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>

namespace mortise::tool {
namespace {

using Clock = std::chrono::steady_clock;

std::string summary(const MortiseType &type, std::span<const std::byte> bytes) {
  const auto count = static_cast<size_t>(elementCount(type));
  if (count == 0 || dtypeBits(type.dtype) < 8)
    return std::to_string(bytes.size()) + " bytes";
  double least = std::numeric_limits<double>::infinity(), greatest = -least, sum = 0;
  size_t finite = 0;
  reference::visitElement(type.dtype, [&](auto format) {
    using Format = decltype(format);
    const auto *stored = reinterpret_cast<const typename Format::Storage *>(bytes.data());
    for (size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(Format::load(stored[i]));
      if (!std::isfinite(value))
        continue;
      ++finite;
      least = std::min(least, value);
      greatest = std::max(greatest, value);
      sum += value;
    }
  });
  if (finite == 0)
    return "no element is finite";
  char text[160];
  std::snprintf(text, sizeof text, "from %.6g to %.6g, mean %.6g", least, greatest, sum / static_cast<double>(finite));
  return text + (finite == count ? "" : ", not finite: " + std::to_string(count - finite));
}

struct Line {
  std::string device, name, lowering;
  double us, share;
};

// The steps of one profiled run, the slowest first.
Result<std::vector<Line>> profile(Execution &execution) {
  constexpr int runs = 5;
  for (int i = 0; i < runs; ++i)
    if (Result<void> done = execution.runProfiled(); !done)
      return done.error();
  std::vector<Line> lines;
  double sum = 0;
  for (const runtime::RegionReport &region : execution.program().report())
    for (const runtime::StepReport &step : region.steps) {
      lines.push_back({region.device, step.name, step.lowering, static_cast<double>(step.ns) / runs / 1e3, 0});
      sum += lines.back().us;
    }
  for (Line &line : lines)
    line.share = sum > 0 ? line.us / sum : 0;
  std::ranges::sort(lines, std::greater(), &Line::us);
  return lines;
}

} // namespace

Result<void> runOnce(Execution &execution, const MortiseGraph &view, const std::string &output) {
  if (Result<void> done = execution.run(); !done)
    return done;
  Tensors results;
  for (size_t i = 0; i < view.output_count; ++i) {
    const std::span<const std::byte> bytes = execution.output(i);
    std::cout << "output " << i << ", " << typeString(*view.outputs[i]->type) << ": "
              << summary(*view.outputs[i]->type, bytes) << "\n";
    if (!output.empty())
      results.emplace_back(bytes.begin(), bytes.end());
  }
  return output.empty() ? Result<void>() : saveInputs(results, output);
}

Result<void> bench(Execution &execution, const Host &host, double seconds, bool json) {
  std::vector<double> ms;
  const Clock::time_point begin = Clock::now();
  const auto spent = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  bool warm = false;
  while (spent() < seconds || ms.size() < 3) {
    const Clock::time_point start = Clock::now();
    if (Result<void> done = execution.run(); !done)
      return done;
    if (warm)
      ms.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    warm = warm || spent() >= seconds / 10;
  }
  std::ranges::sort(ms);
  Result<std::vector<Line>> steps = profile(execution);
  if (!steps)
    return steps.error();
  const double median = ms[ms.size() / 2], p95 = ms[ms.size() * 95 / 100];
  const runtime::Program &program = execution.program();
  if (json) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    for (const Line &line : *steps)
      lines.push_back({{"device", line.device}, {"name", line.name}, {"lowering", line.lowering}, {"us", line.us}});
    nlohmann::ordered_json regions = nlohmann::ordered_json::array();
    for (const runtime::RegionReport &region : program.report())
      regions.push_back({{"device", region.device}, {"lowering", region.lowering}, {"kernel_cache", region.cached}});
    const nlohmann::ordered_json whole{{"device", host.config.get("device")},
                                       {"calls", ms.size()},
                                       {"median_ms", median},
                                       {"p95_ms", p95},
                                       {"least_ms", ms[0]},
                                       {"compile_s", execution.compileSeconds},
                                       {"bind_s", execution.bindSeconds},
                                       {"arena_bytes", program.arenaBytes()},
                                       {"packed_bytes", program.packedBytes()},
                                       {"regions", regions},
                                       {"steps", lines}};
    std::cout << whole.dump(2) << "\n";
    return {};
  }
  std::printf("compiled in %.3f s, constants bound in %.3f s, %.1f MB of memory for a call, %.1f MB packed\n",
              execution.compileSeconds, execution.bindSeconds, static_cast<double>(program.arenaBytes()) / 1e6,
              static_cast<double>(program.packedBytes()) / 1e6);
  std::printf("%zu calls: median %.4f ms, p95 %.4f ms, least %.4f ms\n", ms.size(), median, p95, ms[0]);
  constexpr size_t most = 20;
  for (size_t i = 0; i < std::min(most, steps->size()); ++i) {
    const Line &line = (*steps)[i];
    std::printf("  %5.1f %%  %10.1f us  %-10s %-24s %s\n", line.share * 100, line.us, line.device.c_str(),
                line.lowering.c_str(), line.name.c_str());
  }
  if (steps->size() > most)
    std::printf("  and %zu more steps\n", steps->size() - most);
  return {};
}

} // namespace mortise::tool
