// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// For the people who write plugins: `mortise plugin`.
#pragma once

#include <string>

namespace mortise::tool {

struct PluginCheck {
  std::string library, device, ops; // device: "" is every one; ops: as opCases() takes them
  std::string beside;               // plugins to load with it: an op-pack needs the owner of its device
  double limit = 20;                // seconds for loading it, and for one case
  bool json = false, verbose = false;
  int jobs = 1; // child processes at a time that try a device
};
// Says in words what is wrong with a plugin. Its code runs in child processes only. Exit status 0: nothing; 1:
// something; 2: it cannot be checked.
int checkPlugin(const PluginCheck &asked);

struct NewPlugin {
  std::string name, lang = "c", memory = "host"; // lang: c, cpp, codegen; memory: host, own
  std::string vendor, folder;                    // "": by the name
};
// Writes a project that builds, from the SDK beside this program. Exit status 0, or 2 with a reason.
int newPlugin(const NewPlugin &asked);

} // namespace mortise::tool
