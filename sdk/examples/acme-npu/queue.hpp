// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The queue of the simulated hardware: a thread that does work in the order in which it was added.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace npu {

class Queue {
public:
  Queue() : thread([this] { run(); }) {}
  ~Queue();
  uint64_t add(std::function<void()> work); // the place of the work in the queue, from 1
  void waitFor(uint64_t place);
  void waitForAll();
  bool has(uint64_t place); // whether the work at this place has happened

private:
  void run();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  uint64_t added = 0, happened = 0;
  std::thread thread; // begins when all else is made
};

} // namespace npu
