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

// What the guards have put right in this process, for checks of plugins.
struct FloatChanges {
  uint64_t count = 0;
  std::string slot; // in which it happened last
};
FloatChanges floatChanges();
void countFloatChange(); // in the slot that is `asked`

#if defined(__x86_64__)
// The same by hand: <cfenv> saves and restores more than the settings, and takes longer, in each call of a plugin.
inline FloatGuard::FloatGuard() noexcept : sse(_mm_getcsr()) { asm volatile("fnstcw %0" : "=m"(x87)); }
inline FloatGuard::~FloatGuard() {
  constexpr uint32_t flags = 0x3f; // what has happened, which is no setting
  uint16_t now;
  asm volatile("fnstcw %0" : "=m"(now));
  if (((_mm_getcsr() ^ sse) & ~flags) || now != x87) [[unlikely]] {
    _mm_setcsr(sse);
    asm volatile("fldcw %0" : : "m"(x87));
    countFloatChange();
  }
}
#else
inline FloatGuard::FloatGuard() noexcept { std::fegetenv(&all); }
inline FloatGuard::~FloatGuard() { std::fesetenv(&all); }
#endif

// What this thread has asked of a plugin, which has not answered yet; a crash is reported with it. The strings live as
// long as the question.
struct Asked {
  const char *slot = nullptr;     // NULL: nothing
  const void *function = nullptr; // the slot's, which lies in the plugin's library
  const char *about = nullptr;    // what for: "region 3 (cpu.region on cpu)"; may be NULL
};
[[gnu::tls_model("initial-exec")]] extern constinit thread_local Asked asked;

// Told of what a thread asks, in an isolated plugin's process; NULL in others. Set before the first question.
extern constinit void (*showAsked)(const Asked &);

// Sets `asked` while it lives. A plugin's slot may ask the host, which then asks another plugin.
class AskScope {
public:
  AskScope(const char *slot, const void *function, const char *about) noexcept : before(asked) {
    asked = {slot, function, about};
    if (showAsked) [[unlikely]]
      showAsked(asked);
  }
  explicit AskScope(const Asked &others) noexcept : before(asked) { asked = others; }
  ~AskScope() { asked = before; }
  AskScope(const AskScope &) = delete;
  AskScope &operator=(const AskScope &) = delete;

private:
  const Asked before;
};

// What the questions are for that this thread asks while it lives.
class AboutScope : AskScope {
public:
  explicit AboutScope(const char *about) noexcept : AskScope(asked.slot, asked.function, about) {}
};

// Text of a plugin's as people may be shown it: the first 4096 bytes, in UTF-8, with escapes for control characters
// other than line feeds and tabs.
std::string legible(std::string_view text);

// Takes ownership of a plugin's status; success for NULL. A status that status_create did not make is an INTERNAL
// error.
Result<void> take(MortiseStatus *status);

Error thrown(const char *slot, const char *what); // the error for an exception from a plugin's slot

// `slot` is the slot's name, for messages.
template <typename Args> Result<void> call(const char *slot, MortiseStatus *(*function)(Args *), Args &args) {
  const AskScope scope(slot, reinterpret_cast<const void *>(function), asked.about);
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
