// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A copy of a node whose attributes the planted fault changes, as a compiler does that overlooks one.
#pragma once

#include "faults.hpp"

#include <mortise/graph.hpp>

#include <memory>
#include <vector>

namespace saboteur {

class PatchedNode {
public:
  explicit PatchedNode(const MortiseNode &from);
  PatchedNode(const PatchedNode &) = delete;
  const MortiseNode &node() const { return made; }

private:
  struct Owned; // an attribute with its data
  void replace(const char *name, const Owned &with);
  void swapPadding();
  void takeFromCache();

  MortiseNode made;
  std::vector<const MortiseAttribute *> list;
  std::vector<std::shared_ptr<const Owned>> kept;
};

} // namespace saboteur
