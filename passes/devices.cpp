// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "devices.hpp"

#include <algorithm>
#include <string_view>

namespace mortise::passes {

Result<std::vector<Target>> chooseTargets(const runtime::Registry &registry, const runtime::Config &config) {
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
    for (const runtime::Device *device : *found)
      if (std::none_of(targets.begin(), targets.end(), [&](const Target &target) { return target.device == device; }))
        targets.push_back({device, config.pluginOptions(device->plugin->name), config.compileOptions()});
  }
  return targets;
}

} // namespace mortise::passes
