// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Groups that share a launch.
#include "builder.hpp"

#include <mortise/codegen/simt_plugin.hpp>

#include <algorithm>
#include <map>

namespace mortise::cuda {

static constexpr size_t mostParts = 32;     // of a bundle
static constexpr size_t mostAddresses = 96; // that it is given
static constexpr size_t farthest = 64;      // units by which a group comes earlier, and its result lives longer

// One name for several: "add 64 x 3 | put 8x64".
static std::string nameOf(const std::vector<codegen::Group> &parts) {
  std::map<std::string, size_t> counts;
  for (const codegen::Group &part : parts)
    ++counts[part.name];
  std::string name;
  for (const codegen::Group &part : parts)
    if (const auto found = counts.extract(part.name))
      name += (name.empty() ? "" : " | ") + found.key() +
              (found.mapped() > 1 ? " (" + std::to_string(found.mapped()) + ")" : "");
  return name;
}

static codegen::Group bundleOf(std::vector<codegen::Group> parts) {
  codegen::Group bundle;
  bundle.kind = parts[0].kind;
  bundle.name = nameOf(parts);
  const auto append = [](auto &list, const auto &more) { list.insert(list.end(), more.begin(), more.end()); };
  for (const codegen::Group &part : parts) {
    append(bundle.nodes, part.nodes);
    append(bundle.inputs, part.inputs);
    append(bundle.inputViews, part.inputViews);
    append(bundle.outputs, part.outputs);
  }
  std::ranges::sort(bundle.nodes);
  const auto [first, last] = std::ranges::unique(bundle.nodes);
  bundle.nodes.erase(first, last);
  bundle.parts = std::move(parts);
  return bundle;
}

// Updates of states that nobody reads, and that are made of inputs alone, come last: others may still read the state as
// it was, of which there would have to be a copy.
void Builder::deferUpdates() {
  std::vector<bool> isRead(region.value_count), isInput(region.value_count), isUpdated(region.value_count);
  for (size_t i = 0; i < region.input_count; ++i)
    isInput[region.inputs[i]->index] = true;
  for (size_t i = 0; i < region.alias_count; ++i)
    isUpdated[region.outputs[region.aliases[i]->output]->index] = true;
  for (const Unit &unit : units)
    for (const uint32_t input : unit.inputs)
      isRead[input] = true;
  std::vector<Unit> first, last;
  for (Unit &unit : units) {
    const bool isUpdate = !unit.isCall && std::ranges::all_of(unit.outputs, [&](uint32_t value) {
      return isUpdated[value] && !isRead[value];
    }) && std::ranges::all_of(unit.inputs, [&](uint32_t value) { return isInput[value]; });
    (isUpdate ? last : first).push_back(std::move(unit));
  }
  units = std::move(first);
  std::ranges::move(last, std::back_inserter(units));
}

// A launch costs about as much as a small kernel. A group that does not need the units before it joins one of them,
// with blocks beside those that are there.
Result<void> Builder::bundleGroups() {
  deferUpdates();
  Result<codegen::SimtCompiler *> compiler = codegen::sharedCompiler(kernel.device.target());
  if (!compiler)
    return compiler.error();
  auto threads = (*compiler)->sharableThreads(region, groups);
  if (!threads)
    return threads.error();
  struct Bundle {
    Unit unit;
    std::vector<uint32_t> groups;
    unsigned threads = 0; // 0: nobody joins
  };
  std::vector<Bundle> bundles;
  // Per value, the first bundle that may read it, and the first one behind all that have read it.
  std::vector<size_t> from(region.value_count), behind(region.value_count);
  std::map<uint32_t, uint32_t> updated; // per value that updates a state: the state
  for (size_t i = 0; i < region.alias_count; ++i)
    updated[region.outputs[region.aliases[i]->output]->index] = region.inputs[region.aliases[i]->input]->index;
  for (Unit &unit : units) {
    size_t at = bundles.size();
    const unsigned mine = unit.isCall ? 0 : (*threads)[unit.index];
    if (mine) {
      size_t earliest = at - std::min(at, farthest);
      for (const uint32_t input : unit.inputs)
        earliest = std::max(earliest, from[input]);
      for (const uint32_t output : unit.outputs)
        if (const auto state = updated.find(output); state != updated.end())
          earliest = std::max(earliest, behind[state->second]);
      const auto hasRoom = [&](const Bundle &bundle) {
        return bundle.threads == mine && bundle.groups.size() < mostParts &&
               bundle.unit.inputs.size() + bundle.unit.outputs.size() + unit.inputs.size() + unit.outputs.size() <=
                   mostAddresses;
      };
      while (at > earliest && !hasRoom(bundles[at - 1]))
        --at;
      at = at > earliest ? at - 1 : bundles.size();
    }
    if (at == bundles.size())
      bundles.push_back({{unit.isCall, unit.index, {}, {}}, {}, mine});
    Bundle &bundle = bundles[at];
    if (!unit.isCall)
      bundle.groups.push_back(unit.index);
    for (const uint32_t input : unit.inputs)
      behind[input] = std::max(behind[input], at + 1);
    for (const uint32_t output : unit.outputs)
      from[output] = at + 1;
    bundle.unit.inputs.insert(bundle.unit.inputs.end(), unit.inputs.begin(), unit.inputs.end());
    bundle.unit.outputs.insert(bundle.unit.outputs.end(), unit.outputs.begin(), unit.outputs.end());
  }
  std::vector<codegen::Group> joined;
  units.clear();
  for (Bundle &bundle : bundles) {
    if (!bundle.unit.isCall) {
      std::vector<codegen::Group> parts;
      for (const uint32_t group : bundle.groups)
        parts.push_back(std::move(groups[group]));
      bundle.unit.index = static_cast<uint32_t>(joined.size());
      joined.push_back(parts.size() > 1 ? bundleOf(std::move(parts)) : std::move(parts[0]));
    }
    units.push_back(std::move(bundle.unit));
  }
  groups = std::move(joined);
  return {};
}

} // namespace mortise::cuda
