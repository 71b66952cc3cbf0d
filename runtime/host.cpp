// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host.hpp"

#include "plugin_memory.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/guard.hpp>

#include <nlohmann/json.hpp>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <pthread.h>

#ifdef MORTISE_THREAD_SANITIZED
#include <sanitizer/tsan_interface.h>
#endif

// Entry points of libgomp, the OpenMP runtime that PyTorch and the CPU library already use in this process. They are
// declared here because clang generates calls to another OpenMP runtime.
extern "C" {
void GOMP_parallel(void (*function)(void *), void *data, unsigned threads, unsigned flags);
int omp_get_max_threads(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_in_parallel(void);
}

struct MortiseStatus {
  uint64_t mark;
  int32_t code;
  bool fixed; // preallocated: never freed; the message follows in memory
  char *message() { return reinterpret_cast<char *>(this + 1); }
  const char *message() const { return reinterpret_cast<const char *>(this + 1); }
};

namespace mortise::runtime {
namespace {

constexpr uint64_t statusMark = UINT64_C(0x737574617473726d);

MortiseStatus *preallocatedStatus() {
  static const char text[] = "out of memory while reporting an error; free memory and try again";
  alignas(MortiseStatus) static char storage[sizeof(MortiseStatus) + sizeof text];
  static MortiseStatus *status = [] {
    auto *made = reinterpret_cast<MortiseStatus *>(storage);
    made->mark = statusMark;
    made->code = MORTISE_OUT_OF_MEMORY;
    made->fixed = true;
    std::memcpy(made->message(), text, sizeof text);
    return made;
  }();
  return status;
}

MortiseStatus *statusCreate(int32_t code, const char *message) {
  const char *text = message ? message : "";
  const size_t length = std::strlen(text);
  auto *status = static_cast<MortiseStatus *>(std::malloc(sizeof(MortiseStatus) + length + 1));
  if (status == nullptr)
    return preallocatedStatus();
  status->mark = statusMark;
  status->code = code;
  status->fixed = false;
  std::memcpy(status->message(), text, length + 1);
  return status;
}

int32_t statusCode(const MortiseStatus *status) { return status ? status->code : MORTISE_OK; }
const char *statusMessage(const MortiseStatus *status) { return status ? status->message() : ""; }

void statusDestroy(MortiseStatus *status) {
  if (status == nullptr || status->fixed)
    return;
  status->mark = 0;
  std::free(status);
}

spdlog::logger &logger() {
  // Never destroyed: plugins may log during process exit.
  static auto *made = [] {
    auto *fresh = new spdlog::logger("mortise", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    fresh->set_pattern("mortise: %^%l%$: %v");
    fresh->set_level(spdlog::level::warn);
    return fresh;
  }();
  return *made;
}

void hostLog(int32_t severity, const char *message) {
  logMessage(static_cast<MortiseSeverity>(severity), message ? legible(message) : "");
}

// libgomp is not instrumented. These two tell the thread sanitizer what a parallel region orders: what comes before it,
// in its threads and behind it.
void publish([[maybe_unused]] void *region) {
#ifdef MORTISE_THREAD_SANITIZED
  __tsan_release(region);
#endif
}
void observe([[maybe_unused]] void *region) {
#ifdef MORTISE_THREAD_SANITIZED
  __tsan_acquire(region);
#endif
}

std::atomic<void (*)(int64_t begin)> beforeRange = nullptr;
void runRange(MortiseTask task, void *context, int64_t begin, int64_t end) {
  if (const auto called = beforeRange.load(std::memory_order_relaxed)) [[unlikely]]
    called(begin);
  task(context, begin, end);
}

struct Parallel {
  MortiseTask task;
  void *context;
  int64_t count;
  Asked asked;
};

void runShare(void *data) {
  observe(data);
  const auto &parallel = *static_cast<const Parallel *>(data);
  const int64_t threads = omp_get_num_threads(), number = omp_get_thread_num();
  const int64_t share = parallel.count / threads, rest = parallel.count % threads;
  const int64_t begin = number * share + std::min(number, rest);
  const int64_t end = begin + share + (number < rest ? 1 : 0);
  const AskScope scope(parallel.asked);
  const FloatGuard guard;
  if (begin < end)
    runRange(parallel.task, parallel.context, begin, end);
  publish(data);
}

void parallelFor(int64_t count, int64_t grain, MortiseTask task, void *context) {
  if (count <= 0)
    return;
  const int64_t ranges = count / std::max<int64_t>(grain, 1);
  if (ranges <= 1 || omp_in_parallel() || isForkedChild())
    return runRange(task, context, 0, count);
  const int64_t threads = std::min<int64_t>(ranges, omp_get_max_threads());
  if (threads <= 1)
    return runRange(task, context, 0, count);
  Parallel parallel{task, context, count, asked};
  publish(&parallel);
  GOMP_parallel(runShare, &parallel, static_cast<unsigned>(threads), 0);
  observe(&parallel);
}

int32_t threadCount() { return omp_in_parallel() || isForkedChild() ? 1 : omp_get_max_threads(); }

thread_local const std::atomic<bool> *stopFlag = nullptr;
int32_t hostCancelled() { return stopFlag && stopFlag->load(std::memory_order_relaxed) ? 1 : 0; }

MortiseStatus *graphBytes(const MortiseGraph *graph, const void **bytes, size_t *size) {
  if (graph == nullptr || bytes == nullptr || size == nullptr)
    return statusCreate(MORTISE_INVALID_ARGUMENT, "graph_bytes: expected three pointers, found NULL");
  const Graph *owner = Graph::owner(*graph);
  if (owner == nullptr)
    return statusCreate(
        MORTISE_INVALID_ARGUMENT,
        "graph_bytes: expected a graph that the host made, found another; pass the pointer that the host gave");
  *bytes = owner->bytes().data();
  *size = owner->bytes().size();
  return nullptr;
}

std::atomic<bool> forkedChild{false};

} // namespace

void setLogLevel(const std::string &level) {
  logger().set_level(level == "debug"     ? spdlog::level::debug
                     : level == "info"    ? spdlog::level::info
                     : level == "warning" ? spdlog::level::warn
                     : level == "error"   ? spdlog::level::err
                                          : spdlog::level::off);
}

void logMessage(MortiseSeverity severity, const std::string &message) {
  const auto level = severity <= MORTISE_DEBUG     ? spdlog::level::debug
                     : severity == MORTISE_INFO    ? spdlog::level::info
                     : severity == MORTISE_WARNING ? spdlog::level::warn
                                                   : spdlog::level::err;
  logger().log(level, "{}", message);
}

void watchForks() {
  static std::once_flag once;
  std::call_once(once,
                 [] { pthread_atfork(nullptr, nullptr, [] { forkedChild.store(true, std::memory_order_relaxed); }); });
}
bool isForkedChild() { return forkedChild.load(std::memory_order_relaxed); }
Error forkedChildError() {
  return {MORTISE_UNSUPPORTED,
          "this process was forked from one that uses mortise, and threads and devices do not survive a "
          "fork; start worker processes with the 'spawn' method, or load mortise only in the child"};
}

void beforeRanges(void (*called)(int64_t begin)) { beforeRange.store(called); }

CancelScope::CancelScope(const std::atomic<bool> &stop) { stopFlag = &stop; }
CancelScope::~CancelScope() { stopFlag = nullptr; }

const MortiseHost &host() {
  static const MortiseHost table = {
      .struct_size = sizeof(MortiseHost),
      .extension = nullptr,
      .abi_revision = MORTISE_ABI_REVISION,
      .opset = MORTISE_OPSET,
      .status_create = statusCreate,
      .status_code = statusCode,
      .status_message = statusMessage,
      .status_destroy = statusDestroy,
      .log = hostLog,
      .parallel_for = parallelFor,
      .thread_count = threadCount,
      .cancelled = hostCancelled,
      .graph_bytes = graphBytes,
      .device_allocate = allocateForPlugin,
      .device_free = freeForPlugin,
  };
  return table;
}

namespace {
std::mutex floatMutex;
FloatChanges floatSeen;
} // namespace

FloatChanges floatChanges() {
  const std::lock_guard lock(floatMutex);
  return floatSeen;
}

void countFloatChange() {
  const std::lock_guard lock(floatMutex);
  ++floatSeen.count;
  floatSeen.slot = asked.slot ? asked.slot : "";
}

std::string legible(std::string_view text) {
  constexpr size_t most = 4096;
  const auto isPlain = [](char c) { return c >= ' ' && c < 0x7f; };
  if (text.size() <= most && std::ranges::all_of(text, isPlain))
    return std::string(text);
  const size_t beyond = text.size() - std::min(text.size(), most);
  // The JSON library replaces what is no UTF-8.
  const std::string json =
      nlohmann::json(text.substr(0, most)).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string valid = nlohmann::json::parse(json);
  std::string shown;
  for (size_t i = 0; i < valid.size(); ++i) {
    const auto c = static_cast<unsigned char>(valid[i]);
    const unsigned char next = c == 0xc2 ? static_cast<unsigned char>(valid[i + 1]) : 0xff;
    if (next < 0xa0) { // U+0080 to U+009F
      shown += fmt::format("\\u{:04x}", next);
      ++i;
    } else if ((c >= ' ' || c == '\n' || c == '\t') && c != 0x7f) {
      shown += valid[i];
    } else {
      shown += fmt::format("\\x{:02x}", c);
    }
  }
  return beyond ? shown + " ... (" + std::to_string(beyond) + " more bytes)" : shown;
}

Result<void> take(MortiseStatus *status) {
  if (status == nullptr)
    return {};
  if (reinterpret_cast<uintptr_t>(status) % alignof(MortiseStatus) != 0 || !isReadable(status, sizeof(MortiseStatus)) ||
      status->mark != statusMark)
    return Error{MORTISE_INTERNAL,
                 "the plugin returned a status that status_create did not make; return NULL or the host's status"};
  const int32_t code = status->code;
  std::string message = legible(status->message());
  statusDestroy(status);
  if (code <= MORTISE_OK || code > MORTISE_INTERNAL)
    return Error{MORTISE_INTERNAL,
                 "the plugin returned the unknown status code " + std::to_string(code) + ": " + message};
  return Error{static_cast<MortiseCode>(code), std::move(message)};
}

Error thrown(const char *slot, const char *what) {
  return {MORTISE_INTERNAL, std::string("the plugin threw ") +
                                (what ? std::string("'") + legible(what) + "'" : "something unknown") + " from " +
                                slot + "; it has to return a status instead"};
}

} // namespace mortise::runtime
