// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From groups to loaded kernels: one compiler for each kind of device, so that equal groups of all regions are compiled
// once, and one table of what is loaded.
#include "function.hpp"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

namespace mortise::vulkan {

namespace {

using Source = std::shared_ptr<const codegen::SimtFunction>;

Result<codegen::SimtCompiler *> compilerFor(const codegen::SimtTarget &target) {
  static std::mutex mutex;
  // Never destroyed: the process's exit frees it.
  static auto *made = new std::map<std::string, std::unique_ptr<codegen::SimtCompiler>>;
  std::lock_guard lock(mutex);
  std::unique_ptr<codegen::SimtCompiler> &compiler = (*made)[target.chip + " " + target.features];
  if (!compiler) {
    auto created = codegen::SimtCompiler::create(target);
    if (!created)
      return created.error();
    compiler = std::move(*created);
  }
  return compiler.get();
}

// The compiler gives equal groups one object, by which their loaded form is found. It stays as long as a kernel uses
// it.
std::shared_ptr<Function> functionOf(Device &device, const Source &source) {
  static std::mutex mutex;
  static auto *known = new std::map<std::pair<const Device *, const codegen::SimtFunction *>, std::weak_ptr<Function>>;
  static size_t cleanAt = 64;
  std::lock_guard lock(mutex);
  if (known->size() >= cleanAt) {
    std::erase_if(*known, [](const auto &each) { return each.second.expired(); });
    cleanAt = 2 * known->size() + 64;
  }
  std::weak_ptr<Function> &place = (*known)[{&device, source.get()}];
  std::shared_ptr<Function> function = place.lock();
  if (!function)
    place = function = std::make_shared<Function>(device, source);
  return function;
}

// Loads them in up to 16 threads of the process's pool, each taking the next one. The first error in their order wins.
Result<void> loadAll(std::span<const std::shared_ptr<Function>> functions) {
  const auto threads = std::min<int64_t>({host().thread_count(), 16, static_cast<int64_t>(functions.size())});
  std::vector<Result<void>> results(functions.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> stop = false;
  const std::thread::id caller = std::this_thread::get_id();
  parallelFor(std::max<int64_t>(threads, 1), 1, [&](int64_t, int64_t) {
    for (size_t i; !stop && (i = next++) < functions.size();) {
      if (std::this_thread::get_id() == caller && cancelled()) { // the host knows it on this thread only
        results[i] = cancelledError();
        stop = true;
        return;
      }
      results[i] = functions[i]->load();
      if (!results[i])
        stop = true;
    }
  });
  for (const Result<void> &result : results)
    if (!result)
      return result;
  return {};
}

} // namespace

Result<std::vector<std::shared_ptr<Function>>> compileGroups(Device &device, const MortiseGraph &graph,
                                                             std::span<const codegen::Group> groups) {
  std::vector<std::shared_ptr<Function>> functions;
  if (groups.empty())
    return functions;
  Result<codegen::SimtCompiler *> compiler = compilerFor(device.target());
  if (!compiler)
    return compiler.error();
  Result<std::vector<Source>> sources = (*compiler)->compile(graph, groups);
  if (!sources)
    return sources.error();
  std::vector<std::shared_ptr<Function>> wanted;
  for (const Source &source : *sources) {
    functions.push_back(functionOf(device, source));
    const bool works =
        std::ranges::any_of(source->launches, [](const auto &launch) { return launch.blocks != Dim(0); });
    if (works && std::ranges::find(wanted, functions.back()) == wanted.end())
      wanted.push_back(functions.back());
  }
  if (auto loaded = loadAll(wanted); !loaded)
    return loaded.error();
  return functions;
}

} // namespace mortise::vulkan
