// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared libraries of a vendor's, opened at run time.
#pragma once

#include <mortise/result.hpp>

#include <span>
#include <string>
#include <vector>

namespace mortise::cuda {

// Opens the first of these files that there is, for good. A copy that is there already (PyTorch's, say) is taken before
// another one is loaded beside it. Errors: MORTISE_NOT_FOUND, with the loader's reasons.
Result<void *> openShared(std::span<const std::string> files);

// Fills `function` with this symbol of the library, or adds the symbol's name to `missing`.
void *findShared(void *library, const char *symbol, std::string &missing);
template <typename Function>
void findShared(void *library, const char *symbol, Function &function, std::string &missing) {
  function = reinterpret_cast<Function>(findShared(library, symbol, missing));
}

} // namespace mortise::cuda
