// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A graph at one set of values for its symbols, with operands, and results of the reference interpreter.
#pragma once

#include "files.hpp"

#include <memory>
#include <mutex>

namespace mortise::tool {

// How far rounding may move the outputs: measured once, where one differs first.
struct Rounding {
  std::once_flag once;
  Result<std::vector<std::vector<double>>> standardErrors = Error{MORTISE_INTERNAL, "not measured"};
};

struct Point {
  std::vector<int64_t> symbols;       // the values; none for a graph without symbols
  std::shared_ptr<const Graph> graph; // static; its inputs and outputs are those of the graph with symbols
  Tensors inputs, expected;
  std::shared_ptr<Rounding> rounding = std::make_shared<Rounding>();
};

// A static graph with these operands. Errors: those of the interpreter.
Result<Point> pointOf(std::shared_ptr<const Graph> graph, std::vector<int64_t> symbols, Tensors inputs);

// The graph where its symbols are as small as they may be (0 or 1, if legal), 2 and 3, odd, and large. Values at which
// the language refuses it, or it has no results, are left out.
std::vector<Point> pointsOf(const MortiseGraph &graph);

// "with n = 2, m = 3: "; "" without symbols.
std::string symbolsText(const MortiseGraph &graph, const std::vector<int64_t> &symbols);

// What is wrong with results, or "": they may differ as far as rounding explains (error_bounds.hpp). Threads may ask at
// once.
std::string differences(const Point &point, const Tensors &found);

} // namespace mortise::tool
