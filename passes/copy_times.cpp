// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "copy_times.hpp"

#include "measure.hpp"
#include "plan_writer.hpp"

#include <mortise/runtime/kernel_cache.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace mortise::passes {
namespace {

using Clock = std::chrono::steady_clock;

// A small copy shows what each one costs, a large one the bandwidth: memories that hold less than four of it get a
// smaller one.
constexpr uint64_t smallBytes = 64, mostBytes = UINT64_C(16) << 20, leastBytes = UINT64_C(64) << 10;
constexpr int mostRuns = 9;
constexpr auto mostTime = std::chrono::milliseconds(50); // for each size; the run that crosses it is the last

// No link is outside of these; a clock that says so has not seen the copy.
constexpr double leastNs = 1, mostNs = 1e10, leastBytesPerSecond = 1e5, mostBytesPerSecond = 1e13;

bool isSensible(const CopyTime &time) {
  return time.ns >= leastNs && time.ns <= mostNs && time.bytesPerSecond >= leastBytesPerSecond &&
         time.bytesPerSecond <= mostBytesPerSecond;
}

// A graph that returns its input, f32.
Result<std::shared_ptr<const Graph>> graphOf(uint64_t bytes) {
  const int64_t extents[] = {static_cast<int64_t>(bytes / sizeof(float))};
  const MortiseType type{.struct_size = sizeof type, .dtype = MORTISE_F32, .rank = 1, .dims = extents};
  MortiseValue value{.struct_size = sizeof value, .type = &type, .use_count = 1, .name = ""};
  const MortiseValue *values[] = {&value};
  MortiseGraph whole{.struct_size = sizeof whole, .name = "copy", .opset = MORTISE_OPSET};
  whole.values = whole.inputs = whole.outputs = values;
  whole.value_count = whole.input_count = whole.output_count = 1;
  return Graph::copy(whole);
}

uint64_t largeBytes(const runtime::Device *from, const runtime::Device *to) {
  uint64_t bytes = mostBytes;
  for (const runtime::Device *device : {from, to})
    if (device)
      for (const uint64_t room : {device->home().bytes, device->memoryLimit})
        if (room != 0) // 0: not known, and no limit
          bytes = std::min(bytes, room / 4);
  return bytes / smallBytes * smallBytes;
}

double medianOf(std::vector<double> &list) {
  std::ranges::sort(list);
  return list[list.size() / 2];
}

// The median time of a program that copies so many bytes, in ns.
Result<double> timeOf(uint64_t bytes, const runtime::Device *from, const runtime::Device *to,
                      const std::shared_ptr<const runtime::Registry> &registry) {
  auto graph = graphOf(bytes);
  if (!graph)
    return graph.error();
  auto plan = writePlan((*graph)->view(), {}, {}, {}, {{from}, {to}});
  if (!plan)
    return plan.error();
  auto program = runtime::Program::load(std::move(*plan), registry);
  if (!program)
    return program.error();
  const MortiseType &type = *(*graph)->view().inputs[0]->type;
  auto source = bufferFor(type, from), target = bufferFor(type, to);
  if (!source || !target)
    return (source ? target : source).error();
  std::vector<double> times;
  const Clock::time_point start = Clock::now();
  for (int run = 0; run <= mostRuns && (run < 2 || Clock::now() - start < mostTime); ++run) {
    const Clock::time_point begin = Clock::now();
    if (auto done = (*program)->run({&source->tensor, 1}, {&target->tensor, 1}); !done)
      return done.error();
    if (run > 0) // the first run makes what later ones find
      times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
  }
  return medianOf(times);
}

// Both devices with what their plugins and drivers are, and their ordinals, which may lie on different buses.
std::string keyOf(const runtime::Device *from, const runtime::Device *to) {
  std::string ends;
  std::vector<std::string> facts;
  for (const runtime::Device *device : {from, to}) {
    ends += (ends.empty() ? "" : "->") +
            (device ? std::string(device->info.kind) + ":" + std::to_string(device->info.ordinal)
                    : std::string(runtime::hostMemory));
    if (device)
      facts.push_back(runtime::cacheKey("memory", *device, "", {}, {}, {}, {}));
  }
  return runtime::cacheKey("copy", from ? *from : *to, ends, {}, {}, {}, std::as_bytes(std::span(facts.back())));
}

bool isKnownAgain(const runtime::Device *from, const runtime::Device *to) {
  return (!from || from->info.fingerprint) && (!to || to->info.fingerprint);
}

void warn(const std::string &text) { runtime::host().log(MORTISE_WARNING, text.c_str()); }

} // namespace

Result<CopyTime> copyTimeFrom(double smallBytes, double smallNs, double largeBytes, double largeNs) {
  for (const double ns : {smallNs, largeNs})
    if (!(ns >= leastNs && ns <= mostNs))
      return Error{MORTISE_INTERNAL, "expected a copy to take from 1 ns to 10 s, found " + std::to_string(ns) + " ns"};
  // Where the large copy takes no longer, the clock sees what every copy costs, and no bytes.
  const double rate = largeNs > smallNs ? (largeBytes - smallBytes) / (largeNs - smallNs) * 1e9 : mostBytesPerSecond;
  return CopyTime{smallNs, std::clamp(rate, leastBytesPerSecond, mostBytesPerSecond)};
}

Result<CopyTime> timeCopies(const runtime::Device *from, const runtime::Device *to,
                            const std::shared_ptr<const runtime::Registry> &registry) {
  const uint64_t large = largeBytes(from, to);
  if (large < leastBytes)
    return Error{MORTISE_OUT_OF_MEMORY, "a copy that shows the bandwidth takes " + std::to_string(leastBytes) +
                                            " bytes, a quarter of a memory at most, and a quarter is " +
                                            std::to_string(large)};
  const auto smallNs = timeOf(smallBytes, from, to, registry);
  const auto largeNs = smallNs ? timeOf(large, from, to, registry) : smallNs;
  if (!largeNs)
    return largeNs.error();
  return copyTimeFrom(static_cast<double>(smallBytes), *smallNs, static_cast<double>(large), *largeNs);
}

std::optional<CopyTime> keptCopyTime(const runtime::Device *from, const runtime::Device *to,
                                     const runtime::OpenedKernelCache &cache) {
  if (!cache || !isKnownAgain(from, to))
    return std::nullopt;
  const auto kept = (*cache)->find(keyOf(from, to));
  if (!kept)
    return std::nullopt;
  CopyTime time;
  if (kept->size() == sizeof time)
    std::memcpy(&time, kept->data(), sizeof time);
  if (isSensible(time))
    return time;
  warn("what was measured of copies between '" + (from ? from : to)->name() +
       "' and another memory makes no sense, and does not count; `mortise cache clear` removes it");
  return std::nullopt;
}

void keepCopyTime(const runtime::Device *from, const runtime::Device *to, const CopyTime &time,
                  const runtime::OpenedKernelCache &cache) {
  if (!cache || !isKnownAgain(from, to))
    return;
  if (auto stored = (*cache)->store(keyOf(from, to), std::as_bytes(std::span(&time, 1))); !stored)
    warn("a measured time of copies is not kept on disk: " + stored.error().message);
}

} // namespace mortise::passes
