// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which devices there are, what each of them has, and what it lacks.
#include "device.hpp"
#include "features.hpp"

#include <mortise/codegen/simt_devices.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <cstring>
#include <limits>

namespace mortise::vulkan {

// ---- What a device is

namespace {

// A chain of structures that asks for properties.
struct Properties {
  VkPhysicalDeviceProperties2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
  VkPhysicalDeviceIDProperties id{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceFloatControlsProperties floats{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FLOAT_CONTROLS_PROPERTIES};
  VkPhysicalDeviceDriverProperties driver{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES,
                                          .driverID = VK_DRIVER_ID_MAX_ENUM};
  VkPhysicalDeviceMaintenance3Properties sizes{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES};
  VkPhysicalDeviceSubgroupProperties subgroups{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES};
  VkPhysicalDeviceSubgroupSizeControlProperties subgroupSizes{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  explicit Properties(const Driver &calls, VkPhysicalDevice device) {
    all.pNext = &id, id.pNext = &floats, floats.pNext = &driver, driver.pNext = &sizes;
    sizes.pNext = &subgroups, subgroups.pNext = &subgroupSizes;
    calls.GetPhysicalDeviceProperties2(device, &all);
  }
};

// Drivers that do more than they promise, or less, and what says so.
struct KnownDriver {
  VkDriverId id;
  enum class Subnormals { Unknown, InSums, Kept } subnormals = Subnormals::Unknown; // in sums and products; everywhere
  int64_t mostIterations = std::numeric_limits<int64_t>::max();
  bool exactQuotients = false, exactFunctions = false, widePositions = true, matrices = false,
       oneNan = false; // VulkanFeatures
};
constexpr KnownDriver knownDrivers[] = {
    // Its arithmetic is LLVM's for the CPU: lp_build_div in Mesa's src/gallium/auxiliary/gallivm/lp_bld_arit.c; and
    // every case of the kit. LP_MAX_TGSI_LOOP_ITERATIONS, in lp_bld_limits.h there: it leaves loops without a word.
    {.id = VK_DRIVER_ID_MESA_LLVMPIPE,
     .subnormals = KnownDriver::Subnormals::Kept,
     .mostIterations = 65535,
     .exactQuotients = true},
    // It promises nothing about subnormals of f32. On an H200 (580.159) the kit's cases of sums and products passed;
    // those of compare, min, max, log2 and div did not, until comparisons and conversions were integer arithmetic. Its
    // fma takes subnormal results for 0; 2^x and 1/x are the instructions of decision 0068. Of 6.3 million quotients
    // and as many square roots of f64 none was off (0077). Of a convolution with padding and strides over symbols
    // (3 x 3, stride 3) a fifth of the results lacked a row or a column of the kernel, where lavapipe, the same code
    // with numbers and PTX were right (frontend/torch/test/test_vulkan_networks.py has it). Sorted updates were wrong
    // in
    // the kit's quick cases of scatter_along until their places were divided in 32 bits (plugins/vulkan/README.md).
    {.id = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
     .subnormals = KnownDriver::Subnormals::InSums,
     .exactFunctions = true,
     .widePositions = false,
     .matrices = true,
     .oneNan = true},
};
KnownDriver knownDriver(VkDriverId id) {
  const auto *found = std::ranges::find(knownDrivers, id, &KnownDriver::id);
  return found == std::end(knownDrivers) ? KnownDriver{id} : *found;
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
  can.add(can.subgroups);
  if (offers(brainExtension))
    can.add(can.brain);
  if (offers(matrixExtension))
    can.add(can.matrices);
  if (properties.apiVersion >= VK_API_VERSION_1_2 || offers(VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME))
    can.add(can.memoryModel);
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
  need(floats.shaderDenormPreserveFloat32 || known.subnormals != KnownDriver::Subnormals::Unknown,
       "shaderDenormPreserveFloat32");
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
                   (result.f64.denormals || known.subnormals != KnownDriver::Subnormals::Unknown);
  result.exactQuotients = known.exactQuotients && reliance.arithmetic;
  result.widePositions = known.widePositions;
  result.exactFunctions = known.exactFunctions && reliance.arithmetic;
  result.oneNan = known.oneNan && reliance.arithmetic;
  result.flushesSubnormals =
      !result.f32.denormals && (known.subnormals != KnownDriver::Subnormals::Kept || !reliance.arithmetic);
  result.sharedBytes = properties.limits.maxComputeSharedMemorySize;
  result.argumentBytes = std::min(properties.limits.maxPushConstantsSize, 256U);
  result.blockThreads =
      std::min(properties.limits.maxComputeWorkGroupInvocations, properties.limits.maxComputeWorkGroupSize[0]);
  // Whole subgroups of one size, of which the largest block has no more than it may.
  const VkShaderStageFlags stage = VK_SHADER_STAGE_COMPUTE_BIT;
  const uint32_t size = has.subgroups.subgroupSize;
  if (reliance.subgroups && can.subgroups.computeFullSubgroups && can.subgroups.subgroupSizeControl &&
      (has.subgroupSizes.requiredSubgroupSizeStages & stage) && (has.subgroups.supportedStages & stage) &&
      (has.subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) &&
      size <= codegen::VulkanFeatures::mostSubgroup &&
      uint64_t(size) * has.subgroupSizes.maxComputeWorkgroupSubgroups >= result.blockThreads)
    result.subgroup = size;
  if (known.matrices && reliance.matrices)
    if (auto found = findMatrices(can, result); !found)
      return found.error();
  return result;
}

// Matrices of 16 x 16 that subgroups multiply as sums of f32.
Result<void> Device::findMatrices(const Features &can, codegen::VulkanFeatures &result) const {
  const auto list = reinterpret_cast<GetMatrixProperties>(
      driver.instanceFunction("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"));
  if (!list || !can.matrices.cooperativeMatrix || !can.memoryModel.vulkanMemoryModel || !can.int8.shaderFloat16)
    return {};
  uint32_t count = 0;
  std::vector<MatrixProperties> found;
  for (const bool isCounted : {false, true}) {
    found.resize(count);
    if (auto listed = checked(list(physical, &count, isCounted ? found.data() : nullptr),
                              "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR");
        !listed)
      return listed;
  }
  const auto has = [&](Component factor) {
    return std::ranges::any_of(found, [&](const MatrixProperties &each) {
      return each.rows == 16 && each.columns == 16 && each.terms == 16 && each.lhs == factor && each.rhs == factor &&
             each.addend == Component::Float && each.result == Component::Float &&
             each.scope == MatrixProperties::ofSubgroup;
    });
  };
  result.halfMatrices = has(Component::Half);
  result.brainMatrices = result.halfMatrices && can.brain.shaderBFloat16CooperativeMatrix && has(Component::Brain);
  return {};
}

Result<void> Device::describe(uint32_t ordinal) {
  const Properties has(driver, physical);
  properties = has.all.properties;
  driver.GetPhysicalDeviceMemoryProperties(physical, &memories);
  name = properties.deviceName;
  uint32_t extensionCount = 0;
  const auto enumerate = [&](VkExtensionProperties *into) {
    return check(driver.EnumerateDeviceExtensionProperties(physical, nullptr, &extensionCount, into),
                 "vkEnumerateDeviceExtensionProperties");
  };
  if (auto counted = enumerate(nullptr); !counted)
    return counted;
  extensions.resize(extensionCount);
  if (auto listed = enumerate(extensions.data()); !listed)
    return listed;
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
  timeBits = properties.limits.timestampPeriod > 0 ? family->timestampValidBits : 0;
  Result<codegen::SimtTarget> known = codegen::SimtTarget::vulkan(*found, compileThreads());
  if (!known)
    return known.error();
  chip = std::move(*known);
  pushBytes = found->argumentBytes;
  hasDoubles = found->doubles;
  iterations = knownDriver(has.driver.driverID).mostIterations;
  subgroup = found->subgroup;
  featureList = chip.features.empty() ? "" : chip.features.substr(1);
  std::ranges::replace(featureList, '+', ',');
  fingerprint = hex(properties.pipelineCacheUUID) + " vendor " + std::to_string(properties.vendorID) + " device " +
                std::to_string(properties.deviceID) + " driver " + std::to_string(properties.driverVersion) + " " +
                chip.chip + " " + chip.features;

  memory.name = "device memory";
  memory.kind = MORTISE_SPACE_DEVICE;
  memory.alignment = 256;
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

// ---- All of them

using Found = codegen::FoundDevices<Driver, Device>;

namespace {
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
    found.add(std::move(*device));
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
  return codegen::findOnce<Found>(choice, fill);
}

} // namespace mortise::vulkan
