// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a device, and copies from, to, within and between devices: the slots of the ABI.
#pragma once

#include "stream.hpp"

namespace mortise::rocm {

Result<void> allocate(MortiseMemoryArgs &args);
Result<void> release(MortiseMemoryArgs &args);
Result<void> copy(const MortiseCopyArgs &args);
Result<void> findPeer(MortisePeerArgs &args);
Result<void> registerHost(const MortiseHostMemoryArgs &args);
Result<void> unregisterHost(const MortiseHostMemoryArgs &args);

} // namespace mortise::rocm
