// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "handles.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include <unistd.h>

namespace mortise::capi {

Result<std::vector<std::byte>> readFile(const std::string &path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) // a FIFO would hang, a device would never end
    return invalid(path + ": expected a file, found " + (error ? error.message() : "something else"));
  std::ifstream file(path, std::ios::binary);
  const uint64_t size = std::filesystem::file_size(path, error);
  std::vector<std::byte> bytes(file && !error ? size : 0);
  if (!file || error || !file.read(reinterpret_cast<char *>(bytes.data()), static_cast<std::streamsize>(bytes.size())))
    return invalid(path + ": cannot be read: " + (error ? error.message() : std::strerror(errno)));
  return bytes;
}

Result<void> replaceFile(const std::string &path, std::span<const std::byte> bytes) {
  const std::string fresh = path + "." + std::to_string(getpid()) + ".new";
  const auto failed = [&](const std::string &why) {
    std::remove(fresh.c_str());
    return invalid(path + ": cannot be written: " + why);
  };
  std::FILE *file = std::fopen(fresh.c_str(), "wbx");
  if (!file)
    return invalid(path + ": cannot be written: " + std::strerror(errno));
  const bool written = std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0 &&
                       fsync(fileno(file)) == 0;
  const std::string why = written ? "" : std::strerror(errno);
  if (std::fclose(file) != 0 || !written)
    return failed(why.empty() ? std::strerror(errno) : why);
  std::error_code error;
  std::filesystem::rename(fresh, path, error);
  return error ? Result<void>(failed(error.message())) : Result<void>();
}

} // namespace mortise::capi
