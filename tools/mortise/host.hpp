// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The configuration and the plugins that a command works with.
#pragma once

#include <mortise/runtime/registry.hpp>

namespace mortise::tool {

struct Host {
  runtime::Config config;
  std::shared_ptr<runtime::Registry> registry;

  // Reads the configuration and loads the plugins. `device` and `plugins` (plugin_path) override it unless empty.
  static Result<Host> open(const std::string &device, const std::string &plugins) {
    std::vector<MortiseOption> options;
    if (!device.empty())
      options.push_back({"device", device.c_str()});
    if (!plugins.empty())
      options.push_back({"plugin_path", plugins.c_str()});
    Result<runtime::Config> config = runtime::Config::read(options);
    if (!config)
      return config.error();
    std::shared_ptr<runtime::Registry> registry = runtime::Registry::load(*config);
    return Host{std::move(*config), std::move(registry)};
  }
};

} // namespace mortise::tool
