// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plugins and their devices. Manifests are read at once, libraries when a device of theirs is asked for. Loading checks
// everything that can be checked: file, directory, manifest, magic, version range, layout hash, NULL slots. A plugin
// that fails is listed with its reason and not used.
#pragma once

#include <mortise/portable/vendor_ops.hpp>
#include <mortise/result.hpp>
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/kernel_cache.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace mortise::runtime {

struct Plugin {
  std::string name, vendor, version, path;
  std::string build; // changes with the library's file: its build id, or else its size and time of writing
  // A copy of the plugin's, with NULL in the slots that its revision does not have. Lives until the process ends:
  // libraries are never unloaded.
  const MortisePlugin *table = nullptr;
  uint32_t abiRevision = 0;        // negotiated: the newest that both sides speak
  std::string deviceless;          // why it has no device here; "" where it has, or does not say
  bool isolated = false;           // runs in a process of its own (the setting isolate)
  std::vector<std::string> hidden; // what an isolated plugin has and this process is not shown: "streams"
  // Of an isolated plugin: devices with memory of their own, which this process does not reach.
  std::vector<const MortiseDevice *> apart;
  // Of a plugin in a process of its own, NULL for others: whether the process has ended because of this kernel, or is
  // not started any more. Such a kernel never runs again.
  bool (*hasLost)(MortiseKernel *) = nullptr;
  // Of a plugin in a process of its own that declares ops: asks its slot `infer`. Empty for others.
  std::function<Result<void>(const MortiseInferArgs &)> infer;

  bool hasStreams() const { return table->stream_create != nullptr; } // otherwise its devices are synchronous
  bool hasInstances() const { return table->instance_create != nullptr; }
  bool hasFrames() const { return table->frame_create != nullptr; }
  bool hasSaving() const { return table->kernel_save != nullptr; }
  bool hasNativeStreams() const { return table->stream_import != nullptr; }
  bool registersMemory() const { return table->host_register != nullptr; }
  // The plugin knows expressions in attributes, guards and bodies. Other plugins are shown graphs with numbers only.
  bool seesSymbols() const { return table->opset >= 2; }
  // Its declaration of an op of a vendor; NULL where it has none.
  const MortiseOpDeclaration *declared(std::string_view op) const;
};

struct Device {
  const Plugin *plugin = nullptr;
  MortiseDeviceInfo info{};     // info.device is what the slots take
  bool several = false;         // the registry has more than one ordinal of this kind
  const Device *same = nullptr; // the device that MortiseDeviceInfo::same_as names, or NULL
  uint64_t memoryLimit = 0;     // bytes that the registry's programs may use of its memory; 0: no limit
  std::shared_ptr<std::atomic<uint64_t>> memoryInUse = std::make_shared<std::atomic<uint64_t>>(0);
  std::string name() const; // "kind", or "kind:1" where a kind has several
  const MortiseSpace &home() const { return *info.spaces[0]; }
  bool inHostMemory() const { return home().kind == MORTISE_SPACE_HOST; } // kernels compute in ordinary memory
  // It is shown as one in host memory, and its process copies the tensors of each call to its own memory and back.
  bool hidesMemory() const;
  // The device that allocates and copies for this one: itself, or `same`.
  const Device &owner() const { return same ? *same : *this; }
  // Whether both compute in host memory, or are one device that two plugins offer.
  bool sharesMemory(const Device &other) const;
};

// How one device copies between its home and that of another.
struct Link {
  const Device *copier = nullptr;   // the one that copies
  double bandwidth = 0, copyNs = 0; // bytes per second, and the time of a copy of one byte; 0 when unknown
};
// Asks the plugin of two devices that own their memory. nullopt when neither reaches the other, so that values pass
// through the host, and for devices in host memory.
std::optional<Link> linkBetween(const Device &a, const Device &b);

struct Rejected {
  std::string path;
  Error error;
  std::vector<std::string> devices; // the kinds that its manifest declares; empty when the manifest is unreadable
  std::vector<std::string> ops;     // and its ops
};

// All threads may call it at once. Plugins and devices live as long as the registry, and do not change.
class Registry : public std::enable_shared_from_this<Registry>, public portable::VendorOps {
public:
  // Reads the manifest of every plugin in the directories and files that `config` names, and loads no library.
  static std::shared_ptr<Registry> open(const Config &config);
  void loadAll() const;

  // Of the plugins loaded so far.
  std::vector<const Plugin *> plugins() const;
  std::vector<const Device *> devices() const;
  std::vector<std::string> names() const; // and the kinds that plugins declare which are not loaded
  std::vector<Rejected> rejected() const; // and those whose manifests are wrong
  // The kernels on disk, or why there are none: the setting is off, or the folder cannot be used, which was logged.
  const OpenedKernelCache &cache() const;

  // `name`: "auto" (of every kind the first ordinal that has automatic set, fastest first), a kind (its first ordinal)
  // or kind:ordinal. Several plugins may offer the same device. Errors list the devices that exist, and why a plugin
  // that declares this device was rejected. Loads the plugins whose manifests declare the kind, with those that offer
  // or share the same devices.
  Result<std::vector<const Device *>> find(std::string_view name) const;
  // Devices whose memory DLPack calls so. Loads the plugins whose manifests declare the type.
  std::vector<const Device *> findDlpack(int32_t type, int32_t id) const;
  // find()'s error for a name that no plugin can have. Loads no plugin that declares the kind.
  Result<void> expect(std::string_view name) const;

  // Load the plugins whose manifests list the op. Declarations of one op are alike, or their second plugin is rejected.
  Result<const MortiseOpDeclaration *> declaration(std::string_view op) const override;
  Result<void> infer(const MortiseInferArgs &args) const override;

private:
  struct Group;
  struct Impl;
  template <typename Wanted> void loadWhere(Wanted wanted) const;
  Result<const Plugin *> declarer(std::string_view op) const; // the first plugin that declares it
  explicit Registry(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;

public:
  ~Registry() override;
};

// The table handed to plugins.
const MortiseHost &host();

} // namespace mortise::runtime
