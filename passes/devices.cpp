// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "devices.hpp"

#include "measure.hpp"

#include <algorithm>
#include <string_view>

namespace mortise::passes {
namespace {

std::vector<const runtime::Device *> atHome(const runtime::Registry &registry, const runtime::Device &first,
                                            const Homes &homes) {
  std::vector<const runtime::Device *> found;
  const auto holdsTensors = [&](const runtime::Device &device) {
    const auto isHome = [&](const runtime::Device *home) { return home && &home->owner() == &device.owner(); };
    return std::ranges::any_of(homes.inputs, isHome) || std::ranges::any_of(homes.outputs, isHome);
  };
  for (const runtime::Device *device : registry.devices())
    if (device->plugin == first.plugin && std::string_view(device->info.kind) == first.info.kind &&
        holdsTensors(*device))
      found.push_back(device);
  return found.empty() ? std::vector{&first} : found;
}

// The memories of their own that the targets have.
std::vector<const runtime::Device *> memoriesOf(const std::vector<Target> &targets) {
  std::vector<const runtime::Device *> found;
  for (const Target &target : targets)
    if (const runtime::Device &owner = target.device->owner();
        !owner.inHostMemory() && std::ranges::find(found, &owner) == found.end())
      found.push_back(&owner);
  return found;
}

} // namespace

Result<std::vector<Target>> chooseTargets(const runtime::Registry &registry, const runtime::Config &config,
                                          const Homes &homes) {
  std::vector<Target> targets;
  std::string_view rest = config.get("device");
  for (bool more = true; more;) {
    const size_t comma = rest.find(',');
    more = comma != std::string_view::npos;
    std::string_view name = rest.substr(0, comma);
    rest = more ? rest.substr(comma + 1) : std::string_view();
    while (!name.empty() && name.front() == ' ')
      name.remove_prefix(1);
    while (!name.empty() && name.back() == ' ')
      name.remove_suffix(1);
    Result<std::vector<const runtime::Device *>> found = registry.find(name);
    if (!found)
      return found.error();
    for (const runtime::Device *named : *found)
      for (const runtime::Device *device :
           name.find(':') != std::string_view::npos ? std::vector{named} : atHome(registry, *named, homes))
        if (std::ranges::none_of(targets, [&](const Target &target) { return target.device == device; }))
          targets.push_back({device, config.pluginOptions(device->plugin->name), config.compileOptions(), {}, {}});
  }
  for (const runtime::MemoryLimit &limit : config.memoryLimits())
    if (auto found = registry.expect(limit.device); !found)
      return Error{found.error().code, "memory_limit: " + found.error().message};
  for (Target &target : targets)
    if (const runtime::Device &owner = target.device->owner(); owner.memoryLimit != 0 && !owner.inHostMemory())
      target.memoryLimit = owner.memoryLimit;
  for (const runtime::PlaceRule &rule : config.placeRules()) {
    for (const std::string &name : rule.devices)
      if (auto found = registry.expect(name); !found)
        return Error{found.error().code, "place rule '" + rule.text + "': " + found.error().message};
    for (Target &target : targets)
      if (rule.names(target.device->info.kind, target.device->info.ordinal) == rule.forbids)
        target.closed.push_back(rule);
  }
  const auto prices = Prices::make(registry, config);
  if (!prices)
    return prices.error();
  for (Target &target : targets)
    target.prices = *prices;
  const int32_t mode = config.compileOptions().mode;
  if (targets.size() > 1 && (mode == MORTISE_MODE_MAX_AUTOTUNE || mode == MORTISE_MODE_MAX_AUTOTUNE_NO_REPLAY)) {
    const auto measurements = std::make_shared<Measurements>(registry.shared_from_this());
    for (Target &target : targets)
      target.measurements = measurements;
    (*prices)->measure(memoriesOf(targets));
  } else if (targets.size() > 1) {
    for (Target &target : targets)
      target.bias = Measurements::bias(*target.device, registry.cache());
  }
  return targets;
}

} // namespace mortise::passes
