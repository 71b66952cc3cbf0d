// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs the networks of the levels training, quantised and models, region by region.
#pragma once

#include "../cases/case.hpp"
#include "../networks/networks.hpp"
#include "device.hpp"
#include "verdict.hpp"

#include <functional>

namespace mortise::conformance {

struct NetworkTask {
  uint64_t seed = 0;
  std::string folder;                       // for the smallest region that fails; "": it is not saved
  std::function<void()> stillThere = [] {}; // called at least every few seconds
};

// Covers the network with the largest regions that the plugin takes, composites that it does not take as their parts,
// and calls them one after the other, twice, with other inputs and the same constants. Each region computes from what
// the device has computed before it, and is judged against the interpreter on the same operands. Of one that fails, the
// smallest part that fails alone is sought, among those whose nodes stand together.
Verdict judgeNetwork(Device &device, const Point &point, const NetworkTask &task);
// As above, of any network: `make` gives it with these composites as their parts.
using MakeNetwork = std::function<Result<NetworkCase>(const std::set<Op> &expanded)>;
Verdict judgeNetwork(Device &device, const std::string &id, const MakeNetwork &make, const NetworkTask &task);

// A region with what its inputs hold.
struct RegionCase {
  std::shared_ptr<const Graph> graph;
  Tensors inputs;
};

// A file is a line of JSON with the sizes in bytes, then the graph in the portable format, then the inputs.
Result<void> saveRegion(const RegionCase &region, const std::string &why, const std::string &path);
Result<RegionCase> readRegion(const std::string &path);
// As judgeNetwork judges it. `path` is the verdict's id.
Verdict judgeRegion(Device &device, const RegionCase &region, const std::string &path);

} // namespace mortise::conformance
