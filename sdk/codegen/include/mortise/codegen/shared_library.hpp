// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared libraries of a vendor's, opened at run time.
#pragma once

#include <mortise/result.hpp>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace mortise::codegen {

// Opens the first of these files that there is, for good. A copy that is there already (PyTorch's, say) is taken before
// another one is loaded beside it. Errors: MORTISE_NOT_FOUND, with the loader's reasons.
Result<void *> openShared(std::span<const std::string> files);

// Paths of what the process has loaded whose file's name begins so. Packages rename their copies of libraries, so that
// those are found by no name that is known before.
std::vector<std::string> loadedFiles(std::string_view prefix);

// Fills `function` with this symbol of the library, or adds the symbol's name to `missing`.
void *findShared(void *library, const char *symbol, std::string &missing);
template <typename Function>
void findShared(void *library, const char *symbol, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(findShared(library, symbol, missing));
}

// Whether an option may name this file. Its code runs in the process, and a project's settings, which may come with a
// clone, must not choose it: apart from the usual values only the environment's is taken. Errors:
// MORTISE_INVALID_ARGUMENT.
Result<void> checkChoice(const char *option, const std::string &value, std::initializer_list<std::string_view> usual,
                         const char *variable);

} // namespace mortise::codegen
