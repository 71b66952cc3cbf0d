// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens one plugin library and checks it. docs/decisions/0001-plugin-open.md says why it is opened the way it is.
#pragma once

#include "manifest.hpp"
#include <mortise/runtime/registry.hpp>

#include <memory>

namespace mortise::runtime {

struct LoadedPlugin {
  Plugin plugin;
  MortiseHost host; // the table that this plugin was given
  std::vector<MortiseDeviceInfo> devices;
};

struct LoadRequest {
  PluginFiles files;
  std::vector<Setting> options; // of this plugin
};

// A library is opened and initialised once in a process; later calls give the same answer. The result lives until the
// process ends.
Result<const LoadedPlugin *> loadPlugin(const Manifest &manifest, const LoadRequest &request);

// The checks of the file alone: there, regular, not open to writers, a sound ELF library for this machine.
Result<void> checkLibrary(const std::string &library);

// The checks of a table, without side effects: pointer, size, magic, versions, layout, slots.
Result<uint32_t> checkTable(const MortisePlugin *table, const Manifest &manifest); // the revision negotiated
bool hasInstanceSlots(const MortisePlugin &table, uint32_t revision);              // may be read; they may be NULL
Result<std::vector<MortiseDeviceInfo>> checkDevices(const MortiseDevicesArgs &answer, const MortisePlugin &table,
                                                    const Manifest &manifest);

} // namespace mortise::runtime
