// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What plugins offer for a graph, one by one, for tools that try plugins. Links no LLVM.
#pragma once

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/config.hpp>
#include <mortise/runtime/registry.hpp>

#include <string>
#include <vector>

namespace mortise::passes {

// A candidate that the host could choose. Values are numbered as in `region`, the graph of its nodes alone.
struct Offer {
  const runtime::Device *device = nullptr;
  std::string lowering;
  Region region;
  std::vector<MortiseInPlace> inPlace;   // by MortiseGraph::values of the region
  std::vector<MortiseForm> forms;        // likewise
  std::vector<runtime::Setting> options; // the plugin's own, for kernel_compile
  std::string specialised; // why it is compiled for each set of symbol values; "" when one kernel serves all values
};

struct Offers {
  std::vector<Offer> offers;
  std::vector<std::string> ignored; // candidates that are not as plugin.h says, and why
};

// Asks the plugins of the devices that the configuration selects. The graph is shown as it is: no pass has changed it.
Result<Offers> offersOf(const MortiseGraph &graph, const runtime::Registry &registry, const runtime::Config &config);

} // namespace mortise::passes
