// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <sstream>
#include <sys/mman.h>
#include <utility>

namespace mortise::stand_in {

namespace {

constexpr std::byte fresh{0xff}, left{0xdd}, fence{0xa5};           // NaN, for most
constexpr size_t mostFreedBytes = size_t{64} << 20, mostFreed = 24; // the kit takes what grows for a leak

// After these HIP answers each call of the process so.
bool lasts(Status status) {
  return status == NotInitialized || status == Deinitialized || status == ECCNotCorrectable ||
         status == IllegalAddress || status == LaunchTimeOut || status == ContextIsDestroyed || status == Assert ||
         status == LaunchFailure;
}

std::string hex(uintptr_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << number;
  return text.str();
}

thread_local Status lastError = Success;

} // namespace

Pages::Pages(size_t wanted) : bytes(wanted) {
  void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED)
    throw std::bad_alloc();
  start = static_cast<std::byte *>(made);
}

Pages::~Pages() {
  if (start)
    munmap(start, bytes);
}

Runtime &Runtime::instance() {
  static Runtime runtime;
  return runtime;
}

Runtime::Runtime() {
  if (const char *given = std::getenv("MORTISE_TEST_HIP_STAND_IN"))
    configure(given);
}

Runtime::~Runtime() {
  if (!settings.report.empty())
    std::ofstream(settings.report, std::ios::app) << "launches=" << launches << "\n";
}

void Runtime::configure(const std::string &given) {
  const std::lock_guard lock(mutex);
  runAll(-1);
  calls.clear();
  problemList.clear();
  counts.clear();
  callCount = 0;
  if (std::exchange(forEver, Success) != Success) // with its state a device loses what it has registered
    registrations.clear();
  Settings made;
  made.report = settings.report;
  std::istringstream words(given);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const std::string key = word.substr(0, equals), value = equals == word.npos ? "" : word.substr(equals + 1);
    const auto number = [&] { return std::atoi(value.c_str()); };
    if (key == "devices") {
      made.devices = number();
    } else if (key == "arch") {
      made.architectures.clear();
      std::istringstream names(value);
      for (std::string name; std::getline(names, name, ',');)
        made.architectures.push_back(name);
    } else if (key == "version") {
      made.version = number();
    } else if (key == "pools") {
      made.pools = number() != 0;
    } else if (key == "calls") {
      made.calls = number() != 0;
    } else if (key == "wave") {
      made.wave = number();
    } else if (key == "order") {
      made.order = value == "lazy"    ? Settings::Order::Lazy
                   : value == "eager" ? Settings::Order::Eager
                                      : Settings::Order::Random;
    } else if (key == "seed") {
      made.seed = static_cast<unsigned>(number());
    } else if (key == "report") {
      made.report = value;
    } else if (key == "fail") {
      const size_t first = value.find(':'), second = value.find(':', first + 1);
      made.failing = value.substr(0, first);
      made.failingCall = std::atoi(value.c_str() + first + 1);
      made.result = static_cast<Status>(std::atoi(value.c_str() + second + 1));
    } else {
      std::fprintf(stderr, "hip-stand-in: no setting %s\n", key.c_str());
      std::abort(); // the test is faulty
    }
  }
  settings = made;
  random.seed(settings.seed);
  pools.resize(static_cast<size_t>(settings.devices));
  for (int i = 0; i < settings.devices; ++i)
    pools[static_cast<size_t>(i)].device = i;
}

const char *Runtime::report() {
  const std::lock_guard lock(mutex);
  runAll(-1);
  std::ostringstream out;
  out << "streams=" << streams.size() << " events=" << events.size() << " modules=" << modules.size()
      << " allocations=" << allocations.size() << " registrations=" << registrations.size() << " launches=" << launches
      << " calls=" << calls.size() << "\n";
  for (const std::string &call : calls)
    out << call << "\n";
  text = out.str();
  return text.c_str();
}

const char *Runtime::problems() {
  const std::lock_guard lock(mutex);
  runAll(-1);
  for (const auto &[address, allocation] : allocations)
    checkGuards(allocation, address);
  while (!freedOrder.empty())
    bury(0, {});
  text.clear();
  for (const std::string &problem : problemList)
    text += problem + "\n";
  return text.c_str();
}

void Runtime::complain(const std::string &problem) {
  problemList.push_back(problem);
  if (!settings.report.empty())
    std::ofstream(settings.report, std::ios::app) << problem << "\n";
}

// ---- Calls

Status Runtime::enter(const char *function) {
  if (settings.calls)
    calls.emplace_back(function);
  ++callCount;
  const int number = ++counts[function];
  const bool isNext = settings.failing == function ? number == settings.failingCall
                                                   : settings.failing == "*" && callCount == settings.failingCall;
  if (isNext) {
    if (lasts(settings.result))
      forEver = settings.result;
    return settings.result;
  }
  if (forEver == Success)
    progress();
  return forEver;
}

Status Runtime::leave(Status status) {
  if (status != Success)
    lastError = status;
  return status;
}

Status Runtime::takeLastError() { return std::exchange(lastError, Success); }

int &Runtime::currentDevice() {
  thread_local int device = 0;
  return device;
}

const std::string &Runtime::architectureOf(int device) const {
  return settings.architectures[std::min(static_cast<size_t>(device), settings.architectures.size() - 1)];
}

// ---- Memory

void *Runtime::allocate(size_t bytes, int device, bool isThere) {
  constexpr size_t alignment = 256;
  Allocation made;
  made.memory = Pages(bytes + 2 * Allocation::guard + alignment);
  made.bytes = bytes, made.device = device, made.isThere = isThere;
  const uintptr_t address = (begin(made.memory.data()) + Allocation::guard + alignment - 1) / alignment * alignment;
  auto *memory = reinterpret_cast<std::byte *>(address);
  std::fill_n(memory - Allocation::guard, Allocation::guard, fence);
  std::fill_n(memory, bytes, fresh);
  std::fill_n(memory + bytes, Allocation::guard, fence);
  allocations.emplace(address, std::move(made));
  return memory;
}

Allocation *Runtime::find(const void *address) {
  const auto after = allocations.upper_bound(begin(address));
  if (after == allocations.begin())
    return nullptr;
  auto &[start, allocation] = *std::prev(after);
  return begin(address) < start + std::max<size_t>(allocation.bytes, 1) ? &allocation : nullptr;
}

void Runtime::setThere(const void *address) {
  if (const auto found = allocations.find(begin(address)); found != allocations.end())
    found->second.isThere = true;
}

void Runtime::checkGuards(const Allocation &allocation, uintptr_t address) {
  const auto *memory = reinterpret_cast<const std::byte *>(address);
  const auto isFence = [](std::byte byte) { return byte == fence; };
  if (!std::all_of(memory - Allocation::guard, memory, isFence))
    complain("memory in front of an allocation of " + std::to_string(allocation.bytes) + " bytes was written");
  if (!std::all_of(memory + allocation.bytes, memory + allocation.bytes + Allocation::guard, isFence))
    complain("memory behind an allocation of " + std::to_string(allocation.bytes) + " bytes was written");
}

void Runtime::free(void *address) {
  const auto found = allocations.find(begin(address));
  if (found == allocations.end())
    return complain("memory was freed that is not allocated, or freed twice: " + hex(begin(address)));
  checkGuards(found->second, found->first);
  std::fill_n(static_cast<std::byte *>(address), found->second.bytes, left);
  bury(found->first, std::move(found->second));
  allocations.erase(found);
}

// Keeps it for a while, to see whether somebody still writes there. Without memory: lets the oldest go.
void Runtime::bury(uintptr_t address, Allocation allocation) {
  const bool isNew = allocation.memory.data() != nullptr;
  if (isNew) {
    freedBytes += allocation.bytes;
    freedOrder.push_back(address);
    freed.emplace(address, std::move(allocation));
  }
  while (!freedOrder.empty() && (!isNew || freedBytes > mostFreedBytes || freed.size() > mostFreed)) {
    const auto oldest = freed.find(freedOrder.front());
    freedOrder.pop_front();
    const auto *memory = reinterpret_cast<const std::byte *>(oldest->first);
    const size_t bytes = oldest->second.bytes;
    if (!std::all_of(memory, memory + bytes, [](std::byte byte) { return byte == left; }))
      complain("memory of " + std::to_string(bytes) + " bytes was written after it was freed");
    freedBytes -= bytes;
    freed.erase(oldest);
    if (!isNew)
      break;
  }
}

void Runtime::check(const std::string &what, const void *address, size_t bytes) {
  const auto after = allocations.upper_bound(begin(address));
  const auto found = after == allocations.begin() ? allocations.end() : std::prev(after);
  if (found == allocations.end() || begin(address) + bytes > found->first + found->second.bytes)
    complain(what + ": " + std::to_string(bytes) + " bytes at " + hex(begin(address)) +
             " are not all in memory of a device");
  else if (!found->second.isThere)
    complain(what + ": memory is used before the work that allocates it has happened");
}

// What a kernel reads and writes from there is not known; the guards are.
void Runtime::checkArgument(const std::string &what, uint64_t address) {
  const auto *pointer = reinterpret_cast<const void *>(address);
  if (const Allocation *found = find(pointer)) {
    if (!found->isThere)
      complain(what + ": memory is used before the work that allocates it has happened");
    return;
  }
  const auto after = freed.upper_bound(address);
  if (after != freed.begin() && address < std::prev(after)->first + std::prev(after)->second.bytes)
    complain(what + ": memory is used after it was freed");
}

// ---- Streams

std::shared_ptr<StreamObject> Runtime::streamOf(Stream handle) {
  if (!handle) {
    std::shared_ptr<StreamObject> &stream = defaults[currentDevice()];
    if (!stream) {
      stream = std::make_shared<StreamObject>();
      stream->device = currentDevice();
    }
    return stream;
  }
  const auto found = streams.find(handle);
  if (found != streams.end())
    return found->second;
  complain("a stream is used that is not there, or no longer");
  return nullptr;
}

void Runtime::orphan(const std::shared_ptr<StreamObject> &stream) {
  orphans.push_back(stream);
  streams.erase(stream.get());
}

void Runtime::queue(StreamObject &stream, std::string text, std::function<void()> run) {
  stream.queue.push_back({std::move(text), std::move(run)});
  ++stream.queued;
  if (settings.order == Settings::Order::Eager)
    runUntil(stream, stream.queued);
}

void Runtime::runOne(StreamObject &stream) {
  const Work work = std::move(stream.queue.front());
  stream.queue.pop_front();
  work.run(); // which may run other streams, not this one
  ++stream.done;
}

void Runtime::runUntil(StreamObject &stream, uint64_t position) {
  while (stream.done < position && !stream.queue.empty())
    runOne(stream);
}

std::vector<std::shared_ptr<StreamObject>> Runtime::withWork() {
  std::vector<std::shared_ptr<StreamObject>> list;
  const auto add = [&](const std::shared_ptr<StreamObject> &stream) {
    if (!stream->queue.empty())
      list.push_back(stream);
  };
  for (const auto &[device, stream] : defaults)
    add(stream);
  for (const auto &[handle, stream] : streams)
    add(stream);
  std::ranges::for_each(orphans, add);
  return list;
}

void Runtime::runAll(int device) {
  for (bool any = true; any;) {
    any = false;
    auto list = withWork();
    std::ranges::reverse(list);
    for (const std::shared_ptr<StreamObject> &stream : list)
      if (device < 0 || stream->device == device) {
        runUntil(*stream, stream->queued);
        any = true;
      }
  }
  std::erase_if(orphans, [](const auto &stream) { return stream->queue.empty(); });
}

// Work goes on while the host does something else.
void Runtime::progress() {
  if (settings.order != Settings::Order::Random)
    return;
  const auto list = withWork();
  if (list.empty() || random() % 2)
    return;
  StreamObject &stream = *list[random() % list.size()];
  for (unsigned i = 1 + random() % 3; i > 0 && !stream.queue.empty(); --i)
    runOne(stream);
}

} // namespace mortise::stand_in
