// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device is asked whether it has, and what the logical device is then made with.
#pragma once

#include "driver.hpp"

namespace mortise::vulkan {

// A chain of structures.
struct Features {
  VkPhysicalDeviceFeatures2 all{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  VkPhysicalDevice16BitStorageFeatures storage16{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features int8{.sType =
                                                     VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceBufferDeviceAddressFeatures addresses{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{.sType =
                                                         VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  // Not in the chain that makes a device, unless it is there.
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  Features() {
    all.pNext = &storage16, storage16.pNext = &storage8, storage8.pNext = &int8, int8.pNext = &addresses;
    addresses.pNext = &timeline;
  }
  Features(const Features &) = delete;
};

} // namespace mortise::vulkan
