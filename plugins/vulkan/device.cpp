// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A logical device: how it is made, its state, and its memory.
#include "device.hpp"
#include "features.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mortise::vulkan {

// ---- Its state

Result<void> Device::check(VkResult result, const char *call) {
  Result<void> known = checked(result, call);
  if (known)
    return {};
  Error error{known.error().code, "vulkan:" + std::to_string(ordinal()) + ": " + known.error().message};
  if (error.code == MORTISE_DEVICE_LOST)
    loss.keep(error);
  return error;
}

codegen::LaunchLimits Device::limits() const {
  constexpr uint64_t mostRows = 65535;
  codegen::LaunchLimits limits;
  limits.blocks = mostRows * codegen::VulkanFeatures::gridRow - 1;
  limits.iterations = static_cast<uint64_t>(iterations);
  return limits;
}

// Drivers have to ignore what another one wrote, and not all survive it.
Result<void> Device::checkNative(const std::string &pipelines) const {
  if (pipelines.empty())
    return {};
  VkPipelineCacheHeaderVersionOne header{.headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE}; // an enum has no 0
  std::memcpy(&header, pipelines.data(), std::min(pipelines.size(), sizeof header));
  const bool isOwn = pipelines.size() >= sizeof header && header.headerSize >= sizeof header &&
                     header.headerSize <= pipelines.size() &&
                     header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
                     header.vendorID == properties.vendorID && header.deviceID == properties.deviceID &&
                     std::ranges::equal(header.pipelineCacheUUID, properties.pipelineCacheUUID);
  if (isOwn)
    return {};
  return Error{MORTISE_CORRUPT, "vulkan:" + std::to_string(ordinal()) +
                                    ": expected pipelines that this device's driver has compiled, found others, or "
                                    "damaged ones; they are compiled again"};
}

Result<void> Device::start() {
  if (auto living = alive(); !living)
    return living;
  if (started.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(startMutex);
  if (started.load())
    return {};
  if (auto made = create(); !made) {
    discard();
    return made;
  }
  started.store(true, std::memory_order_release);
  return {};
}

// Extensions that code and calls need of drivers that have not got them in their core; asked for where they are.
static constexpr const char *neededExtensions[] = {
    VK_KHR_8BIT_STORAGE_EXTENSION_NAME,          VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
    VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME,
    VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
    VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
};

bool Device::offers(const char *extension) const {
  return std::ranges::any_of(extensions,
                             [&](const auto &each) { return std::strcmp(each.extensionName, extension) == 0; });
}

Result<void> Device::create() {
  const float priority = 1;
  VkDeviceQueueCreateInfo queueInfo{};
  queueInfo.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queueInfo.queueFamilyIndex = queueFamily;
  queueInfo.queueCount = 1;
  queueInfo.pQueuePriorities = &priority;
  Features wanted;
  wanted.all.features.shaderInt64 = wanted.all.features.shaderInt16 = VK_TRUE;
  wanted.all.features.shaderFloat64 = hasDoubles ? VK_TRUE : VK_FALSE;
  wanted.int8.shaderInt8 = wanted.storage16.storageBuffer16BitAccess = wanted.storage8.storageBuffer8BitAccess =
      VK_TRUE;
  wanted.addresses.bufferDeviceAddress = wanted.timeline.timelineSemaphore = VK_TRUE;
  if (subgroup) {
    wanted.add(wanted.subgroups);
    wanted.subgroups.computeFullSubgroups = wanted.subgroups.subgroupSizeControl = VK_TRUE;
  }
  std::vector<const char *> names;
  std::ranges::copy_if(neededExtensions, std::back_inserter(names), [&](const char *each) { return offers(each); });
  if (chip.matrices) {
    wanted.add(wanted.matrices), wanted.add(wanted.memoryModel);
    wanted.matrices.cooperativeMatrix = wanted.memoryModel.vulkanMemoryModel = wanted.int8.shaderFloat16 = VK_TRUE;
    names.push_back(matrixExtension);
    if (chip.matrices->hasBrain) {
      wanted.add(wanted.brain);
      wanted.brain.shaderBFloat16Type = wanted.brain.shaderBFloat16CooperativeMatrix = VK_TRUE;
      names.push_back(brainExtension);
    }
  }
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.pNext = &wanted.all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queueInfo;
  info.enabledExtensionCount = static_cast<uint32_t>(names.size());
  info.ppEnabledExtensionNames = names.data();
  if (auto made = check(driver.CreateDevice(physical, &info, nullptr, &device), "vkCreateDevice"); !made)
    return made;
  Result<DeviceFunctions> found = DeviceFunctions::of(driver, device);
  if (!found)
    return found.error();
  calls = *found;
  calls.GetDeviceQueue(device, queueFamily, 0, &queue);

  VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, pushBytes};
  VkPipelineLayoutCreateInfo layoutInfo{};
  layoutInfo.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layoutInfo.pushConstantRangeCount = 1;
  layoutInfo.pPushConstantRanges = &range;
  if (auto made =
          check(calls.CreatePipelineLayout(device, &layoutInfo, nullptr, &pipelineLayout), "vkCreatePipelineLayout");
      !made)
    return made;
  VkCommandPoolCreateInfo poolInfo{};
  poolInfo.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  poolInfo.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  poolInfo.queueFamilyIndex = queueFamily;
  if (auto made = check(calls.CreateCommandPool(device, &poolInfo, nullptr, &pool), "vkCreateCommandPool"); !made)
    return made;
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphoreInfo{};
  semaphoreInfo.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  semaphoreInfo.pNext = &type;
  if (auto made = check(calls.CreateSemaphore(device, &semaphoreInfo, nullptr, &timeline), "vkCreateSemaphore"); !made)
    return made;
  if (timeBits == 0)
    return {};
  VkQueryPoolCreateInfo timesInfo{};
  timesInfo.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  timesInfo.queryType = VK_QUERY_TYPE_TIMESTAMP;
  timesInfo.queryCount = 2;
  return check(calls.CreateQueryPool(device, &timesInfo, nullptr, &times), "vkCreateQueryPool");
}

// What of it there is, so that the next start begins anew.
void Device::discard() {
  if (device && calls.DestroyDevice) {
    calls.DestroySemaphore(device, std::exchange(timeline, nullptr), nullptr); // NULL is nothing
    calls.DestroyCommandPool(device, std::exchange(pool, nullptr), nullptr);
    calls.DestroyPipelineLayout(device, std::exchange(pipelineLayout, nullptr), nullptr);
    calls.DestroyDevice(device, nullptr);
  }
  device = nullptr;
}

// Devices that were found and not started only; the others live until the process ends.
Device::~Device() = default;

// ---- Memory

Result<Allocation> Device::make(uint64_t bytes, VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags preferred) {
  Allocation made;
  made.bytes = bytes;
  if (bytes > mostBytes) // some drivers take more than they have
    return Error{MORTISE_OUT_OF_MEMORY, "vulkan:" + std::to_string(ordinal()) + ": expected at most " +
                                            std::to_string(mostBytes) + " bytes in one piece, found " +
                                            std::to_string(bytes)};
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
               VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
  const auto failed = [&](Result<void> what) {
    destroy(made);
    return Error{what.error().code, what.error().message + "; wanted " + std::to_string(bytes) + " bytes"};
  };
  if (auto done = check(calls.CreateBuffer(device, &info, nullptr, &made.buffer), "vkCreateBuffer"); !done)
    return failed(done);
  VkMemoryRequirements needs{};
  calls.GetBufferMemoryRequirements(device, made.buffer, &needs);
  const auto typeWith = [&](VkMemoryPropertyFlags flags) {
    for (uint32_t i = 0; i < memories.memoryTypeCount; ++i)
      if ((needs.memoryTypeBits & (1U << i)) && (memories.memoryTypes[i].propertyFlags & flags) == flags)
        return i;
    return UINT32_MAX;
  };
  uint32_t type = typeWith(wanted | preferred);
  if (type == UINT32_MAX)
    type = typeWith(wanted);
  if (type == UINT32_MAX)
    return failed(check(VK_ERROR_FEATURE_NOT_PRESENT, "vkGetPhysicalDeviceMemoryProperties"));
  VkMemoryAllocateFlagsInfo flags{};
  flags.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO;
  flags.flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT;
  VkMemoryAllocateInfo allocate{};
  allocate.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocate.pNext = &flags;
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = type;
  if (auto done = check(calls.AllocateMemory(device, &allocate, nullptr, &made.memory), "vkAllocateMemory"); !done)
    return failed(done);
  if (auto done = check(calls.BindBufferMemory(device, made.buffer, made.memory, 0), "vkBindBufferMemory"); !done)
    return failed(done);
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  if ((memories.memoryTypes[type].propertyFlags & visible) == visible) {
    void *mapped = nullptr;
    if (auto done = check(calls.MapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &mapped), "vkMapMemory"); !done)
      return failed(done);
    made.mapped = static_cast<std::byte *>(mapped);
  }
  VkBufferDeviceAddressInfo address{};
  address.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO;
  address.buffer = made.buffer;
  made.address = calls.GetBufferDeviceAddress(device, &address);
  return made;
}

void Device::destroy(const Allocation &allocation) const {
  calls.DestroyBuffer(device, allocation.buffer, nullptr); // NULL is nothing
  calls.FreeMemory(device, allocation.memory, nullptr);
}

// Memory that the host sees as well costs nothing where there is only one kind of it.
Result<uint64_t> Device::allocate(uint64_t bytes) {
  const bool unified = properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                       properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  constexpr VkMemoryPropertyFlags visible = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  Result<Allocation> made = make(bytes + memory.alignment, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, unified ? visible : 0);
  if (!made)
    return made.error();
  const uint64_t address = (made->address + memory.alignment - 1) / memory.alignment * memory.alignment;
  std::lock_guard lock(memoryMutex);
  allocations.emplace(address, *made);
  return address;
}

Result<void> Device::release(uint64_t address) {
  std::unique_lock lock(memoryMutex);
  const auto found = allocations.find(address);
  if (found == allocations.end())
    return Error{MORTISE_INVALID_ARGUMENT, "expected an address from memory_allocate, found another"};
  const Allocation gone = found->second;
  allocations.erase(found);
  ++releases;
  lock.unlock();
  destroy(gone);
  return {};
}

Result<Allocation> Device::at(uint64_t address) const {
  std::lock_guard lock(memoryMutex);
  auto found = allocations.upper_bound(address);
  if (found != allocations.begin()) {
    --found;
    if (address - found->second.address < found->second.bytes)
      return found->second;
  }
  return Error{MORTISE_INVALID_ARGUMENT,
               "expected memory of vulkan:" + std::to_string(ordinal()) + ", found an address that none of it has"};
}

// Sizes are rounded up, so that what was used before fits again.
Result<Allocation> Device::staging(uint64_t bytes) {
  uint64_t size = 4096;
  while (size < bytes)
    size *= 2;
  {
    std::lock_guard lock(memoryMutex);
    if (const auto found = spare.find(size); found != spare.end()) {
      const Allocation kept = found->second;
      spare.erase(found);
      return kept;
    }
  }
  return make(size, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
              VK_MEMORY_PROPERTY_HOST_CACHED_BIT);
}

void Device::giveBack(const Allocation &staging) {
  constexpr size_t mostSpare = 32;
  constexpr uint64_t mostBytes = UINT64_C(64) << 20; // of one that is kept
  {
    std::lock_guard lock(memoryMutex);
    if (spare.size() < mostSpare && staging.bytes <= mostBytes) {
      spare.emplace(staging.bytes, staging);
      return;
    }
  }
  destroy(staging);
}

} // namespace mortise::vulkan
