// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rules of the configuration that say where ops may run.
#pragma once

#include <mortise/result.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace mortise::runtime {

struct PlaceRule {
  // Patterns as of fnmatch(3): `*`, `?`, `[...]`.
  std::string op = "*";             // "attention" for mortise.attention
  std::string location = "*";       // what the front end calls the node
  std::vector<std::string> devices; // kinds, or KIND:ORDINAL
  bool forbids = false;             // the nodes may not run on `devices`; otherwise they may run nowhere else
  std::string text;                 // the rule as it was written

  // `op`: "mortise.attention".
  bool matches(std::string_view op, std::string_view location) const;
  bool names(std::string_view kind, uint32_t ordinal) const;
};

// Rules with semicolons between them, each of fields with spaces between them: `op=PATTERN`, `location=PATTERN`, and
// one of `device=A,B` and `not_device=A,B`. Errors: MORTISE_INVALID_ARGUMENT.
Result<std::vector<PlaceRule>> parsePlaceRules(std::string_view text);

} // namespace mortise::runtime
