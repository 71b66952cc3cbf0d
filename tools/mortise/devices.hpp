// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is installed and configured, and whether it works. Each function writes to standard output and returns the
// command's exit status.
#pragma once

#include "host.hpp"

namespace mortise::tool {

// Every device with its plugin, and every plugin that was rejected, with the reason. 1 when there is no device.
int showDevices(const Host &host, bool json);

// Every setting with its source.
int showConfig(const Host &host, bool json);

// Checks the plugins, the configured devices, and by a small graph in a process of its own that each device computes
// what the reference interpreter does. 1 when anything is wrong. `plugins`: as Host::open() was given it.
int doctor(const Host &host, const std::string &plugins);

} // namespace mortise::tool
