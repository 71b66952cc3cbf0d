// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A TOML file as a flat table of dotted keys and lists of texts, which is all that manifests and configuration use.
#pragma once

#include <mortise/result.hpp>

#include <map>
#include <string>
#include <vector>

namespace mortise::runtime {

enum class TomlKind { Text, List, Other }; // Other: a date or a list of lists, which no key of ours accepts

struct TomlValue {
  TomlKind kind = TomlKind::Text;
  std::vector<std::string> texts; // exactly one for a Text
};
using TomlTable = std::map<std::string, TomlValue>; // "options.threads.default" -> "0"; [[claims]] -> "claims.0.ops"

// Errors: MORTISE_NOT_FOUND (no such file), MORTISE_INVALID_ARGUMENT (names the line).
Result<TomlTable> readToml(const std::string &path);

} // namespace mortise::runtime
