// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The one place where the host calls into a plugin: statuses become Results, and what a plugin throws ends here.
#pragma once

#include <mortise/result.hpp>

#include <exception>

namespace mortise::runtime {

// Takes ownership of a plugin's status; success for NULL. A status that status_create did not make is an INTERNAL
// error.
Result<void> take(MortiseStatus *status);

Error thrown(const char *slot, const char *what); // what a plugin threw, as an error

// `slot` is the slot's name, for messages.
template <typename Args> Result<void> call(const char *slot, MortiseStatus *(*function)(Args *), Args &args) {
  try {
    MortiseStatus *status = function(&args);
    if (status == nullptr) [[likely]]
      return {};
    return take(status);
  } catch (const std::exception &exception) {
    return thrown(slot, exception.what());
  } catch (...) {
    return thrown(slot, nullptr);
  }
}

} // namespace mortise::runtime
