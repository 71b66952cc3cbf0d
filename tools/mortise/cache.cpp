// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cache.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>

namespace mortise::tool {
namespace {

using Json = nlohmann::ordered_json;

std::string sizeText(uint64_t bytes) {
  char text[32];
  if (bytes < 1024)
    return std::to_string(bytes) + " B";
  const bool large = bytes >= 1 << 20;
  std::snprintf(text, sizeof text, "%.1f %s", static_cast<double>(bytes) / (large ? 1 << 20 : 1 << 10),
                large ? "MiB" : "KiB");
  return text;
}

std::string ageText(int64_t seconds) {
  constexpr std::pair<int64_t, const char *> units[] = {{86400, " d"}, {3600, " h"}, {60, " min"}};
  for (const auto &[unit, name] : units)
    if (seconds >= unit)
      return std::to_string(seconds / unit) + name;
  return std::to_string(seconds) + " s";
}

int without(const Error &error) {
  const bool isOff = error.code == MORTISE_NOT_FOUND;
  (isOff ? std::cout : std::cerr) << (isOff ? "" : "mortise: ") << error.message << "\n";
  return isOff ? 0 : 2;
}

} // namespace

int showCache(const runtime::OpenedKernelCache &cache, bool json) {
  if (!cache && !(json && cache.error().code == MORTISE_NOT_FOUND))
    return without(cache.error());
  Json list = Json::array();
  uint64_t total = 0;
  for (const auto &entry : cache ? (*cache)->entries() : std::vector<runtime::KernelCache::Entry>()) {
    const Json text = Json::parse(entry.text, nullptr, false);
    list.push_back({{"file", entry.file},
                    {"bytes", entry.bytes},
                    {"used_seconds_ago", entry.usedSecondsAgo},
                    {"kernel", text.is_object() ? text : Json()}});
    total += entry.bytes;
  }
  if (json) {
    std::cout << Json{{"folder", cache ? Json((*cache)->folder()) : Json()},
                      {"bytes", total},
                      {"limit", cache ? (*cache)->limit() : 0},
                      {"entries", list}}
                     .dump(1, ' ', false, Json::error_handler_t::replace)
              << "\n";
    return 0;
  }
  for (const Json &entry : list) {
    std::cout << entry["file"].get<std::string>() << "  " << sizeText(entry["bytes"].get<uint64_t>()) << ", used "
              << ageText(entry["used_seconds_ago"].get<int64_t>()) << " ago: ";
    if (const Json &kernel = entry["kernel"]; kernel.is_object())
      std::cout << (kernel.value("what", "kernel") == "time" ? "time of " : "") << kernel.value("lowering", "?")
                << " on " << kernel.value("device", "?") << ", plugin " << kernel.value("plugin", "?") << " "
                << kernel.value("version", "?") << ", build " << kernel.value("build", "?") << "\n";
    else
      std::cout << "damaged\n";
  }
  std::cout << (*cache)->folder() << ": " << list.size() << (list.size() == 1 ? " file, " : " files, ")
            << sizeText(total) << " of at most " << sizeText((*cache)->limit()) << "\n";
  return 0;
}

int clearCache(const runtime::OpenedKernelCache &cache) {
  if (!cache)
    return without(cache.error());
  Result<size_t> removed = (*cache)->clear();
  if (!removed)
    return without(removed.error());
  std::cout << (*cache)->folder() << ": " << *removed << (*removed == 1 ? " file" : " files") << " removed\n";
  return 0;
}

} // namespace mortise::tool
