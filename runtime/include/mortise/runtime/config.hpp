// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Configuration, strongest first: call options, environment (MORTISE_*), ./mortise.toml, the user's file
// ($XDG_CONFIG_HOME/mortise/mortise.toml), defaults. Unknown keys are errors that name the nearest known key. A
// project's mortise.toml may not set plugin directories, because it may come with somebody else's repository.
#pragma once

#include <mortise/result.hpp>
#include <mortise/runtime/manifest.hpp>
#include <mortise/runtime/place_rule.hpp>
#include <mortise/runtime/transfer.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mortise::runtime {

struct Setting {
  std::string key, value;
  std::string source; // "option", "MORTISE_DEVICE", "/home/a/mortise.toml", "default"
};

struct Requirement {  // require = "95% on cpu"
  double percent = 0; // of the nodes
  std::string device;
};

struct MemoryLimit {  // memory_limit = "acme:1=8589934592"
  std::string device; // a kind (all its ordinals), or kind:ordinal
  uint64_t bytes = 0;
};

// Limits of a plugin that runs in a process of its own.
struct Isolation {
  double seconds = 0;   // of one slot
  uint64_t bytes = 0;   // of data that the process may have; 0: no limit
  std::string worker;   // the program; empty: beside the runtime
  std::string logLevel; // of the worker
};

class Config {
public:
  // Keys: device, place (rules that say where ops may run), mode, precision, deterministic, require, plugin_path (colon
  // separated directories and files), log_level, verify, specialize_limit (specialisations that a program keeps; the
  // least recently used is dropped), output_pool_bytes (memory of results that a frontend which allocates them may
  // keep), kernel_cache (on, off or a folder: where compiled kernels and measured times are kept), kernel_cache_bytes
  // (the folder's limit), memory_limit (bytes that programs may use of devices' memories), saved_kernels (whether files
  // of programs get compiled kernels, and whether those in them are used), crash_report (whether a crash within a
  // plugin leaves a line that names it), isolate (on, off or names of plugins: which run in a process of their own),
  // isolate_seconds and isolate_bytes (limits of a slot and of that process), isolate_worker (its program), probe
  // (whether a library that is new on this machine is first started in such a process), plugin_owners (users who may
  // own plugins' files, beside this user and root), transfer (prices of copies between memories), plus one
  // "PLUGIN.OPTION" for each option that a plugin's manifest declares (MORTISE_PLUGIN_OPTION, or [PLUGIN] OPTION =
  // ...). An empty entry in plugin_path stands for the default directories and those in installed_plugins.
  // MORTISE_LIBRARY and variables that start with MORTISE_TEST_, MORTISE_DEV_ or MORTISE_BENCH_ are skipped, because
  // other programs read them.
  static Result<Config> read(std::span<const MortiseOption> callOptions);

  const std::string &get(std::string_view key) const; // a known key; its default when unset
  std::optional<Requirement> requirement() const;
  std::vector<PlaceRule> placeRules() const;
  std::vector<Transfer> transfers() const;
  size_t specializeLimit() const;
  uint64_t kernelCacheBytes() const;
  std::vector<MemoryLimit> memoryLimits() const;
  bool savedKernels() const;
  std::optional<Isolation> isolation(std::string_view plugin) const; // nullopt: it runs in this process
  std::optional<Isolation> probe() const;                            // nullopt: the setting is off
  std::vector<uid_t> pluginOwners() const;
  MortiseCompileOptions compileOptions() const;                      // mode, precision, deterministic
  std::span<const Setting> settings() const;                         // every key, sorted, with its source
  std::vector<Setting> pluginOptions(std::string_view plugin) const; // keys without the "PLUGIN." prefix
  std::span<const FoundPlugin> plugins() const;                      // of plugin_path, as they were when it was read

private:
  Isolation limits() const;

  std::vector<Setting> all;
  std::shared_ptr<const std::vector<FoundPlugin>> found;
};

} // namespace mortise::runtime
