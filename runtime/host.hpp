// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of the host table that only the runtime uses.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <atomic>
#include <string>

namespace mortise::runtime {

void setLogLevel(const std::string &level); // debug, info, warning, error or off
void logMessage(MortiseSeverity severity, const std::string &message);

// Notes that this process uses plugins; forked children are told apart from then on.
void watchForks();
bool isForkedChild();
Error forkedChildError();

// While it lives, `cancelled` answers 1 on this thread once `stop` is set.
class CancelScope {
public:
  explicit CancelScope(const std::atomic<bool> &stop);
  ~CancelScope();
  CancelScope(const CancelScope &) = delete;
  CancelScope &operator=(const CancelScope &) = delete;
};

} // namespace mortise::runtime
