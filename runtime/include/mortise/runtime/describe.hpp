// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is installed and configured, as JSON.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <string>

namespace mortise::runtime {

// {"plugins": [{"name", "vendor", "version", "path"}], "devices": [{"name", "plugin", "kind", ...}],
//  "rejected": [{"path", "code", "reason"}], "config": [{"key", "value", "source"}]}. Bytes of plugins' strings that
//  are
// not UTF-8 are replaced.
std::string describe(const Registry &registry, const Config &config);

// "INVALID_ARGUMENT" for MORTISE_INVALID_ARGUMENT. The string is static.
const char *codeName(MortiseCode code);

} // namespace mortise::runtime
