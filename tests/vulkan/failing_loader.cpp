// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "failing_loader.hpp"

#include "../../plugins/vulkan/driver.hpp"

#include <array>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <tuple>

namespace {

#define ALL_FUNCTIONS(X)                                                                                               \
  X(CreateInstance)                                                                                                    \
  MORTISE_VULKAN_INSTANCE_FUNCTIONS(X)                                                                                 \
  MORTISE_VULKAN_DEVICE_FUNCTIONS(X)                                                                                   \
  MORTISE_VULKAN_NEWER_FUNCTIONS(X)

// ---- Settings, and what has been called

std::mutex mutex; // of what follows
std::string failing;
size_t failingCall = 0, met = 0;
VkResult failure = VK_SUCCESS;
std::string calls;
std::map<std::string, long> living; // by what is made: "Buffer"

void configure(const char *settings) {
  std::lock_guard lock(mutex);
  failing.clear();
  failingCall = met = 0;
  failure = VK_SUCCESS;
  calls.clear();
  const std::string_view text(settings);
  const size_t first = text.find(':'), second = text.find(':', first + 1);
  if (!text.starts_with("fail=") || second == text.npos)
    return;
  failing = text.substr(std::strlen("fail="), first - std::strlen("fail="));
  failingCall = std::strtoul(settings + first + 1, nullptr, 10);
  failure = static_cast<VkResult>(std::strtol(settings + second + 1, nullptr, 10));
}

// What the call with this name is to return; VK_SUCCESS: what the driver returns.
VkResult planned(const char *name) {
  std::lock_guard lock(mutex);
  calls += std::string(name) + "\n";
  if (failing != "*" && failing != name)
    return VK_SUCCESS;
  return ++met == failingCall ? failure : VK_SUCCESS;
}

void count(std::string_view name, long change) { // of nothing where it has no name
  if (name.empty())
    return;
  std::lock_guard lock(mutex);
  living[std::string(name)] += change;
}

std::string_view without(std::string_view name, std::string_view prefix) {
  return name.starts_with(prefix) ? name.substr(prefix.size()) : std::string_view();
}

// ---- Functions

struct Function {
  const char *name;
  PFN_vkVoidFunction replacement;
  PFN_vkVoidFunction *real;
};

template <size_t number, typename Signature> struct Call;
template <size_t number, typename Result, typename... Arguments>
struct Call<number, Result(VKAPI_PTR *)(Arguments...)> {
  static inline PFN_vkVoidFunction real = nullptr;
  static inline const char *name = nullptr;

  static Result VKAPI_CALL run(Arguments... arguments) {
    const auto forward = reinterpret_cast<Result(VKAPI_PTR *)(Arguments...)>(real);
    const std::string_view bare = std::string_view(name).substr(2); // without "vk"
    if constexpr (std::is_same_v<Result, VkResult>) {
      if (const VkResult fails = planned(name); fails != VK_SUCCESS) {
        if (bare == "WaitSemaphores") // what it was to wait for must not go on while the caller takes it back
          (void)forward(arguments...);
        return fails;
      }
      const VkResult done = forward(arguments...);
      if (done == VK_SUCCESS && bare != "AllocateCommandBuffers") // which are their pool's
        for (const std::string_view made : {without(bare, "Create"), without(bare, "Allocate")})
          count(made == "ComputePipelines" ? "Pipeline" : made, 1);
      return done;
    } else {
      const auto isThere = [](auto handle) { return handle != decltype(handle){}; };
      if constexpr (sizeof...(Arguments) == 2)
        count(without(bare, "Destroy"), -1); // a device or an instance
      if constexpr (sizeof...(Arguments) == 3)
        if (isThere(std::get<1>(std::tuple(arguments...))))
          for (const std::string_view gone : {without(bare, "Destroy"), without(bare, "Free")})
            count(gone, -1);
      return forward(arguments...);
    }
  }
  static Function entry(const char *of) {
    name = of;
    return {of, reinterpret_cast<PFN_vkVoidFunction>(&run), &real};
  }
};

enum Number : size_t {
#define NUMBER(name) Number##name,
  ALL_FUNCTIONS(NUMBER)
#undef NUMBER
};

const std::array functions = {
#define ENTRY(name) Call<Number##name, PFN_vk##name>::entry("vk" #name),
    ALL_FUNCTIONS(ENTRY)
#undef ENTRY
};

// What the plugin is given in the place of `found`.
PFN_vkVoidFunction replaced(std::string_view name, PFN_vkVoidFunction found) {
  if (name.ends_with("KHR"))
    name.remove_suffix(3);
  for (const Function &each : functions)
    if (found && each.name == name) {
      *each.real = found;
      return each.replacement;
    }
  return found;
}

PFN_vkGetInstanceProcAddr loader() {
  static const auto found = [] {
    void *handle = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    return handle ? reinterpret_cast<PFN_vkGetInstanceProcAddr>(dlsym(handle, "vkGetInstanceProcAddr")) : nullptr;
  }();
  return found;
}

PFN_vkGetDeviceProcAddr findInDevice = nullptr;
PFN_vkVoidFunction VKAPI_CALL getDeviceProcAddr(VkDevice device, const char *name) {
  return replaced(name, findInDevice(device, name));
}

} // namespace

extern "C" __attribute__((visibility("default"))) PFN_vkVoidFunction VKAPI_CALL
vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  const PFN_vkVoidFunction found = loader() ? loader()(instance, name) : nullptr;
  if (found && std::string_view(name) == "vkGetDeviceProcAddr") {
    findInDevice = reinterpret_cast<PFN_vkGetDeviceProcAddr>(found);
    return reinterpret_cast<PFN_vkVoidFunction>(&getDeviceProcAddr);
  }
  return replaced(name, found);
}

extern "C" __attribute__((visibility("default"))) void failingLoaderConfigure(const char *settings) {
  configure(settings);
}

extern "C" __attribute__((visibility("default"))) const char *failingLoaderCalls() {
  static std::string text;
  std::lock_guard lock(mutex);
  text = calls;
  return text.c_str();
}

extern "C" __attribute__((visibility("default"))) const char *failingLoaderLiving() {
  static std::string text;
  std::lock_guard lock(mutex);
  text.clear();
  for (const auto &[what, number] : living)
    if (number != 0)
      text += what + " " + std::to_string(number) + "\n";
  return text.c_str();
}
