// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The workspace: largest buffers first, each at the lowest offset that is free while it lives.
#include "schedule.h"

#include <algorithm>

namespace mortise::cpu {

static void extend(Buffer &buffer, int32_t step) {
  buffer.first = buffer.first < 0 ? step : std::min(buffer.first, step);
  buffer.last = std::max(buffer.last, step);
}

void planMemory(Schedule &schedule) {
  constexpr int64_t alignment = 64;
  std::vector<Buffer> &buffers = schedule.buffers;
  auto owner = [&](BufferId id) {
    while (buffers[id].sharing != none)
      id = buffers[id].sharing;
    return id;
  };
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    for (const Operand &operand : schedule.steps[i].operands)
      if (operand.buffer != none)
        extend(buffers[owner(operand.buffer)], static_cast<int32_t>(i));

  std::vector<BufferId> order;
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (buffers[id].home == Home::Workspace && buffers[id].sharing == none && buffers[id].first >= 0)
      order.push_back(id);
  std::sort(order.begin(), order.end(), [&](BufferId x, BufferId y) {
    return buffers[x].bytes != buffers[y].bytes ? buffers[x].bytes > buffers[y].bytes : x < y;
  });

  std::vector<BufferId> placed; // by offset
  int64_t end = 0;
  for (BufferId id : order) {
    Buffer &buffer = buffers[id];
    int64_t size = (static_cast<int64_t>(buffer.bytes) + alignment - 1) / alignment * alignment, at = 0;
    for (BufferId other : placed) {
      const Buffer &taken = buffers[other];
      if (taken.last < buffer.first || buffer.last < taken.first)
        continue;
      if (at + size <= taken.offset)
        break;
      at = std::max(at, taken.offset + (static_cast<int64_t>(taken.bytes) + alignment - 1) / alignment * alignment);
    }
    buffer.offset = at;
    end = std::max(end, at + size);
    placed.insert(std::upper_bound(placed.begin(), placed.end(), id,
                                   [&](BufferId x, BufferId y) { return buffers[x].offset < buffers[y].offset; }),
                  id);
  }
  for (BufferId id = 0; id < buffers.size(); ++id)
    if (BufferId shared = owner(id); shared != id) {
      const Buffer &target = buffers[shared];
      buffers[id].home = target.home;
      buffers[id].number = target.number;
      buffers[id].offset = target.offset;
    }
  schedule.workspaceBytes = static_cast<size_t>(end);
}

} // namespace mortise::cpu
