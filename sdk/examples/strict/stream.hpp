// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A queue of work with a thread of its own. Work is held back for random times, so that streams overtake each other.
#pragma once

#include "checker.hpp"

#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>

namespace strict {

class Queue {
public:
  explicit Queue(Actor actor);
  ~Queue(); // waits for what is queued

  using Work = std::function<Result<void>()>;
  void add(Work work);
  uint64_t position() const;         // how much work has been added
  void waitUntil(uint64_t position); // returns when that much work has happened, or has been given up
  bool hasHappened(uint64_t position) const;
  // The first failure since the last reset, if it came before that much work had happened.
  Result<void> failure(uint64_t position = UINT64_MAX) const;
  void reset();

  const Actor actor;

private:
  void run();

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> waiting;
  uint64_t added = 0, happened = 0, failedAt = 0;
  Result<void> first;
  bool ends = false;
  std::thread thread; // begins when all else is made
};

// What MortiseStream points to: several may share a queue, by stream_import.
struct Stream {
  std::shared_ptr<Queue> queue;
  bool imported = false;
};

struct Event {
  std::shared_ptr<Queue> queue; // NULL without a mark
  uint64_t position = 0;
  Clock clock;                                                  // what the checker is told of the mark
  Clock truth;                                                  // differs where event_record was hidden
  std::shared_ptr<uint64_t> ns = std::make_shared<uint64_t>(0); // when the mark happened
};

} // namespace strict
