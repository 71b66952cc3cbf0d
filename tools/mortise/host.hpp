// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The configuration and the plugins that a command works with.
#pragma once

#include <mortise/runtime/registry.hpp>

namespace mortise::tool {

struct Host {
  runtime::Config config;
  std::shared_ptr<runtime::Registry> registry;

  // The configuration; `device` and `plugins` (plugin_path) override it unless empty.
  static Result<runtime::Config> configure(const std::string &device, const std::string &plugins) {
    std::vector<MortiseOption> options;
    if (!device.empty())
      options.push_back({"device", device.c_str()});
    if (!plugins.empty())
      options.push_back({"plugin_path", plugins.c_str()});
    return runtime::Config::read(options);
  }

  // Reads the configuration and the manifests of plugins.
  static Result<Host> open(const std::string &device, const std::string &plugins) {
    Result<runtime::Config> config = configure(device, plugins);
    if (!config)
      return config.error();
    std::shared_ptr<runtime::Registry> registry = runtime::Registry::open(*config);
    return Host{std::move(*config), std::move(registry)};
  }
};

} // namespace mortise::tool
