// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "reduce.hpp"

#include "check.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <numeric>

namespace mortise::tool {
namespace {

using Nodes = std::vector<uint32_t>; // ascending

class Reducer {
public:
  Reducer(const MortiseGraph &graph, const Tensors &values,
          const std::function<Result<bool>(const Graph &, const Tensors &)> &fails)
      : graph(graph), values(values), fails(fails) {}

  // Tries windows of consecutive nodes, which are always convex.
  Result<void> narrow(Nodes &nodes) {
    for (size_t length = (nodes.size() + 1) / 2; length >= 1 && nodes.size() > 1;) {
      bool found = false;
      const size_t step = std::max<size_t>(length / 2, 1);
      for (size_t at = 0; at + length <= nodes.size() && !found; at += step) {
        const Nodes window(nodes.begin() + static_cast<ptrdiff_t>(at),
                           nodes.begin() + static_cast<ptrdiff_t>(at + length));
        Result<bool> failed = test(window);
        if (!failed)
          return failed.error();
        if (*failed) {
          nodes = window;
          found = true;
        }
      }
      if (found)
        length = (nodes.size() + 1) / 2;
      else if (length == 1)
        break;
      else // no window of this length fails: try a smaller one
        length = length > 8 ? length - length / 4 : length - 1;
      if (length >= nodes.size())
        length = nodes.size() - 1;
      if (length == 0 || tried > limit)
        break;
    }
    return {};
  }

  // Removes chunks of nodes, then single nodes, until every node is needed.
  Result<void> thin(Nodes &nodes) {
    for (size_t chunk = std::max<size_t>(nodes.size() / 2, 1); nodes.size() > 1;) {
      bool smaller = false;
      for (size_t at = 0; at < nodes.size() && nodes.size() > 1;) {
        Nodes rest(nodes.begin(), nodes.begin() + static_cast<ptrdiff_t>(at));
        rest.insert(rest.end(), nodes.begin() + static_cast<ptrdiff_t>(std::min(at + chunk, nodes.size())),
                    nodes.end());
        Result<bool> failed = rest.empty() ? Result<bool>(false) : test(rest);
        if (!failed)
          return failed.error();
        if (*failed) {
          nodes = rest;
          smaller = true;
        } else {
          at += chunk;
        }
      }
      if (chunk == 1 && !smaller)
        return {};
      chunk = smaller ? std::min(chunk, std::max<size_t>(nodes.size() / 2, 1)) : std::max<size_t>(chunk / 2, 1);
    }
    return {};
  }

  // Whether the region fails. False when `nodes` are no valid region: not convex, or without a used result.
  Result<bool> test(const Nodes &nodes) {
    Result<Region> region = extractRegion(graph, nodes);
    if (!region || region->outputs.empty())
      return false;
    ++tried;
    Result<bool> failed = fails(*region->graph, inputsOf(*region));
    if (failed)
      std::cerr << "  " << nodes.size() << " nodes: " << (*failed ? "fails" : "works") << "\n";
    return failed;
  }

  Tensors inputsOf(const Region &region) const {
    Tensors inputs;
    for (uint32_t value : region.inputs)
      inputs.push_back(values[value]);
    return inputs;
  }

  const MortiseGraph &graph;
  const Tensors &values;
  const std::function<Result<bool>(const Graph &, const Tensors &)> &fails;
  size_t tried = 0;
  static constexpr size_t limit = 4096;
};

} // namespace

Result<Reduced> reduce(const Graph &graph, const Tensors &inputs,
                       const std::function<Result<bool>(const Graph &, const Tensors &)> &fails) {
  const MortiseGraph &view = graph.view();
  Result<bool> whole = fails(graph, inputs);
  if (!whole)
    return whole.error();
  if (!*whole)
    return Error{MORTISE_INVALID_ARGUMENT,
                 "the whole graph does not fail with these inputs; give those with which it does "
                 "(--inputs), or another --seed"};
  Result<Tensors> values = allValues(view, inputs);
  if (!values)
    return values.error();
  Reducer reducer(view, *values, fails);
  Nodes nodes(view.node_count);
  std::iota(nodes.begin(), nodes.end(), 0u);
  Result<bool> asRegion = reducer.test(nodes);
  if (!asRegion)
    return asRegion.error();
  if (!*asRegion) // the graph fails only with its aliases or unused results, so it cannot be cut
    return Reduced{*Graph::copy(view), inputs, reducer.tried};
  if (Result<void> done = reducer.narrow(nodes); !done)
    return done.error();
  if (Result<void> done = reducer.thin(nodes); !done)
    return done.error();
  Result<Region> region = extractRegion(view, nodes);
  if (!region)
    return region.error();
  Tensors smallest = reducer.inputsOf(*region);
  return Reduced{std::move(region->graph), std::move(smallest), reducer.tried};
}

} // namespace mortise::tool
