// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels on disk. Each function writes to standard output and returns the command's exit status.
#pragma once

#include <mortise/runtime/kernel_cache.hpp>

namespace mortise::tool {

// Every entry with its size, its age and what it is for.
int showCache(const runtime::KernelCache &cache, bool json);

int clearCache(const runtime::KernelCache &cache);

} // namespace mortise::tool
