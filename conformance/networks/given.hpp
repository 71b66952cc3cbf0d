// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that lie beside a graph's file, and what they give.
#pragma once

#include <mortise/graph.hpp>

#include <optional>
#include <string>
#include <vector>

namespace mortise::conformance {

struct Given {
  std::vector<std::vector<std::byte>> inputs;
  std::string wrong; // why the interpreter's results are not those that are expected; "" when they are, or none are
};

// Whether NAME.mrtg has inputs of its own, in NAME.inputs.
bool hasInputs(const std::string &path);

// NAME.inputs has the bytes of all inputs, dense, one after the other, as `mortise run --inputs` reads them.
// NAME.expected, which may be missing, has for each output in turn, if it is of floats, the results and then by how
// much the interpreter's may differ (infinity: it is not judged), all in f64; or else the bytes of its elements.
// Nothing when there are no inputs. Errors: MORTISE_INVALID_ARGUMENT: a file has another size than the graph asks for,
// or the graph has symbols; and those of the interpreter.
Result<std::optional<Given>> readGiven(const std::string &path, const MortiseGraph &graph);

} // namespace mortise::conformance
