// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known on this machine about a plugin's library, so that it is hashed and proven once and not in each process.
#pragma once

#include <mortise/result.hpp>

#include <optional>
#include <string>
#include <sys/stat.h>

namespace mortise::runtime {

struct FileIdentity { // changes when a file is replaced or rewritten
  dev_t device;
  ino_t inode;
  off_t size;
  int64_t modified, changed; // nanoseconds; the second cannot be set, except by the system's clock
  bool operator==(const FileIdentity &) const = default;
  // A new owner, name or link of the file changes the last number only.
  bool sameContent(const FileIdentity &other) const {
    return device == other.device && inode == other.inode && size == other.size && modified == other.modified;
  }
  std::string text() const { return std::to_string(size) + " bytes of " + std::to_string(modified); }
};
FileIdentity identityOf(const struct stat &info);

struct PluginRecord {
  std::string sha256;  // of the library, 64 digits; "" when not computed
  bool proven = false; // it was started, and named its devices, in a process of its own
};

// Kept in $XDG_CACHE_HOME/mortise/plugins, which has to be the user's alone. nullopt: nothing is known of the file as
// it is now, or nothing can be kept.
std::optional<PluginRecord> findPluginRecord(const std::string &library, const FileIdentity &identity);
// Keeps nothing of a file that changed within the last two seconds: a later change could leave its times as they are.
void keepPluginRecord(const std::string &library, const FileIdentity &identity, const PluginRecord &record);

Result<std::string> sha256Of(const std::string &file);

} // namespace mortise::runtime
