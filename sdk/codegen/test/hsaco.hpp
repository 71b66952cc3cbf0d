// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a code object of AMD's says of its kernels, read from its metadata (llvm/docs/AMDGPUUsage.rst, "Code Object V4
// Metadata").
#pragma once

#include <mortise/result.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace mortise::codegen::test {

struct HsacoKernel {
  std::string name;
  uint64_t wave = 0, blockThreads = 0;        // threads
  uint64_t vgprs = 0, sgprs = 0;              // vgprs: with those for accumulators
  uint64_t spilled = 0;                       // registers
  uint64_t scratchBytes = 0, sharedBytes = 0; // of a thread, of a block
  uint64_t argumentBytes = 0;
};
struct Hsaco {
  std::string chip; // "gfx942", of the file's header
  std::vector<HsacoKernel> kernels;
};

// Errors: MORTISE_INVALID_ARGUMENT, for what is no such file, metadata that lack a number, and a kernel without a
// descriptor among the symbols.
Result<Hsaco> readHsaco(const std::string &code);

// The instructions of a code object, a line each. Errors: as readHsaco's, and MORTISE_UNSUPPORTED for a chip that LLVM
// does not know.
Result<std::string> disassemble(const std::string &code);

// What a kernel takes that costs its speed or that no GPU has: empty where nothing.
std::string excess(const HsacoKernel &kernel);

} // namespace mortise::codegen::test
