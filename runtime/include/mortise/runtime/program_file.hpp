// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled program as bytes of a file: its plan, which holds the graphs of its regions in the portable format.
// Constant inputs are not in it, literals are. A plugin compiles its regions again when the program is loaded.
//
// Layout, little endian: "MRTPROG\n", format version (u32), CRC-32 of the plan's bytes (u32; zlib's), their number
// (u64), the plan (plan.fbs).
#pragma once

#include <mortise/result.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

namespace mortise::plan {
struct PlanT;
} // namespace mortise::plan

namespace mortise::runtime {

// Errors: MORTISE_UNSUPPORTED (literals of 2 GB and more).
Result<std::vector<std::byte>> writeProgram(const plan::PlanT &plan);

// Bytes of any origin. Region graphs of an older opset are upgraded. Program::load checks the rest of the plan. Errors:
// MORTISE_CORRUPT, MORTISE_VERSION_MISMATCH.
Result<std::shared_ptr<const plan::PlanT>> readProgram(std::span<const std::byte> bytes);

} // namespace mortise::runtime
