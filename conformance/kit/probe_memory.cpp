// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of devices, and what is left of what was made and destroyed.
#include "probe.hpp"

#include "../../tools/mortise/heap.hpp"

#include <mortise/runtime/device_memory.hpp>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <random>
#include <unistd.h>

namespace mortise::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// ---- The device's own memory

class SpaceTest {
public:
  SpaceTest(Device &device, uint32_t space)
      : device(device), owner(device.info()), space(space), info(*owner.info.spaces[space]) {}
  ~SpaceTest() {
    for (const Block &block : blocks)
      (void)release(block);
  }

  void run() {
    constexpr uint64_t sizes[] = {1, 3, 255, 256, 257, 4097, 65536, 1 << 20};
    for (int round = 0; round < 4; ++round) {
      for (const uint64_t size : sizes)
        add(size);
      check();
      std::shuffle(blocks.begin(), blocks.end(), random);
      for (size_t i = 0; i < std::size(sizes) / 2; ++i) {
        must(release(blocks.back()));
        blocks.pop_back();
      }
      check();
    }
    refusesTooMuch(UINT64_C(1) << 50);
    if (info.bytes)
      refusesTooMuch(info.bytes + 1);
    add(256); // memory that was short does not stay so
    check();
  }

private:
  struct Block {
    MortiseAddress address;
    std::vector<std::byte> content;
  };

  MortiseMemoryArgs argsOf(uint64_t bytes, MortiseAddress address = 0) const {
    MortiseMemoryArgs args{};
    args.space = space;
    args.bytes = bytes;
    args.address = address;
    return args;
  }
  Result<void> release(const Block &block) const {
    auto args = argsOf(block.content.size(), block.address);
    return runtime::callOn(owner, "memory_free", owner.plugin->table->memory_free, args);
  }
  void copy(MortiseAddress target, MortiseDevice *targetDevice, MortiseAddress source, MortiseDevice *sourceDevice,
            uint64_t bytes) {
    MortiseCopyArgs args{};
    args.stream = device.stream();
    args.target_device = targetDevice;
    args.source_device = sourceDevice;
    args.target = target;
    args.source = source;
    args.bytes = bytes;
    must(runtime::callOn(owner, "copy", owner.plugin->table->copy, args));
    must(device.wait());
  }

  void add(uint64_t bytes) {
    auto args = argsOf(bytes);
    must(runtime::callOn(owner, "memory_allocate", owner.plugin->table->memory_allocate, args));
    const std::string what = "memory_allocate of " + std::to_string(bytes) + " bytes in " + info.name;
    if (args.address == 0)
      fail("memory", what + " succeeds and gives no address");
    if (info.alignment && args.address % info.alignment)
      fail("memory", what + " gives an address that is no multiple of " + std::to_string(info.alignment));
    for (const Block &other : blocks)
      if (args.address < other.address + other.content.size() && other.address < args.address + bytes)
        fail("memory", what + " gives memory that is in use");
    Block &made = blocks.emplace_back(Block{args.address, std::vector<std::byte>(bytes)});
    std::ranges::generate(made.content, [&] { return static_cast<std::byte>(random()); });
    copy(made.address, owner.info.device, addressOf(made.content.data()), nullptr, bytes);
  }
  void check() {
    for (const Block &block : blocks) {
      std::vector<std::byte> found(block.content.size());
      copy(addressOf(found.data()), nullptr, block.address, owner.info.device, found.size());
      if (found != block.content)
        fail("memory", "memory of " + std::to_string(found.size()) + " bytes in " + std::string(info.name) +
                           " changed while other memory was allocated, written and freed");
    }
  }
  void refusesTooMuch(uint64_t bytes) {
    auto args = argsOf(bytes);
    const auto done = runtime::callOn(owner, "memory_allocate", owner.plugin->table->memory_allocate, args);
    const std::string what = "memory_allocate of " + std::to_string(bytes) + " bytes in " + info.name;
    if (done && args.address)
      (void)release({args.address, std::vector<std::byte>(1)});
    if (done)
      fail("status", what + " succeeds, which is more than there is; expected MORTISE_OUT_OF_MEMORY");
    if (done.error().code != MORTISE_OUT_OF_MEMORY)
      fail("status", what + ": expected MORTISE_OUT_OF_MEMORY, found: " + done.error().message);
  }

  Device &device;
  const runtime::Device &owner;
  const uint32_t space;
  const MortiseSpace &info;
  std::mt19937 random{1};
  std::vector<Block> blocks;
};

} // namespace

void tryMemory(ProbeRun &run) {
  const runtime::Device &device = run.device.info();
  if (&device.owner() != &device || !device.plugin->table->memory_allocate)
    refuse("no-memory", "the device has no memory of its own");
  bool any = false;
  for (uint32_t i = 0; i < device.info.space_count; ++i)
    if (device.info.spaces[i]->kind != MORTISE_SPACE_HOST) {
      SpaceTest(run.device, i).run();
      any = true;
    }
  if (!any)
    refuse("no-memory", "the device has no memory of its own");
}

// ---- What is left

namespace {

void expectNoLeak(ProbeRun &run, const char *what, const std::function<void()> &body) {
  if (const uint64_t bytes = run.leakOf(body))
    fail("leak",
         "each time that " + std::string(what) + ", " + std::to_string(bytes) + " bytes of memory are not given back");
}

void makeEvent(const runtime::Device &device, MortiseStream *stream) {
  MortiseEventArgs args{};
  must(runtime::callOn(device, "event_create", device.plugin->table->event_create, args));
  args.stream = stream;
  must(runtime::callOn(device, "event_record", device.plugin->table->event_record, args));
  must(runtime::callOn(device, "event_synchronize", device.plugin->table->event_synchronize, args));
  must(runtime::callOn(device, "event_destroy", device.plugin->table->event_destroy, args));
}

} // namespace

void tryLeaks(ProbeRun &run) {
  const runtime::Device &device = run.device.info();
  {
    const auto launch = run.launch(*run.kernel, run.a);
    Operands given = must(launch->operands());
    tool::Call args;
    MortiseFrame *frame = must(launch->makeFrame());
    expectNoLeak(run, "it is called", [&] {
      launch->fill(args, given);
      must(launch->enqueueIn(frame, {}, args, run.device.stream()));
      must(run.device.wait());
    });
  }
  expectNoLeak(run, "its constants are bound, a frame is made, and both are destroyed",
               [&] { must(run.launch(*run.kernel, run.a)->makeFrame()); });
  expectNoLeak(run, "it is compiled and destroyed", [&] {
    Refused refused;
    if (!run.compiled(run.a, refused))
      fail("status", "a graph that was compiled before is refused: " + refused.why);
  });
  if (run.hasStreams())
    expectNoLeak(run, "a stream and an event are made, used and destroyed", [&] {
      const tool::Stream made = must(tool::Stream::create(device));
      makeEvent(device, made.get());
    });
}

// ---- Over a long time

namespace {

// Bytes of pages that the process has in memory.
uint64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The least in each part of the second half of the time: in the first, caches and pools fill.
class Course {
public:
  void add(double share, uint64_t bytes) {
    if (share >= 0.5)
      if (uint64_t &least = parts[std::min<size_t>(static_cast<size_t>((share - 0.5) * 2 * count), count - 1)];
          least > bytes)
        least = bytes;
  }
  // By how much it has grown, if it has in every part; otherwise 0.
  uint64_t growth() const {
    for (size_t i = 1; i < count; ++i)
      if (parts[i] == UINT64_MAX || parts[i] <= parts[i - 1])
        return 0;
    return parts[count - 1] - parts[0];
  }

private:
  static constexpr size_t count = 6;
  uint64_t parts[count] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
};

} // namespace

void tryFlat(ProbeRun &run) {
  constexpr uint64_t heapNoise = 16 << 10, residentNoise = 1 << 20;
  Course heap, resident;
  std::mt19937 random(static_cast<uint32_t>(run.task.seed));
  const Clock::time_point begin = Clock::now();
  const auto share = [&] { return std::chrono::duration<double>(Clock::now() - begin).count() / run.task.seconds; };
  size_t cycles = 0;
  Clock::time_point said = begin;
  for (; share() < 1; ++cycles) {
    if (Clock::now() - said > std::chrono::seconds(1)) {
      run.task.stillThere();
      said = Clock::now();
    }
    Refused refused;
    std::vector<std::unique_ptr<Kernel>> kernels;
    std::vector<std::unique_ptr<Launch>> launches;
    for (size_t i = 0; i < 1 + random() % 3; ++i) {
      kernels.push_back(run.compiled(run.a, refused));
      if (!kernels.back())
        fail("status", "after " + std::to_string(cycles) + " times the graph is refused: " + refused.why);
      launches.push_back(run.launch(*kernels.back(), i % 2 ? run.b : run.a));
    }
    for (const auto &launch : launches) {
      Operands given = must(launch->operands());
      for (size_t i = 0; i < 1 + random() % 4; ++i)
        run.call(*launch, given, "after " + std::to_string(cycles) + " times that it was compiled and destroyed");
    }
    while (!launches.empty()) { // in any order
      const auto at = static_cast<ptrdiff_t>(random() % launches.size());
      launches.erase(launches.begin() + at);
      kernels.erase(kernels.begin() + at);
    }
    heap.add(share(), tool::heapBytes());
    resident.add(share(), residentBytes());
  }
  for (const auto &[what, course, noise] :
       {std::tuple("the heap", &heap, heapNoise), {"the process's memory", &resident, residentNoise}})
    if (course->growth() > noise)
      fail("leak", std::string(what) + " grows without end: by " + std::to_string(course->growth()) +
                       " bytes in the second half of " + std::to_string(cycles) +
                       " times that kernels were compiled, called and destroyed");
}

} // namespace mortise::conformance
