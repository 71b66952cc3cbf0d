// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Times copies between memories, for the mode max-autotune, and keeps the times beside the kernels on disk. Devices
// stand for their memories, NULL for the host's. Links no LLVM.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <optional>

namespace mortise::passes {

struct CopyTime {
  double ns = 0; // of a copy of one byte
  double bytesPerSecond = 0;
};

// From the median times of a small and a large copy. What is faster than any bus counts as the fastest one: a clock
// tells no more. Errors: times that no copy takes.
Result<CopyTime> copyTimeFrom(double smallBytes, double smallNs, double largeBytes, double largeNs);

// Runs programs that copy from one memory to the other, on the way that every plan takes: over the host's memory
// between devices that do not reach each other. The wait for the copy counts. Errors: what failed.
Result<CopyTime> timeCopies(const runtime::Device *from, const runtime::Device *to,
                            const std::shared_ptr<const runtime::Registry> &registry);

// What an earlier process has measured: nullopt where that is nothing, or nothing sensible, which a warning says.
std::optional<CopyTime> keptCopyTime(const runtime::Device *from, const runtime::Device *to,
                                     const runtime::OpenedKernelCache &cache);
// Keeps a time where both devices have fingerprints, so that later processes know them again.
void keepCopyTime(const runtime::Device *from, const runtime::Device *to, const CopyTime &time,
                  const runtime::OpenedKernelCache &cache);

} // namespace mortise::passes
