// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls that come again with the same addresses: what was recorded for them is submitted again.
#pragma once

#include "device.hpp"

#include <list>

namespace mortise::vulkan {

// Of one region. Any thread may call it.
class Recordings {
public:
  // All that a call's commands depend on.
  using Key = std::vector<uint64_t>;

  explicit Recordings(Device &device) : device(device) {}
  ~Recordings(); // the device takes the command buffers back when they have happened
  Recordings(const Recordings &) = delete;

  // Submits what is kept for this call, and returns the submission's number. 0: nothing is kept.
  Result<uint64_t> submit(const Key &key);
  // Whether commands of this call should be kept, since it has come before. It counts as having come from now on.
  bool isWorthKeeping(const Key &key);
  // Submits commands that were begun to be submitted again, and keeps them.
  Result<uint64_t> keep(const Key &key, Device::Commands commands);

private:
  static constexpr size_t most = 16; // calls that are known: those that came last
  struct Recording {
    Key key;
    Device::Commands commands; // without a handle: it has come once
  };
  Recording *find(const Key &key); // under the mutex; then it is the first

  Device &device;
  std::mutex mutex;
  std::list<Recording> all; // the last one used first
};

} // namespace mortise::vulkan
