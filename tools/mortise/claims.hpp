// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The claims of a manifest beside what the cases have shown.
#pragma once

#include <mortise/runtime/manifest.hpp>

#include <string>
#include <vector>

namespace mortise::tool {

// A case of one op, and what became of it.
struct ClaimedCase {
  std::string op, dtype, why; // why: it was refused
  int32_t rank = 0;
  bool isRight = false, isRefused = false;
};

// Pairs of an op and an element type. A claim of a pair is true where a case of the pair, of a rank that is claimed, is
// right.
struct Claims {
  std::vector<std::string> refused; // pairs of which cases fit, and none is right: "mortise.add in f16: REASON"
  std::vector<std::string> untried; // those of which no case fits, by op: "mortise.add in f16 f32"
  size_t shown = 0;                 // pairs of which a case is right
};

// Claims of ops that are neither the language's nor declared: "'mortise.ad', which is no op of opset 3".
std::vector<std::string> unknownClaims(const runtime::Manifest &manifest);

// `ops`: patterns of the ops that were tried; claims of others are passed over.
Claims weighClaims(const runtime::Manifest &manifest, const std::vector<ClaimedCase> &cases, const std::string &ops);

} // namespace mortise::tool
