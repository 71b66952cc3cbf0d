// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins and their devices. Loading checks everything that can be checked: file, directory, manifest, magic,
// version range, layout hash, NULL slots. A plugin that fails is listed with its reason and not used.
#pragma once

#include <mortise/result.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/config.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::runtime {

struct Plugin {
  std::string name, vendor, version, path;
  const MortisePlugin *table = nullptr; // lives until the process ends: libraries are never unloaded
  uint32_t abiRevision = 0;             // negotiated: the newest that both sides speak
  bool hasStreams = false;              // the table has stream and event slots; otherwise its devices are synchronous
  bool hasInstances = false;            // the table has instance slots

  // The plugin knows expressions in attributes, guards and bodies. Other plugins are shown graphs with numbers only.
  bool seesSymbols() const { return abiRevision >= 2 && table->opset >= 2; }
};

struct Device {
  const Plugin *plugin = nullptr;
  MortiseDeviceInfo info{}; // info.device is what the slots take
  bool several = false;     // the registry has more than one ordinal of this kind
  std::string name() const; // "kind", or "kind:1" where a kind has several
  // Whether both compute in host memory, or are one device that two plugins offer.
  bool sharesMemory(const Device &other) const;
};

struct Rejected {
  std::string path;
  Error error;
  std::vector<std::string> devices; // the kinds that its manifest declares; empty when the manifest is unreadable
};

class Registry {
public:
  // Loads every plugin in the directories and files that `config` names.
  static std::shared_ptr<Registry> load(const Config &config);

  std::span<const std::unique_ptr<Plugin>> plugins() const;
  std::span<const std::unique_ptr<Device>> devices() const;
  std::span<const Rejected> rejected() const;

  // `name`: "auto" (of every kind the first ordinal that has automatic set, fastest first), a kind (its first ordinal)
  // or kind:ordinal. Several plugins may offer the same device. Errors list the devices that exist, and why a plugin
  // that declares this device was rejected.
  Result<std::vector<const Device *>> find(std::string_view name) const;

private:
  struct Impl;
  explicit Registry(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;

public:
  ~Registry();
};

// The table handed to plugins.
const MortiseHost &host();

} // namespace mortise::runtime
