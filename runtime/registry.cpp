// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/registry.hpp>

#include "crash.hpp"
#include "host.hpp"
#include "loader.hpp"
#include "plugin_memory.hpp"

#include <algorithm>
#include <map>

namespace mortise::runtime {

struct Registry::Impl {
  std::vector<std::unique_ptr<Plugin>> plugins;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Rejected> rejected;
  OpenedKernelCache cache;

  explicit Impl(const Config &config) : cache(KernelCache::open(config)) {}

  void reject(const std::string &path, Error error, std::vector<std::string> kinds = {}) {
    logMessage(MORTISE_WARNING, "plugin '" + path + "' is not used: " + error.message);
    rejected.push_back({path, std::move(error), std::move(kinds)});
  }
  void add(const PluginFiles &files, const Config &config);
  void dropDoubles();
  void findOwners();
  void limitMemory(const Config &config);
  std::string listing() const;
};

namespace {

std::string full(const Device &device) {
  return std::string(device.info.kind) + ":" + std::to_string(device.info.ordinal);
}

} // namespace

bool Device::sharesMemory(const Device &other) const {
  return (inHostMemory() && other.inHostMemory()) || &owner() == &other.owner();
}

std::optional<Link> linkBetween(const Device &a, const Device &b) {
  if (&a == &b && !a.inHostMemory())
    return Link{&a};
  if (a.inHostMemory() || b.inHostMemory() || a.plugin != b.plugin || a.plugin->table->peer == nullptr)
    return std::nullopt;
  for (const auto &[copier, other] : {std::pair(&b, &a), std::pair(&a, &b)}) {
    MortisePeerArgs args{
        .struct_size = sizeof(MortisePeerArgs), .device = copier->info.device, .other = other->info.device};
    if (const auto asked = call("peer", a.plugin->table->peer, args); !asked)
      logMessage(MORTISE_WARNING, "device '" + copier->name() + "': peer failed, so that values for '" + other->name() +
                                      "' may pass through the host: " + asked.error().message);
    else if (args.reaches)
      return Link{copier, args.bandwidth, args.copy_ns};
  }
  return std::nullopt;
}

std::string Device::name() const { return several || info.ordinal != 0 ? full(*this) : std::string(info.kind); }

void Registry::Impl::add(const PluginFiles &files, const Config &config) {
  auto manifest = readManifest(files.manifest);
  if (!manifest) {
    // The error about a missing or broken library is more useful than one about its manifest.
    if (manifest.error().code == MORTISE_NOT_FOUND)
      if (auto library = checkLibrary(files.library); !library)
        return reject(files.library, library.error());
    return reject(files.library, manifest.error());
  }
  auto loaded = loadPlugin(*manifest, {files, config.pluginOptions(manifest->name), config.isolation(manifest->name)});
  if (!loaded)
    return reject(files.library, loaded.error(), manifest->devices);
  const Plugin &plugin = (*loaded)->plugin;
  for (const auto &other : plugins)
    if (other->name == plugin.name)
      return reject(files.library,
                    {MORTISE_INVALID_ARGUMENT, "another plugin named '" + plugin.name + "' was found before it, '" +
                                                   other->path + "'; remove one of them from plugin_path"});
  plugins.push_back(std::make_unique<Plugin>(plugin));
  for (const MortiseDeviceInfo &info : (*loaded)->devices)
    devices.push_back(std::make_unique<Device>(Device{plugins.back().get(), info}));
}

// Two plugins that offer one device would compete for it, and the user would not know who won: the first one has it.
void Registry::Impl::dropDoubles() {
  std::map<std::string, const Plugin *> first;
  std::erase_if(devices, [&](const auto &device) {
    if (device->info.same_as != nullptr)
      return false;
    const auto [at, isFirst] = first.try_emplace(full(*device), device->plugin);
    if (!isFirst)
      reject(device->plugin->path,
             {MORTISE_INVALID_ARGUMENT, "its device '" + at->first + "' is offered by plugin '" + at->second->name +
                                            "' already, from '" + at->second->path +
                                            "'; give the device a kind of its own, or set same_as = \"" + at->first +
                                            "\" if it computes in that device's memory"},
             {device->info.kind});
    return !isFirst;
  });
}

// Finds the devices that op-packs share. A device whose owner is missing is dropped, with the reason.
void Registry::Impl::findOwners() {
  const auto owner = [&](const Device &device) -> const Device * {
    for (const auto &other : devices)
      if (other->info.same_as == nullptr && other->plugin != device.plugin && full(*other) == device.info.same_as)
        return other.get();
    return nullptr;
  };
  for (auto &device : devices) {
    device->same = device->info.same_as ? owner(*device) : nullptr;
    if (device->info.same_as && device->same == nullptr)
      reject(device->plugin->path,
             {MORTISE_NOT_FOUND, "its device '" + full(*device) + "' shares the memory of '" + device->info.same_as +
                                     "', which no other plugin offers; install the plugin that does"},
             {device->info.kind});
  }
  std::erase_if(devices, [](const auto &device) { return device->info.same_as && device->same == nullptr; });
}

// A limit for one ordinal is stronger than that for its kind. That of an op-pack is its device's.
void Registry::Impl::limitMemory(const Config &config) {
  const std::vector<MemoryLimit> limits = config.memoryLimits();
  for (const bool ordinal : {false, true})
    for (const MemoryLimit &limit : limits)
      for (const auto &device : devices)
        for (auto &owner : devices)
          if (limit.device == (ordinal ? full(*device) : device->info.kind) && owner.get() == &device->owner())
            owner->memoryLimit = limit.bytes;
}

std::string Registry::Impl::listing() const {
  std::vector<std::string> names;
  for (const auto &device : devices)
    if (std::find(names.begin(), names.end(), device->name()) == names.end())
      names.push_back(device->name());
  return names.empty() ? "there is no device" : "the devices are " + join(names);
}

std::shared_ptr<Registry> Registry::load(const Config &config) {
  watchForks();
  if (config.get("crash_report") == "on")
    watchCrashes();
  setLogLevel(config.get("log_level"));
  auto impl = std::make_unique<Impl>(config);
  for (const PluginFiles &files : findPlugins(config.get("plugin_path")))
    impl->add(files, config);
  impl->dropDoubles();
  impl->findOwners();
  impl->limitMemory(config);
  for (const auto &device : impl->devices)
    announce(*device);
  if (!impl->cache && impl->cache.error().code != MORTISE_NOT_FOUND)
    logMessage(MORTISE_WARNING, "kernels are not kept on disk: " + impl->cache.error().message);
  for (auto &device : impl->devices)
    for (const auto &other : impl->devices)
      if (std::string_view(device->info.kind) == other->info.kind && device->info.ordinal != other->info.ordinal)
        device->several = true;
  return std::shared_ptr<Registry>(new Registry(std::move(impl)));
}

std::span<const std::unique_ptr<Plugin>> Registry::plugins() const { return impl->plugins; }
std::span<const std::unique_ptr<Device>> Registry::devices() const { return impl->devices; }
std::span<const Rejected> Registry::rejected() const { return impl->rejected; }
const OpenedKernelCache &Registry::cache() const { return impl->cache; }

Result<std::vector<const Device *>> Registry::find(std::string_view name) const {
  std::vector<const Device *> found;
  for (const auto &device : impl->devices)
    if (name == "auto" ? device->info.automatic != 0 : (name == full(*device) || name == device->info.kind))
      found.push_back(device.get());
  // A kind without an ordinal means its first ordinal, and so does "auto": equal devices are one choice, not several.
  std::map<std::string_view, uint32_t> first;
  for (const Device *device : found) {
    uint32_t &ordinal = first.try_emplace(device->info.kind, device->info.ordinal).first->second;
    ordinal = std::min(ordinal, device->info.ordinal);
  }
  std::erase_if(found, [&](const Device *device) { return device->info.ordinal != first[device->info.kind]; });
  if (name == "auto")
    std::sort(found.begin(), found.end(), [](const Device *a, const Device *b) {
      const auto speedA = std::pair(a->info.peak_flops, a->info.bandwidth),
                 speedB = std::pair(b->info.peak_flops, b->info.bandwidth);
      return speedA != speedB ? speedA > speedB : full(*a) + a->plugin->name < full(*b) + b->plugin->name;
    });
  if (!found.empty())
    return found;

  const std::string_view kind = name.substr(0, name.find(':'));
  std::string message =
      name == "auto" ? "no device can be chosen automatically" : "there is no device '" + std::string(name) + "'";
  message += "; " + impl->listing();
  std::vector<std::string> names;
  for (const auto &device : impl->devices)
    names.push_back(device->name());
  if (name != "auto" && !names.empty())
    message += " (the nearest is '" + nearest(std::string(name), names) + "')";
  bool explained = false;
  for (const Rejected &rejected : impl->rejected)
    if (name == "auto" || std::find(rejected.devices.begin(), rejected.devices.end(), kind) != rejected.devices.end()) {
      message += "; plugin '" + rejected.path + "' was rejected: " + rejected.error.message;
      explained = true;
    }
  if (!explained)
    message += "; install a plugin that has it, and name its directory in plugin_path or MORTISE_PLUGIN_PATH";
  return Error{MORTISE_NOT_FOUND, message};
}

Registry::Registry(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Registry::~Registry() = default;

} // namespace mortise::runtime
