// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "external.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mortise::onnx {
namespace {

class File {
public:
  explicit File(int descriptor = -1) : descriptor(descriptor) {}
  ~File() { reset(-1); }
  File(const File &) = delete;
  void reset(int with) {
    if (descriptor >= 0)
      close(descriptor);
    descriptor = with;
  }
  int get() const { return descriptor; }

private:
  int descriptor;
};

// Opens folder after folder, so that nothing which changes meanwhile leads out of the model's.
void openBelow(File &file, const std::string &folder, const std::string &path, const std::string &what) {
  if (path.empty() || path.front() == '/' || path.find('\0') != std::string::npos)
    refuse(MORTISE_INVALID_ARGUMENT,
           what + ": expected external data at a path below the model's folder, found '" + path + "'");
  file.reset(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (size_t begin = 0; begin <= path.size() && file.get() >= 0;) {
    const size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (part == "..")
      refuse(MORTISE_INVALID_ARGUMENT,
             what + ": expected external data below the model's folder, found the path '" + path + "'");
    const bool isLast = end == path.size();
    if (isLast || (!part.empty() && part != "."))
      file.reset(openat(file.get(), part.c_str(),
                        O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (isLast ? 0 : O_DIRECTORY)));
    begin = end + 1;
  }
  if (file.get() < 0)
    refuse(MORTISE_NOT_FOUND, what + ": expected external data in '" + path + "' in the model's folder '" + folder +
                                  "' (links are not followed), found: " + std::strerror(errno));
}

size_t numberIn(const std::string &word, const char *key, const std::string &what) {
  size_t number = 0;
  const char *end = word.data() + word.size();
  if (const auto read = std::from_chars(word.data(), end, number); read.ec != std::errc() || read.ptr != end)
    corrupt(what + ": expected the number of bytes in '" + key + "' of the external data, found '" + word + "'");
  return number;
}

} // namespace

std::vector<std::byte> readExternal(const proto::TensorProto &of, const std::string &folder, size_t bytes,
                                    const std::string &what) {
  std::string path;
  size_t offset = 0, length = bytes;
  for (const auto &entry : of.external_data()) {
    if (entry.key() == "location")
      path = entry.value();
    else if (entry.key() == "offset")
      offset = numberIn(entry.value(), "offset", what);
    else if (entry.key() == "length")
      length = numberIn(entry.value(), "length", what);
  }
  File file;
  openBelow(file, folder, path, what);
  struct stat status{};
  if (fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    refuse(MORTISE_NOT_FOUND, what + ": expected a file of external data, found that '" + path + "' is none");
  const auto size = static_cast<size_t>(status.st_size);
  if (length != bytes || offset > size || bytes > size - offset)
    corrupt(what + ": expected " + std::to_string(bytes) + " bytes of external data, found " + std::to_string(length) +
            " at " + std::to_string(offset) + " of the " + std::to_string(size) + " bytes of '" + path + "'");
  std::vector<std::byte> data(bytes);
  for (size_t done = 0; done < bytes;) {
    const ssize_t count = pread(file.get(), data.data() + done, bytes - done, static_cast<off_t>(offset + done));
    if (count <= 0)
      refuse(MORTISE_NOT_FOUND, what + ": '" + path + "' cannot be read");
    done += static_cast<size_t>(count);
  }
  return data;
}

} // namespace mortise::onnx
