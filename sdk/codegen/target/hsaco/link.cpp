// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target/hsaco/link.hpp"

#include <lld/Common/Driver.h>
#include <llvm/Support/FileSystem.h>
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

bool write(int to, std::string_view bytes) {
  llvm::raw_fd_ostream stream(to, /*shouldClose=*/false, /*unbuffered=*/true);
  stream << llvm::StringRef(bytes);
  const bool isWritten = !stream.has_error();
  stream.clear_error(); // otherwise its end is a fatal one
  return isWritten;
}

} // namespace

// lld reads its input by a name and writes its output by one. It replaces a regular file, which memory with a name is,
// by a new one beside it, so that the output goes into a pipe.
Result<std::string> linkHsaco(std::string_view object) {
  static std::mutex mutex; // lld keeps its state in variables of the process
  const std::lock_guard lock(mutex);
  const Descriptor input(memfd_create("kernel.o", MFD_CLOEXEC));
  if (input.number < 0 || !write(input.number, object))
    return failed("memory for the object");
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    return failed("a pipe");
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  llvm::SmallVector<char, 0> linked;
  std::string messages;
  std::thread reader([&] {
    if (auto failure = llvm::sys::fs::readNativeFileToEOF(from.number, linked)) {
      llvm::consumeError(std::move(failure));
      linked.clear();
    }
  });
  const std::string inputPath = input.path(), outputPath = to.path();
  const char *arguments[] = {"ld.lld", "-shared", "--threads=1", "-o", outputPath.c_str(), inputPath.c_str()};
  llvm::raw_string_ostream stream(messages);
  const lld::Result done = lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  to.close();
  reader.join();
  if (done.retCode != 0 || linked.empty())
    return Error{MORTISE_INTERNAL, "linking a kernel: " + (messages.empty() ? "lld wrote nothing" : messages)};
  return std::string(linked.data(), linked.size());
}

} // namespace mortise::codegen
