// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled kernels on disk, and their measured times, for later processes: one file for each, found by everything that
// the kernel depends on. A file is written aside and renamed, so that any number of processes may share a folder. The
// files hold machine code: only a folder that nobody else may write to is used.
#pragma once

#include <mortise/result.hpp>

#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::runtime {

class Config;
struct Device;
class KernelCache;
using OpenedKernelCache = Result<std::unique_ptr<const KernelCache>>;

// The key of what is known of a region that is lowered so on a device: all that it depends on. `what`: what is known of
// it, "kernel" or "time". Of use to later processes only where the device has a fingerprint.
std::string cacheKey(std::string_view what, const Device &device, std::string_view lowering,
                     std::span<const MortiseOption> options, const MortiseCompileOptions &asked,
                     std::span<const MortiseForm> forms, std::span<const std::byte> graph);

class KernelCache {
public:
  // What the setting `kernel_cache` asks for. Makes the folder. Errors: MORTISE_NOT_FOUND (the setting is "off"),
  // MORTISE_INVALID_ARGUMENT (the folder cannot be made, belongs to somebody else, or others may write to it).
  static OpenedKernelCache open(const Config &config);

  const std::string &folder() const { return path; }
  uint64_t limit() const { return most; }

  // Thread safe. `key`: what the kernel depends on; text for people, an empty line, then anything.
  // Errors: MORTISE_NOT_FOUND, or MORTISE_CORRUPT for a file that is damaged, which is then set aside.
  Result<std::vector<std::byte>> find(std::string_view key) const;
  // Replaces an entry with this key. Where the folder grows beyond its limit, the entries that were not used for
  // longest are removed. Errors: MORTISE_UNSUPPORTED (larger than the limit), and those of replaceFile. An older entry
  // then stays as it is.
  Result<void> store(std::string_view key, std::span<const std::byte> bytes) const;
  // Renames a file that cannot be used to NAME.damaged.
  void setAside(std::string_view key) const;

  struct Entry {
    std::string file;   // its name in the folder
    std::string text;   // of its key; "" for a file that is damaged
    uint64_t bytes = 0; // of the file
    int64_t usedSecondsAgo = 0;
  };
  std::vector<Entry> entries() const; // those used last come first
  // Removes all entries and what was set aside. Returns how many files.
  Result<size_t> clear() const;

private:
  KernelCache(std::string path, uint64_t most) : path(std::move(path)), most(most) {}
  void prune() const;

  const std::string path;
  const uint64_t most;
  mutable std::atomic<uint64_t> unseen{0}; // bytes stored since the folder was last looked through
  mutable std::atomic<bool> looked{false};
};

} // namespace mortise::runtime
