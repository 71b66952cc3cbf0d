// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices of this machine: what they are, their memory, and the queue in which their work happens.
#pragma once

#include "driver.hpp"

#include <mortise/codegen/simt_program.hpp>
#include <mortise/plugin.hpp>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace mortise::vulkan {

// A buffer with memory of its own. `mapped`: where the host sees it, or NULL.
struct Allocation {
  VkBuffer buffer = nullptr;
  VkDeviceMemory memory = nullptr;
  uint64_t address = 0, bytes = 0;
  std::byte *mapped = nullptr;
};

struct Features;
// What is made use of beyond Vulkan's promises.
struct Reliance {
  bool arithmetic = true; // of drivers that are known to be more exact
  bool subgroups = true;  // exchanges within them
  bool matrices = true;   // cooperative ones
  auto operator<=>(const Reliance &) const = default;
};

// One device. It lives until the process ends.
class Device {
public:
  // Reads properties only. Errors: MORTISE_UNSUPPORTED, for a device that lacks what kernels need.
  static Result<std::unique_ptr<Device>> find(const Driver &driver, VkPhysicalDevice handle, uint32_t ordinal,
                                              Reliance reliance);
  Device(const Device &) = delete;
  ~Device();

  static Device &of(MortiseDevice *handle) { return *reinterpret_cast<Device *>(handle); }
  const MortiseDeviceInfo &info() const { return description; }
  const codegen::SimtTarget &target() const { return chip; }
  uint32_t ordinal() const { return description.ordinal; }
  bool hasF64() const { return hasDoubles; }
  codegen::LaunchLimits limits() const;              // of one launch
  uint32_t subgroupSize() const { return subgroup; } // that pipelines have to ask for; 0: any

  // Whether the driver can take this for pipelines that it has compiled; empty for none. Errors: MORTISE_CORRUPT.
  Result<void> checkNative(const std::string &pipelines) const;

  // Makes the logical device, once. What follows wants it.
  Result<void> start();
  const DeviceFunctions &functions() const { return calls; }
  VkDevice handle() const { return device; }
  VkPipelineLayout layout() const { return pipelineLayout; }

  // Usable at once. The addresses are multiples of MortiseSpace::alignment.
  Result<uint64_t> allocate(uint64_t bytes);
  // The memory must not be in use.
  Result<void> release(uint64_t address);
  // What an address lies in. Errors: MORTISE_INVALID_ARGUMENT, for memory that is not the device's.
  Result<Allocation> at(uint64_t address) const;
  // Memory of the device that the host writes or reads, for one submission; `giveBack` when that has happened.
  Result<Allocation> staging(uint64_t bytes);
  void giveBack(const Allocation &staging);

  // Records commands and queues them: behind all that was queued before, on any stream. Returns the number of the
  // submission; `wait` returns when it, and all before it, have happened. The staging memory is given back then.
  struct Commands {
    VkCommandBuffer handle = nullptr;
    std::vector<Allocation> staging;
    std::unique_lock<std::mutex> recording; // one thread at a time, as command pools want it
  };
  enum class Use : uint8_t { Once, Again };
  Result<Commands> begin(Use use = Use::Once);
  Result<uint64_t> submit(Commands commands);
  void drop(Commands commands); // in place of submit
  // What `submit` does, for commands that are begun for Use::Again: ends them; submits them, as often as one likes; and
  // takes them back when all that was submitted before has happened. Commands without a handle are none.
  Result<void> end(Commands &commands);
  Result<uint64_t> queueUp(const Commands &commands);
  void retire(Commands commands);
  // Changes when memory is released: recorded copies name the buffers that they are between.
  uint64_t released() const { return releases.load(std::memory_order_relaxed); }
  Result<void> wait(uint64_t submission);
  Result<bool> happened(uint64_t submission);
  // Orders what was recorded before against what comes.
  void barrier(const Commands &commands) const;

  // The device's own clock, for one caller at a time, who holds the lock: a mark before and one behind what is timed,
  // and the nanoseconds between them, once they have happened; 0 where the queue has no clock, or one that stands still
  // (lavapipe's while kernels run).
  std::mutex &clock() { return clockMutex; }
  enum class Mark : uint8_t { Begin, End };
  void mark(const Commands &commands, Mark which) const;
  Result<uint64_t> marked();

  // `checked`, with the device's name in the message. Remembers when the device is lost.
  Result<void> check(VkResult result, const char *call);
  Result<void> alive() const { return loss.state(); }

private:
  Device(const Driver &driver, VkPhysicalDevice physical, Reliance reliance)
      : driver(driver), physical(physical), reliance(reliance) {}
  Result<void> describe(uint32_t ordinal);
  Result<codegen::VulkanFeatures> features();
  bool offers(const char *extension) const;
  Result<void> findMatrices(const Features &can, codegen::VulkanFeatures &result) const;
  Result<void> create();
  void discard();
  Result<Allocation> make(uint64_t bytes, VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags preferred);
  void destroy(const Allocation &allocation) const;
  Result<uint64_t> reached();                             // the last submission that has happened
  void reclaim(uint64_t reached);                         // under queueMutex
  Result<uint64_t> queueLocked(const Commands &commands); // likewise

  const Driver &driver;
  const VkPhysicalDevice physical;
  const Reliance reliance;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceMemoryProperties memories{};
  uint32_t queueFamily = 0, pushBytes = 128;
  uint64_t mostBytes = 0;                        // of one allocation
  std::vector<VkExtensionProperties> extensions; // that the driver has for it
  bool hasDoubles = false;
  int64_t iterations = 0;
  uint32_t subgroup = 0;
  codegen::SimtTarget chip;
  std::string name, featureList, fingerprint;
  MortiseSpace memory = sized<MortiseSpace>();
  const MortiseSpace *spaces[1] = {&memory};
  MortiseDeviceInfo description = sized<MortiseDeviceInfo>(); // points to the members before it

  std::mutex startMutex;
  std::atomic<bool> started = false;
  VkDevice device = nullptr;
  DeviceFunctions calls;
  VkPipelineLayout pipelineLayout = nullptr;

  std::mutex recordMutex; // of the command pool
  std::mutex queueMutex;  // of what follows
  VkQueue queue = nullptr;
  VkCommandPool pool = nullptr;
  VkSemaphore timeline = nullptr; // reaches n when submission n has happened
  std::mutex clockMutex;
  VkQueryPool times = nullptr; // of both marks; NULL: no clock
  uint32_t timeBits = 0;       // of a time
  uint64_t submitted = 0;
  std::vector<VkCommandBuffer> idle;
  std::deque<std::pair<uint64_t, Commands>> inFlight;

  mutable std::mutex memoryMutex;             // of what follows
  std::map<uint64_t, Allocation> allocations; // by the address that the host knows
  std::multimap<uint64_t, Allocation> spare;  // staging memory, by size

  std::atomic<uint64_t> releases = 0;

  codegen::FirstError loss;
};

struct Choice {
  std::string loader; // the file of Vulkan's loader
  std::string device; // "", a UUID, a part of a name, or a number
  Reliance reliance;
  auto operator<=>(const Choice &) const = default;
};
// The devices that the drivers have. Found once for each choice. Errors: MORTISE_NOT_FOUND, with the reason, where
// there is none.
Result<std::span<const MortiseDeviceInfo *const>> findDevices(const Choice &choice);

} // namespace mortise::vulkan
