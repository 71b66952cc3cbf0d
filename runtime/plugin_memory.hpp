// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entries device_allocate and device_free of the host's table, and the allocators that applications set.
#pragma once

#include <mortise/runtime/device_memory.hpp>

namespace mortise::runtime {

// Has the entries know a device of a registry, from then on.
void announce(const Device &device);

MortiseStatus *allocateForPlugin(MortiseMemoryArgs *args);
MortiseStatus *freeForPlugin(MortiseMemoryArgs *args);

// What setAllocator() has set for a device that owns its memory, or NULL.
std::shared_ptr<const DeviceAllocator> applicationsAllocator(const Device &device);

} // namespace mortise::runtime
