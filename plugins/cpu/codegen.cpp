// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated steps: one compiler for the process, so that equal groups of all regions are compiled once.
#include "device.hpp"
#include "units.hpp"

#include <mortise/plugin.hpp>

#include <mutex>

namespace mortise::cpu {

static Result<std::shared_ptr<codegen::Compiler>> compiler() {
  static std::mutex mutex;
  static auto *made = new std::shared_ptr<codegen::Compiler>; // never destroyed: the process's exit frees it
  std::lock_guard lock(mutex);
  if (!*made) {
    Result<std::unique_ptr<codegen::Compiler>> created = makeCompiler();
    if (!created)
      return created.error();
    *made = std::move(*created);
  }
  return *made;
}

Result<CompiledGroups> compileGroups(const MortiseGraph &graph, std::span<const codegen::Group> groups) {
  if (groups.empty())
    return CompiledGroups{};
  Result<std::shared_ptr<codegen::Compiler>> found = compiler();
  if (!found)
    return found.error();
  Result<std::vector<codegen::Function>> functions = (*found)->compile(graph, groups);
  if (!functions)
    return functions.error();
  return CompiledGroups{*found, std::move(*functions)};
}

Result<void> loadFunctions(std::span<const std::byte> saved) {
  Result<std::shared_ptr<codegen::Compiler>> found = compiler();
  return found ? (*found)->load(saved) : found.error();
}

} // namespace mortise::cpu
