// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/codegen/shared_library.hpp>

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace mortise::codegen {

Result<void *> openShared(std::span<const std::string> files) {
  std::string reasons, last; // files that fail alike share a reason
  for (const int how : {RTLD_NOLOAD, 0})
    for (const std::string &file : files) {
      if (void *handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | how))
        return handle;
      const char *told = dlerror();
      if (how != 0)
        continue;
      std::string reason = told ? told : "";
      if (reason.starts_with(file + ": "))
        reason.erase(0, file.size() + 2);
      if (!reasons.empty())
        reasons += reason == last ? ", " : ": " + last + "; ";
      reasons += file;
      last = std::move(reason);
    }
  return Error{MORTISE_NOT_FOUND, reasons + ": " + last};
}

std::vector<std::string> loadedFiles(std::string_view prefix) {
  struct Search {
    std::string_view prefix;
    std::vector<std::string> found;
  } search{prefix, {}};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *context) {
        auto &search = *static_cast<Search *>(context);
        const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
        if (path.substr(path.rfind('/') + 1).starts_with(search.prefix))
          search.found.emplace_back(path);
        return 0;
      },
      &search);
  return std::move(search.found);
}

void *findShared(void *library, const char *symbol, std::string &missing) {
  void *found = dlsym(library, symbol);
  if (!found)
    missing += (missing.empty() ? "" : ", ") + std::string(symbol);
  return found;
}

Result<void> checkChoice(const char *option, const std::string &value, std::initializer_list<std::string_view> usual,
                         const char *variable) {
  const char *chosen = std::getenv(variable);
  if (std::ranges::find(usual, value) != usual.end() || value == (chosen ? chosen : ""))
    return {};
  std::string expected;
  for (const std::string_view each : usual)
    expected += std::string(each) + ", ";
  expected.resize(expected.size() - 2);
  return Error{MORTISE_INVALID_ARGUMENT, "option " + std::string(option) + ": expected " + expected +
                                             " or the value of " + variable + ", found " + value +
                                             " from elsewhere; set the environment variable instead"};
}

} // namespace mortise::codegen
