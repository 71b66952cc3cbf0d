// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vulkan's loader, opened at run time, so that the plugin loads on machines without one; an instance; and what results
// mean.
#pragma once

#include <mortise/result.hpp>

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::vulkan {

#define MORTISE_VULKAN_INSTANCE_FUNCTIONS(X)                                                                           \
  X(DestroyInstance)                                                                                                   \
  X(EnumeratePhysicalDevices)                                                                                          \
  X(EnumerateDeviceExtensionProperties)                                                                                \
  X(GetPhysicalDeviceProperties2)                                                                                      \
  X(GetPhysicalDeviceFeatures2)                                                                                        \
  X(GetPhysicalDeviceMemoryProperties)                                                                                 \
  X(GetPhysicalDeviceQueueFamilyProperties)                                                                            \
  X(GetDeviceProcAddr)                                                                                                 \
  X(CreateDevice)

#define MORTISE_VULKAN_DEVICE_FUNCTIONS(X)                                                                             \
  X(DestroyDevice)                                                                                                     \
  X(GetDeviceQueue)                                                                                                    \
  X(CreateBuffer)                                                                                                      \
  X(DestroyBuffer)                                                                                                     \
  X(GetBufferMemoryRequirements)                                                                                       \
  X(AllocateMemory)                                                                                                    \
  X(FreeMemory)                                                                                                        \
  X(BindBufferMemory)                                                                                                  \
  X(MapMemory)                                                                                                         \
  X(CreateShaderModule)                                                                                                \
  X(DestroyShaderModule)                                                                                               \
  X(CreatePipelineLayout)                                                                                              \
  X(DestroyPipelineLayout)                                                                                             \
  X(CreatePipelineCache)                                                                                               \
  X(DestroyPipelineCache)                                                                                              \
  X(GetPipelineCacheData)                                                                                              \
  X(CreateComputePipelines)                                                                                            \
  X(DestroyPipeline)                                                                                                   \
  X(CreateCommandPool)                                                                                                 \
  X(DestroyCommandPool)                                                                                                \
  X(AllocateCommandBuffers)                                                                                            \
  X(BeginCommandBuffer)                                                                                                \
  X(EndCommandBuffer)                                                                                                  \
  X(CmdBindPipeline)                                                                                                   \
  X(CmdPushConstants)                                                                                                  \
  X(CmdDispatchBase)                                                                                                   \
  X(CmdPipelineBarrier)                                                                                                \
  X(CmdCopyBuffer)                                                                                                     \
  X(CreateQueryPool)                                                                                                   \
  X(CmdResetQueryPool)                                                                                                 \
  X(CmdWriteTimestamp)                                                                                                 \
  X(GetQueryPoolResults)                                                                                               \
  X(QueueSubmit)                                                                                                       \
  X(CreateSemaphore)                                                                                                   \
  X(DestroySemaphore)

// Core from Vulkan 1.2 on, before that with an extension and its suffix.
#define MORTISE_VULKAN_NEWER_FUNCTIONS(X)                                                                              \
  X(GetBufferDeviceAddress)                                                                                            \
  X(WaitSemaphores)                                                                                                    \
  X(GetSemaphoreCounterValue)

#define MORTISE_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;

// What the result of `call` means, as a status with the driver's name for it and what to do.
Result<void> checked(VkResult result, const char *call);

class Driver {
public:
  // Opens the loader, which is never closed, and makes an instance. Errors: MORTISE_NOT_FOUND (no loader, or one
  // without a driver), MORTISE_VERSION_MISMATCH (older than 1.1).
  static Result<std::unique_ptr<Driver>> open(const std::string &library);
  Driver() = default;
  Driver(const Driver &) = delete;
  ~Driver();

  Result<std::vector<VkPhysicalDevice>> devices() const;
  MORTISE_VULKAN_INSTANCE_FUNCTIONS(MORTISE_VULKAN_MEMBER)
  // Of an extension that not every driver has: null where this one has not.
  PFN_vkVoidFunction instanceFunction(const char *name) const { return find(instance, name); }

private:
  PFN_vkGetInstanceProcAddr find = nullptr;
  VkInstance instance = nullptr;
};

struct DeviceFunctions {
  // Errors: MORTISE_VERSION_MISMATCH, naming what the driver lacks.
  static Result<DeviceFunctions> of(const Driver &driver, VkDevice device);
  MORTISE_VULKAN_DEVICE_FUNCTIONS(MORTISE_VULKAN_MEMBER)
  MORTISE_VULKAN_NEWER_FUNCTIONS(MORTISE_VULKAN_MEMBER)
};

} // namespace mortise::vulkan
