// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The state of a HIP without GPUs: devices, memory of the process, and streams whose work happens later than it is
// queued.
#pragma once

#include "code_object.hpp"

#include "../../plugins/rocm/hip.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace mortise::rocm::hip {

struct Work {
  std::string text;
  std::function<void()> run;
};
struct StreamObject {
  int number = 0, device = 0;
  std::deque<Work> queue;
  uint64_t queued = 0, done = 0; // pieces of work
};
struct EventObject {
  int number = 0, device = 0;
  bool isRecorded = false;
  std::shared_ptr<StreamObject> stream; // of the last mark
  uint64_t position = 0;                // StreamObject::queued behind it
  double milliseconds = 0;              // when it happened
};
struct FunctionObject {
  std::string name;
  ModuleObject *module = nullptr;
  stand_in::KernelMetadata metadata;
  void *entry = nullptr;
};
struct ModuleObject {
  explicit ModuleObject(const char *image) : code(image) {}
  stand_in::CodeObject code;
  int device = 0;
  unsigned launches = 0; // that have not happened
  std::map<std::string, FunctionObject> functions;
};
struct PoolObject {
  int device = 0;
};

} // namespace mortise::rocm::hip

namespace mortise::stand_in {

using namespace rocm::hip;

// Settings (stand_in.hpp).
struct Settings {
  int devices = 2, version = 60232830, wave = 0;
  bool pools = true, calls = true;
  std::vector<std::string> architectures{"gfx942"};
  enum class Order { Random, Lazy, Eager } order = Order::Random;
  unsigned seed = 1;
  std::string failing, report;
  int failingCall = 0;
  Status result = Success;
};

// Whole pages of the system's: a device's memory is none of malloc's.
class Pages {
public:
  Pages() = default;
  explicit Pages(size_t bytes);
  Pages(Pages &&other) noexcept : start(std::exchange(other.start, nullptr)), bytes(other.bytes) {}
  Pages &operator=(Pages &&other) noexcept {
    std::swap(start, other.start), std::swap(bytes, other.bytes);
    return *this;
  }
  ~Pages();
  std::byte *data() const { return start; }

private:
  std::byte *start = nullptr;
  size_t bytes = 0;
};

// Memory of a device, with guards on both sides.
struct Allocation {
  static constexpr size_t guard = 256;
  Pages memory;
  size_t bytes = 0;
  int device = 0;
  bool isThere = true;    // the work that allocates it has happened
  bool isLeaving = false; // work that frees it is queued
};

class Runtime {
public:
  static Runtime &instance();
  std::recursive_mutex mutex; // of all of it

  void configure(const std::string &settings);
  const char *report();
  const char *problems();

  // At the start of each function of HIP's: what it is to answer instead of what it does.
  Status enter(const char *function);
  // At its end: HIP keeps a thread's last error.
  Status leave(Status status);
  Status takeLastError();
  void complain(const std::string &problem);

  const std::string &architectureOf(int device) const;
  bool isDevice(int device) const { return device >= 0 && device < settings.devices; }
  int &currentDevice();

  // Memory
  void *allocate(size_t bytes, int device, bool isThere);
  Allocation *find(const void *address); // the one that it lies in
  void setThere(const void *address);
  bool isAllocation(const void *address) const { return allocations.contains(begin(address)); }
  void free(void *address);
  // Says so where the range is not all in memory that is there.
  void check(const std::string &what, const void *address, size_t bytes);
  void checkArgument(const std::string &what, uint64_t address);

  // Streams. NULL is the current device's default stream.
  std::shared_ptr<StreamObject> streamOf(Stream handle);    // NULL where there is none
  void orphan(const std::shared_ptr<StreamObject> &stream); // it is destroyed
  void queue(StreamObject &stream, std::string text, std::function<void()> run);
  void runUntil(StreamObject &stream, uint64_t position);
  void runAll(int device); // of a device; -1: of all

  Settings settings;
  std::map<Stream, std::shared_ptr<StreamObject>> streams;
  std::map<Event, std::shared_ptr<EventObject>> events;
  std::map<Module, std::shared_ptr<ModuleObject>> modules;
  std::map<void *, size_t> registrations;
  std::vector<PoolObject> pools;
  int streamNumber = 0, eventNumber = 0;
  uint64_t launches = 0;
  Status forEver = Success; // the device is lost

private:
  Runtime();
  ~Runtime();
  static uintptr_t begin(const void *address) { return reinterpret_cast<uintptr_t>(address); }
  void checkGuards(const Allocation &allocation, uintptr_t address);
  void runOne(StreamObject &stream);
  void progress();
  std::vector<std::shared_ptr<StreamObject>> withWork();
  void bury(uintptr_t address, Allocation allocation);

  std::mt19937 random;
  std::map<uintptr_t, Allocation> allocations;
  std::map<uintptr_t, Allocation> freed; // the last ones, filled with a pattern
  std::deque<uintptr_t> freedOrder;
  size_t freedBytes = 0;
  std::map<int, std::shared_ptr<StreamObject>> defaults; // per device
  std::vector<std::shared_ptr<StreamObject>> orphans;    // destroyed before their work was done
  std::vector<std::string> calls, problemList;
  std::map<std::string, int> counts;
  int callCount = 0;
  std::string text;
};

} // namespace mortise::stand_in
