// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/manifest.hpp>

#include "toml.hpp"
#include <mortise/graph.hpp>
#include <mortise/portable/vendor_ops.hpp>
#include <mortise/runtime/call.hpp>

#include <algorithm>
#include <charconv>
#include <dlfcn.h>
#include <filesystem>
#include <map>
#include <set>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

Error wrong(const std::string &path, const std::string &what) {
  return {MORTISE_INVALID_ARGUMENT, "manifest '" + path + "': " + legible(what)};
}

Result<std::string> text(const TomlTable &table, const std::string &key, const std::string &path) {
  auto found = table.find(key);
  if (found == table.end())
    return wrong(path, "expected the key '" + key + "', found none; add " + key + " = \"...\"");
  if (found->second.kind != TomlKind::Text || found->second.texts[0].empty())
    return wrong(path, "expected '" + key + "' to be one value, found " +
                           (found->second.kind == TomlKind::Text ? "nothing" : "a list or a date"));
  return found->second.texts[0];
}

bool number(const std::string &digits, uint32_t &value) {
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return error == std::errc() && end == digits.data() + digits.size();
}

bool isWord(const std::string &word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
  });
}

ManifestOption &optionNamed(Manifest &manifest, const std::string &name) {
  for (ManifestOption &option : manifest.options)
    if (option.name == name)
      return option;
  return manifest.options.emplace_back(ManifestOption{name, "", "", {}});
}

Result<void> readOption(Manifest &manifest, const std::string &key, const TomlValue &value) {
  const size_t dot = key.rfind('.');
  const std::string prefix = "options.", field = key.substr(dot + 1);
  if (dot < prefix.size())
    return wrong(manifest.path, "expected a table [options.NAME], found '" + key + "'");
  ManifestOption &option = optionNamed(manifest, key.substr(prefix.size(), dot - prefix.size()));
  if (field == "values" && value.kind == TomlKind::List)
    option.values = value.texts;
  else if (field == "default" && value.kind == TomlKind::Text)
    option.fallback = value.texts[0];
  else if (field == "description" && value.kind == TomlKind::Text)
    option.description = value.texts[0];
  else
    return wrong(manifest.path, "expected default, values = [...] or description in [options." + option.name +
                                    "], found '" + field + "'");
  return {};
}

// Kinds of device under a key that may be missing.
Result<void> readKinds(const Manifest &manifest, const TomlTable &table, const std::string &key,
                       std::vector<std::string> &kinds) {
  const auto found = table.find(key);
  if (found == table.end())
    return {};
  if (found->second.kind != TomlKind::List || !std::ranges::all_of(found->second.texts, isWord))
    return wrong(manifest.path, "expected " + key + " = [\"kind\", ...], kinds of device such as \"cpu\"");
  kinds = found->second.texts;
  return {};
}

using Claims = std::map<uint32_t, ManifestClaim>;

// "claims.0.ops"
Result<void> readClaim(const Manifest &manifest, Claims &claims, const std::string &key, const TomlValue &value) {
  const size_t dot = key.rfind('.');
  const std::string prefix = "claims.", field = key.substr(dot + 1);
  uint32_t index = 0;
  if (dot < prefix.size() || !number(key.substr(prefix.size(), dot - prefix.size()), index))
    return wrong(manifest.path, "expected tables [[claims]], found '" + key + "'");
  ManifestClaim &claim = claims[index];
  if (field == "ops" && value.kind == TomlKind::List)
    claim.ops = value.texts;
  else if (field == "dtypes" && value.kind == TomlKind::List)
    claim.dtypes = value.texts;
  else if (field != "max_rank" || value.kind != TomlKind::Text || !number(value.texts[0], claim.maxRank))
    return wrong(manifest.path,
                 "expected ops = [...], dtypes = [...] and max_rank = N in [[claims]], found '" + field + "'");
  for (const std::string &dtype : claim.dtypes)
    if (dtypeFromName(dtype) == 0)
      return wrong(manifest.path, "expected dtypes such as f32 in [[claims]], found '" + dtype + "'");
  return {};
}

} // namespace

Result<Manifest> readManifest(const std::string &path) {
  auto table = readToml(path);
  if (!table)
    return table.error().code == MORTISE_NOT_FOUND
               ? Error{MORTISE_NOT_FOUND,
                       "no manifest '" + path + "' beside the library; a plugin libx.so needs libx.toml"}
               : table.error();
  Manifest manifest;
  manifest.path = path;
  for (auto [key, field] :
       {std::pair{"name", &manifest.name}, {"vendor", &manifest.vendor}, {"version", &manifest.version}}) {
    auto value = text(*table, key, path);
    if (!value)
      return value.error();
    *field = *value;
  }
  if (!isWord(manifest.name))
    return wrong(path, "expected a name of lower case letters, digits, '_' and '-', found '" + manifest.name + "'");
  auto abi = table->find("abi");
  if (abi == table->end() || abi->second.kind != TomlKind::List || abi->second.texts.size() != 2 ||
      !number(abi->second.texts[0], manifest.abiOldest) || !number(abi->second.texts[1], manifest.abiNewest) ||
      manifest.abiOldest > manifest.abiNewest || manifest.abiOldest == 0)
    return wrong(path, "expected abi = [oldest, newest], the ABI revisions that the plugin speaks");
  auto opset = text(*table, "opset", path);
  if (!opset)
    return opset.error();
  if (!number(*opset, manifest.opset))
    return wrong(path, "expected opset to be a number, found '" + *opset + "'");
  auto devices = table->find("devices");
  if (devices == table->end() || devices->second.kind != TomlKind::List || devices->second.texts.empty())
    return wrong(path, "expected devices = [\"kind\", ...], the kinds of device that the plugin may offer");
  manifest.devices = devices->second.texts;
  for (const std::string &kind : manifest.devices)
    if (!isWord(kind) || kind == "auto")
      return wrong(path, "expected device kinds of lower case letters, digits, '_' and '-' other than 'auto', found '" +
                             kind + "'");
  if (auto read = readKinds(manifest, *table, "automatic", manifest.automatic); !read)
    return read.error();
  for (const std::string &kind : manifest.automatic)
    if (std::ranges::find(manifest.devices, kind) == manifest.devices.end())
      return wrong(path, "expected automatic to name kinds that devices names, found '" + kind + "'");
  if (auto read = readKinds(manifest, *table, "same_as", manifest.sharing); !read)
    return read.error();
  if (auto types = table->find("dlpack"); types != table->end()) {
    for (const std::string &text : types->second.texts)
      if (uint32_t type = 0; types->second.kind == TomlKind::List && number(text, type) && type != 0)
        manifest.dlpack.push_back(type);
    if (manifest.dlpack.size() != types->second.texts.size())
      return wrong(path, "expected dlpack = [type, ...], the DLDeviceType numbers of its devices' tensors");
  }
  if (auto ops = table->find("ops"); ops != table->end()) {
    if (ops->second.kind != TomlKind::List || !std::ranges::all_of(ops->second.texts, portable::isVendorOp))
      return wrong(path, "expected ops = [\"vendor.op\", ...], the ops of its own that the plugin declares");
    manifest.ops = ops->second.texts;
  }
  if (table->contains("sha256")) {
    auto sum = text(*table, "sha256", path);
    if (!sum)
      return sum.error();
    manifest.sha256 = *sum;
    if (sum->size() != 64 || sum->find_first_not_of("0123456789abcdef") != std::string::npos)
      return wrong(path, "expected sha256 to be 64 digits, as sha256sum writes them, found '" + *sum + "'");
  }
  for (const char *name : {"options", "claims"})
    if (table->contains(name))
      return wrong(path,
                   std::string("expected '") + name + "' to be tables, [options.NAME] and [[claims]], found a value");
  for (const auto &[key, value] : *table)
    if (key.starts_with("options."))
      if (auto done = readOption(manifest, key, value); !done)
        return done.error();
  Claims claims;
  for (const auto &[key, value] : *table)
    if (key.starts_with("claims."))
      if (auto done = readClaim(manifest, claims, key, value); !done)
        return done.error();
  for (auto &[index, claim] : claims) {
    if (index != manifest.claims.size())
      return wrong(path, "expected tables [[claims]], found [claims." + std::to_string(index) + "]");
    manifest.claims.push_back(std::move(claim));
  }
  return manifest;
}

std::string manifestPath(const std::string &library) { return fs::path(library).replace_extension(".toml").string(); }

static void findIn(const fs::path &directory, std::vector<PluginFiles> &out) {
  std::set<std::string> libraries; // sorted, so that the order is the same everywhere
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(directory, ignored))
    if (entry.path().extension() == ".so" || entry.path().extension() == ".toml")
      libraries.insert(fs::path(entry.path()).replace_extension(".so").string());
  for (const std::string &library : libraries)
    out.push_back({library, manifestPath(library)});
}

// The entries of a colon separated list.
static std::vector<std::string> entriesOf(const std::string &path) {
  std::vector<std::string> entries;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    entries.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return entries;
}

std::vector<PluginFiles> findPlugins(const std::string &pluginPath, const std::string &installed) {
  std::vector<std::string> entries;
  for (std::string &entry : entriesOf(pluginPath)) {
    if (!entry.empty()) {
      entries.push_back(std::move(entry));
      continue;
    }
    std::ranges::move(defaultPluginDirectories(), std::back_inserter(entries));
    std::ranges::copy_if(entriesOf(installed), std::back_inserter(entries), [](auto &each) { return !each.empty(); });
  }
  std::vector<PluginFiles> all;
  for (const std::string &entry : entries) {
    std::error_code ignored;
    if (const fs::path path = fs::absolute(entry, ignored).lexically_normal(); fs::is_directory(path, ignored))
      findIn(path, all);
    else
      all.push_back({path.string(), manifestPath(path.string())});
  }
  std::set<std::string> seen;
  std::erase_if(all, [&](const PluginFiles &files) {
    std::error_code ignored;
    return !seen.insert(fs::weakly_canonical(files.library, ignored).string()).second;
  });
  return all;
}

std::vector<std::string> defaultPluginDirectories() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void *>(&defaultPluginDirectories), &info) == 0 || info.dli_fname == nullptr)
    return {};
  std::error_code ignored;
  fs::path self = fs::canonical(info.dli_fname, ignored);
  if (ignored)
    self = fs::canonical("/proc/self/exe", ignored); // a program that was started by a relative path
  std::vector<std::string> directories;
  for (const char *relative : {"mortise/plugins", "../lib/mortise/plugins"}) {
    const std::string directory = (self.parent_path() / relative).lexically_normal().string();
    if (fs::is_directory(directory, ignored) &&
        std::find(directories.begin(), directories.end(), directory) == directories.end())
      directories.push_back(directory);
  }
  return directories;
}

std::string nearest(const std::string &word, const std::vector<std::string> &candidates) {
  std::string best;
  size_t least = SIZE_MAX;
  for (const std::string &candidate : candidates) {
    std::vector<size_t> row(candidate.size() + 1);
    for (size_t j = 0; j < row.size(); ++j)
      row[j] = j;
    for (size_t i = 1; i <= word.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j < row.size(); ++j) {
        const size_t replaced = diagonal + (word[i - 1] != candidate[j - 1]);
        diagonal = row[j];
        row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
      }
    }
    if (row.back() < least) {
      least = row.back();
      best = candidate;
    }
  }
  return best;
}

std::string join(const std::vector<std::string> &words, const std::string &separator) {
  std::string text;
  for (const std::string &word : words)
    text += (text.empty() ? "" : separator) + word;
  return text;
}

} // namespace mortise::runtime
