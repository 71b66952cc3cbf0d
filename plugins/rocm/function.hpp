// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated code on its device: a code object becomes a module of HIP's, and handles that can be launched.
#pragma once

#include "device.hpp"

#include <vector>

namespace mortise::rocm {

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
  using Entries = std::vector<hip::Function>;
  Result<const Entries *> entries(bool aligned);

private:
  struct Image {
    Entries entries;
    hip::Module module = nullptr;
  };
  Result<void> make(Image &image, const std::string &code);
  void drop(const Image &image) const;

  Device &device;
  const std::shared_ptr<const codegen::SimtFunction> source;
  codegen::LoadedCode<Image> loaded;
};

} // namespace mortise::rocm
