// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "call_schedule.hpp"

#include "plan_check.hpp"
#include <mortise/runtime/call.hpp>

#include <algorithm>

namespace mortise::runtime {
namespace {

using plan::BufferKind;

// Memories are numbered: the plan's spaces, and behind them each caller's tensor as a memory of its own.
class CallItems {
public:
  CallItems(const Layout &layout, const Specialisation &specialisation)
      : layout(layout), plan(*layout.plan), specialisation(specialisation),
        inputs(static_cast<uint32_t>(layout.spaces.size())),
        outputs(inputs + static_cast<uint32_t>(plan.inputs.size())),
        memories(outputs + static_cast<uint32_t>(plan.outputs.size())) {}

  std::vector<Item> operations() const {
    std::vector<Item> items;
    for (const Operation &operation : layout.operations)
      items.push_back({layout.timelineOf(operation), accessesOf(operation)});
    return items;
  }

  // A call comes behind what each stream has. What a stream gets later comes behind the call's work on the tensors of
  // its device, so that it need not wait for other streams' parts of the call. The stream with the last operation also
  // orders the tensors of devices without a caller's stream. The next call in the same context finds the arenas' last
  // uses behind the end of the stream that comes behind them anyway, otherwise behind that of the stream with the last
  // operation. The host's tensors are the caller's again when the call returns.
  Specialisation::Queued onStreams(std::vector<uint32_t> timelines) const {
    const std::vector<Item> work = operations();
    for (const Item &item : work)
      if (const auto found = std::ranges::find(timelines, item.timeline); found != timelines.end())
        std::swap(*found, timelines.back());
    std::vector<Item> idle(timelines.size()), behind, ends;
    Item hosts;
    for (size_t i = 0; i < timelines.size(); ++i)
      idle[i].timeline = timelines[i];
    for (uint32_t memory = inputs; memory < memories; ++memory) {
      if (memory < outputs && plan.inputs[memory - inputs]->constant)
        continue; // never written
      idle[streamOf(timelines, memory)].accesses.push_back({.memory = memory, .writes = true});
      if (deviceOf(memory) == nullptr)
        hosts.accesses.push_back({.memory = memory, .writes = true});
    }
    behind = ends = idle;
    const auto all = [&](std::vector<Item> items) {
      items.insert(items.end(), work.begin(), work.end());
      items.push_back(hosts);
      items.insert(items.end(), ends.begin(), ends.end());
      return items;
    };
    // Further uses of arenas add waits, so that an end that comes behind an item here does so in every schedule below.
    const std::vector<uint32_t> endOf = firstEndsBehind(layout, all(idle), ends.size());
    for (size_t i = 0; i < work.size(); ++i)
      for (Access access : work[i].accesses) {
        if (access.memory >= inputs || work[i].timeline == none)
          continue;
        const uint32_t end = endOf[timelines.size() + i];
        if (end == none)
          ends.back().accesses.push_back(access);
        access.user = work[i].timeline;
        (end == none ? behind.back() : behind[end]).accesses.push_back(access);
      }
    Schedule first = Schedule::make(layout, all(std::move(idle)), ends.size());
    Schedule next = Schedule::make(layout, all(std::move(behind)), ends.size());
    return {std::move(timelines), std::move(first), std::move(next)};
  }

private:
  const Device *deviceOf(uint32_t tensor) const { // NULL: host memory
    return layout.spaces[tensor < outputs ? plan.inputs[tensor - inputs]->space : plan.outputs[tensor - outputs]->space]
        .device;
  }

  // The number of the stream, among those of a call, that orders a tensor.
  size_t streamOf(const std::vector<uint32_t> &timelines, uint32_t tensor) const {
    for (size_t i = 0; i < timelines.size(); ++i)
      if (layout.streams[layout.timelines[timelines[i]]].device == deviceOf(tensor))
        return i;
    return timelines.size() - 1;
  }

  std::vector<Access> accessesOf(const Operation &operation) const {
    std::vector<Access> accesses;
    const auto use = [&](uint32_t number, bool writes) {
      const uint32_t root = memoryOf(plan, number);
      const plan::BufferT &buffer = *plan.buffers[root];
      const uint64_t begin = buffer.kind == BufferKind::Arena ? specialisation.shape.offsets[root] : 0;
      uint32_t memory = buffer.space;
      if (buffer.kind == BufferKind::Literal)
        return; // never written
      if (buffer.kind != BufferKind::Arena) {
        const int64_t alias = buffer.kind == BufferKind::Output ? plan.outputs[buffer.index]->alias : -1;
        memory = buffer.kind == BufferKind::Input ? inputs + buffer.index
                 : alias >= 0                     ? inputs + static_cast<uint32_t>(alias)
                                                  : outputs + buffer.index;
      }
      if (specialisation.shape.bytes[root] != 0)
        accesses.push_back({memory, begin, begin + specialisation.shape.bytes[root], writes});
    };
    if (operation.region == none) {
      use(operation.source, false);
      use(operation.target, true);
      return accesses;
    }
    const std::vector<uint32_t> &read = plan.regions[operation.region]->inputs;
    const MortiseGraph &graph = layout.regions[operation.region].graph->view();
    for (size_t i = 0; i < read.size(); ++i)
      use(read[i], (graph.inputs[i]->flags & MORTISE_VALUE_DONATED) != 0);
    for (uint32_t buffer : plan.regions[operation.region]->outputs)
      use(buffer, true);
    const uint32_t space = layout.spaceOf(*layout.regions[operation.region].device);
    if (const uint64_t bytes = specialisation.workspaceBytes[operation.region])
      accesses.push_back({space, specialisation.workspaces[space], specialisation.workspaces[space] + bytes, true});
    return accesses;
  }

  const Layout &layout;
  const plan::PlanT &plan;
  const Specialisation &specialisation;
  const uint32_t inputs, outputs, memories; // the first of each
};

} // namespace

Schedule scheduleOfCall(const Layout &layout, const Specialisation &specialisation) {
  if (layout.timelines.empty())
    return {};
  return Schedule::make(layout, CallItems(layout, specialisation).operations(), 0);
}

Specialisation::Queued schedulesOnStreams(const Layout &layout, const Specialisation &specialisation,
                                          std::span<const CallersStream> callers) {
  std::vector<uint32_t> timelines;
  for (const CallersStream &caller : callers)
    timelines.push_back(caller.timeline);
  return CallItems(layout, specialisation).onStreams(std::move(timelines));
}

Result<void> findTimelines(const Layout &layout, std::span<const CallerStream> callers,
                           std::vector<CallersStream> &found) {
  found.clear();
  for (const CallerStream &caller : callers)
    if (const uint32_t timeline = layout.callersTimeline(*caller.device); timeline != none)
      found.push_back({timeline, caller.stream});
  std::ranges::sort(found, {}, &CallersStream::timeline);
  const auto twice = std::ranges::adjacent_find(found, {}, &CallersStream::timeline);
  if (twice != found.end())
    return Error{MORTISE_INVALID_ARGUMENT, "expected one stream for each device, found several of device '" +
                                               layout.streams[layout.timelines[twice->timeline]].device->name() + "'"};
  if (found.size() == callers.size())
    return {};
  found.clear();
  for (const CallerStream &caller : callers) {
    const Device &device = *caller.device;
    MortiseStreamArgs args{.stream = caller.stream};
    if (auto waited = callOn(device, "stream_wait", device.plugin->table->stream_wait, args); !waited)
      return waited;
  }
  return {};
}

} // namespace mortise::runtime
