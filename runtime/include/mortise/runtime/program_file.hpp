// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled program as bytes of a file: its plan, which holds the graphs of its regions in the portable format, and
// the kernels that plugins could save. Constant inputs are not in it, literals are. A kernel is of use to the build of
// the plugin that wrote it, on a device like that one; otherwise the plugin compiles the region again.
//
// Layout, little endian: "MRTPROG\n", format version (u32), CRC-32 of the rest (u32; zlib's), its number of bytes
// (u64), a SavedProgram (plan.fbs).
#pragma once

#include <mortise/runtime/program.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace mortise::runtime {

struct SavedProgram {
  std::shared_ptr<const plan::PlanT> plan;
  std::vector<SavedKernel> kernels;
};

// `kernels`: of Program::saveKernels, or none. Errors: MORTISE_UNSUPPORTED (literals of 2 GB and more).
Result<std::vector<std::byte>> writeProgram(const plan::PlanT &plan, std::span<const SavedKernel> kernels);

// Bytes of any origin. Region graphs of an older opset are upgraded. Program::load checks the rest of the plan. Kernels
// are machine code, which nothing here checks: load programs from where you would load plugins from. Errors:
// MORTISE_CORRUPT, MORTISE_VERSION_MISMATCH.
Result<SavedProgram> readProgram(std::span<const std::byte> bytes);

} // namespace mortise::runtime
