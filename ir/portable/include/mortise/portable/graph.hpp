// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph outside MLIR: the portable format's bytes, and the C view (MortiseGraph) that plugins read.
// Links no LLVM. Immutable once made; any thread may read.
#pragma once

#include <mortise/portable/opset.hpp>
#include <mortise/symbols.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise {

class Graph {
public:
  // Verifies `bytes` (FlatBuffers verifier, then sizes, indices, dtypes, order, opset) and copies them. Names of ops
  // and attributes are not looked at: for what this build wrote. Errors: MORTISE_CORRUPT, MORTISE_VERSION_MISMATCH.
  static Result<std::shared_ptr<const Graph>> read(std::span<const std::byte> bytes);

  // A file from anywhere: `read`, then every op of ours is checked by its name, operands and attributes, and a graph of
  // an older opset is brought up to date: attributes added since get the value that was implied, retired ops become
  // their replacements. Errors: also MORTISE_UNSUPPORTED (an unknown op or attribute, named with the nearest known).
  static Result<std::shared_ptr<const Graph>> load(std::span<const std::byte> bytes,
                                                   const portable::Opset &opset = portable::opset());

  // Serialises any well-formed view (the inverse of read).
  static Result<std::shared_ptr<const Graph>> copy(const MortiseGraph &view);

  virtual ~Graph() = default;
  virtual const MortiseGraph &view() const = 0;         // lives as long as this
  virtual std::span<const std::byte> bytes() const = 0; // the portable format

  // The graph for readers of older versions. Errors: MORTISE_UNSUPPORTED names what is too new for them.
  Result<std::vector<std::byte>> bytesFor(uint32_t newestOpset, uint32_t newestFormat,
                                          const portable::Opset &opset = portable::opset()) const;

  // The Graph that owns `view`, or NULL when `view` was made by someone else.
  static const Graph *owner(const MortiseGraph &view);
};

// A region cut out of a graph. `inputs[i]` is the index (MortiseGraph::values) in the whole graph of the
// region's input i, likewise outputs; flags (constant and state, but not donated, of which a region says nothing) and
// names carry over, aliases too where both ends
// are the region's.
struct Region {
  std::shared_ptr<const Graph> graph;
  std::vector<uint32_t> inputs, outputs;
};

// `nodes` ascending. A value is an output of the region when a node outside, or the graph's output list, uses it.
// Inputs come in order of value index. Errors: MORTISE_INVALID_ARGUMENT (not ascending, out of range, not convex).
Result<Region> extractRegion(const MortiseGraph &graph, std::span<const uint32_t> nodes);

// The graph with a number for every symbol: static, without symbols and guards; bodies and programs of attributes too.
// Errors: MORTISE_INVALID_ARGUMENT (a number outside the symbol's range or no multiple of its divisor, a guard that
// does not hold, an extent below 0, overflow).
Result<std::shared_ptr<const Graph>> specialise(const MortiseGraph &graph, std::span<const int64_t> symbols);

} // namespace mortise
