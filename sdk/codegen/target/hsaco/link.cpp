// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/hsaco/link.hpp"

#include <lld/Common/Driver.h>
#include <llvm/Support/raw_ostream.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>

LLD_HAS_DRIVER(elf)

namespace mortise::codegen {

namespace {

class Descriptor {
public:
  explicit Descriptor(int number = -1) : number(number) {}
  Descriptor(const Descriptor &) = delete;
  ~Descriptor() { close(); }
  void close() {
    if (number >= 0)
      ::close(std::exchange(number, -1));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(number); }

  int number;
};

Error failed(const char *what) {
  return {MORTISE_OUT_OF_MEMORY, std::string("linking a kernel: ") + what + ": " + std::strerror(errno)};
}

bool writeAll(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(to, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string readAll(int from) {
  std::string all;
  char part[1 << 16];
  for (ssize_t count; (count = ::read(from, part, sizeof part)) != 0;)
    if (count > 0)
      all.append(part, static_cast<size_t>(count));
    else if (errno != EINTR)
      break;
  return all;
}

} // namespace

// lld reads its input by a name and writes its output by one. It replaces a regular file, which memory with a name is,
// by a new one beside it, so that the output goes into a pipe.
Result<std::string> linkHsaco(std::string_view object) {
  static std::mutex mutex; // lld keeps its state in variables of the process
  const std::lock_guard lock(mutex);
  const Descriptor input(memfd_create("kernel.o", MFD_CLOEXEC));
  if (input.number < 0 || !writeAll(input.number, object))
    return failed("memory for the object");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return failed("a pipe");
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  std::string linked, messages;
  std::thread reader([&] { linked = readAll(from.number); });
  const std::string inputPath = input.path(), outputPath = to.path();
  const char *arguments[] = {"ld.lld", "-shared", "--threads=1", "-o", outputPath.c_str(), inputPath.c_str()};
  llvm::raw_string_ostream stream(messages);
  const lld::Result done = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  to.close();
  reader.join();
  if (done.retCode != 0 || linked.empty())
    return Error{MORTISE_INTERNAL, "linking a kernel: " + (messages.empty() ? "lld wrote nothing" : messages)};
  return linked;
}

} // namespace mortise::codegen
