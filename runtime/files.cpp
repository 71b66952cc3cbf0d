// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/files.hpp>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace mortise::runtime {
namespace {

struct Descriptor {
  int number = -1;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

bool readAll(int descriptor, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t got = ::read(descriptor, into.data(), into.size());
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    into = into.subspan(static_cast<size_t>(got));
  }
  return true;
}

// 0, or the error's number.
int writeAll(int descriptor, std::span<const std::byte> from) {
  while (!from.empty()) {
    const ssize_t put = ::write(descriptor, from.data(), from.size());
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return put < 0 ? errno : EIO;
    from = from.subspan(static_cast<size_t>(put));
  }
  return 0;
}

} // namespace

Result<std::vector<std::byte>> readFile(const std::string &path, uint64_t most) {
  const auto failed = [&](const std::string &why) { return Error{MORTISE_INVALID_ARGUMENT, path + ": " + why}; };
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); // a FIFO would be waited for
  if (file.number < 0) {
    if (errno == ENOENT)
      return Error{MORTISE_NOT_FOUND, path + ": there is no such file"};
    return failed(std::string("cannot be read: ") + std::strerror(errno));
  }
  struct stat info{};
  if (::fstat(file.number, &info) != 0 || !S_ISREG(info.st_mode))
    return failed("expected a file, found something else");
  if (static_cast<uint64_t>(info.st_size) > most)
    return failed("expected at most " + std::to_string(most) + " bytes, found " + std::to_string(info.st_size));
  std::vector<std::byte> bytes(static_cast<size_t>(info.st_size));
  if (!readAll(file.number, bytes))
    return failed("cannot be read to its end");
  return bytes;
}

Result<void> replaceFile(const std::string &path, std::span<const std::byte> bytes, Replacement how) {
  static std::atomic<uint64_t> serial = 0;
  const auto failed = [&](int error) {
    return Error{error == ENOSPC || error == EDQUOT || error == EFBIG ? MORTISE_OUT_OF_MEMORY
                                                                      : MORTISE_INVALID_ARGUMENT,
                 path + ": cannot be written: " + std::strerror(error)};
  };
  std::string aside;
  const auto create = [&] {
    aside = path + "." + std::to_string(::getpid()) + "." + std::to_string(serial++) + unfinishedExtension;
    return ::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, how.mode);
  };
  int number = create();
  // Containers that share a folder may have processes of equal numbers. Another's file is left alone.
  while (number < 0 && errno == EEXIST)
    number = create();
  if (number < 0)
    return failed(errno);
  int error = 0;
  {
    const Descriptor file(number);
    error = writeAll(file.number, bytes);
    if (error == 0 && how.durable && ::fsync(file.number) != 0)
      error = errno;
  }
  if (error == 0 && ::rename(aside.c_str(), path.c_str()) != 0)
    error = errno;
  if (error == 0)
    return {};
  ::unlink(aside.c_str());
  return failed(error);
}

std::string cacheFolder(const std::string &name) {
  if (const char *home = std::getenv("XDG_CACHE_HOME"); home && *home)
    return std::string(home) + "/mortise/" + name;
  if (const char *home = std::getenv("HOME"); home && *home)
    return std::string(home) + "/.cache/mortise/" + name;
  return "";
}

Result<void> makePrivateFolder(const std::string &folder) {
  const auto unusable = [](const std::string &why) { return Error{MORTISE_INVALID_ARGUMENT, why}; };
  if (folder.empty())
    return unusable("is unknown, because neither XDG_CACHE_HOME nor HOME is set");
  std::error_code failed;
  std::filesystem::create_directories(std::filesystem::path(folder).parent_path(), failed);
  // Made with its permissions, because other processes may open it at once.
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return unusable(std::string("cannot be made: ") + (failed ? failed.message() : std::strerror(errno)));
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return unusable("is no folder");
  if (info.st_uid != ::geteuid())
    return unusable("belongs to another user, who decides what code its files hold");
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return unusable("may be written to by other users, who decide what code its files hold (chmod go-w)");
  return {};
}

} // namespace mortise::runtime
