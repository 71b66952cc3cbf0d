// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the stand-in reads of a code object: its header, the metadata of its kernels (llvm/docs/AMDGPUUsage.rst), and
// the kernels for this machine's CPU, which plugin/target.cpp puts behind it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mortise::stand_in {

// What stands behind a code object, whose end its own header says.
struct EmulatedTrailer {
  static constexpr char signature[16] = "mortise-emulate";
  char mark[16];
  uint64_t bytes = 0;        // of the shared library for x86 that follows
  uint64_t synchronises = 0; // its kernels have barriers or exchanges
};

struct KernelArgument {
  uint64_t offset = 0, bytes = 0;
  bool isAddress = false;
};
struct KernelMetadata {
  uint64_t wave = 0, blockThreads = 0, sharedBytes = 0, scratchBytes = 0, argumentBytes = 0;
  std::vector<KernelArgument> arguments;
};

class CodeObject {
public:
  // `image`: of unknown length, as HIP gets it. Throws std::invalid_argument, with what is wrong, for what is no code
  // object of AMD's with emulated kernels.
  explicit CodeObject(const char *image);
  ~CodeObject();
  CodeObject(const CodeObject &) = delete;

  std::string architecture; // "gfx942"
  std::map<std::string, KernelMetadata> kernels;
  bool synchronises = false;
  void *entry(const std::string &kernel) const; // of the emulated kernel; NULL: there is none

private:
  void readMetadata(const char *image);
  void loadEmulated(const char *image);
  int file = -1;
  void *library = nullptr;
};

} // namespace mortise::stand_in
