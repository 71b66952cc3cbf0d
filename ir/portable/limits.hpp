// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Upper limits for a graph, far above what a model needs. Checked before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::portable {

inline constexpr uint32_t formatVersion = 2;        // the newest; see graph.fbs
inline constexpr size_t maxBytes = size_t(1) << 30; // a graph contains no weights
inline constexpr int32_t maxRank = 32;
inline constexpr int64_t maxElements = int64_t(1) << 56; // of a tensor, also the limit for offsets by strides
inline constexpr size_t maxName = 4096;                  // characters of a name, an op or a location
inline constexpr size_t maxString = size_t(1) << 20;     // characters of a string attribute
inline constexpr uint32_t noValue = UINT32_MAX;          // an optional operand that is left out

} // namespace mortise::portable
