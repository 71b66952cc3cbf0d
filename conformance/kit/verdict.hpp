// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What became of a case.
#pragma once

#include "judge.hpp"
#include "roofline.hpp"

#include <nlohmann/json.hpp>

namespace mortise::conformance {

using Json = nlohmann::ordered_json;

// Passed: the plugin computed it, and nothing is wrong. Refused: the plugin says that it does not take it. Folded and
// the like do not exist here: every case reaches the plugin.
enum class Outcome { Passed, Failed, Refused, Crashed, Hung };
inline constexpr const char *outcomeNames[] = {"passed", "failed", "refused", "crashed", "hung"};
inline const char *nameOf(Outcome outcome) { return outcomeNames[static_cast<size_t>(outcome)]; }

// Why a plugin refused: MortiseReason's names in lower case, and what else there is.
const char *reasonName(int32_t reason);
inline constexpr int32_t reasonCompile = 1000; // kernel_compile answered MORTISE_UNSUPPORTED
inline constexpr int32_t reasonPartial = 1001; // no candidate has all nodes of the case
inline constexpr int32_t reasonForms = 1002;   // all such candidates want layouts or spaces of the plugin's own
inline constexpr int32_t reasonNoPair = 1003;  // the candidate writes nothing in place
inline constexpr int32_t reasonOpset = 1004;   // the host cannot write the case for the plugin's opset

struct Verdict {
  std::string id;
  Outcome outcome = Outcome::Passed;
  std::string kind;   // of a failure: "result", "memory", "input", "determinism", "status", "settings", "leak",
                      // "threads", "order", "speed"; of a test of ONNX's also "import" and "reference"
  std::string reason; // of a refusal
  std::string why;
  Distances distances;
  double seconds = 0;         // of the whole case
  double cpuSeconds = 0;      // of this process within the plugin's `enqueue` and waits
  double runSeconds = 0;      // wall time of these
  std::optional<Speed> speed; // of the level perf
  // Of a network: its nodes, and the regions that the plugin has taken of them; the file of the smallest part that
  // fails, if it was saved.
  size_t nodes = 0, regions = 0;
  std::string region;
  std::vector<std::string> bound; // of a test of ONNX's: inputs that the graph has as constants

  Json json() const;
  static Verdict read(const Json &json);
};

} // namespace mortise::conformance
