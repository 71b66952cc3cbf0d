// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The worker's side: what `mortise-worker` runs.
#pragma once

#include <cstdint>

namespace mortise::runtime::isolation {

constexpr int workerSocket = 3, workerMemory = 4; // descriptors that the host hands to the process

// The shared memory begins with the name of the slot that the worker is in, which the host reads when the process has
// ended. Tensors lie behind it.
constexpr uint64_t shownBytes = 64, tensorsBegin = 4096;

// Answers questions until the host is gone. Returns the exit status of the process.
int serve();

} // namespace mortise::runtime::isolation
