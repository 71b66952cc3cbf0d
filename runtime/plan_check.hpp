// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks of a plan, which may come from a file. No other code reads a plan that has not passed them.
#pragma once

#include <mortise/result.hpp>
#include <mortise/runtime/plan_generated.h>

#include <mortise/portable/graph.hpp>

#include <optional>

namespace mortise::runtime {

// Bytes of a dense tensor; nullopt when the type is malformed or the size overflows.
std::optional<uint64_t> denseBytes(int32_t dtype, std::span<const int64_t> dims);
inline std::optional<uint64_t> denseBytes(const plan::TensorTypeT &type) { return denseBytes(type.dtype, type.dims); }
// Bytes of a buffer whose type has these extents, for these values of the symbols; nullopt when there is no such size.
std::optional<uint64_t> bytesOf(const plan::BufferT &buffer, std::span<const int64_t> extents,
                                std::span<const int64_t> values);
inline bool isPlain(const plan::BufferT &buffer) { return buffer.layout == MORTISE_PLAIN_LAYOUT; }
inline bool isStaticType(const plan::TensorTypeT &type) { return type.step_counts.empty(); }
std::string typeText(int32_t dtype, std::span<const int64_t> dims); // "f32[2, 16]"

inline constexpr uint32_t ownMemory = UINT32_MAX; // in BufferT::shares
uint32_t memoryOf(const plan::PlanT &plan,
                  uint32_t buffer); // the buffer whose memory `buffer` uses; usually `buffer` itself

// Checks the plan by itself: indices in range, sizes, agreement of types, every output written. Errors:
// MORTISE_CORRUPT, MORTISE_VERSION_MISMATCH.
Result<void> checkPlan(const plan::PlanT &plan);

// Checks that a region's graph has the types of the plan's buffers, and the plan's symbols.
Result<void> checkRegion(const plan::PlanT &plan, uint32_t region, const MortiseGraph &graph);

// Checks that the inputs that regions' graphs mark as donated lie in an arena or in a donated input, and that nothing
// reads them afterwards. `graphs`: of all regions, which have passed checkRegion.
Result<void> checkDonations(const plan::PlanT &plan, std::span<const MortiseGraph *const> graphs);

} // namespace mortise::runtime
