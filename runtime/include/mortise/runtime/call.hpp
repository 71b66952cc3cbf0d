// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All calls from the host into a plugin. Statuses become Results, and exceptions of a plugin become errors.
#pragma once

#include <mortise/result.hpp>

#include <exception>

namespace mortise::runtime {

// Takes ownership of a plugin's status; success for NULL. A status that status_create did not make is an INTERNAL
// error.
Result<void> take(MortiseStatus *status);

Error thrown(const char *slot, const char *what); // the error for an exception from a plugin's slot

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
