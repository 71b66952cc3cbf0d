// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device is asked whether it has, and what the logical device is then made with.
#pragma once

#include "driver.hpp"

namespace mortise::vulkan {

// A chain of structures.
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
inline constexpr const char *extensions[] = {
    VK_KHR_8BIT_STORAGE_EXTENSION_NAME,          VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME,
    VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME, VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME,
    VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME,
};

} // namespace mortise::vulkan
