// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The worker's side: what `mortise-worker` runs.
#pragma once

namespace mortise::runtime::isolation {

constexpr int workerSocket = 3, workerMemory = 4; // descriptors that the host hands to the process

// Answers questions until the host is gone. Returns the exit status of the process.
int serve();

} // namespace mortise::runtime::isolation
