// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

#include "settings.hpp"

#include <chrono>

namespace strict {

Queue::Queue(Actor actor) : actor(actor), thread([this] { run(); }) {}

Queue::~Queue() {
  {
    const std::lock_guard lock(mutex);
    ends = true;
  }
  changed.notify_all();
  thread.join();
  checker().removeStream(actor);
}

void Queue::add(Work work) {
  {
    const std::lock_guard lock(mutex);
    waiting.push_back(std::move(work));
    ++added;
  }
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
    const bool givenUp = !first;
    const uint64_t number = happened;
    lock.unlock();
    const Settings settings = control().settings();
    const uint64_t random = mix(settings.seed, actor);
    if (const uint64_t most = settings.delayUs * (random % 2 ? settings.skew : 1))
      std::this_thread::sleep_for(std::chrono::microseconds(most / 2 + mix(random, number) % (most / 2 + 1)));
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
}

uint64_t Queue::position() const {
  const std::lock_guard lock(mutex);
  return added;
}

void Queue::waitUntil(uint64_t position) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return happened >= position; });
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

} // namespace strict
