// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one queue of a device.
#include "device.hpp"

namespace mortise::vulkan {

Result<uint64_t> Device::reached() {
  uint64_t value = 0;
  if (auto asked = check(calls.GetSemaphoreCounterValue(device, timeline, &value), "vkGetSemaphoreCounterValue");
      !asked)
    return asked.error();
  return value;
}

void Device::reclaim(uint64_t reached) {
  while (!inFlight.empty() && inFlight.front().first <= reached) {
    for (const Allocation &each : inFlight.front().second.staging)
      giveBack(each);
    idle.push_back(inFlight.front().second.handle);
    inFlight.pop_front();
  }
}

void Device::barrier(const Commands &commands) const {
  constexpr VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier memoryBarrier{};
  memoryBarrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memoryBarrier.srcAccessMask = writes;
  memoryBarrier.dstAccessMask = writes | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
  calls.CmdPipelineBarrier(commands.handle, stages, stages, 0, 1, &memoryBarrier, 0, nullptr, 0, nullptr);
}

void Device::mark(const Commands &commands, Mark which) const {
  if (!times)
    return;
  const auto number = static_cast<uint32_t>(which);
  calls.CmdResetQueryPool(commands.handle, times, number, 1);
  calls.CmdWriteTimestamp(commands.handle, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, times, number);
}

Result<uint64_t> Device::marked() {
  if (!times)
    return uint64_t{0};
  uint64_t ticks[2] = {};
  if (auto read = check(calls.GetQueryPoolResults(device, times, 0, 2, sizeof(ticks), ticks, sizeof(ticks[0]),
                                                  VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
                        "vkGetQueryPoolResults");
      !read)
    return read.error();
  const uint64_t passed = (ticks[1] - ticks[0]) & (UINT64_MAX >> (64 - timeBits)); // the clock may have begun anew
  return static_cast<uint64_t>(static_cast<double>(passed) * properties.limits.timestampPeriod);
}

Result<Device::Commands> Device::begin(Use use) {
  if (auto there = start(); !there)
    return there.error();
  Commands commands;
  commands.recording = std::unique_lock(recordMutex);
  Result<uint64_t> now = reached();
  if (!now)
    return now.error();
  {
    std::lock_guard lock(queueMutex);
    reclaim(*now);
    if (!idle.empty()) {
      commands.handle = idle.back();
      idle.pop_back();
    }
  }
  if (!commands.handle) {
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    if (auto made = check(calls.AllocateCommandBuffers(device, &info, &commands.handle), "vkAllocateCommandBuffers");
        !made)
      return made.error();
  }
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags =
      use == Use::Once ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (auto began = check(calls.BeginCommandBuffer(commands.handle, &info), "vkBeginCommandBuffer"); !began) {
    drop(std::move(commands));
    return began.error();
  }
  barrier(commands); // against what was submitted before
  return commands;
}

void Device::drop(Commands commands) {
  for (const Allocation &each : commands.staging)
    giveBack(each);
  std::lock_guard lock(queueMutex);
  idle.push_back(commands.handle); // beginning it again resets it
}

Result<void> Device::end(Commands &commands) {
  // What the host reads after it has waited.
  VkMemoryBarrier toHost{};
  toHost.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  toHost.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  toHost.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  calls.CmdPipelineBarrier(commands.handle, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &toHost, 0, nullptr, 0, nullptr);
  auto ended = check(calls.EndCommandBuffer(commands.handle), "vkEndCommandBuffer");
  if (ended)
    commands.recording = {};
  return ended;
}

Result<uint64_t> Device::queueLocked(const Commands &commands) {
  const uint64_t number = submitted + 1;
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &number;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands.handle;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline;
  if (auto done = check(calls.QueueSubmit(queue, 1, &info, nullptr), "vkQueueSubmit"); !done)
    return done.error();
  return submitted = number;
}

Result<uint64_t> Device::queueUp(const Commands &commands) {
  std::lock_guard lock(queueMutex);
  return queueLocked(commands);
}

void Device::retire(Commands commands) {
  if (!commands.handle)
    return;
  std::lock_guard lock(queueMutex);
  inFlight.emplace_back(submitted, std::move(commands));
}

Result<uint64_t> Device::submit(Commands commands) {
  Result<uint64_t> queued = 0;
  if (auto ended = end(commands); ended) {
    std::lock_guard lock(queueMutex);
    queued = queueLocked(commands);
    if (queued)
      inFlight.emplace_back(*queued, std::move(commands));
  } else {
    queued = ended.error();
  }
  if (!queued)
    drop(std::move(commands));
  return queued;
}

Result<void> Device::wait(uint64_t submission) {
  if (submission == 0)
    return {};
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline;
  info.pValues = &submission;
  return check(calls.WaitSemaphores(device, &info, UINT64_MAX), "vkWaitSemaphores");
}

Result<bool> Device::happened(uint64_t submission) {
  if (submission == 0)
    return true;
  Result<uint64_t> now = reached();
  if (!now)
    return now.error();
  return *now >= submission;
}

} // namespace mortise::vulkan
