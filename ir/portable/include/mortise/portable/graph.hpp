// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph outside MLIR: the portable format's bytes, and the C view (MortiseGraph) that plugins read.
// Links no LLVM. Immutable after construction; any thread may read it.
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
  // Verifies `bytes` (FlatBuffers verifier, then sizes, indices, dtypes, order, opset) and copies them. Does not check
  // the names of ops and attributes, so it is for bytes that this build wrote. Errors: MORTISE_CORRUPT,
  // MORTISE_VERSION_MISMATCH.
  static Result<std::shared_ptr<const Graph>> read(std::span<const std::byte> bytes);

  // For files of any origin: `read`, then a check of name, operands and attributes of every `mortise.` op. A graph of
  // an older opset is upgraded: attributes that were added later get the value that was implied, retired ops become
  // their replacements. Errors: also MORTISE_UNSUPPORTED (an unknown op or attribute, named with the nearest known).
  static Result<std::shared_ptr<const Graph>> load(std::span<const std::byte> bytes,
                                                   const portable::Opset &opset = portable::opset());

  // Serialises any well-formed view (the inverse of read).
  static Result<std::shared_ptr<const Graph>> copy(const MortiseGraph &view);

  virtual ~Graph() = default;
  virtual const MortiseGraph &view() const = 0;         // valid as long as this object
  virtual std::span<const std::byte> bytes() const = 0; // the portable format

  // Serialises the graph for readers of older versions. Errors: MORTISE_UNSUPPORTED (something in the graph is too new
  // for them; the message names it).
  Result<std::vector<std::byte>> bytesFor(uint32_t newestOpset, uint32_t newestFormat,
                                          const portable::Opset &opset = portable::opset()) const;

  // The Graph that owns `view`, or NULL when no Graph does.
  static const Graph *owner(const MortiseGraph &view);
};

// A region cut out of a graph. `inputs[i]` is the index (into MortiseGraph::values) of the region's input i in the
// whole graph; `outputs` alike. Names and the flags constant and state are copied, the flag donated is not. Aliases are
// copied when both input and output belong to the region.
struct Region {
  std::shared_ptr<const Graph> graph;
  std::vector<uint32_t> inputs, outputs;
};

// `nodes` must be ascending. A value is an output of the region when a node outside, or the graph's output list, uses
// it. Inputs come in order of value index. Errors: MORTISE_INVALID_ARGUMENT (not ascending, out of range, not convex).
Result<Region> extractRegion(const MortiseGraph &graph, std::span<const uint32_t> nodes);

// The graph with a number in place of every symbol, in bodies and attributes too. The result is static and has no
// symbols or guards. Errors: MORTISE_INVALID_ARGUMENT (a number outside the symbol's range or no multiple of its
// divisor, a guard that does not hold, an extent below 0, overflow).
Result<std::shared_ptr<const Graph>> specialise(const MortiseGraph &graph, std::span<const int64_t> symbols);

// The graph with "" for its own name and those of its nodes (locations) and values, without the flag donated, and its
// inputs in the order in which its nodes use them: the same nodes extracted from different graphs have the same bytes
// then, and so have equal layers. Bodies keep their names.
Result<std::shared_ptr<const Graph>> canonical(const MortiseGraph &graph);

} // namespace mortise
