// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "crash.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <deque>
#include <link.h>
#include <mutex>
#include <string_view>
#include <ucontext.h>
#include <unistd.h>

namespace mortise::runtime {

constinit thread_local Asked asked;
constinit void (*showAsked)(const Asked &) = nullptr;

namespace {

struct Library {
  uintptr_t begin = 0, end = 0;
  const char *name = nullptr; // "plugin 'acme' (/opt/libmortise_acme.so)"; lives until the process ends
};

// Only grows, so that the handler reads it without a lock.
constexpr size_t mostLibraries = 256;
std::array<Library, mostLibraries> libraries;
std::atomic<size_t> libraryCount{0};

struct Watched {
  int number;
  const char *name;
  struct sigaction before;
};
std::array<Watched, 5> watched = {{{SIGSEGV, "SIGSEGV", {}},
                                   {SIGBUS, "SIGBUS", {}},
                                   {SIGILL, "SIGILL", {}},
                                   {SIGFPE, "SIGFPE", {}},
                                   {SIGABRT, "SIGABRT", {}}}};

const Library *libraryOf(uintptr_t address) {
  const size_t count = libraryCount.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i)
    if (address >= libraries[i].begin && address < libraries[i].end)
      return &libraries[i];
  return nullptr;
}

uintptr_t programCounter([[maybe_unused]] const void *context) {
#if defined(__x86_64__)
  return static_cast<uintptr_t>(static_cast<const ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<const ucontext_t *>(context)->uc_mcontext.pc;
#else
  return 0;
#endif
}

// A line in a buffer of its own: a handler may not allocate.
class Line {
public:
  Line &operator<<(std::string_view part) {
    const size_t count = std::min(part.size(), sizeof text - 1 - length);
    std::memcpy(text + length, part.data(), count);
    length += count;
    return *this;
  }
  Line &hex(uintptr_t number) {
    char digits[2 * sizeof number];
    size_t at = sizeof digits;
    do
      digits[--at] = "0123456789abcdef"[number % 16];
    while (number /= 16);
    return *this << "0x" << std::string_view(digits + at, sizeof digits - at);
  }
  void write() {
    text[length++] = '\n';
    for (size_t done = 0; done < length;) {
      const ssize_t written = ::write(STDERR_FILENO, text + done, length - done);
      if (written <= 0)
        return;
      done += static_cast<size_t>(written);
    }
  }

private:
  char text[2048];
  size_t length = 0;
};

void leaveLine(const Watched &signal, const siginfo_t &info, const void *context) {
  const Library *library =
      libraryOf(asked.slot ? reinterpret_cast<uintptr_t>(asked.function) : programCounter(context));
  if (asked.slot == nullptr && library == nullptr)
    return; // no plugin's
  Line line;
  line << "mortise: " << signal.name;
  if (signal.number == SIGSEGV || signal.number == SIGBUS)
    (line << " at address ").hex(reinterpret_cast<uintptr_t>(info.si_addr));
  line << " in " << (asked.slot ? asked.slot : "a thread");
  if (library)
    line << " of " << library->name;
  if (asked.slot && asked.about)
    line << ", " << asked.about;
  line.write();
}

void onSignal(int number, siginfo_t *info, void *context) {
  static std::atomic<bool> said{false}; // a line for each process, and none for a crash in this handler
  for (const Watched &signal : watched) {
    if (signal.number != number)
      continue;
    if (!said.exchange(true))
      leaveLine(signal, *info, context);
    const struct sigaction &before = signal.before;
    if (before.sa_flags & SA_SIGINFO)
      return before.sa_sigaction(number, info, context);
    if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
      return before.sa_handler(number);
    sigaction(number, &before, nullptr);
    if (info->si_code <= 0) // sent, so that nothing raises it again on return
      raise(number);
    return;
  }
}

// The addresses of the library that has `address`.
Library rangeOf(const void *address) {
  struct Search {
    uintptr_t address;
    Library found;
  } search{reinterpret_cast<uintptr_t>(address), {}};
  dl_iterate_phdr(
      [](dl_phdr_info *object, size_t, void *data) {
        auto &wanted = *static_cast<Search *>(data);
        Library range{UINTPTR_MAX, 0, nullptr};
        for (ElfW(Half) i = 0; i < object->dlpi_phnum; ++i) {
          const ElfW(Phdr) &part = object->dlpi_phdr[i];
          if (part.p_type != PT_LOAD)
            continue;
          range.begin = std::min<uintptr_t>(range.begin, object->dlpi_addr + part.p_vaddr);
          range.end = std::max<uintptr_t>(range.end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
        }
        if (wanted.address < range.begin || wanted.address >= range.end)
          return 0;
        wanted.found = range;
        return 1;
      },
      &search);
  return search.found;
}

} // namespace

void watchCrashes() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Static, so that the thread may end before the process. Its pages are not touched before a signal comes.
    alignas(64) static std::array<std::byte, size_t(1) << 16> stack;
    if (stack_t now{}; sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE)) {
      now = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
      sigaltstack(&now, nullptr);
    }
    for (Watched &signal : watched) {
      struct sigaction action{};
      action.sa_sigaction = onSignal;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigaction(signal.number, nullptr, &signal.before); // before ours can run
      sigaction(signal.number, &action, nullptr);
    }
  });
}

void nameLibrary(const void *function, const std::string &plugin, const std::string &path) {
  static std::mutex mutex;
  static auto *names = new std::deque<std::string>; // never destroyed, and its elements do not move
  const std::lock_guard lock(mutex);
  const size_t count = libraryCount.load(std::memory_order_relaxed);
  Library library = rangeOf(function);
  if (count == mostLibraries || library.end == 0)
    return;
  library.name = names->emplace_back("plugin '" + plugin + "' (" + path + ")").c_str();
  libraries[count] = library;
  libraryCount.store(count + 1, std::memory_order_release);
}

} // namespace mortise::runtime
