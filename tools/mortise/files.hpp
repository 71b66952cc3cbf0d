// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Graphs and tensors in files.
#pragma once

#include <mortise/portable/graph.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::tool {

Result<std::string> readFile(const std::string &path);
Result<void> writeFile(const std::string &path, std::span<const std::byte> bytes);

// Whether a file's content is that of a compiled program.
bool isProgram(std::string_view content);

// Reads the portable format or MLIR text, distinguished by content.
Result<std::shared_ptr<const Graph>> loadGraph(const std::string &path);
// Writes the format of the file name's extension, .mrtg or .mlir; "-" writes text to standard output.
Result<void> saveGraph(const Graph &graph, const std::string &path);

// One number for each symbol, from "b=2,s=16". Symbols that are not named get a small value of their range.
Result<std::vector<int64_t>> readNumbers(std::span<const MortiseSymbol *const> symbols, const std::string &assignments);

// The graph with numbers for its symbols ("b=2,s=16"); the graph itself when it has no symbols.
Result<std::shared_ptr<const Graph>> withNumbers(std::shared_ptr<const Graph> graph, const std::string &assignments);

// The bytes of dense tensors, one for each input or output of a graph.
using Tensors = std::vector<std::vector<std::byte>>;

// Checks that all values of a static graph fit into memory at once, as the interpreter needs. Errors:
// MORTISE_OUT_OF_MEMORY.
Result<void> fitsMemory(const MortiseGraph &graph);

// Random inputs from a seed: floats normally distributed, with some exact zeros and large values; integers 0 to 7;
// booleans.
Tensors makeInputs(const MortiseGraph &graph, uint64_t seed);
// Reads or writes a file of all inputs, dense, one after the other. `reduce` writes such files.
Result<Tensors> loadInputs(const MortiseGraph &graph, const std::string &path);
Result<void> saveInputs(const Tensors &tensors, const std::string &path);

} // namespace mortise::tool
