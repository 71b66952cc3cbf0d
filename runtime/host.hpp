// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of the host table that only the runtime uses.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <atomic>
#include <string>

namespace mortise::runtime {

void setLogLevel(const std::string &level); // debug, info, warning, error or off
void logMessage(MortiseSeverity severity, const std::string &message);

// Registers a fork handler once; isForkedChild() is true in every child that is forked afterwards.
void watchForks();
bool isForkedChild();
Error forkedChildError();

// Called by each thread of a parallel_for before its range, which begins at `begin`, for checks that disturb the order
// in which threads get on; NULL: nothing is. Set while no plugin computes.
void beforeRanges(void (*called)(int64_t begin));

// For the scope's lifetime, MortiseHost::cancelled returns 1 on this thread when `stop` is set.
class CancelScope {
public:
  explicit CancelScope(const std::atomic<bool> &stop);
  ~CancelScope();
  CancelScope(const CancelScope &) = delete;
  CancelScope &operator=(const CancelScope &) = delete;
};

} // namespace mortise::runtime
