// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From groups to kernels that are loaded on a device, and memory between them: what plugins share whose kernels are
// SimtFunctions.
#pragma once

#include <mortise/codegen/simt.hpp>
#include <mortise/plugin.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace mortise::codegen {

// A piece of a region's workspace, which is in use from the step that writes it first to the last one that reads it.
struct Buffer {
  Dim bytes;
  uint32_t first = UINT32_MAX, last = 0; // steps
};

// Offsets at which buffers that are in use in the same step do not overlap, for these numbers of bytes: multiples of
// 256, largest buffers first, each at the lowest offset that is free. Returns how many bytes they take together.
// Errors: MORTISE_UNSUPPORTED, for more than 2^46 bytes.
Result<uint64_t> placeBuffers(std::span<const Buffer> buffers, std::span<const uint64_t> bytes,
                              std::vector<uint64_t> &offsets);

// One for each kind of device in the process, so that equal groups of all regions are compiled once. Thread safe.
// Errors: as SimtCompiler::create's.
Result<SimtCompiler *> sharedCompiler(const SimtTarget &target);

// The two forms of a function's code (SimtFunction::code and alignedCode), each loaded when it is first wanted. `Image`
// is what a driver makes of one. Nearly all calls run the aligned one. Thread safe. After an error the next call tries
// again.
template <typename Image> class LoadedCode {
public:
  explicit LoadedCode(const SimtFunction &source) : source(source) {}
  // `make(image, code)` fills an image and returns a Result<void>; `drop(image)` takes back what it holds.
  template <typename Make, typename Drop> Result<const Image *> get(bool aligned, Make &&make, Drop &&drop) {
    const bool isAligned = aligned && !source.alignedCode.empty();
    Form &form = forms[isAligned];
    if (form.isLoaded.load(std::memory_order_acquire))
      return &form.image;
    std::lock_guard lock(form.mutex);
    if (form.isLoaded.load())
      return &form.image;
    Result<void> made = make(form.image, isAligned ? source.alignedCode : source.code);
    if (made) {
      form.isLoaded.store(true, std::memory_order_release);
      return &form.image;
    }
    drop(form.image);
    form.image = Image();
    return Error{made.error().code, "kernel " + source.launches[0].entry + ": " + made.error().message};
  }
  // No launch is in flight.
  template <typename Drop> void dropAll(Drop &&drop) {
    for (Form &form : forms)
      if (form.isLoaded)
        drop(form.image);
  }

private:
  struct Form {
    std::mutex mutex;
    std::atomic<bool> isLoaded = false;
    Image image;
  };
  const SimtFunction &source;
  Form forms[2]; // by alignment
};

// Loads functions in several threads, each taking the next one. The first error in their order wins.
template <typename Function> Result<void> loadAll(std::span<const std::shared_ptr<Function>> functions) {
  std::vector<Result<void>> results(functions.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> stop = false;
  const std::thread::id caller = std::this_thread::get_id();
  inThreads(std::min<size_t>(compileThreads(), functions.size()), [&] {
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

// The compiler gives equal groups one object, by which their loaded form is found. It stays as long as a kernel uses
// it.
template <typename Function, typename Device>
std::shared_ptr<Function> functionOf(Device &device, const std::shared_ptr<const SimtFunction> &source) {
  static std::mutex mutex;
  // Never destroyed: the process's exit frees it.
  static auto *known = new std::map<std::pair<const Device *, const SimtFunction *>, std::weak_ptr<Function>>;
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

// The kernels of these groups, generated and loaded by several threads. Equal ones are loaded once in the process.
// Those that have nothing to do for any values of the symbols are not loaded. `Function` is made of a device and a
// SimtFunction, and has `Result<void> load()`; a device has `target()`. Errors: MORTISE_UNSUPPORTED, MORTISE_CANCELLED,
// those of load().
template <typename Function, typename Device>
Result<std::vector<std::shared_ptr<Function>>> compileGroups(Device &device, const MortiseGraph &graph,
                                                             std::span<const Group> groups) {
  std::vector<std::shared_ptr<Function>> functions;
  if (groups.empty())
    return functions;
  Result<SimtCompiler *> compiler = sharedCompiler(device.target());
  if (!compiler)
    return compiler.error();
  auto sources = (*compiler)->compile(graph, groups);
  if (!sources)
    return sources.error();
  std::vector<std::shared_ptr<Function>> wanted;
  for (const std::shared_ptr<const SimtFunction> &source : *sources) {
    functions.push_back(functionOf<Function>(device, source));
    const bool works =
        std::ranges::any_of(source->launches, [](const SimtLaunch &launch) { return launch.blocks != Dim(0); });
    if (works && std::ranges::find(wanted, functions.back()) == wanted.end())
      wanted.push_back(functions.back());
  }
  if (auto loaded = loadAll<Function>(wanted); !loaded)
    return loaded.error();
  return functions;
}

// The code of these functions, each once, for a later process. `Function`: as compileGroups'; it may have `native()`,
// what its driver has made of the code.
template <typename Function> std::vector<std::byte> savedCode(std::span<const std::shared_ptr<Function>> functions) {
  std::vector<std::byte> bytes;
  std::set<const Function *> done;
  for (const std::shared_ptr<Function> &function : functions) {
    if (!done.insert(function.get()).second)
      continue;
    std::string native;
    if constexpr (requires { function->native(); })
      native = function->native();
    saveFunction(bytes, function->code(), native);
  }
  return bytes;
}

// What `compile()` returns, which compiles a region whose functions were saved, and so generates none. `Device`: as
// compileGroups'; it may have `checkNative(native)`, whose errors are MORTISE_CORRUPT. Errors: MORTISE_CORRUPT; as
// SimtCompiler::create's; those of `compile`.
template <typename Device, typename Compile>
std::invoke_result_t<Compile> withSavedCode(Device &device, std::span<const std::byte> saved, Compile compile) {
  auto functions = loadFunctions(saved);
  if (!functions)
    return functions.error();
  if constexpr (requires { device.checkNative(std::string()); })
    for (const std::shared_ptr<const SimtFunction> &function : *functions)
      if (Result<void> known = device.checkNative(function->native); !known)
        return known.error();
  Result<SimtCompiler *> compiler = sharedCompiler(device.target());
  if (!compiler)
    return compiler.error();
  (*compiler)->add(*functions);
  auto compiled = compile();
  if (!compiled) // compiling anew would meet them again
    (*compiler)->remove(*functions);
  return compiled;
}

} // namespace mortise::codegen
