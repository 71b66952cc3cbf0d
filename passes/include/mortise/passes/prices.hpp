// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Costs in ns that candidates do not include, from what devices say of themselves: starting a region, and copies. The
// constants stand for what a device does not know.
#pragma once

#include <mortise/runtime/registry.hpp>

namespace mortise::passes {

inline constexpr double regionNs = 300;         // starting a region
inline constexpr double copyLatencyNs = 10'000; // a copy of one byte
inline constexpr double copyBandwidth = 12e9;   // bytes per second of a bus

double launchNs(const runtime::Device &device);
// Between the device's memory and the host's.
double transferNs(const runtime::Device &device, double bytes);
double copyNs(double latencyNs, double bytesPerSecond, double bytes); // 0: not known

} // namespace mortise::passes
