// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams and events. A queue with a thread does its work later; one without does it at once.
#pragma once

#include <mortise/result.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace saboteur {
using mortise::Error;
using mortise::Result;

class Queue {
public:
  explicit Queue(bool hasThread);
  ~Queue(); // waits for what is queued

  using Work = std::function<Result<void>()>;
  void add(Work work);
  uint64_t position() const;         // how much work has been added
  void waitUntil(uint64_t position); // until so much work has happened, or has been given up
  void waitForBegin();               // until the last work has begun
  bool hasHappened(uint64_t position) const;
  // The first failure since the last reset, if it came before that much work had happened.
  Result<void> failure(uint64_t position = UINT64_MAX) const;
  void reset();

private:
  void run();
  void perform(std::unique_lock<std::mutex> &lock, Work work);

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> waiting;
  uint64_t added = 0, happened = 0, failedAt = 0;
  Result<void> first;
  bool ends = false;
  std::thread thread; // begins when all else is made
};

struct Stream {
  std::shared_ptr<Queue> queue;
};

struct Event {
  std::shared_ptr<Queue> queue; // NULL without a mark
  uint64_t position = 0;
  std::shared_ptr<uint64_t> ns = std::make_shared<uint64_t>(0); // when the mark happened
};

} // namespace saboteur
