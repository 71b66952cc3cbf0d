// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver.hpp"

#include <algorithm>
#include <dlfcn.h>

namespace mortise::vulkan {

namespace {

struct Meaning {
  VkResult result;
  const char *name;
  MortiseCode code;
  const char *remedy;
};

constexpr char report[] = "please report this";
constexpr Meaning meanings[] = {
    {VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", MORTISE_OUT_OF_MEMORY, "free memory of the host"},
    {VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", MORTISE_OUT_OF_MEMORY,
     "use smaller tensors, or free memory of the device"},
    {VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS", MORTISE_OUT_OF_MEMORY, "free memory of the device"},
    {VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED", MORTISE_NOT_FOUND,
     "look at vulkaninfo --summary, and install the GPU's driver"},
    {VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", MORTISE_DEVICE_LOST,
     "start the process again; the system's log (dmesg) may say why"},
    {VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED", MORTISE_OUT_OF_MEMORY, "free memory of the host"},
    {VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT", MORTISE_UNSUPPORTED, "install a newer driver"},
    {VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT", MORTISE_UNSUPPORTED, "install a newer driver"},
    {VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER", MORTISE_NOT_FOUND,
     "install a driver with Vulkan 1.1 or newer (mesa-vulkan-drivers, say), or look at VK_ICD_FILENAMES"},
    {VK_ERROR_UNKNOWN, "VK_ERROR_UNKNOWN", MORTISE_INTERNAL, report},
};

} // namespace

Result<void> checked(VkResult result, const char *call) {
  if (result == VK_SUCCESS)
    return {};
  const auto *found = std::ranges::find(meanings, result, &Meaning::result);
  const bool known = found != std::end(meanings);
  return Error{known ? found->code : MORTISE_INTERNAL,
               std::string(call) + ": " + (known ? found->name : "VkResult " + std::to_string(result)) + "; " +
                   (known ? found->remedy : report)};
}

Driver::~Driver() {
  if (instance)
    DestroyInstance(instance, nullptr);
}

Result<std::unique_ptr<Driver>> Driver::open(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return Error{MORTISE_NOT_FOUND, "expected Vulkan's loader " + library + ", found none (" +
                                        (reason ? reason : "no reason given") +
                                        "); install libvulkan1 and a driver (mesa-vulkan-drivers, say)"};
  }
  const auto find = reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr"));
  const auto version =
      find ? reinterpret_cast<PFN_vkEnumerateInstanceVersion>(find(nullptr, "vkEnumerateInstanceVersion")) : nullptr;
  const auto create = find ? reinterpret_cast<PFN_vkCreateInstance>(find(nullptr, "vkCreateInstance")) : nullptr;
  uint32_t number = 0;
  if (!version || !create || version(&number) != VK_SUCCESS || number < VK_API_VERSION_1_1)
    return Error{MORTISE_VERSION_MISMATCH, "expected " + library +
                                               " to be a loader of Vulkan 1.1 or newer, found an older one; install a "
                                               "newer libvulkan1"};
  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "mortise";
  application.apiVersion = std::min(number, VK_API_VERSION_1_3);
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  auto driver = std::make_unique<Driver>();
  driver->find = find;
  if (auto made = checked(create(&info, nullptr, &driver->instance), "vkCreateInstance"); !made)
    return made.error();
  std::string missing;
#define MORTISE_VULKAN_FIND(name)                                                                                      \
  driver->name = reinterpret_cast<PFN_vk##name>(find(driver->instance, "vk" #name));                                   \
  if (!driver->name)                                                                                                   \
    missing += " vk" #name;
  MORTISE_VULKAN_INSTANCE_FUNCTIONS(MORTISE_VULKAN_FIND)
#undef MORTISE_VULKAN_FIND
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH, "expected " + library + " to have" + missing + ", found none"};
  return driver;
}

Result<std::vector<VkPhysicalDevice>> Driver::devices() const {
  uint32_t count = 0;
  if (auto asked = checked(EnumeratePhysicalDevices(instance, &count, nullptr), "vkEnumeratePhysicalDevices"); !asked)
    return asked.error();
  std::vector<VkPhysicalDevice> all(count);
  if (auto asked = checked(EnumeratePhysicalDevices(instance, &count, all.data()), "vkEnumeratePhysicalDevices");
      !asked)
    return asked.error();
  return all;
}

Result<DeviceFunctions> DeviceFunctions::of(const Driver &driver, VkDevice device) {
  DeviceFunctions functions;
  std::string missing;
#define MORTISE_VULKAN_FIND(name)                                                                                      \
  functions.name = reinterpret_cast<PFN_vk##name>(driver.GetDeviceProcAddr(device, "vk" #name));                       \
  if (!functions.name)                                                                                                 \
    missing += " vk" #name;
  MORTISE_VULKAN_DEVICE_FUNCTIONS(MORTISE_VULKAN_FIND)
#undef MORTISE_VULKAN_FIND
#define MORTISE_VULKAN_FIND(name)                                                                                      \
  functions.name = reinterpret_cast<PFN_vk##name>(driver.GetDeviceProcAddr(device, "vk" #name));                       \
  if (!functions.name)                                                                                                 \
    functions.name = reinterpret_cast<PFN_vk##name>(driver.GetDeviceProcAddr(device, "vk" #name "KHR"));               \
  if (!functions.name)                                                                                                 \
    missing += " vk" #name;
  MORTISE_VULKAN_NEWER_FUNCTIONS(MORTISE_VULKAN_FIND)
#undef MORTISE_VULKAN_FIND
  if (!missing.empty())
    return Error{MORTISE_VERSION_MISMATCH, "expected the driver to have" + missing + ", found none"};
  return functions;
}

} // namespace mortise::vulkan
