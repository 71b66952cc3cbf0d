// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Configuration, strongest first: call options, environment (MORTISE_*), ./mortise.toml, the user's file
// ($XDG_CONFIG_HOME/mortise/mortise.toml), defaults. Unknown keys are errors that name the nearest known key. A project's
// mortise.toml may not set plugin directories: it may come with a clone.
#pragma once

#include <mortise/result.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace mortise::runtime {

struct Setting {
  std::string key, value;
  std::string source; // "option", "MORTISE_DEVICE", "/home/a/mortise.toml", "default"
};

class Config {
public:
  // Keys: device, mode, require, plugin_path (colon separated directories and files), log_level, verify, plus one
  // "PLUGIN.OPTION" for each option that a plugin's manifest declares.
  static Result<Config> read(std::span<const MortiseOption> callOptions);

  const std::string &get(std::string_view key) const; // a known key; its default when unset
  std::span<const Setting> settings() const;          // every key, sorted, with where it came from
  std::vector<Setting> pluginOptions(std::string_view plugin) const; // keys without the "PLUGIN." prefix

private:
  std::vector<Setting> all;
};

} // namespace mortise::runtime
