// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "shared_library.hpp"

#include <dlfcn.h>

namespace mortise::cuda {

Result<void *> openShared(std::span<const std::string> files) {
  std::string reasons;
  for (const int how : {RTLD_NOLOAD, 0})
    for (const std::string &file : files) {
      if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | how))
        return handle;
      const char *reason = dlerror();
      if (how == 0)
        reasons += (reasons.empty() ? "" : "; ") + std::string(reason ? reason : file);
    }
  return Error{MORTISE_NOT_FOUND, reasons};
}

void *findShared(void *library, const char *symbol, std::string &missing) {
  void *found = dlsym(library, symbol);
  if (!found)
    missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  return found;
}

} // namespace mortise::cuda
