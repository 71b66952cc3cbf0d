// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trust.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

constexpr int mostLinks = 40; // as the kernel follows

Error untrusted(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

// The owner that the kernel shows for users whom this user namespace does not map: root of the machine, say, in a
// container without privileges. They cannot be told apart. nullopt where every user is mapped.
std::optional<uid_t> unmappedOwner() {
  static const std::optional<uid_t> found = []() -> std::optional<uid_t> {
    uint64_t inside = 1, outside = 1, count = 0;
    std::ifstream("/proc/self/uid_map") >> inside >> outside >> count;
    uid_t owner = 65534;
    std::ifstream("/proc/sys/kernel/overflowuid") >> owner;
    return inside == 0 && count == UINT32_MAX ? std::nullopt : std::optional(owner);
  }();
  return found;
}

Result<void> checkOwner(const fs::path &path, const struct stat &info, std::span<const uid_t> owners) {
  if (info.st_uid == 0 || info.st_uid == ::geteuid() || info.st_uid == unmappedOwner() ||
      std::ranges::find(owners, info.st_uid) != owners.end())
    return {};
  return untrusted("'" + path.string() + "' belongs to user " + std::to_string(info.st_uid) +
                   ", who may change the plugin, and this process runs as user " + std::to_string(::geteuid()) +
                   "; run chown, or name the user in plugin_owners (MORTISE_PLUGIN_OWNERS)");
}

Result<void> checkWriters(const fs::path &folder, const struct stat &info, bool holdsTheFile) {
  if (!(info.st_mode & S_IWOTH) || ((info.st_mode & S_ISVTX) && !holdsTheFile))
    return {};
  return untrusted("its directory '" + folder.string() + "' is world-writable; run chmod o-w '" + folder.string() +
                   "', or move the plugin");
}

} // namespace

Result<void> checkTrust(const std::string &path, std::span<const uid_t> owners) {
  const fs::path whole(path);
  std::deque<fs::path> rest(whole.begin(), whole.end()); // the root first
  fs::path at;                                           // without links
  struct stat folder{};                                  // of `at`
  for (int links = 0; !rest.empty();) {
    const fs::path name = rest.front(), next = at / name;
    rest.pop_front();
    if (name.empty() || name == ".")
      continue;
    struct stat info{};
    if (::lstat(next.c_str(), &info) != 0)
      return Error{MORTISE_NOT_FOUND, "'" + next.string() + "' cannot be examined: " + std::strerror(errno)};
    if (name == "..") {
      at = at.parent_path();
      folder = info;
      continue;
    }
    if (auto checked = checkOwner(next, info, owners); !checked)
      return checked;
    if (rest.empty())
      if (auto checked = checkWriters(at, folder, true); !checked)
        return checked;
    if (S_ISLNK(info.st_mode)) {
      std::error_code failed;
      const fs::path target = fs::read_symlink(next, failed);
      if (failed || ++links > mostLinks)
        return untrusted("'" + next.string() + "' is a link that cannot be followed");
      if (target.is_absolute())
        at.clear();
      rest.insert(rest.begin(), target.begin(), target.end());
    } else if (S_ISDIR(info.st_mode)) {
      if (auto checked = checkWriters(next, info, false); !checked)
        return checked;
      at = next;
      folder = info;
    } else if (S_ISREG(info.st_mode) && (info.st_mode & S_IWOTH)) {
      return untrusted("'" + next.string() + "' is world-writable; run chmod o-w '" + next.string() + "'");
    }
  }
  return {};
}

} // namespace mortise::runtime
