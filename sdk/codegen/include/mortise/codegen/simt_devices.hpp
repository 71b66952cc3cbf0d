// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices that a driver has, found once for each choice of a driver in the process.
#pragma once

#include <mortise/plugin.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace mortise::codegen {

template <typename Driver, typename Device> struct FoundDevices {
  std::unique_ptr<Driver> driver;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<const MortiseDeviceInfo *> infos;
  std::string unused; // why devices are not used, if they are not

  void add(std::unique_ptr<Device> device) {
    infos.push_back(&device->info());
    devices.push_back(std::move(device));
  }
  // As many as the driver counts: `find` makes the one with this number, or says why it is not used.
  template <typename Find> void addAll(int count, const char *kind, Find &&find) {
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      auto device = find(ordinal);
      if (device) {
        add(std::move(*device));
        continue;
      }
      const std::string text =
          std::string(kind) + ":" + std::to_string(ordinal) + " is not used: " + device.error().message;
      log(MORTISE_INFO, text);
      unused += (unused.empty() ? "" : "; ") + text;
    }
  }
};

// `fill(found, choice)` opens the driver and adds its devices. Errors: MORTISE_NOT_FOUND, with the reason, where there
// is none that can be used.
template <typename Found, typename Choice, typename Fill>
Result<std::span<const MortiseDeviceInfo *const>> findOnce(const Choice &choice, Fill &&fill) {
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

} // namespace mortise::codegen
