// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a profiled call measures where kernels clock nothing.
#include "context.hpp"

#include <mortise/runtime/device_memory.hpp>

#include <algorithm>
#include <chrono>

namespace mortise::runtime {

// Marks the begin or the end of a region's work: with an event in its stream, or now.
Result<void> Context::mark(size_t number, Timer::Mark Timer::*which) {
  Timer::Mark &mark = timers[number].*which;
  const Operation &operation = layout.operations[number];
  mark.when = std::chrono::steady_clock::now();
  if (operation.stream == none)
    return {};
  if (mark.event == nullptr) {
    auto made = createEvent(*operation.device);
    if (!made)
      return made.error();
    mark.event = *made;
  }
  MortiseEventArgs args{.event = mark.event, .stream = active[operation.stream]};
  return callOn(*operation.device, "event_record", operation.device->plugin->table->event_record, args);
}

// Gives a region whose plugin has clocked no step the time between its marks, as that of its first step. All work of
// the call has happened. A plugin that cannot tell leaves it at 0.
void Context::clockTheRest() {
  for (size_t i = 0; i < layout.operations.size(); ++i) {
    const Operation &operation = layout.operations[i];
    if (operation.region == none)
      continue;
    const size_t first = current->clocks[operation.region],
                 count = std::max<size_t>(current->steps(operation.region).size(), 1);
    const std::span<uint64_t> steps = std::span(nanoseconds).subspan(first, count);
    if (std::ranges::any_of(steps, [](uint64_t ns) { return ns != 0; }))
      continue;
    const Timer &timer = timers[i];
    if (operation.stream == none) {
      const auto spent = timer.end.when - timer.begin.when;
      steps[0] = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
      continue;
    }
    const Device &device = *operation.device;
    MortiseEventArgs args{.event = timer.end.event, .since = timer.begin.event};
    if (callOn(device, "event_elapsed", device.plugin->table->event_elapsed, args))
      steps[0] = args.elapsed_ns;
  }
}

} // namespace mortise::runtime
