// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All calls from the host into a plugin. Statuses become Results, and exceptions of a plugin become errors.
#pragma once

#include <mortise/result.hpp>

#include <exception>
#include <string>
#include <string_view>
#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace mortise::runtime {

// Keeps the thread's floating-point control (rounding, subnormals, traps) as it is, whatever a plugin does in between:
// a library that was built with -ffast-math has subnormals flushed to zero in the thread that loads it.
class FloatGuard {
public:
  FloatGuard() noexcept;
  ~FloatGuard();
  FloatGuard(const FloatGuard &) = delete;
  FloatGuard &operator=(const FloatGuard &) = delete;

private:
#if defined(__x86_64__)
  uint32_t sse;
  uint16_t x87;
#else
  std::fenv_t all;
#endif
};

#if defined(__x86_64__)
// The same by hand: <cfenv> saves and restores more than the settings, and takes longer, in each call of a plugin.
inline FloatGuard::FloatGuard() noexcept : sse(_mm_getcsr()) { asm volatile("fnstcw %0" : "=m"(x87)); }
inline FloatGuard::~FloatGuard() {
  constexpr uint32_t flags = 0x3f; // what has happened, which is no setting
  uint16_t now;
  asm volatile("fnstcw %0" : "=m"(now));
  if ((_mm_getcsr() ^ sse) & ~flags) [[unlikely]]
    _mm_setcsr(sse);
  if (now != x87)
    asm volatile("fldcw %0" : : "m"(x87));
}
#else
inline FloatGuard::FloatGuard() noexcept { std::fegetenv(&all); }
inline FloatGuard::~FloatGuard() { std::fesetenv(&all); }
#endif

// Text of a plugin's as people may be shown it: the first 4096 bytes, in UTF-8, with escapes for control characters
// other than line feeds and tabs.
std::string legible(std::string_view text);

// Takes ownership of a plugin's status; success for NULL. A status that status_create did not make is an INTERNAL
// error.
Result<void> take(MortiseStatus *status);

Error thrown(const char *slot, const char *what); // the error for an exception from a plugin's slot

// `slot` is the slot's name, for messages.
template <typename Args> Result<void> call(const char *slot, MortiseStatus *(*function)(Args *), Args &args) {
  const FloatGuard guard;
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
