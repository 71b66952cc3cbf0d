// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The host's side: a plugin whose slots run in a process of its own (docs/decisions/0042-isolation.md).
#pragma once

#include "../loader.hpp"

namespace mortise::runtime::isolation {

// Starts a worker that opens the library, and makes a table whose slots ask it. The worker lives until the process
// ends or a slot fails in it.
Result<std::unique_ptr<LoadedPlugin>> open(const Manifest &manifest, const LoadRequest &request,
                                           const std::string &library);

// Starts a worker under the request's limits of the probe, has it open the library and list its devices, and ends it.
// False, with a line in the log: no worker can be started here. Errors: what the plugin did.
Result<bool> prove(const Manifest &manifest, const LoadRequest &request, const std::string &library);

} // namespace mortise::runtime::isolation
