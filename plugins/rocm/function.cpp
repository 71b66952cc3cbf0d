// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "function.hpp"

namespace mortise::rocm {

Function::~Function() {
  loaded.dropAll([&](const Image &image) { drop(image); });
}

void Function::drop(const Image &image) const {
  if (!image.module)
    return;
  Result<Entered> entered = Entered::into(device);
  if (!entered) // with the device went its code
    return;
  if (auto gone = device.check(device.driver.moduleUnload(image.module), "hipModuleUnload"); !gone)
    log(MORTISE_DEBUG, gone.error().message);
}

Result<void> Function::make(Image &image, const std::string &code) {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const Driver &driver = device.driver;
  if (auto done = device.check(driver.moduleLoadData(&image.module, code.data()), "hipModuleLoadData"); !done) {
    image.module = nullptr;
    return done;
  }
  for (const codegen::SimtLaunch &launch : source->launches) {
    hip::Function entry = nullptr;
    const hip::Status found = driver.moduleGetFunction(&entry, image.module, launch.entry.c_str());
    if (auto done = device.check(found, "hipModuleGetFunction"); !done)
      return done;
    image.entries.push_back(entry);
  }
  return {};
}

Result<const Function::Entries *> Function::entries(bool aligned) {
  Result<const Image *> image = loaded.get(
      aligned, [&](Image &made, const std::string &code) { return make(made, code); },
      [&](const Image &made) { drop(made); });
  return image ? Result<const Entries *>(&(*image)->entries) : image.error();
}

Result<void> Function::load() {
  auto made = entries(/*aligned=*/true);
  return made ? Result<void>() : made.error();
}

} // namespace mortise::rocm
