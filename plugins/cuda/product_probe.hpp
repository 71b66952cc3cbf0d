// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel of the library of products computes, found out by a call.
#pragma once

#include "device.hpp"

namespace mortise::cuda {

// A BiasProbe. Takes as much memory of the device as the call, and waits for it.
Result<bool> roundsOnce(Device &device, const ProductCall &call, uint64_t workspaceBytes, const QueueProduct &kernel);

} // namespace mortise::cuda
