// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device.hpp"

#include <algorithm>
#include <cstring>

namespace mortise::vulkan {

static constexpr uint64_t alignment = 256; // of what the host allocates

// ---- What a device is

namespace {

// Chains of structures that ask for properties and features.
struct Properties {
  VkPhysicalDeviceProperties2 all{};
  VkPhysicalDeviceIDProperties id{};
  VkPhysicalDeviceFloatControlsProperties floats{};
  VkPhysicalDeviceDriverProperties driver{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                          .driverID = VK_DRIVER_ID_MAX_ENUM};
  VkPhysicalDeviceMaintenance3Properties sizes{};
  VkPhysicalDeviceSubgroupProperties subgroups{};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroupSizes{};
  explicit Properties(const Driver &calls, VkPhysicalDevice device) {
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    id.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES;
    floats.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES;
    sizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES;
    all.pNext = &id, id.pNext = &floats, floats.pNext = &driver, driver.pNext = &sizes;
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES;
    subgroupSizes.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES;
    sizes.pNext = &subgroups, subgroups.pNext = &subgroupSizes;
    calls.GetPhysicalDeviceProperties2(device, &all);
  }
};

struct Features {
  VkPhysicalDeviceFeatures2 all{};
  VkPhysicalDevice16BitStorageFeatures storage16{};
  VkPhysicalDevice8BitStorageFeatures storage8{};
  VkPhysicalDeviceShaderFloat16Int8Features int8{};
  VkPhysicalDeviceBufferDeviceAddressFeatures addresses{};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{};
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups{}; // not in the chain that makes a device, unless it is there
  Features() {
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
    storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
    storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
    int8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
    addresses.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES;
    timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
    all.pNext = &storage16, storage16.pNext = &storage8, storage8.pNext = &int8, int8.pNext = &addresses;
    subgroups.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES;
    addresses.pNext = &timeline;
  }
  Features(const Features &) = delete;
};

// Extensions that code and calls need of drivers that have not got them in their core; asked for where they are.
constexpr const char *extensions[] = {
    VK_KHR_8BIT_STORAGE_EXTENSION_NAME,          VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
    VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME,
    VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
};

// Drivers that do more than they promise, and what says so.
struct KnownDriver {
  VkDriverId id;
  bool keepsSubnormals, exactQuotients;
};
constexpr KnownDriver knownDrivers[] = {
    // Its arithmetic is LLVM's for the CPU: lp_build_div in Mesa's src/gallium/auxiliary/gallivm/lp_bld_arit.c; and
    // every
    // case of the kit.
    {VK_DRIVER_ID_MESA_LLVMPIPE, true, true},
};
KnownDriver knownDriver(VkDriverId id) {
  const auto *found = std::ranges::find(knownDrivers, id, &KnownDriver::id);
  return found == std::end(knownDrivers) ? KnownDriver{id, false, false} : *found;
}

std::string hex(const uint8_t *bytes) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < VK_UUID_SIZE; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10)
      text += '-';
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

} // namespace

// What the device has of what code may use. Errors: MORTISE_UNSUPPORTED, naming all that it lacks of what code needs.
Result<codegen::VulkanFeatures> Device::features() {
  const Properties has(driver, physical);
  Features can;
  can.timeline.pNext = &can.subgroups;
  driver.GetPhysicalDeviceFeatures2(physical, &can.all);
  const VkPhysicalDeviceFloatControlsProperties &floats = has.floats;
  std::string lacks;
  const auto need = [&](VkBool32 there, const char *what) {
    if (!there)
      lacks += (lacks.empty() ? "" : ", ") + std::string(what);
  };
  need(properties.apiVersion >= VK_API_VERSION_1_1, "Vulkan 1.1");
  need(can.all.features.shaderInt64, "shaderInt64");
  need(can.all.features.shaderInt16, "shaderInt16");
  need(can.int8.shaderInt8, "shaderInt8");
  need(can.storage16.storageBuffer16BitAccess, "storageBuffer16BitAccess");
  need(can.storage8.storageBuffer8BitAccess, "storageBuffer8BitAccess");
  need(can.addresses.bufferDeviceAddress, "bufferDeviceAddress");
  need(can.timeline.timelineSemaphore, "timelineSemaphore");
  // Without these two a driver may round as it likes and take NaN and infinity for impossible.
  need(floats.shaderSignedZeroInfNanPreserveFloat32, "shaderSignedZeroInfNanPreserveFloat32");
  need(floats.shaderRoundingModeRTEFloat32, "shaderRoundingModeRTEFloat32");
  const KnownDriver known = knownDriver(has.driver.driverID);
  need(floats.shaderDenormPreserveFloat32 || known.keepsSubnormals, "shaderDenormPreserveFloat32");
  if (!lacks.empty())
    return Error{MORTISE_UNSUPPORTED, "expected a device and driver with " + lacks + ", found none of it"};
  codegen::VulkanFeatures result;
  result.f32 = {floats.shaderDenormPreserveFloat32 != 0, true, true};
  result.f64 = {floats.shaderDenormPreserveFloat64 != 0, floats.shaderSignedZeroInfNanPreserveFloat64 != 0,
                floats.shaderRoundingModeRTEFloat64 != 0};
  // Modes of all widths are one where they are not independent.
  if (floats.denormBehaviorIndependence == VK_SHADER_FLOAT_CONTROLS_INDEPENDENCE_NONE)
    result.f32.denormals = result.f64.denormals = result.f32.denormals && result.f64.denormals;
  result.doubles = can.all.features.shaderFloat64 && result.f64.specials && result.f64.nearest &&
                   (result.f64.denormals || known.keepsSubnormals);
  result.exactQuotients = known.exactQuotients && reliance.arithmetic;
  // Whole subgroups of one size.
  const VkShaderStageFlags stage = VK_SHADER_STAGE_COMPUTE_BIT;
  if (reliance.subgroups && can.subgroups.computeFullSubgroups && can.subgroups.subgroupSizeControl &&
      (has.subgroupSizes.requiredSubgroupSizeStages & stage) && (has.subgroups.supportedStages & stage) &&
      (has.subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) && has.subgroups.subgroupSize <= 64)
    result.subgroup = has.subgroups.subgroupSize;
  result.sharedBytes = properties.limits.maxComputeSharedMemorySize;
  result.argumentBytes = std::min(properties.limits.maxPushConstantsSize, 256U);
  result.blockThreads =
      std::min(properties.limits.maxComputeWorkGroupInvocations, properties.limits.maxComputeWorkGroupSize[0]);
  return result;
}

Result<void> Device::describe(uint32_t ordinal) {
  const Properties has(driver, physical);
  properties = has.all.properties;
  driver.GetPhysicalDeviceMemoryProperties(physical, &memories);
  name = properties.deviceName;
  Result<codegen::VulkanFeatures> found = features();
  if (!found)
    return found.error();
  uint32_t count = 0;
  driver.GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  driver.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  const auto computes = [](const VkQueueFamilyProperties &each) { return each.queueFlags & VK_QUEUE_COMPUTE_BIT; };
  const auto family = std::ranges::find_if(families, computes);
  if (family == families.end())
    return Error{MORTISE_UNSUPPORTED, "expected a queue for compute, found none"};
  queueFamily = static_cast<uint32_t>(family - families.begin());
  const unsigned threads = static_cast<unsigned>(std::clamp(host().thread_count(), 1, 16));
  Result<codegen::SimtTarget> known = codegen::SimtTarget::vulkan(*found, threads);
  if (!known)
    return known.error();
  chip = std::move(*known);
  pushBytes = found->argumentBytes;
  hasDoubles = found->doubles;
  subgroup = found->subgroup;
  featureList = chip.features.empty() ? "" : chip.features.substr(1);
  std::ranges::replace(featureList, '+', ',');
  fingerprint = hex(properties.pipelineCacheUUID) + " " + chip.chip + " " + chip.features;

  memory.name = "device memory";
  memory.kind = MORTISE_SPACE_DEVICE;
  memory.alignment = alignment;
  for (uint32_t i = 0; i < memories.memoryHeapCount; ++i)
    if (memories.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)
      memory.bytes = std::max<uint64_t>(memory.bytes, memories.memoryHeaps[i].size);
  mostBytes = std::min<uint64_t>(memory.bytes, has.sizes.maxMemoryAllocationSize);
  description.device = reinterpret_cast<MortiseDevice *>(this);
  description.kind = "vulkan";
  description.name = name.c_str();
  description.ordinal = ordinal;
  description.spaces = spaces;
  description.space_count = 1;
  description.launch_ns = 10000;
  description.copy_ns = 20000;
  description.features = featureList.c_str();
  description.fingerprint = fingerprint.c_str();
  static_assert(sizeof has.id.deviceUUID == sizeof description.uuid);
  std::memcpy(description.uuid, has.id.deviceUUID, sizeof description.uuid);
  return {};
}

Result<std::unique_ptr<Device>> Device::find(const Driver &driver, VkPhysicalDevice handle, uint32_t ordinal,
                                             Reliance reliance) {
  std::unique_ptr<Device> device(new Device(driver, handle, reliance));
  if (auto described = device->describe(ordinal); !described)
    return described.error();
  return device;
}

// ---- Its state

Result<void> Device::check(VkResult result, const char *call) {
  Result<void> known = checked(result, call);
  if (known)
    return {};
  Error error{known.error().code, "vulkan:" + std::to_string(ordinal()) + ": " + known.error().message};
  if (error.code == MORTISE_DEVICE_LOST) {
    std::lock_guard lock(lossMutex);
    if (!isLost)
      loss = error;
    isLost = true;
  }
  return error;
}

Result<void> Device::alive() const {
  if (!isLost)
    return {};
  std::lock_guard lock(lossMutex);
  return loss;
}

Result<void> Device::start() {
  if (auto living = alive(); !living)
    return living;
  if (started.load(std::memory_order_acquire))
    return {};
  std::lock_guard lock(startMutex);
  if (started.load())
    return {};
  if (auto made = create(); !made)
    return made;
  started.store(true, std::memory_order_release);
  return {};
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
    wanted.timeline.pNext = &wanted.subgroups;
    wanted.subgroups.computeFullSubgroups = wanted.subgroups.subgroupSizeControl = VK_TRUE;
  }
  uint32_t count = 0;
  driver.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> there(count);
  driver.EnumerateDeviceExtensionProperties(physical, nullptr, &count, there.data());
  std::vector<const char *> names;
  for (const char *each : extensions)
    if (std::ranges::any_of(there, [&](const auto &found) { return std::strcmp(found.extensionName, each) == 0; }))
      names.push_back(each);
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
  return check(calls.CreateSemaphore(device, &semaphoreInfo, nullptr, &timeline), "vkCreateSemaphore");
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
  Result<Allocation> made = make(bytes + alignment, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, unified ? visible : 0);
  if (!made)
    return made.error();
  const uint64_t address = (made->address + alignment - 1) / alignment * alignment;
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

// ---- The queue

Result<uint64_t> Device::reached() {
  uint64_t value = 0;
  if (auto asked = check(calls.GetSemaphoreCounterValue(device, timeline, &value), "vkGetSemaphoreCounterValue");
      !asked)
    return asked.error();
  return value;
}

void Device::reclaim(uint64_t reached) {
  while (!inFlight.empty() && inFlight.front().first <= reached) {
    for (const Allocation &each : inFlight.front().second.staging)
      giveBack(each);
    idle.push_back(inFlight.front().second.handle);
    inFlight.pop_front();
  }
}

void Device::barrier(const Commands &commands) const {
  constexpr VkAccessFlags writes = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  constexpr VkPipelineStageFlags stages = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier memoryBarrier{};
  memoryBarrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  memoryBarrier.srcAccessMask = writes;
  memoryBarrier.dstAccessMask = writes | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;
  calls.CmdPipelineBarrier(commands.handle, stages, stages, 0, 1, &memoryBarrier, 0, nullptr, 0, nullptr);
}

Result<Device::Commands> Device::begin() {
  if (auto there = start(); !there)
    return there.error();
  Commands commands;
  commands.recording = std::unique_lock(recordMutex);
  Result<uint64_t> now = reached();
  if (!now)
    return now.error();
  {
    std::lock_guard lock(queueMutex);
    reclaim(*now);
    if (!idle.empty()) {
      commands.handle = idle.back();
      idle.pop_back();
    }
  }
  if (!commands.handle) {
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    info.commandBufferCount = 1;
    if (auto made = check(calls.AllocateCommandBuffers(device, &info, &commands.handle), "vkAllocateCommandBuffers");
        !made)
      return made.error();
  }
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  if (auto began = check(calls.BeginCommandBuffer(commands.handle, &info), "vkBeginCommandBuffer"); !began) {
    drop(std::move(commands));
    return began.error();
  }
  barrier(commands); // against what was submitted before
  return commands;
}

void Device::drop(Commands commands) {
  for (const Allocation &each : commands.staging)
    giveBack(each);
  std::lock_guard lock(queueMutex);
  idle.push_back(commands.handle); // beginning it again resets it
}

Result<uint64_t> Device::submit(Commands commands) {
  // What the host reads after it has waited.
  VkMemoryBarrier toHost{};
  toHost.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  toHost.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  toHost.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  calls.CmdPipelineBarrier(commands.handle, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT,
                           VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &toHost, 0, nullptr, 0, nullptr);
  Result<void> done = check(calls.EndCommandBuffer(commands.handle), "vkEndCommandBuffer");
  if (!done) {
    drop(std::move(commands));
    return done.error();
  }
  commands.recording.unlock();
  std::unique_lock lock(queueMutex);
  const uint64_t number = submitted + 1;
  VkTimelineSemaphoreSubmitInfo values{};
  values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
  values.signalSemaphoreValueCount = 1;
  values.pSignalSemaphoreValues = &number;
  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.pNext = &values;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands.handle;
  info.signalSemaphoreCount = 1;
  info.pSignalSemaphores = &timeline;
  done = check(calls.QueueSubmit(queue, 1, &info, nullptr), "vkQueueSubmit");
  if (!done) {
    lock.unlock();
    drop(std::move(commands));
    return done.error();
  }
  submitted = number;
  commands.recording = {};
  inFlight.emplace_back(number, std::move(commands));
  return number;
}

Result<void> Device::wait(uint64_t submission) {
  if (submission == 0)
    return {};
  VkSemaphoreWaitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO;
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline;
  info.pValues = &submission;
  return check(calls.WaitSemaphores(device, &info, UINT64_MAX), "vkWaitSemaphores");
}

Result<bool> Device::happened(uint64_t submission) {
  if (submission == 0)
    return true;
  Result<uint64_t> now = reached();
  if (!now)
    return now.error();
  return *now >= submission;
}

// ---- All of them

namespace {
struct Found {
  std::unique_ptr<Driver> driver;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<const MortiseDeviceInfo *> infos;
  std::string unused; // why there is no device
};

// Discrete GPUs first, what computes on a CPU last.
int rankOf(VkPhysicalDeviceType type) {
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return 0;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return 1;
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
    return 2;
  case VK_PHYSICAL_DEVICE_TYPE_CPU:
    return 4;
  default:
    return 3;
  }
}

bool isChosen(const std::string &choice, const Properties &properties, size_t number) {
  const std::string name = properties.all.properties.deviceName;
  return choice.empty() || choice == std::to_string(number) || choice == hex(properties.id.deviceUUID) ||
         (choice.find_first_not_of("0123456789") != std::string::npos && name.find(choice) != std::string::npos);
}
} // namespace

static Result<void> fill(Found &found, const Choice &choice) {
  auto driver = Driver::open(choice.loader);
  if (!driver)
    return driver.error();
  found.driver = std::move(*driver);
  Result<std::vector<VkPhysicalDevice>> all = found.driver->devices();
  if (!all)
    return all.error();
  std::vector<std::pair<int, size_t>> order;
  for (size_t i = 0; i < all->size(); ++i)
    order.emplace_back(rankOf(Properties(*found.driver, (*all)[i]).all.properties.deviceType), i);
  std::ranges::sort(order);
  std::string reasons;
  for (size_t i = 0; i < order.size(); ++i) {
    VkPhysicalDevice handle = (*all)[order[i].second];
    const Properties properties(*found.driver, handle);
    const std::string name = properties.all.properties.deviceName;
    if (!isChosen(choice.device, properties, i)) {
      reasons += "; " + name + " (" + hex(properties.id.deviceUUID) + ") is not what the option device names";
      continue;
    }
    auto device = Device::find(*found.driver, handle, static_cast<uint32_t>(found.devices.size()), choice.reliance);
    if (!device) {
      reasons += "; " + name + ": " + device.error().message;
      continue;
    }
    found.infos.push_back(&(*device)->info());
    found.devices.push_back(std::move(*device));
  }
  if (!reasons.empty() && !found.infos.empty())
    log(MORTISE_INFO, "devices with Vulkan that are not used: " + reasons.substr(2));
  if (found.infos.empty())
    return Error{MORTISE_NOT_FOUND, reasons.empty()
                                        ? "no driver offers a device with Vulkan; look at vulkaninfo --summary"
                                        : reasons.substr(2)};
  return {};
}

Result<std::span<const MortiseDeviceInfo *const>> findDevices(const Choice &choice) {
  static std::mutex mutex;
  static auto *known = new std::map<Choice, Found>; // never destroyed: the host may use devices until the end
  std::lock_guard lock(mutex);
  const auto [place, fresh] = known->try_emplace(choice);
  Found &found = place->second;
  if (fresh)
    if (auto filled = fill(found, choice); !filled)
      found.unused = filled.error().message;
  // Whatever the reason: the machine has no device for the plugin, which is no fault of it.
  if (found.infos.empty())
    return Error{MORTISE_NOT_FOUND, found.unused};
  return std::span<const MortiseDeviceInfo *const>(found.infos);
}

} // namespace mortise::vulkan
