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

struct ManifestClaim {                  // a claim, which the conformance kit must prove
  std::vector<std::string> ops, dtypes; // "mortise.add", "mortise.*"
  uint32_t maxRank = 0;
};

struct Manifest {
  std::string path;
  std::string name, vendor, version;
  uint32_t abiOldest = 0, abiNewest = 0, opset = 0;
  std::vector<std::string> devices;   // kinds that it may offer
  std::vector<std::string> automatic; // those of them that "auto" may choose
  std::vector<std::string> sharing;   // `same_as`: kinds of other plugins whose memory its devices share
  std::string sha256;                 // of the library, 64 digits; "" when it is not declared
  std::vector<uint32_t> dlpack;       // DLPack types of tensors in its devices' memories
  std::vector<std::string> ops;       // of the vendor's own, that it declares
  std::vector<ManifestOption> options;
  std::vector<ManifestClaim> claims;
};

// What decides, before its library is loaded, whether a plugin is needed stands in the manifest and is held against the
// library's table. Errors name the key that is missing or wrong. Unknown keys are skipped, because a newer SDK may have
// written them.
Result<Manifest> readManifest(const std::string &path);

struct PluginFiles {
  std::string library, manifest; // absolute paths; the files may be missing
};

struct FoundPlugin {
  PluginFiles files;
  Result<Manifest> manifest;
};

std::string manifestPath(const std::string &library);

// Plugins in colon separated directories and files, in order, without repetition. An empty entry of `pluginPath` stands
// for defaultPluginDirectories() and what is in `installed`. A directory's plugins are all *.so and *.toml in it, in
// pairs.
std::vector<PluginFiles> findPlugins(const std::string &pluginPath, const std::string &installed = "");

// The folder mortise/plugins beside the library or program that contains the runtime.
std::vector<std::string> defaultPluginDirectories();

// The candidate nearest to `word` by edit distance; "" when there are no candidates.
std::string nearest(const std::string &word, const std::vector<std::string> &candidates);
std::string join(const std::vector<std::string> &words, const std::string &separator = ", ");

} // namespace mortise::runtime
