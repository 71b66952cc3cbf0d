// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "queue.hpp"

#include "faults.hpp"

namespace saboteur {

Queue::Queue(bool hasThread) {
  if (hasThread)
    thread = std::thread([this] { run(); });
}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex);
    ends = true;
  }
  changed.notify_all();
  if (thread.joinable())
    thread.join();
}

void Queue::add(Work work) {
  std::unique_lock lock(mutex);
  ++added;
  if (!thread.joinable())
    return perform(lock, std::move(work));
  waiting.push_back(std::move(work));
  changed.notify_all();
}

void Queue::perform(std::unique_lock<std::mutex> &lock, Work work) {
  const bool givenUp = !first && !is(Fault::WorkAfterError);
  lock.unlock();
  Result<void> result = givenUp ? Result<void>() : work();
  work = nullptr; // what it holds may be freed
  lock.lock();
  if (!result && first) {
    first = std::move(result);
    failedAt = happened;
  }
  ++happened;
  changed.notify_all();
}

void Queue::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return ends || !waiting.empty(); });
    if (waiting.empty())
      return;
    Work work = std::move(waiting.front());
    waiting.pop_front();
    changed.notify_all();
    perform(lock, std::move(work));
  }
}

uint64_t Queue::position() const {
  const std::lock_guard lock(mutex);
  return added;
}

void Queue::waitUntil(uint64_t position) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return happened >= position; });
}

void Queue::waitForBegin() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return waiting.empty(); });
}

bool Queue::hasHappened(uint64_t position) const {
  const std::lock_guard lock(mutex);
  return happened >= position;
}

Result<void> Queue::failure(uint64_t position) const {
  const std::lock_guard lock(mutex);
  return failedAt < position ? first : Result<void>();
}

void Queue::reset() {
  const std::lock_guard lock(mutex);
  first = Result<void>();
}

} // namespace saboteur
