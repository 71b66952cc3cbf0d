// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/config.hpp>

#include "toml.hpp"
#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

struct Key {
  std::string name, fallback;
  std::vector<std::string> values; // allowed ones; empty: any
};

const std::vector<std::string> modes = {"default", "reduce-overhead", "max-autotune",
                                        "max-autotune-no-cudagraphs"};     // in the order of MortiseMode
const std::vector<std::string> precisions = {"highest", "high", "medium"}; // in the order of MortisePrecision

const std::vector<Key> coreKeys = {
    {"crash_report", "on", {"on", "off"}},
    {"deterministic", "false", {"false", "true"}},
    {"device", "auto", {}},
    {"installed_plugins", "", {}},
    {"isolate", "off", {}},
    {"isolate_bytes", "17179869184", {}},
    {"isolate_seconds", "60", {}},
    {"isolate_worker", "", {}},
    {"kernel_cache", "on", {}},
    {"kernel_cache_bytes", "1073741824", {}},
    {"log_level", "warning", {"debug", "info", "warning", "error", "off"}},
    {"memory_limit", "", {}},
    {"mode", "default", modes},
    {"output_pool_bytes", "268435456", {}},
    {"place", "", {}},
    {"plugin_owners", "", {}},
    {"plugin_path", "", {}},
    {"precision", "highest", precisions},
    {"probe", "on", {"on", "off"}},
    {"require", "", {}},
    {"save_graphs", "", {}},
    {"saved_kernels", "on", {"on", "off"}},
    {"specialize_limit", "64", {}},
    {"transfer", "", {}},
    {"verify", "off", {"off"}},
};

Error wrong(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

std::string upper(std::string text) {
  for (char &c : text)
    c = c == '.' || c == '-' ? '_' : c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
  return text;
}

std::optional<size_t> parseNumber(const std::string &text, size_t least, size_t most) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < least || number > most)
    return std::nullopt;
  return number;
}

std::optional<size_t> parseCount(const std::string &text) { return parseNumber(text, 1, 1000000); }

constexpr size_t mostBytes = size_t(1) << 48, mostSeconds = 86400;

// "acme, strict"; nullopt where an entry is no name of a plugin
std::optional<std::vector<std::string>> parsePlugins(const std::string &text) {
  std::vector<std::string> names;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t begin = entry.find_first_not_of(' ');
    names.push_back(begin == std::string::npos ? "" : entry.substr(begin));
    if (names.back().empty() ||
        names.back().find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_-") != std::string::npos)
      return std::nullopt;
  }
  return names.empty() || text.ends_with(',') ? std::nullopt : std::optional(names);
}

std::optional<Requirement> parseRequirement(const std::string &text) {
  Requirement requirement;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), requirement.percent);
  const std::string rest(end, text.data() + text.size() - end);
  const std::string middle = "% on ";
  if (error != std::errc() || !rest.starts_with(middle) || !(requirement.percent >= 0 && requirement.percent <= 100))
    return std::nullopt;
  requirement.device = rest.substr(middle.size());
  if (requirement.device.empty() || requirement.device.find_first_of(" \t%") != std::string::npos)
    return std::nullopt;
  return requirement;
}

// "acme:1=8589934592, strict=1048576"
std::optional<std::vector<MemoryLimit>> parseMemoryLimits(const std::string &text) {
  std::vector<MemoryLimit> limits;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t begin = entry.find_first_not_of(' '), equals = entry.find('=');
    const auto bytes = equals == std::string::npos ? std::nullopt : parseNumber(entry.substr(equals + 1), 1, mostBytes);
    if (!bytes || begin >= equals || entry.find(' ', begin) != std::string::npos)
      return std::nullopt;
    limits.push_back({entry.substr(begin, equals - begin), *bytes});
  }
  return text.ends_with(',') ? std::nullopt : std::optional(limits);
}

// "1000, 1001"
std::optional<std::vector<uid_t>> parseOwners(const std::string &text) {
  std::vector<uid_t> owners;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const size_t begin = entry.find_first_not_of(' ');
    const auto owner = parseNumber(begin == std::string::npos ? "" : entry.substr(begin), 0, UINT32_MAX - 1);
    if (!owner)
      return std::nullopt;
    owners.push_back(static_cast<uid_t>(*owner));
  }
  return text.ends_with(',') ? std::nullopt : std::optional(owners);
}

// Layers are added strongest first; the first layer that names a key wins.
class Layers {
public:
  void add(Setting setting) { raw.push_back(std::move(setting)); }

  Result<void> addEnvironment() {
    for (char **entry = environ; entry && *entry; ++entry) {
      const std::string text = *entry;
      const size_t equals = text.find('=');
      if (!text.starts_with("MORTISE_") || equals == std::string::npos || equals + 1 == text.size())
        continue; // an empty variable counts as unset
      const std::string name = text.substr(0, equals);
      if (name.starts_with("MORTISE_TEST_") || name.starts_with("MORTISE_DEV_") || name.starts_with("MORTISE_BENCH_") ||
          name == "MORTISE_LIBRARY")
        continue;
      add({"", text.substr(equals + 1), name}); // resolved later, because manifests declare more keys
    }
    return {};
  }

  Result<void> addFile(const fs::path &path, bool project, const fs::path &userFile) {
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      return {};
    auto table = readToml(path.string());
    if (!table)
      return table.error();
    for (const ArrayOfTables &each : arraysOfTables) {
      Result<std::string> text = textOf(each, *table, path.string());
      if (!text)
        return text.error();
      if (!text->empty())
        add({std::string(each.key), std::move(*text), path.string()});
    }
    for (const auto &[key, value] : *table) {
      if (std::ranges::any_of(arraysOfTables, [&](const ArrayOfTables &each) { return each.has(key); }))
        continue;
      if (project && mayNot(key, value))
        return wrong("'" + path.string() + "' sets " + key +
                     ", which a project's file may not, because it can come with a clone; set it in your own file '" +
                     userFile.string() + "' or in MORTISE_" + upper(key));
      if (value.kind == TomlKind::Other || (value.kind == TomlKind::List && !isPath(key) && key != "isolate"))
        return wrong("'" + path.string() + "': expected one value for '" + key + "', found " +
                     (value.kind == TomlKind::List ? "a list" : "a date or a nested list"));
      std::vector<std::string> texts = value.texts;
      if (isPath(key))
        for (std::string &entry : texts)
          entry = entry.empty() || entry[0] == '/' ? entry : (path.parent_path() / entry).string();
      add({key, join(texts, key == "isolate" ? "," : ":"), path.string()});
    }
    return {};
  }

  // Keys whose values are directories and files, separated by colons.
  static bool isPath(const std::string &key) { return key == "plugin_path" || key == "installed_plugins"; }

  // A project may have plugins isolated, but not trust them.
  static bool mayNot(const std::string &key, const TomlValue &value) {
    return isPath(key) || key == "plugin_owners" || key == "probe" || key == "save_graphs" || key == "kernel_cache" ||
           key.starts_with("isolate_") || (key == "isolate" && value.texts != std::vector<std::string>{"on"});
  }

  using Fields = std::vector<std::pair<std::string, std::string>>;

  // A setting that is written in a file as [[KEY]] tables.
  struct ArrayOfTables {
    std::string_view key, separator; // between the texts of two tables
    Result<std::string> (*text)(std::span<const std::pair<std::string, std::string>> fields);
    bool has(std::string_view name) const {
      return name.starts_with(key) && name.size() > key.size() && name[key.size()] == '.';
    }
  };

  // The tables in the form that an option has; "" where there are none.
  static Result<std::string> textOf(const ArrayOfTables &array, const TomlTable &table, const std::string &path) {
    std::map<size_t, Fields> tables; // by number, because "place.10" comes before "place.2"
    for (const auto &[key, value] : table) {
      if (!array.has(key))
        continue;
      const size_t begin = array.key.size() + 1, dot = key.find('.', begin);
      const std::string field = dot == std::string::npos ? "" : key.substr(dot + 1);
      const auto number = parseNumber(key.substr(begin, dot - begin), 0, 1000000);
      if (!number || field.empty() || value.kind == TomlKind::Other)
        return wrong("'" + path + "': expected [[" + std::string(array.key) + "]] tables of texts, found '" + key +
                     "'");
      tables[*number].emplace_back(field, join(value.texts, ","));
    }
    std::string whole;
    for (const auto &[number, fields] : tables) {
      Result<std::string> text = array.text(fields);
      if (!text)
        return wrong("'" + path + "': " + text.error().message);
      whole += (whole.empty() ? "" : std::string(array.separator)) + *text;
    }
    return whole;
  }

  static Result<std::string> placeText(std::span<const std::pair<std::string, std::string>> fields) {
    std::string rule;
    for (const auto &[field, value] : fields)
      rule += (rule.empty() ? "" : " ") + field + "=" + value;
    return rule;
  }

  // The strongest value of a key of the core, which decides what other keys there are; "" where it is not set.
  std::string first(const std::string &key) const {
    for (const Setting &setting : raw)
      if (setting.key == key || (setting.key.empty() && setting.source == "MORTISE_" + upper(key)))
        return setting.value;
    return "";
  }

  Result<std::vector<Setting>> resolve(const std::vector<Key> &keys);

private:
  Result<void> nameVariables(const std::vector<Key> &keys) {
    for (Setting &setting : raw) {
      if (!setting.key.empty())
        continue;
      std::vector<std::string> variables;
      for (const Key &key : keys) {
        variables.push_back("MORTISE_" + upper(key.name));
        if (variables.back() == setting.source)
          setting.key = key.name;
      }
      if (setting.key.empty())
        return wrong("unknown environment variable " + setting.source + "; did you mean " +
                     nearest(setting.source, variables) + "?");
    }
    return {};
  }

  static constexpr ArrayOfTables arraysOfTables[] = {{"place", "; ", placeText}, {"transfer", ", ", transferText}};
  std::vector<Setting> raw;
};

Result<void> check(const Setting &setting, const Key &key) {
  const std::string where = "'" + setting.key + "' (from " + setting.source + ")";
  if (!key.values.empty() && std::find(key.values.begin(), key.values.end(), setting.value) == key.values.end())
    return wrong(where + ": expected one of " + join(key.values) + "; found '" + setting.value + "'");
  if (key.name == "require" && !setting.value.empty() && !parseRequirement(setting.value))
    return wrong(where + ": expected \"N% on DEVICE\" such as \"95% on cpu\"; found '" + setting.value + "'");
  if (key.name == "memory_limit" && !parseMemoryLimits(setting.value))
    return wrong(where + ": expected DEVICE=BYTES, several with commas, such as \"acme:1=8589934592\"; found '" +
                 setting.value + "'");
  if (key.name == "plugin_owners" && !parseOwners(setting.value))
    return wrong(where + ": expected numbers of users with commas, such as \"1000\"; found '" + setting.value + "'");
  if (key.name == "place")
    if (auto rules = parsePlaceRules(setting.value); !rules)
      return wrong(where + ": " + rules.error().message);
  if (key.name == "transfer")
    if (auto transfers = parseTransfers(setting.value); !transfers)
      return wrong(where + ": " + transfers.error().message);
  if (key.name == "specialize_limit" && !parseCount(setting.value))
    return wrong(where + ": expected a number from 1 to 1000000; found '" + setting.value + "'");
  if (key.name == "output_pool_bytes" && !parseNumber(setting.value, 0, mostBytes))
    return wrong(where + ": expected a number of bytes from 0 (no pool) to " + std::to_string(mostBytes) + "; found '" +
                 setting.value + "'");
  if (key.name == "isolate" && !parsePlugins(setting.value))
    return wrong(where + ": expected on, off or names of plugins with commas, such as \"acme,strict\"; found '" +
                 setting.value + "'");
  if (key.name == "isolate_seconds" && !parseNumber(setting.value, 1, mostSeconds))
    return wrong(where + ": expected a number of seconds from 1 to " + std::to_string(mostSeconds) + "; found '" +
                 setting.value + "'");
  if (key.name == "isolate_bytes" && !parseNumber(setting.value, 0, mostBytes))
    return wrong(where + ": expected a number of bytes from 0 (no limit) to " + std::to_string(mostBytes) +
                 "; found '" + setting.value + "'");
  if (key.name == "isolate_worker" && !setting.value.empty() && !setting.value.starts_with('/'))
    return wrong(where + ": expected the absolute path of mortise-worker; found '" + setting.value + "'");
  if (key.name == "kernel_cache" && setting.value != "on" && setting.value != "off" && !setting.value.starts_with('/'))
    return wrong(where + ": expected on, off or the absolute path of a folder; found '" + setting.value + "'");
  if (key.name == "kernel_cache_bytes" && !parseNumber(setting.value, 1, mostBytes))
    return wrong(where + ": expected a number of bytes from 1 to " + std::to_string(mostBytes) + "; found '" +
                 setting.value + "'");
  if (key.name == "device" && setting.value.empty())
    return wrong(where + ": expected auto, a device kind or KIND:ORDINAL; found nothing");
  return {};
}

Result<std::vector<Setting>> Layers::resolve(const std::vector<Key> &keys) {
  if (auto named = nameVariables(keys); !named)
    return named.error();
  std::map<std::string, Setting> chosen;
  for (const Setting &setting : raw) {
    auto key = std::find_if(keys.begin(), keys.end(), [&](const Key &key) { return key.name == setting.key; });
    if (key == keys.end()) {
      std::vector<std::string> names;
      for (const Key &each : keys)
        names.push_back(each.name);
      return wrong("unknown key '" + setting.key + "' (from " + setting.source + "); did you mean '" +
                   nearest(setting.key, names) + "'? known keys: " + join(names));
    }
    if (auto checked = check(setting, *key); !checked)
      return checked.error();
    chosen.emplace(setting.key, setting);
  }
  for (const Key &key : keys)
    chosen.emplace(key.name, Setting{key.name, key.fallback, "default"});
  std::vector<Setting> all;
  for (auto &[key, setting] : chosen)
    all.push_back(std::move(setting));
  return all;
}

fs::path userFilePath() {
  if (const char *home = std::getenv("XDG_CONFIG_HOME"); home && *home)
    return fs::path(home) / "mortise" / "mortise.toml";
  if (const char *home = std::getenv("HOME"); home && *home)
    return fs::path(home) / ".config" / "mortise" / "mortise.toml";
  return {};
}

} // namespace

Result<Config> Config::read(std::span<const MortiseOption> callOptions) {
  Layers layers;
  for (const MortiseOption &option : callOptions) {
    if (option.key == nullptr || option.value == nullptr || *option.key == 0)
      return wrong(
          std::string("expected an option with a key and a value, found ") +
          (option.key && *option.key ? "'" + std::string(option.key) + "' without a value" : "one without a key"));
    layers.add({option.key, option.value, "option"});
  }
  if (auto added = layers.addEnvironment(); !added)
    return added.error();
  std::error_code ignored;
  const fs::path userFile = userFilePath(), projectFile = fs::current_path(ignored) / "mortise.toml";
  if (auto added = layers.addFile(projectFile, true, userFile); !added)
    return added.error();
  if (!userFile.empty() && !fs::equivalent(userFile, projectFile, ignored))
    if (auto added = layers.addFile(userFile, false, userFile); !added)
      return added.error();

  std::vector<Key> keys = coreKeys;
  std::vector<FoundPlugin> found;
  for (PluginFiles &files : findPlugins(layers.first("plugin_path"), layers.first("installed_plugins"))) {
    auto manifest = readManifest(files.manifest);
    const FoundPlugin &plugin = found.emplace_back(std::move(files), std::move(manifest));
    if (!plugin.manifest)
      continue; // the registry reports the broken manifest
    for (const ManifestOption &option : plugin.manifest->options) {
      const std::string name = plugin.manifest->name + "." + option.name;
      if (std::none_of(keys.begin(), keys.end(), [&](const Key &key) { return key.name == name; }))
        keys.push_back({name, option.fallback, option.values});
    }
  }
  auto resolved = layers.resolve(keys);
  if (!resolved)
    return resolved.error();
  Config config;
  config.all = std::move(*resolved);
  config.found = std::make_shared<const std::vector<FoundPlugin>>(std::move(found));
  return config;
}

std::span<const FoundPlugin> Config::plugins() const {
  return found ? std::span<const FoundPlugin>(*found) : std::span<const FoundPlugin>();
}

const std::string &Config::get(std::string_view key) const {
  static const std::string none;
  for (const Setting &setting : all)
    if (setting.key == key)
      return setting.value;
  return none;
}

std::vector<Transfer> Config::transfers() const { return *parseTransfers(get("transfer")); } // read() has checked it

std::vector<PlaceRule> Config::placeRules() const { return *parsePlaceRules(get("place")); } // read() has checked it

std::vector<MemoryLimit> Config::memoryLimits() const { return *parseMemoryLimits(get("memory_limit")); }

std::optional<Requirement> Config::requirement() const { return parseRequirement(get("require")); }

MortiseCompileOptions Config::compileOptions() const {
  const auto position = [](const std::vector<std::string> &names, const std::string &name) {
    return static_cast<int32_t>(std::ranges::find(names, name) - names.begin());
  };
  return {.struct_size = sizeof(MortiseCompileOptions),
          .mode = position(modes, get("mode")),
          .precision = position(precisions, get("precision")),
          .deterministic = get("deterministic") == "true"};
}

size_t Config::specializeLimit() const { return parseCount(get("specialize_limit")).value_or(64); }

uint64_t Config::kernelCacheBytes() const {
  return parseNumber(get("kernel_cache_bytes"), 1, mostBytes).value_or(UINT64_C(1) << 30);
}

std::optional<Isolation> Config::isolation(std::string_view plugin) const {
  const std::vector<std::string> names = *parsePlugins(get("isolate")); // read() has checked it
  if (names != std::vector<std::string>{"on"} && std::ranges::find(names, plugin) == names.end())
    return std::nullopt;
  return limits();
}

std::optional<Isolation> Config::probe() const { return get("probe") == "on" ? std::optional(limits()) : std::nullopt; }

Isolation Config::limits() const {
  return {static_cast<double>(*parseNumber(get("isolate_seconds"), 1, mostSeconds)),
          *parseNumber(get("isolate_bytes"), 0, mostBytes), get("isolate_worker"), get("log_level")};
}

std::vector<uid_t> Config::pluginOwners() const { return *parseOwners(get("plugin_owners")); } // read() has checked it

bool Config::savedKernels() const { return get("saved_kernels") == "on"; }

std::span<const Setting> Config::settings() const { return all; }

std::vector<Setting> Config::pluginOptions(std::string_view plugin) const {
  const std::string prefix = std::string(plugin) + ".";
  std::vector<Setting> options;
  for (const Setting &setting : all)
    if (setting.key.starts_with(prefix))
      options.push_back({setting.key.substr(prefix.size()), setting.value, setting.source});
  return options;
}

} // namespace mortise::runtime
