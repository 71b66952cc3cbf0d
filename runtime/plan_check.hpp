// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan may come from a file: nothing in it is believed before this.
#pragma once

#include <mortise/result.hpp>
#include <mortise/runtime/plan_generated.h>

#include <mortise/portable/graph.hpp>

#include <optional>

namespace mortise::runtime {

// Bytes of a dense tensor; nothing when the type is malformed or the size overflows.
std::optional<uint64_t> denseBytes(int32_t dtype, std::span<const int64_t> dims);
inline std::optional<uint64_t> denseBytes(const plan::TensorTypeT &type) { return denseBytes(type.dtype, type.dims); }
inline bool isStaticType(const plan::TensorTypeT &type) { return type.step_counts.empty(); }
std::string typeText(int32_t dtype, std::span<const int64_t> dims); // "f32[2, 16]"

inline constexpr uint32_t ownMemory = UINT32_MAX;            // in BufferT::shares
uint32_t memoryOf(const plan::PlanT &plan, uint32_t buffer); // the buffer in whose memory it lies: most often itself

// Everything inside the plan: numbers in range, sizes, types of what refers to each other, every output written.
// Errors: MORTISE_CORRUPT, MORTISE_VERSION_MISMATCH.
Result<void> checkPlan(const plan::PlanT &plan);

// The region's graph has the buffers' types and the plan's symbols.
Result<void> checkRegion(const plan::PlanT &plan, uint32_t region, const MortiseGraph &graph);

} // namespace mortise::runtime
