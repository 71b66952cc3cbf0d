// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "recordings.hpp"

#include <algorithm>

namespace mortise::vulkan {

Recordings::~Recordings() {
  for (Recording &each : all)
    device.retire(std::move(each.commands));
}

Recordings::Recording *Recordings::find(const Key &key) {
  const auto found = std::ranges::find(all, key, &Recording::key);
  if (found == all.end())
    return nullptr;
  all.splice(all.begin(), all, found);
  return &all.front();
}

Result<uint64_t> Recordings::submit(const Key &key) {
  std::lock_guard lock(mutex);
  const Recording *known = find(key);
  return known && known->commands.handle ? device.queueUp(known->commands) : uint64_t{0};
}

bool Recordings::isWorthKeeping(const Key &key) {
  std::lock_guard lock(mutex);
  if (find(key))
    return true;
  if (all.size() == most) {
    device.retire(std::move(all.back().commands));
    all.pop_back();
  }
  all.push_front({key, {}});
  return false;
}

Result<uint64_t> Recordings::keep(const Key &key, Device::Commands commands) {
  if (auto ended = device.end(commands); !ended) {
    device.drop(std::move(commands));
    return ended.error();
  }
  std::lock_guard lock(mutex);
  Result<uint64_t> queued = device.queueUp(commands);
  Recording *known = find(key);
  if (queued && known && !known->commands.handle)
    known->commands = std::move(commands);
  else // it failed, or another thread has kept the same call
    device.retire(std::move(commands));
  return queued;
}

} // namespace mortise::vulkan
