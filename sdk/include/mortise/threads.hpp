// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that compile, for plugins and the host.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <system_error>
#include <thread>
#include <vector>

namespace mortise {

// How many threads compile: one for each processor that this process may use, at most 16. MortiseHost::thread_count is
// about threads that compute, of which users often allow one (torchrun does) without a wish for slow compilation.
inline unsigned compileThreads() { return std::clamp(std::thread::hardware_concurrency(), 1U, 16U); }

// Calls `work` in up to `threads` threads, of which the caller's is one, and returns when each call has ended. Where
// the system has no more threads there are fewer. `work` does not throw, and what the host knows by thread
// (MortiseHost::cancelled) it knows in the caller's.
template <typename Work> void inThreads(size_t threads, Work &&work) {
  std::vector<std::thread> others;
  others.reserve(threads);
  bool areMore = true;
  while (areMore && others.size() + 1 < threads) {
    try {
      others.emplace_back(std::ref(work));
    } catch (const std::system_error &) {
      areMore = false;
    }
  }
  work();
  for (std::thread &other : others)
    other.join();
}

} // namespace mortise
