// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "queue.hpp"

namespace npu {

Queue::~Queue() {
  add(nullptr);
  thread.join();
}

uint64_t Queue::add(std::function<void()> work) {
  const std::lock_guard lock(mutex);
  waiting.push_back(std::move(work));
  changed.notify_all();
  return ++added;
}

void Queue::waitFor(uint64_t place) {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return happened >= place; });
}

void Queue::waitForAll() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&, all = added] { return happened >= all; });
}

bool Queue::has(uint64_t place) {
  const std::lock_guard lock(mutex);
  return happened >= place;
}

void Queue::run() {
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [&] { return !waiting.empty(); });
    const std::function<void()> work = std::move(waiting.front());
    waiting.pop_front();
    if (!work)
      return;
    lock.unlock();
    work();
    lock.lock();
    ++happened;
    changed.notify_all();
  }
}

} // namespace npu
