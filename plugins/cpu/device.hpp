// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The machine that this process runs on.
#pragma once

#include <mortise/plugin.h>

#include <cstdint>

namespace mortise::cpu {

const MortiseDeviceInfo &deviceInfo(); // found once
uint32_t threadCount();                // of the process's pool

// bf16 products without converting to f32 first (AVX-512, with or without its bf16 instructions).
bool hasBrainProducts();

} // namespace mortise::cpu
