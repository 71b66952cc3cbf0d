// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files that are read as a whole and replaced as a whole.
#pragma once

#include <mortise/result.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace mortise::runtime {

// Errors name the path: MORTISE_NOT_FOUND (there is none), MORTISE_INVALID_ARGUMENT (it is no file, has more than
// `most` bytes, or cannot be read).
Result<std::vector<std::byte>> readFile(const std::string &path, uint64_t most = UINT64_MAX);

constexpr const char *unfinishedExtension = ".tmp"; // of a file that replaceFile is writing, or never finished

struct Replacement {
  mode_t mode = 0666;  // of a new file, less the process's umask
  bool durable = true; // returns when the bytes are on the disk
};
// Writes a file beside `path` and renames it, so that readers see the old file or the new one, and any number of
// processes may do so at once. After an error the old file is as it was. Errors name the path: MORTISE_OUT_OF_MEMORY
// (the disk is full, or a limit is reached), MORTISE_INVALID_ARGUMENT (the folder cannot be written to).
Result<void> replaceFile(const std::string &path, std::span<const std::byte> bytes, Replacement how = {});

// $XDG_CACHE_HOME/mortise/NAME, by default in ~/.cache; "" when neither XDG_CACHE_HOME nor HOME is set.
std::string cacheFolder(const std::string &name);
// Makes a folder where there is none. The error says why it is not this user's alone, in words behind the folder's
// name.
Result<void> makePrivateFolder(const std::string &folder);

} // namespace mortise::runtime
