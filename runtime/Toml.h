// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A TOML file as flat text: dotted keys and lists of values. What manifests and configuration need of the language.
#pragma once

#include <mortise/result.hpp>

#include <map>
#include <string>
#include <vector>

namespace mortise::runtime {

struct TomlValue {
  bool list = false;
  std::vector<std::string> texts; // one unless `list`
  int line = 0;
};
using TomlTable = std::map<std::string, TomlValue>; // "options.threads.default" -> "0"

// Errors: MORTISE_NOT_FOUND (no such file), MORTISE_INVALID_ARGUMENT (names the line).
Result<TomlTable> readToml(const std::string &path);

} // namespace mortise::runtime
