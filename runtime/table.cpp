// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of a plugin's table and of its device list.
#include "loader.hpp"
#include <mortise/runtime/guard.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace mortise::runtime {
namespace {

constexpr uint32_t oldestRevision = MORTISE_ABI_OLDEST, newestRevision = MORTISE_ABI_REVISION; // the support window
constexpr uint64_t layoutHashes[] = MORTISE_ABI_LAYOUT_HASHES;
static_assert(std::size(layoutHashes) == newestRevision - oldestRevision + 1,
              "one hash for each revision in the window");
constexpr size_t tableHead = offsetof(MortisePlugin, initialize); // what a table of any revision has
constexpr size_t tableSizeOfOldest = offsetof(MortisePlugin, infer) + sizeof(void *);
constexpr size_t deviceSizeOfOldest = offsetof(MortiseDeviceInfo, fingerprint) + sizeof(char *);
constexpr size_t spaceSizeOfOldest = offsetof(MortiseSpace, bytes) + sizeof(uint64_t);

Error mismatch(std::string message) { return {MORTISE_VERSION_MISMATCH, std::move(message)}; }
Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

struct Slot {
  const char *name;
  size_t offset;
};
#define SLOT(name)                                                                                                     \
  Slot { #name, offsetof(MortisePlugin, name) }
constexpr Slot requiredSlots[] = {SLOT(initialize),     SLOT(devices),           SLOT(propose),
                                  SLOT(kernel_compile), SLOT(kernel_info),       SLOT(kernel_destroy),
                                  SLOT(constants_bind), SLOT(constants_destroy), SLOT(enqueue)};
constexpr Slot streamSlots[] = {SLOT(stream_create), SLOT(stream_destroy),    SLOT(stream_wait),
                                SLOT(stream_status), SLOT(stream_reset),      SLOT(event_create),
                                SLOT(event_destroy), SLOT(event_record),      SLOT(event_wait),
                                SLOT(event_query),   SLOT(event_synchronize), SLOT(event_elapsed)};
constexpr Slot memorySlots[] = {SLOT(memory_allocate), SLOT(memory_free), SLOT(copy)};
constexpr Slot nativeStreamSlots[] = {SLOT(stream_import), SLOT(stream_export)};
constexpr Slot instanceSlots[] = {SLOT(instance_create), SLOT(instance_destroy)};
constexpr Slot frameSlots[] = {SLOT(frame_create), SLOT(frame_destroy)};
constexpr Slot saveSlots[] = {SLOT(kernel_save), SLOT(kernel_load)};
constexpr Slot registerSlots[] = {SLOT(host_register), SLOT(host_unregister)};
constexpr Slot loneSlots[] = {SLOT(peer), SLOT(layout)}; // optional, and of no group
constexpr std::span<const Slot> optionalSlots[] = {streamSlots, memorySlots, nativeStreamSlots, instanceSlots,
                                                   frameSlots,  saveSlots,   registerSlots};
#undef SLOT

const void *slotValue(const MortisePlugin &table, const Slot &slot) {
  const void *value;
  std::memcpy(&value, reinterpret_cast<const char *>(&table) + slot.offset, sizeof value);
  return value;
}

Result<void> checkSlots(const MortisePlugin &table) {
  std::vector<std::string> missing;
  for (const Slot &slot : requiredSlots)
    if (slotValue(table, slot) == nullptr)
      missing.push_back(slot.name);
  if (!missing.empty())
    return invalid("expected every required slot of its table to be set, found NULL in " + join(missing));
  for (std::span<const Slot> group : optionalSlots) {
    for (const Slot &slot : group)
      if (slotValue(table, slot) == nullptr)
        missing.push_back(slot.name);
    if (!missing.empty() && missing.size() != group.size())
      return invalid("expected all or none of the optional slots that belong to " + std::string(group[0].name) +
                     ", found NULL in " + join(missing));
    missing.clear();
  }
  const auto check = [&](std::span<const Slot> group) -> Result<void> {
    for (const Slot &slot : group)
      if (const void *value = slotValue(table, slot); value && !isReadable(value, 1))
        return invalid("expected slot " + std::string(slot.name) +
                       " to point to a function, found an address where nothing is");
    return {};
  };
  for (std::span<const Slot> group : optionalSlots)
    if (auto checked = check(group); !checked)
      return checked;
  if (auto checked = check(loneSlots); !checked)
    return checked;
  return check(requiredSlots);
}

Result<uint32_t> negotiate(const MortisePlugin &table) {
  const uint32_t oldest = table.abi_oldest, newest = table.abi_newest;
  const std::string ours = std::to_string(oldestRevision) + " to " + std::to_string(newestRevision);
  const std::string theirs = std::to_string(oldest) + " to " + std::to_string(newest);
  if (oldest == 0 || oldest > newest || newest - oldest > 1000)
    return mismatch("expected a range of ABI revisions, found " + theirs);
  if (newest < oldestRevision)
    return mismatch("expected a plugin that speaks one of the ABI revisions " + ours + ", found " + theirs +
                    "; build it with a newer SDK");
  if (oldest > newestRevision)
    return mismatch("expected a plugin that speaks one of the ABI revisions " + ours + ", found " + theirs +
                    "; install a newer Mortise, or build the plugin with an older SDK");
  const uint32_t common = std::min(newest, newestRevision);
  if (!isReadable(table.layout_hashes, sizeof(uint64_t) * (newest - oldest + 1)))
    return invalid("expected layout_hashes to hold a hash for each of the revisions " + theirs +
                   ", found memory that cannot be read");
  const uint64_t expected = layoutHashes[common - oldestRevision], found = table.layout_hashes[common - oldest];
  if (expected != found)
    return mismatch(
        "expected layout hash " + std::to_string(expected) + " for ABI revision " + std::to_string(common) +
        ", found " + std::to_string(found) +
        "; build the plugin with the released headers, unchanged, and a compiler for this platform's C ABI");
  return common;
}

Result<void> checkSpaces(const MortiseDeviceInfo &info, const std::string &which) {
  constexpr uint32_t most = 64;
  if (info.space_count == 0 || info.space_count > most || !isReadable(info.spaces, info.space_count * sizeof(void *)))
    return invalid(which + ": expected 1 to " + std::to_string(most) + " memory spaces, found " +
                   std::to_string(info.space_count) + (info.space_count <= most ? " that cannot be read" : ""));
  for (uint32_t i = 0; i < info.space_count; ++i) {
    const MortiseSpace *space = info.spaces[i];
    const std::string where = which + ", space " + std::to_string(i);
    if (reinterpret_cast<uintptr_t>(space) % alignof(MortiseSpace) != 0 || !isReadable(space, spaceSizeOfOldest) ||
        space->struct_size < spaceSizeOfOldest)
      return invalid(where + ": expected a description, found an address where none can be read");
    if (space->kind < MORTISE_SPACE_HOST || space->kind > MORTISE_SPACE_UNIFIED)
      return invalid(where + ": expected a kind of MortiseSpaceKind, found " + std::to_string(space->kind));
    if (!space->name || !readString(space->name))
      return invalid(where + ": expected a name, found none");
    const uint32_t alignment = space->alignment;
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > (1u << 30))
      return invalid(where + ": expected the alignment to be a power of two up to 2^30, found " +
                     std::to_string(alignment));
  }
  return {};
}

// What a manifest declares was acted on before the library was loaded.
Result<void> checkDeclared(const MortiseDeviceInfo &info, const std::string &which, const Manifest &manifest) {
  const auto has = [](const auto &declared, const auto &value) {
    return std::ranges::find(declared, value) != declared.end();
  };
  const auto expected = [&](const std::string &line) {
    return invalid(which + ": expected its manifest to declare what the device is, found no " + line +
                   " there; add the line");
  };
  if (info.automatic && !has(manifest.automatic, info.kind))
    return expected("automatic = [\"" + std::string(info.kind) + "\"]");
  if (info.same_as)
    if (const std::string_view owner = info.same_as, kind = owner.substr(0, owner.find(':'));
        !has(manifest.sharing, kind))
      return expected("same_as = [\"" + std::string(kind) + "\"]");
  if (info.dlpack_type != 0 && !has(manifest.dlpack, static_cast<uint32_t>(info.dlpack_type)))
    return expected("dlpack = [" + std::to_string(info.dlpack_type) + "]");
  return {};
}

Result<void> checkDevice(const MortiseDeviceInfo &info, const std::string &which, const MortisePlugin &table,
                         const Manifest &manifest) {
  const auto kind = info.kind ? readString(info.kind) : std::nullopt;
  if (!kind || std::find(manifest.devices.begin(), manifest.devices.end(), *kind) == manifest.devices.end())
    return invalid(which + ": expected one of the kinds that its manifest names (" + join(manifest.devices) +
                   "), found " + (kind ? "'" + *kind + "'" : "none"));
  if (!info.name || !readString(info.name))
    return invalid(which + ": expected a name, found none");
  if (info.features && !readString(info.features))
    return invalid(which + ": expected features to be text or NULL, found memory that cannot be read");
  if (info.fingerprint && !readString(info.fingerprint))
    return invalid(which + ": expected fingerprint to be text or NULL, found memory that cannot be read");
  if (info.same_as && !readString(info.same_as))
    return invalid(which + ": expected same_as to be text or NULL, found memory that cannot be read");
  if (info.automatic > 1)
    return invalid(which + ": expected automatic to be 0 or 1, found " + std::to_string(info.automatic));
  const std::pair<const char *, double> rates[] = {{"peak_flops", info.peak_flops},
                                                   {"bandwidth", info.bandwidth},
                                                   {"launch_ns", info.launch_ns},
                                                   {"copy_bandwidth", info.copy_bandwidth},
                                                   {"copy_ns", info.copy_ns}};
  for (const auto &[name, rate] : rates)
    if (!std::isfinite(rate) || rate < 0)
      return invalid(which + ": expected " + name + " to be 0 or more, found " + std::to_string(rate));
  if (auto checked = checkSpaces(info, which); !checked)
    return checked;
  if (info.spaces[0]->kind != MORTISE_SPACE_HOST && info.same_as == nullptr && table.memory_allocate == nullptr)
    return invalid(which +
                   ": has memory of its own (its first space is not of kind HOST), but the memory slots are NULL");
  return checkDeclared(info, which, manifest);
}

} // namespace

Result<uint32_t> checkTable(const MortisePlugin *table, const Manifest &manifest, MortisePlugin &copy) {
  if (table == nullptr)
    return invalid("expected mortise_plugin() to return a table, found NULL");
  if (reinterpret_cast<uintptr_t>(table) % alignof(MortisePlugin) != 0 || !isReadable(table, tableHead))
    return invalid("expected mortise_plugin() to return a table, found an address where none can be read");
  if (table->magic != MORTISE_PLUGIN_MAGIC)
    return invalid(
        "expected MORTISE_PLUGIN_MAGIC in its table, found another number; set .magic = MORTISE_PLUGIN_MAGIC");
  // First, because the shorter table of an older revision is refused for its revision.
  const auto revision = table->struct_size < tableHead ? Result<uint32_t>(0u) : negotiate(*table);
  if (!revision)
    return revision.error();
  if (table->struct_size < tableSizeOfOldest || table->struct_size > (1 << 20) ||
      !isReadable(table, table->struct_size))
    return mismatch("expected a table of at least " + std::to_string(tableSizeOfOldest) + " bytes, found struct_size " +
                    std::to_string(table->struct_size) + "; set .struct_size = sizeof(MortisePlugin)");
  for (auto [field, text] : {std::pair{"name", table->name}, {"vendor", table->vendor}, {"version", table->version}})
    if (!text || !readString(text))
      return invalid("expected a " + std::string(field) + " in its table, found none");
  if (manifest.name != table->name)
    return invalid("expected the name '" + manifest.name + "' of its manifest, found '" + table->name +
                   "' in its table; make them equal");
  if (manifest.abiOldest != table->abi_oldest || manifest.abiNewest != table->abi_newest ||
      manifest.opset != table->opset)
    return invalid("expected abi = [" + std::to_string(table->abi_oldest) + ", " + std::to_string(table->abi_newest) +
                   "] and opset = " + std::to_string(table->opset) + " in its manifest, as in its table, found [" +
                   std::to_string(manifest.abiOldest) + ", " + std::to_string(manifest.abiNewest) + "] and " +
                   std::to_string(manifest.opset));
  std::memcpy(&copy, table, std::min(sizeof copy, table->struct_size));
  copy.struct_size = sizeof copy;
  if (auto slots = checkSlots(copy); !slots)
    return slots.error();
  if (auto ops = checkOps(copy, manifest); !ops)
    return ops.error();
  return *revision;
}

Result<std::vector<MortiseDeviceInfo>> checkDevices(const MortiseDevicesArgs &answer, const MortisePlugin &table,
                                                    const Manifest &manifest) {
  constexpr size_t most = 1024;
  if (answer.device_count > most)
    return invalid("expected at most " + std::to_string(most) + " devices, found " +
                   std::to_string(answer.device_count));
  if (answer.device_count > 0 && !isReadable(answer.devices, answer.device_count * sizeof(void *)))
    return invalid("expected a list of " + std::to_string(answer.device_count) +
                   " devices, found memory that cannot be read");
  std::vector<MortiseDeviceInfo> devices;
  for (size_t i = 0; i < answer.device_count; ++i) {
    const MortiseDeviceInfo *info = answer.devices[i];
    const std::string which = "device " + std::to_string(i);
    if (info == nullptr)
      return invalid(which + ": expected a description, found NULL");
    if (reinterpret_cast<uintptr_t>(info) % alignof(MortiseDeviceInfo) != 0 || !isReadable(info, deviceSizeOfOldest))
      return invalid(which + ": expected a description, found an address where none can be read");
    if (info->struct_size < deviceSizeOfOldest)
      return invalid(which + ": expected a struct_size of at least " + std::to_string(deviceSizeOfOldest) + ", found " +
                     std::to_string(info->struct_size) + "; set it to sizeof(MortiseDeviceInfo)");
    if (auto checked = checkDevice(*info, which, table, manifest); !checked)
      return checked.error();
    for (const MortiseDeviceInfo &other : devices)
      if (std::strcmp(other.kind, info->kind) == 0 && other.ordinal == info->ordinal)
        return invalid(which + ": expected another ordinal than an earlier device of kind '" + info->kind +
                       "' has, found " + std::to_string(info->ordinal) + " again");
    MortiseDeviceInfo copy{};
    std::memcpy(&copy, info, std::min(sizeof copy, info->struct_size));
    copy.struct_size = sizeof copy;
    copy.features = copy.features ? copy.features : "";
    devices.push_back(copy);
  }
  return devices;
}

} // namespace mortise::runtime
