// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated code on its device: SPIR-V becomes pipelines.
#pragma once

#include "device.hpp"

#include <array>

namespace mortise::vulkan {

// The kernels of one group on one device. Thread safe.
class Function {
public:
  Function(Device &device, std::shared_ptr<const codegen::SimtFunction> source)
      : device(device), source(std::move(source)) {}
  Function(const Function &) = delete;
  ~Function(); // no launch of it is in flight

  const codegen::SimtFunction &code() const { return *source; }
  // Loads what nearly all calls run: the code for aligned addresses, where there is one. Once; after an error the next
  // call tries again.
  Result<void> load();
  // What to launch, one for each of SimtFunction::launches. Code for addresses that are not aligned is loaded when it
  // is first asked for.
  using Pipelines = const std::vector<VkPipeline> *;
  Result<Pipelines> pipelines(bool aligned);

  // The address of a constant of the code, once load() has uploaded it.
  uint64_t constant(uint32_t number) const { return constants[number]; }

private:
  struct Image {
    std::mutex mutex;
    std::vector<VkPipeline> pipelines;
    std::atomic<bool> isLoaded = false;
  };
  enum Variant { Plain, Aligned };
  Result<Pipelines> loaded(Variant variant);
  Result<void> make(Image &image, const std::string &code);
  Result<void> uploadConstants();

  Device &device;
  const std::shared_ptr<const codegen::SimtFunction> source;
  std::array<Image, 2> images; // by Variant
  std::mutex constantsMutex;
  std::vector<uint64_t> constants; // addresses
};

} // namespace mortise::vulkan
