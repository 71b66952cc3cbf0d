// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a device, and copies from, to, within and between devices: the slots of the ABI.
#pragma once

#include "stream.hpp"

namespace mortise::vulkan {

Result<void> allocate(MortiseMemoryArgs &args);
Result<void> release(MortiseMemoryArgs &args);
Result<void> copy(const MortiseCopyArgs &args);

// Copies from the host's memory, which may be gone when the call returns.
Result<void> upload(Stream &stream, uint64_t target, const std::byte *source, uint64_t bytes);
// Records a copy within the device.
Result<void> recordCopy(Device &device, const Device::Commands &commands, uint64_t target, uint64_t source,
                        uint64_t bytes);

} // namespace mortise::vulkan
