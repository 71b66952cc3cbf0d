// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated code on its device: PTX becomes machine code in the driver, and a handle that can be launched.
#pragma once

#include "device.hpp"

#include <mortise/codegen/simt_plugin.hpp>

namespace mortise::cuda {

// The kernels of one group on one device. Thread safe.
class Function {
public:
  Function(Device &device, std::shared_ptr<const codegen::SimtFunction> source)
      : device(device), source(std::move(source)), loaded(*this->source) {}
  Function(const Function &) = delete;
  ~Function(); // no launch of it is in flight

  const codegen::SimtFunction &code() const { return *source; }
  Result<void> load(); // what nearly all calls run
  // What to launch, one for each of SimtFunction::launches.
  using Entries = std::vector<CUfunction>;
  Result<const Entries *> entries(bool aligned);

private:
  struct Image {
    Entries entries;
    CUlibrary library = nullptr; // or:
    CUmodule module = nullptr;
  };
  Result<void> make(Image &image, const std::string &text);
  void drop(const Image &image) const;

  Device &device;
  const std::shared_ptr<const codegen::SimtFunction> source;
  codegen::LoadedCode<Image> loaded;
};

} // namespace mortise::cuda
