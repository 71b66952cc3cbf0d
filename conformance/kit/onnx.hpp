// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tests of the ONNX project as cases: a model, its inputs, and the results that are due. The program
// mortise-import-onnx, which lies beside this one, makes the graphs, because importing takes MLIR and this program
// links none.
#pragma once

#include "network.hpp"

namespace mortise::conformance {

// A folder holds model.onnx and test_data_set_0, test_data_set_1 and so on, or folders that do. Errors:
// MORTISE_NOT_FOUND: there is none, or no importer.
Result<std::vector<Point>> onnxPoints(const std::vector<std::string> &folders);

// What the importer has made of a test, or why it has made nothing.
struct OnnxCase {
  std::string refused; // the importer's word for the reason; "": it has made a graph
  std::string wrong;   // what the graph gives in place of what is due; "": the types are right
  std::string why;     // of a refusal
  std::shared_ptr<const Graph> graph;
  Tensors inputs, expected;
  std::vector<std::string> bound; // inputs that are constants of the graph
};
Result<OnnxCase> readOnnxCase(const std::string &path);

// Whether the interpreter gives what is due: "" or what differs. ONNX computes expected results with numpy in the
// operator's element type, so each side may be off by its own roundings.
Result<std::string> judgeReference(const OnnxCase &of);

// Judges the reference by the expected results first, then the device by the reference, region by region.
Verdict judgeOnnx(Device &device, const Point &point, const NetworkTask &task);

} // namespace mortise::conformance
