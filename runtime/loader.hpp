// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opens one plugin library and checks it. docs/decisions/0001-plugin-open.md says why it is opened the way it is.
#pragma once

#include <mortise/runtime/manifest.hpp>
#include <mortise/runtime/registry.hpp>

#include <memory>
#include <sys/types.h>

namespace mortise::runtime {

struct LoadedPlugin {
  Plugin plugin;
  MortisePlugin table; // Plugin::table
  MortiseHost host;    // the table that this plugin was given
  std::vector<MortiseDeviceInfo> devices;
};

struct LoadRequest {
  PluginFiles files;
  std::vector<Setting> options;       // of this plugin
  std::optional<Isolation> isolation; // in a process of its own; nullopt: in this one
  std::optional<Isolation>
      probe;                 // limits under which a library that is not proven is started first; nullopt: it is not
  std::vector<uid_t> owners; // of files, beside this user and root
  std::vector<MemoryLimit> memoryLimits; // of devices that run in a process of their own
};

// Opens and initialises a library once per process; later calls return the same result, which lives until the process
// ends.
Result<const LoadedPlugin *> loadPlugin(const Manifest &manifest, const LoadRequest &request);

// Checks the file: it exists and is regular, no other user may write to it, and it is a valid ELF library for this
// machine.
Result<void> checkLibrary(const std::string &library);

// Checks a table without calling it: pointer, size, magic, versions, layout hash, slots. Copies it to `copy`, with NULL
// in the slots that it does not have. Returns the revision negotiated.
Result<uint32_t> checkTable(const MortisePlugin *table, const Manifest &manifest, MortisePlugin &copy);
// The ops that the table declares: their structs, their names, and the manifest's list of them. Part of checkTable.
Result<void> checkOps(const MortisePlugin &table, const Manifest &manifest);
Result<std::vector<MortiseDeviceInfo>> checkDevices(const MortiseDevicesArgs &answer, const MortisePlugin &table,
                                                    const Manifest &manifest);

} // namespace mortise::runtime
