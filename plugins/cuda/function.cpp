// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "function.hpp"

#include <algorithm>

namespace mortise::cuda {

namespace {

// What the driver's compiler has to say about code that it refuses.
class CompilerLog {
public:
  static constexpr unsigned count = 2;
  CUjit_option *options() { return names.data(); }
  void **values() { return list.data(); }
  Error withText(Error error) const {
    std::string_view found(text.data());
    found = found.substr(0, found.find_last_not_of(" \n") + 1);
    if (!found.empty())
      error.message += ": " + std::string(found);
    return error;
  }

private:
  std::array<char, 4096> text{};
  std::array<CUjit_option, count> names{CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  std::array<void *, count> list{text.data(), reinterpret_cast<void *>(text.size() - 1)};
};

} // namespace

Function::~Function() {
  loaded.dropAll([&](const Image &image) { drop(image); });
}

void Function::drop(const Image &image) const {
  if (!image.library && !image.module)
    return;
  Result<Entered> entered = Entered::into(device);
  if (!entered) // with the context went its code
    return;
  const Driver &driver = device.driver;
  Result<void> gone = image.library ? device.check(driver.libraryUnload(image.library), "cuLibraryUnload")
                                    : device.check(driver.moduleUnload(image.module), "cuModuleUnload");
  if (!gone)
    log(MORTISE_DEBUG, gone.error().message);
}

// cuLibraryLoadData compiles in as many threads as call it; cuModuleLoadDataEx lets one after the other in.
Result<void> Function::make(Image &image, const std::string &text) {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const Driver &driver = device.driver;
  CompilerLog compilerLog;
  if (driver.hasLibraries()) {
    CUlibrary library = nullptr;
    const CUresult loaded = driver.libraryLoadData(&library, text.c_str(), compilerLog.options(), compilerLog.values(),
                                                   CompilerLog::count, nullptr, nullptr, 0);
    if (auto done = device.check(loaded, "cuLibraryLoadData"); !done)
      return compilerLog.withText(done.error());
    image.library = library;
  } else {
    CUmodule module = nullptr;
    const CUresult loaded =
        driver.moduleLoadDataEx(&module, text.c_str(), CompilerLog::count, compilerLog.options(), compilerLog.values());
    if (auto done = device.check(loaded, "cuModuleLoadDataEx"); !done)
      return compilerLog.withText(done.error());
    image.module = module;
  }
  for (const codegen::SimtLaunch &launch : source->launches) {
    const char *entry = launch.entry.c_str();
    CUfunction function = nullptr;
    if (image.module) {
      const CUresult found = driver.moduleGetFunction(&function, image.module, entry);
      if (auto done = device.check(found, "cuModuleGetFunction"); !done)
        return done;
    } else {
      CUkernel kernel = nullptr;
      if (auto done = device.check(driver.libraryGetKernel(&kernel, image.library, entry), "cuLibraryGetKernel"); !done)
        return done;
      // The function of this context: whatever the driver puts off until the first launch happens now.
      if (auto done = device.check(driver.kernelGetFunction(&function, kernel), "cuKernelGetFunction"); !done)
        return done;
    }
    if (launch.sharedBytes) { // more than any kernel may have unasked
      const CUresult asked = driver.funcSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                     static_cast<int>(launch.sharedBytes));
      if (auto done = device.check(asked, "cuFuncSetAttribute"); !done)
        return done;
    }
    image.entries.push_back(function);
  }
  return {};
}

Result<const Function::Entries *> Function::entries(bool aligned) {
  Result<const Image *> image = loaded.get(
      aligned, [&](Image &made, const std::string &text) { return make(made, text); },
      [&](const Image &made) { drop(made); });
  return image ? Result<const Entries *>(&(*image)->entries) : image.error();
}

Result<void> Function::load() {
  auto made = entries(/*aligned=*/true);
  return made ? Result<void>() : made.error();
}

} // namespace mortise::cuda
