// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs and tensors in files.
#pragma once

#include <mortise/portable/graph.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::tool {

Result<std::string> readFile(const std::string &path);
Result<void> writeFile(const std::string &path, std::span<const std::byte> bytes);

// By content: the portable format, or MLIR text.
Result<std::shared_ptr<const Graph>> loadGraph(const std::string &path);
// By the name's end: .mrtg, or .mlir; "-" is text to standard output.
Result<void> saveGraph(const Graph &graph, const std::string &path);

// The graph with numbers for its symbols ("b=2,s=16"); itself when it has none. Symbols that are not named get a small
// value of their range.
Result<std::shared_ptr<const Graph>> withNumbers(std::shared_ptr<const Graph> graph, const std::string &assignments);

// The bytes of dense tensors, one for each input or output of a graph.
using Tensors = std::vector<std::vector<std::byte>>;

// All values of a graph with numbers lie in memory at once when the interpreter runs it. Errors: MORTISE_OUT_OF_MEMORY.
Result<void> fitsMemory(const MortiseGraph &graph);

// Seeded: floats normal, with a share of exact zeros and large values; integers 0 to 7; booleans.
Tensors makeInputs(const MortiseGraph &graph, uint64_t seed);
// The inputs one after the other, dense, as `reduce` writes them.
Result<Tensors> loadInputs(const MortiseGraph &graph, const std::string &path);
Result<void> saveInputs(const Tensors &tensors, const std::string &path);

} // namespace mortise::tool
