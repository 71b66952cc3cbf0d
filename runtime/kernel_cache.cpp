// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/kernel_cache.hpp>

#include "host.hpp"
#include <mortise/runtime/config.hpp>

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace fs = std::filesystem;

namespace mortise::runtime {
namespace {

static_assert(std::endian::native == std::endian::little);

struct Header {
  char magic[8] = {'M', 'R', 'T', 'K', 'E', 'R', 'N', '\n'};
  uint32_t version = 1;
  uint32_t checksum = 0; // of what follows the header
  uint64_t keyBytes = 0, bytes = 0;
};
static_assert(sizeof(Header) == 32);

constexpr const char *suffix = ".kernel", *damaged = ".damaged", *unfinished = ".tmp";
constexpr auto abandoned = std::chrono::hours(1); // the age of an unfinished file whose writer is gone

struct Descriptor {
  int number = -1;
  explicit Descriptor(int number) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() {
    if (number >= 0)
      ::close(number);
  }
};

// FNV-1a. Two keys with one name are no error: the key in the file decides.
std::string nameOf(std::string_view key) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char letter : key)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return std::string(text) + suffix;
}

uint32_t checksumOf(std::string_view key, std::span<const std::byte> bytes) {
  const uLong first = crc32_z(0, reinterpret_cast<const Bytef *>(key.data()), key.size());
  return static_cast<uint32_t>(crc32_z(first, reinterpret_cast<const Bytef *>(bytes.data()), bytes.size()));
}

Error corrupt(const std::string &what) { return {MORTISE_CORRUPT, "the entry is damaged: " + what}; }

bool readAll(int descriptor, void *into, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t got = ::read(descriptor, static_cast<char *>(into) + done, count - done);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

bool writeAll(int descriptor, const void *from, size_t count) {
  for (size_t done = 0; done < count;) {
    const ssize_t put = ::write(descriptor, static_cast<const char *>(from) + done, count - done);
    if (put < 0 && errno == EINTR)
      continue;
    if (put <= 0)
      return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

struct Contents {
  std::string key;
  std::vector<std::byte> bytes;
};

// Errors: MORTISE_NOT_FOUND, MORTISE_CORRUPT.
Result<Contents> readEntry(const fs::path &file) {
  const Descriptor descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (descriptor.number < 0)
    return Error{MORTISE_NOT_FOUND, errno == ENOENT ? "there is no entry"
                                                    : std::string("the entry cannot be read: ") + std::strerror(errno)};
  struct stat info{};
  Header header;
  if (::fstat(descriptor.number, &info) != 0 || !S_ISREG(info.st_mode))
    return corrupt("it is no file");
  const auto size = static_cast<uint64_t>(info.st_size);
  if (!readAll(descriptor.number, &header, sizeof header) || std::memcmp(header.magic, Header().magic, 8) != 0)
    return corrupt("expected it to begin with MRTKERN, found something else");
  if (header.version != Header().version)
    return corrupt("expected format " + std::to_string(Header().version) + ", found " + std::to_string(header.version));
  if (header.keyBytes > size || header.bytes > size || sizeof header + header.keyBytes + header.bytes != size)
    return corrupt("its " + std::to_string(size) + " bytes are not as many as its header says");
  Contents contents{std::string(header.keyBytes, '\0'), std::vector<std::byte>(header.bytes)};
  if (!readAll(descriptor.number, contents.key.data(), contents.key.size()) ||
      !readAll(descriptor.number, contents.bytes.data(), contents.bytes.size()))
    return corrupt("it ends early");
  if (checksumOf(contents.key, contents.bytes) != header.checksum)
    return corrupt("its checksum does not agree with its bytes");
  (void)::futimens(descriptor.number, nullptr); // used now
  return contents;
}

Error failedToWrite(const fs::path &file, int error) {
  return {error == ENOSPC || error == EDQUOT || error == EFBIG ? MORTISE_OUT_OF_MEMORY : MORTISE_INTERNAL,
          "kernel cache: '" + file.string() + "' cannot be written: " + std::strerror(error)};
}

std::string defaultFolder() {
  if (const char *home = std::getenv("XDG_CACHE_HOME"); home && *home)
    return (fs::path(home) / "mortise" / "kernels").string();
  if (const char *home = std::getenv("HOME"); home && *home)
    return (fs::path(home) / ".cache" / "mortise" / "kernels").string();
  return "";
}

Error unusable(const std::string &folder, const std::string &why) {
  return {MORTISE_INVALID_ARGUMENT,
          "kernel_cache: the folder '" + folder + "' " + why + "; name another one in kernel_cache, or set it to off"};
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
    if (extension != suffix && extension != damaged && extension != unfinished)
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

Result<std::unique_ptr<KernelCache>> KernelCache::open(const Config &config) {
  const std::string &asked = config.get("kernel_cache");
  if (asked == "off")
    return std::unique_ptr<KernelCache>();
  const std::string folder = asked == "on" ? defaultFolder() : asked;
  if (folder.empty())
    return unusable(folder, "is unknown, because neither XDG_CACHE_HOME nor HOME is set");
  std::error_code failed;
  const bool made = fs::create_directories(folder, failed);
  if (failed)
    return unusable(folder, "cannot be made: " + failed.message());
  if (made)
    fs::permissions(folder, fs::perms::owner_all, failed);
  struct stat info{};
  if (::stat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode))
    return unusable(folder, "is no folder");
  if (info.st_uid != ::geteuid())
    return unusable(folder, "belongs to another user, who decides what code its files hold");
  if (info.st_mode & (S_IWGRP | S_IWOTH))
    return unusable(folder, "may be written to by other users, who decide what code its files hold (chmod go-w)");
  return std::unique_ptr<KernelCache>(new KernelCache(folder, config.kernelCacheBytes()));
}

Result<std::vector<std::byte>> KernelCache::find(std::string_view key) const {
  auto found = readEntry(fs::path(path) / nameOf(key));
  if (!found) {
    if (found.error().code == MORTISE_CORRUPT)
      setAside(key);
    return found.error();
  }
  if (found->key != key)
    return Error{MORTISE_NOT_FOUND, "its name is taken by another kernel"};
  return std::move(found->bytes);
}

void KernelCache::setAside(std::string_view key) const {
  const fs::path file = fs::path(path) / nameOf(key);
  std::error_code failed;
  fs::rename(file, fs::path(file).replace_extension(damaged), failed);
  if (failed) // nothing can be kept under this name otherwise
    fs::remove(file, failed);
}

Result<void> KernelCache::store(std::string_view key, std::span<const std::byte> bytes) const {
  static std::atomic<uint64_t> serial = 0;
  Header header;
  header.checksum = checksumOf(key, bytes);
  header.keyBytes = key.size();
  header.bytes = bytes.size();
  const uint64_t size = sizeof header + key.size() + bytes.size();
  if (size > most)
    return Error{MORTISE_UNSUPPORTED, "kernel cache: a kernel of " + std::to_string(size) +
                                          " bytes is larger than kernel_cache_bytes, " + std::to_string(most)};
  const std::string name = nameOf(key);
  const fs::path file = fs::path(path) / name;
  const fs::path aside =
      fs::path(path) / (name + "." + std::to_string(::getpid()) + "." + std::to_string(serial++) + unfinished);
  int error = 0;
  {
    const Descriptor descriptor(::open(aside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (descriptor.number < 0)
      return failedToWrite(aside, errno);
    if (!writeAll(descriptor.number, &header, sizeof header) || !writeAll(descriptor.number, key.data(), key.size()) ||
        !writeAll(descriptor.number, bytes.data(), bytes.size()))
      error = errno;
  }
  if (error == 0 && ::rename(aside.c_str(), file.c_str()) != 0)
    error = errno;
  if (error != 0) {
    ::unlink(aside.c_str());
    return failedToWrite(file, error);
  }
  // Other processes store here, too, so that the folder is looked through now and then.
  if (unseen.fetch_add(size) + size > most / 16 || !looked.exchange(true))
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
    const bool stale = file.path.extension() == unfinished && now - file.used > abandoned;
    if (total > most ? file.path.extension() != unfinished || stale : stale)
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
    if (auto contents = readEntry(file.path)) {
      entry.text = contents->key.substr(0, contents->key.find("\n\n"));
      std::error_code ignored; // looking is no use
      fs::last_write_time(file.path, file.used, ignored);
    }
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
