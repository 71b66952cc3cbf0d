// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's manifest, read without loading the library: libx.so has libx.toml beside it.
#pragma once

#include <mortise/result.hpp>

#include <string>
#include <vector>

namespace mortise::runtime {

struct ManifestOption {
  std::string name, fallback, description;
  std::vector<std::string> values; // allowed ones; empty: any
};

struct ManifestClaim {                  // what the conformance kit proves
  std::vector<std::string> ops, dtypes; // "mortise.add", "mortise.*"
  uint32_t maxRank = 0;
};

struct Manifest {
  std::string path;
  std::string name, vendor, version;
  uint32_t abiOldest = 0, abiNewest = 0, opset = 0;
  std::vector<std::string> devices; // kinds that it may offer
  std::vector<ManifestOption> options;
  std::vector<ManifestClaim> claims;
};

// Errors say which key is missing or wrong. Keys that this version does not know are skipped: a newer SDK wrote them.
Result<Manifest> readManifest(const std::string &path);

struct PluginFiles {
  std::string library, manifest; // absolute; neither has to exist
};

std::string manifestPath(const std::string &library);

// Plugins in colon separated directories and files, in order, without repetition; an empty entry stands for
// defaultPluginDirectories(). A directory's plugins are all *.so and *.toml in it, in pairs.
std::vector<PluginFiles> findPlugins(const std::string &pluginPath);

// Beside the library or program that the runtime is part of.
std::vector<std::string> defaultPluginDirectories();

// The candidate nearest to `word` by edit distance; "" when there is none at all.
std::string nearest(const std::string &word, const std::vector<std::string> &candidates);
std::string join(const std::vector<std::string> &words, const std::string &separator = ", ");

} // namespace mortise::runtime
