// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a device is asked whether it has, and what the logical device is then made with.
#pragma once

#include "driver.hpp"

namespace mortise::vulkan {

// What older headers lack (vulkan_core.h of 1.4.312 has it): VK_KHR_shader_bfloat16 and VK_KHR_cooperative_matrix.
constexpr const char *brainExtension = "VK_KHR_shader_bfloat16";
struct BrainFeatures {
  VkStructureType sType = static_cast<VkStructureType>(1000141000);
  void *pNext = nullptr;
  VkBool32 shaderBFloat16Type = VK_FALSE, shaderBFloat16DotProduct = VK_FALSE,
           shaderBFloat16CooperativeMatrix = VK_FALSE;
};

constexpr const char *matrixExtension = "VK_KHR_cooperative_matrix";
struct MatrixFeatures {
  VkStructureType sType = static_cast<VkStructureType>(1000506000);
  void *pNext = nullptr;
  VkBool32 cooperativeMatrix = VK_FALSE, cooperativeMatrixRobustBufferAccess = VK_FALSE;
};
enum class Component : int32_t { Half = 0, Float = 1, Brain = 1000141000 };
struct MatrixProperties {
  VkStructureType sType = static_cast<VkStructureType>(1000506001);
  void *pNext = nullptr;
  uint32_t rows = 0, columns = 0, terms = 0; // MSize, NSize, KSize
  Component lhs{}, rhs{}, addend{}, result{};
  VkBool32 saturates = VK_FALSE;
  int32_t scope = 0;
  static constexpr int32_t ofSubgroup = 3;
};
using GetMatrixProperties = VkResult(VKAPI_PTR *)(VkPhysicalDevice, uint32_t *, MatrixProperties *);

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
  // Not in the chain unless `add` puts them there: not every device knows them.
  VkPhysicalDeviceSubgroupSizeControlFeatures subgroups{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  BrainFeatures brain;
  MatrixFeatures matrices;
  VkPhysicalDeviceVulkanMemoryModelFeatures memoryModel{
      .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES};
  Features() {
    all.pNext = &storage16, storage16.pNext = &storage8, storage8.pNext = &int8, int8.pNext = &addresses;
    addresses.pNext = &timeline;
  }
  Features(const Features &) = delete;
  template <typename Part> void add(Part &part) {
    part.pNext = timeline.pNext;
    timeline.pNext = &part;
  }
};

} // namespace mortise::vulkan
