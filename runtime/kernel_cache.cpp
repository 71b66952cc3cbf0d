// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/kernel_cache.hpp>

#include "sealed.hpp"
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/files.hpp>
#include <mortise/runtime/registry.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

// Behind the header: the key's length in 8 bytes, the key, the kernel.
constexpr FileKind kind = {{'M', 'R', 'T', 'K', 'E', 'R', 'N', '\n'}, 2, "kernel", "it is compiled again"};
constexpr const char *suffix = ".kernel", *damaged = ".damaged";
constexpr auto abandoned = std::chrono::hours(1); // the age of an unfinished file whose writer is gone

// FNV-1a. Two keys with one name are no error: the key in the file decides.
std::string nameOf(std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : key)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(text) + suffix;
}

struct Contents {
  std::string key;
  std::vector<std::byte> bytes;
};

// Errors: MORTISE_NOT_FOUND, MORTISE_CORRUPT.
Result<Contents> readEntry(const fs::path &file) {
  const auto corrupt = [](const std::string &what) { return Error{MORTISE_CORRUPT, "the entry is damaged: " + what}; };
  auto bytes = readFile(file.string());
  if (!bytes)
    return Error{MORTISE_NOT_FOUND, // too many open files, say, are no damage: the entry stays
                 bytes.error().code == MORTISE_NOT_FOUND ? "there is no entry" : bytes.error().message};
  const auto content = unseal(kind, *bytes);
  if (!content)
    return corrupt(content.error().message);
  uint64_t keyBytes = 0;
  if (content->size() < sizeof keyBytes)
    return corrupt("it ends before its key");
  std::memcpy(&keyBytes, content->data(), sizeof keyBytes);
  const auto rest = content->subspan(sizeof keyBytes);
  if (keyBytes > rest.size())
    return corrupt("it ends within its key");
  const auto key = rest.first(keyBytes), kernel = rest.subspan(keyBytes);
  return Contents{{reinterpret_cast<const char *>(key.data()), key.size()}, {kernel.begin(), kernel.end()}};
}

struct File {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};

// What the cache wrote into its folder, in no order.
std::vector<File> filesIn(const std::string &folder) {
  std::vector<File> found;
  std::error_code failed;
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end; each.increment(failed)) {
    const std::string extension = each->path().extension().string();
    if (extension != suffix && extension != damaged && extension != unfinishedExtension)
      continue;
    std::error_code gone; // another process may have removed it
    const uint64_t bytes = each->file_size(gone);
    const fs::file_time_type used = each->last_write_time(gone);
    if (!gone)
      found.push_back({each->path(), bytes, used});
  }
  return found;
}

} // namespace

OpenedKernelCache KernelCache::open(const Config &config) {
  const std::string &asked = config.get("kernel_cache");
  if (asked == "off")
    return Error{MORTISE_NOT_FOUND, "kernel_cache is off"};
  std::string folder = asked == "on" ? cacheFolder("kernels") : asked;
  while (folder.size() > 1 && folder.ends_with('/'))
    folder.pop_back();
  if (auto made = makePrivateFolder(folder); !made)
    return Error{made.error().code, "kernel_cache: the folder '" + folder + "' " + made.error().message +
                                        "; name another one in kernel_cache, or set it to off"};
  return std::unique_ptr<const KernelCache>(new KernelCache(folder, config.kernelCacheBytes()));
}

Result<std::vector<std::byte>> KernelCache::find(std::string_view key) const {
  const fs::path file = fs::path(path) / nameOf(key);
  auto found = readEntry(file);
  if (!found) {
    if (found.error().code == MORTISE_CORRUPT)
      setAside(key);
    return found.error();
  }
  if (found->key != key)
    return Error{MORTISE_NOT_FOUND, "its name is taken by another kernel"};
  std::error_code ignored; // another process may have removed it
  fs::last_write_time(file, fs::file_time_type::clock::now(), ignored);
  return std::move(found->bytes);
}

void KernelCache::setAside(std::string_view key) const {
  const fs::path file = fs::path(path) / nameOf(key);
  std::error_code failed;
  fs::rename(file, fs::path(file).replace_extension(damaged), failed);
  if (failed) // nothing can be kept under this name otherwise
    fs::remove(file, failed);
}

std::string cacheKey(std::string_view what, const Device &device, std::string_view lowering,
                     std::span<const MortiseOption> options, const MortiseCompileOptions &asked,
                     std::span<const MortiseForm> forms, std::span<const std::byte> graph) {
  using Json = nlohmann::ordered_json;
  const Plugin &plugin = *device.plugin;
  Json given = Json::array();
  for (const MortiseOption &option : options)
    given.push_back({option.key, option.value});
  Json lies = Json::array();
  for (const MortiseForm &form : forms)
    lies.push_back({form.value, form.layout, form.space});
  const Json facts = {{"what", what},
                      {"plugin", plugin.name},
                      {"version", plugin.version},
                      {"build", plugin.build},
                      {"abi", plugin.abiRevision},
                      {"device", device.info.kind},
                      {"fingerprint", device.info.fingerprint ? Json(device.info.fingerprint) : Json()},
                      {"lowering", lowering},
                      {"options", given},
                      {"forms", lies},
                      {"mode", asked.mode},
                      {"precision", asked.precision},
                      {"deterministic", asked.deterministic}};
  std::string key = facts.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n\n";
  key.append(reinterpret_cast<const char *>(graph.data()), graph.size());
  return key;
}

Result<void> KernelCache::store(std::string_view key, std::span<const std::byte> bytes) const {
  const uint64_t keyBytes = key.size();
  const std::vector<std::byte> file =
      seal(kind, {std::as_bytes(std::span(&keyBytes, 1)), std::as_bytes(std::span(key)), bytes});
  if (file.size() > most)
    return Error{MORTISE_UNSUPPORTED, "kernel cache: a kernel of " + std::to_string(file.size()) +
                                          " bytes is larger than kernel_cache_bytes, " + std::to_string(most)};
  if (auto written = replaceFile((fs::path(path) / nameOf(key)).string(), file, {.mode = 0600, .durable = false});
      !written)
    return Error{written.error().code, "kernel cache: " + written.error().message};
  // Other processes store here, too, so that the folder is looked through now and then.
  if (unseen.fetch_add(file.size()) + file.size() > most / 16 || !looked.exchange(true))
    prune();
  return {};
}

void KernelCache::prune() const {
  unseen = 0;
  std::vector<File> files = filesIn(path);
  std::ranges::sort(files, {}, &File::used);
  uint64_t total = 0;
  for (const File &file : files)
    total += file.bytes;
  const auto now = fs::file_time_type::clock::now();
  std::error_code ignored;
  for (const File &file : files) {
    const bool stale = file.path.extension() == unfinishedExtension && now - file.used > abandoned;
    if (total > most ? file.path.extension() != unfinishedExtension || stale : stale)
      if (fs::remove(file.path, ignored))
        total -= file.bytes;
  }
}

std::vector<KernelCache::Entry> KernelCache::entries() const {
  std::vector<File> files = filesIn(path);
  std::ranges::sort(files, std::ranges::greater(), &File::used);
  const auto now = fs::file_time_type::clock::now();
  std::vector<Entry> all;
  for (const File &file : files) {
    Entry &entry = all.emplace_back();
    entry.file = file.path.filename().string();
    entry.bytes = file.bytes;
    entry.usedSecondsAgo = std::chrono::duration_cast<std::chrono::seconds>(now - file.used).count();
    if (file.path.extension() != suffix)
      continue;
    if (auto contents = readEntry(file.path))
      entry.text = contents->key.substr(0, contents->key.find("\n\n"));
  }
  return all;
}

Result<size_t> KernelCache::clear() const {
  size_t count = 0;
  for (const File &file : filesIn(path)) {
    std::error_code failed;
    count += fs::remove(file.path, failed);
    if (failed)
      return Error{MORTISE_INTERNAL,
                   "kernel cache: '" + file.path.string() + "' cannot be removed: " + failed.message()};
  }
  return count;
}

} // namespace mortise::runtime
