// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tries the streams and events of a device: work is queued behind other work that takes long, so that what a plugin
// does too early, or reads too late, is seen in the results.
#pragma once

#include "kernel.hpp"
#include "point.hpp"

#include <string>

namespace mortise::tool {

// What is wrong, or "". `launch`: of a kernel on a device with streams, for the values of `point`, which is static.
// What a correct plugin may do is never called wrong, however slow the machine. A fault is missed where the queues are
// faster than this thread.
std::string tryQueues(const Kernel &kernel, Launch &launch, const Point &point);

} // namespace mortise::tool
