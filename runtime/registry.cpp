// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/registry.hpp>

#include "crash.hpp"
#include "host.hpp"
#include "loader.hpp"
#include "plugin_memory.hpp"
#include "trust.hpp"
#include "vendor_ops.hpp"
#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

namespace mortise::runtime {
namespace {

bool contains(const auto &list, const auto &value) { return std::ranges::find(list, value) != list.end(); }

} // namespace

// Plugins that have to be loaded together, because one may offer or share a device of another, has its name, or
// declares an op of its.
struct Registry::Group {
  struct Member {
    PluginFiles files;
    Manifest manifest;
  };
  std::vector<Member> members;  // in the order of plugin_path
  std::set<std::string> labels; // what others of the group have, too: kinds of devices, names, ops
  bool loaded = false;

  bool declares(std::string_view kind) const {
    return std::ranges::any_of(members,
                               [&](const Member &each) { return contains(each.manifest.devices, std::string(kind)); });
  }
};

struct Registry::Impl {
  const Config config;
  const std::vector<uid_t> owners; // of plugins' files, beside this user and root
  OpenedKernelCache cache;
  std::mutex mutex; // of all that follows; what the pointers name does not change once it is there
  std::vector<Group> groups;
  std::vector<std::unique_ptr<Plugin>> plugins;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Rejected> rejected;

  explicit Impl(const Config &config)
      : config(config), owners(config.pluginOwners()), cache(KernelCache::open(config)) {}

  void reject(const std::string &path, Error error, std::vector<std::string> kinds = {},
              std::vector<std::string> ops = {}) {
    logMessage(MORTISE_WARNING, "plugin '" + path + "' is not used: " + error.message);
    rejected.push_back({path, std::move(error), std::move(kinds), std::move(ops)});
  }
  void discover(const FoundPlugin &found);
  void join(Group::Member member);
  void load(Group &group);
  void add(const Group::Member &member);
  void dropDoubles(size_t first);
  void findOwners(size_t first);
  void limitMemory();
  Result<void> compareOps(const Plugin &plugin) const;
  std::vector<std::string> names() const;
  Error undeclared(std::string_view op) const;
  bool offers(const Plugin &plugin, std::string_view kind) const;
  Error notFound(std::string_view name) const;
};

namespace {

std::string full(const Device &device) {
  return std::string(device.info.kind) + ":" + std::to_string(device.info.ordinal);
}

} // namespace

bool Device::hidesMemory() const { return std::ranges::find(plugin->apart, info.device) != plugin->apart.end(); }

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

void Registry::Impl::discover(const FoundPlugin &found) {
  const auto &[files, manifest] = found;
  auto trusted = checkTrust(files.manifest, owners);
  if (!trusted && trusted.error().code != MORTISE_NOT_FOUND)
    return reject(files.library, {trusted.error().code, "manifest: " + trusted.error().message});
  if (manifest)
    return join({files, *manifest});
  // The error about a missing or broken library is more useful than one about its manifest.
  if (manifest.error().code == MORTISE_NOT_FOUND)
    if (auto library = checkLibrary(files.library); !library)
      return reject(files.library, library.error());
  reject(files.library, manifest.error());
}

void Registry::Impl::join(Group::Member member) {
  const Manifest &manifest = member.manifest;
  Group merged;
  merged.labels = {"plugin " + manifest.name}; // no kind has a space
  merged.labels.insert(manifest.devices.begin(), manifest.devices.end());
  merged.labels.insert(manifest.sharing.begin(), manifest.sharing.end());
  for (const std::string &op : manifest.ops)
    merged.labels.insert("op " + op);
  const std::set<std::string> wanted = merged.labels;
  std::erase_if(groups, [&](Group &group) {
    if (std::ranges::none_of(wanted, [&](const std::string &label) { return group.labels.contains(label); }))
      return false;
    std::ranges::move(group.members, std::back_inserter(merged.members));
    merged.labels.merge(group.labels);
    return true;
  });
  merged.members.push_back(std::move(member));
  groups.push_back(std::move(merged));
}

void Registry::Impl::load(Group &group) {
  if (std::exchange(group.loaded, true))
    return;
  const size_t first = devices.size();
  for (const Group::Member &member : group.members)
    add(member);
  dropDoubles(first);
  findOwners(first);
  limitMemory();
  for (const auto &device : std::span(devices).subspan(first)) {
    announce(*device);
    for (const auto &other : devices)
      if (std::string_view(device->info.kind) == other->info.kind && device->info.ordinal != other->info.ordinal)
        device->several = true;
  }
}

void Registry::Impl::add(const Group::Member &member) {
  const auto &[files, manifest] = member;
  auto loaded = loadPlugin(manifest, {.files = files,
                                      .options = config.pluginOptions(manifest.name),
                                      .isolation = config.isolation(manifest.name),
                                      .probe = config.probe(),
                                      .owners = owners,
                                      .memoryLimits = config.memoryLimits()});
  if (!loaded)
    return reject(files.library, loaded.error(), manifest.devices, manifest.ops);
  const Plugin &plugin = (*loaded)->plugin;
  if (auto compared = compareOps(plugin); !compared)
    return reject(files.library, compared.error(), manifest.devices);
  for (const auto &other : plugins)
    if (other->name == plugin.name)
      return reject(files.library,
                    {MORTISE_INVALID_ARGUMENT, "another plugin named '" + plugin.name + "' was found before it, '" +
                                                   other->path + "'; remove one of them from plugin_path"});
  plugins.push_back(std::make_unique<Plugin>(plugin));
  for (const MortiseDeviceInfo &info : (*loaded)->devices)
    devices.push_back(std::make_unique<Device>(Device{plugins.back().get(), info}));
}

// Whether a plugin's ops are those that earlier plugins declare under their names.
Result<void> Registry::Impl::compareOps(const Plugin &plugin) const {
  for (const MortiseOpDeclaration *op : std::span(plugin.table->ops, plugin.table->op_count))
    for (const auto &other : plugins)
      if (const MortiseOpDeclaration *known = other->declared(op->name))
        if (const std::string differs = portable::difference(*known, *op); !differs.empty())
          return Error{MORTISE_INVALID_ARGUMENT, std::string("its op '") + op->name + "' is not that of plugin '" +
                                                     other->name + "', '" + other->path + "': they differ in " +
                                                     differs + "; an op has one declaration, whoever runs it"};
  return {};
}

// Two plugins that offer one device would compete for it, and the user would not know who won: the first one has it.
void Registry::Impl::dropDoubles(size_t first) {
  std::map<std::string, const Plugin *> owners;
  const auto end = std::remove_if(devices.begin() + first, devices.end(), [&](const auto &device) {
    if (device->info.same_as != nullptr)
      return false;
    const auto [at, isFirst] = owners.try_emplace(full(*device), device->plugin);
    if (!isFirst)
      reject(device->plugin->path,
             {MORTISE_INVALID_ARGUMENT, "its device '" + at->first + "' is offered by plugin '" + at->second->name +
                                            "' already, from '" + at->second->path +
                                            "'; give the device a kind of its own, or set same_as = \"" + at->first +
                                            "\" if it computes in that device's memory"},
             {device->info.kind});
    return !isFirst;
  });
  devices.erase(end, devices.end());
}

// Finds the devices that op-packs share. A device whose owner is missing is dropped, with the reason.
void Registry::Impl::findOwners(size_t first) {
  const auto owner = [&](const Device &device) -> const Device * {
    for (const auto &other : devices)
      if (other->info.same_as == nullptr && other->plugin != device.plugin && full(*other) == device.info.same_as)
        return other.get();
    return nullptr;
  };
  for (auto &device : std::span(devices).subspan(first)) {
    device->same = device->info.same_as ? owner(*device) : nullptr;
    if (device->same && device->inHostMemory() != device->same->inHostMemory()) {
      const bool isolated = device->same->plugin->isolated;
      reject(device->plugin->path,
             {MORTISE_INVALID_ARGUMENT,
              "its device '" + full(*device) + "' shares the memory of '" + device->info.same_as +
                  "', of which it says " +
                  (device->inHostMemory() ? "that it is host memory" : "that it is not host memory") +
                  ", and plugin '" + device->same->plugin->name + "' the contrary" +
                  (isolated
                       ? ": its memory is hidden in a process of its own; leave that plugin out of the setting isolate"
                       : "")},
             {device->info.kind});
      device->same = nullptr;
      continue;
    }
    if (device->info.same_as && device->same == nullptr)
      reject(device->plugin->path,
             {MORTISE_NOT_FOUND, "its device '" + full(*device) + "' shares the memory of '" + device->info.same_as +
                                     "', which no other plugin offers; install the plugin that does"},
             {device->info.kind});
  }
  std::erase_if(devices, [](const auto &device) { return device->info.same_as && device->same == nullptr; });
}

// A limit for one ordinal is stronger than that for its kind. That of an op-pack is its device's.
void Registry::Impl::limitMemory() {
  const std::vector<MemoryLimit> limits = config.memoryLimits();
  for (const bool ordinal : {false, true})
    for (const MemoryLimit &limit : limits)
      for (const auto &device : devices)
        for (auto &owner : devices)
          if (limit.device == (ordinal ? full(*device) : device->info.kind) && owner.get() == &device->owner())
            owner->memoryLimit = limit.bytes;
}

// Devices, and the kinds that plugins declare which are not loaded.
std::vector<std::string> Registry::Impl::names() const {
  std::vector<std::string> found;
  const auto add = [&](const std::string &name) {
    if (!contains(found, name))
      found.push_back(name);
  };
  for (const auto &device : devices)
    add(device->name());
  for (const Group &group : groups)
    for (const Group::Member &member : group.members)
      for (const std::string &kind : member.manifest.devices)
        if (!group.loaded)
          add(kind);
  return found;
}

std::shared_ptr<Registry> Registry::open(const Config &config) {
  watchForks();
  if (config.get("crash_report") == "on")
    watchCrashes();
  setLogLevel(config.get("log_level"));
  auto impl = std::make_unique<Impl>(config);
  for (const FoundPlugin &found : config.plugins())
    impl->discover(found);
  if (!impl->cache && impl->cache.error().code != MORTISE_NOT_FOUND)
    logMessage(MORTISE_WARNING, "kernels are not kept on disk: " + impl->cache.error().message);
  return std::shared_ptr<Registry>(new Registry(std::move(impl)));
}

template <typename T> static std::vector<const T *> pointers(const std::vector<std::unique_ptr<T>> &owned) {
  std::vector<const T *> all;
  for (const auto &each : owned)
    all.push_back(each.get());
  return all;
}

std::vector<const Plugin *> Registry::plugins() const {
  const std::lock_guard lock(impl->mutex);
  return pointers(impl->plugins);
}

std::vector<const Device *> Registry::devices() const {
  const std::lock_guard lock(impl->mutex);
  return pointers(impl->devices);
}

std::vector<std::string> Registry::names() const {
  const std::lock_guard lock(impl->mutex);
  return impl->names();
}

std::vector<Rejected> Registry::rejected() const {
  const std::lock_guard lock(impl->mutex);
  return impl->rejected;
}

const OpenedKernelCache &Registry::cache() const { return impl->cache; }

void Registry::loadAll() const {
  loadWhere([](const Group &) { return true; });
}

template <typename Wanted> void Registry::loadWhere(Wanted wanted) const {
  const std::lock_guard lock(impl->mutex);
  for (Group &group : impl->groups)
    if (!group.loaded && wanted(group))
      impl->load(group);
}

std::vector<const Device *> Registry::findDlpack(int32_t type, int32_t id) const {
  loadWhere([&](const Group &group) {
    return std::ranges::any_of(group.members, [&](const Group::Member &each) {
      return contains(each.manifest.dlpack, static_cast<uint32_t>(type));
    });
  });
  std::vector<const Device *> found = devices();
  std::erase_if(found,
                [&](const Device *device) { return device->info.dlpack_type != type || device->info.dlpack_id != id; });
  return found;
}

Result<std::vector<const Device *>> Registry::find(std::string_view name) const {
  const std::string_view kind = name.substr(0, name.find(':'));
  loadWhere([&](const Group &group) {
    return name == "auto"
               ? std::ranges::any_of(group.members, [](const auto &each) { return !each.manifest.automatic.empty(); })
               : group.declares(kind);
  });
  const std::lock_guard lock(impl->mutex);
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
  if (found.empty())
    return impl->notFound(name);
  return found;
}

Result<void> Registry::expect(std::string_view name) const {
  {
    const std::string_view kind = name.substr(0, name.find(':'));
    const std::lock_guard lock(impl->mutex);
    if (std::ranges::any_of(impl->groups, [&](const Group &group) { return !group.loaded && group.declares(kind); }))
      return {};
  }
  auto found = find(name);
  return found ? Result<void>() : found.error();
}

Result<const Plugin *> Registry::declarer(std::string_view op) const {
  loadWhere([&](const Group &group) {
    return std::ranges::any_of(group.members,
                               [&](const Group::Member &each) { return contains(each.manifest.ops, std::string(op)); });
  });
  const std::lock_guard lock(impl->mutex);
  for (const auto &plugin : impl->plugins)
    if (plugin->declared(op))
      return plugin.get();
  return impl->undeclared(op);
}

Result<const MortiseOpDeclaration *> Registry::declaration(std::string_view op) const {
  auto plugin = declarer(op);
  return plugin ? Result<const MortiseOpDeclaration *>((*plugin)->declared(op)) : plugin.error();
}

Result<void> Registry::infer(const MortiseInferArgs &args) const {
  auto plugin = declarer(args.op);
  return plugin ? askInfer(**plugin, args) : plugin.error();
}

Error Registry::Impl::undeclared(std::string_view op) const {
  const std::string name(op);
  std::string message = "no installed plugin declares the op '" + name + "'";
  std::vector<std::string_view> known;
  for (const Group &group : groups)
    for (const auto &[files, manifest] : group.members)
      known.insert(known.end(), manifest.ops.begin(), manifest.ops.end());
  for (const Rejected &each : rejected)
    if (contains(each.ops, name))
      return {MORTISE_UNSUPPORTED,
              message + "; '" + each.path + "', whose manifest lists it, was rejected: " + each.error.message};
  return {MORTISE_UNSUPPORTED, message + portable::suggestion(op, known) +
                                   "; install its vendor's, and name its directory in plugin_path or "
                                   "MORTISE_PLUGIN_PATH"};
}

// Whether its manifest lists the kind.
bool Registry::Impl::offers(const Plugin &plugin, std::string_view kind) const {
  for (const Group &group : groups)
    for (const auto &[files, manifest] : group.members)
      if (manifest.name == plugin.name && contains(manifest.devices, std::string(kind)))
        return true;
  return false;
}

Error Registry::Impl::notFound(std::string_view name) const {
  const std::string_view kind = name.substr(0, name.find(':'));
  std::string message =
      name == "auto" ? "no device can be chosen automatically" : "there is no device '" + std::string(name) + "'";
  const std::vector<std::string> all = names();
  message += all.empty() ? "; there is no device" : "; the devices are " + runtime::join(all);
  if (name != "auto" && !all.empty())
    message += " (the nearest is '" + nearest(std::string(name), all) + "')";
  bool explained = false;
  for (const auto &plugin : plugins)
    if (!plugin->deviceless.empty() && (name == "auto" || offers(*plugin, kind))) {
      message += "; plugin '" + plugin->name + "' has none here: " + plugin->deviceless;
      explained = true;
    }
  for (const Rejected &each : rejected)
    if (name == "auto" || std::find(each.devices.begin(), each.devices.end(), kind) != each.devices.end()) {
      message += "; plugin '" + each.path + "' was rejected: " + each.error.message;
      explained = true;
    }
  if (!explained)
    message += "; install a plugin that has it, and name its directory in plugin_path or MORTISE_PLUGIN_PATH";
  return Error{MORTISE_NOT_FOUND, message};
}

Registry::Registry(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Registry::~Registry() = default;

} // namespace mortise::runtime
