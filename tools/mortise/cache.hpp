// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels on disk. Each function writes to standard output and returns the command's exit status.
#pragma once

#include <mortise/runtime/kernel_cache.hpp>

namespace mortise::tool {

// Every entry with its size, its age and what it is for. A cache that is off holds nothing, which is no failure.
int showCache(const runtime::OpenedKernelCache &cache, bool json);

int clearCache(const runtime::OpenedKernelCache &cache);

} // namespace mortise::tool
