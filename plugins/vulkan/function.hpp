// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Generated code on its device: SPIR-V becomes pipelines.
#pragma once

#include "device.hpp"

#include <mortise/codegen/simt_plugin.hpp>

namespace mortise::vulkan {

// The kernels of one group on one device. Thread safe.
class Function {
public:
  Function(Device &device, std::shared_ptr<const codegen::SimtFunction> source)
      : device(device), source(std::move(source)), loaded(*this->source) {}
  Function(const Function &) = delete;
  ~Function(); // no launch of it is in flight

  const codegen::SimtFunction &code() const { return *source; }
  // Loads what nearly all calls run, and the constants.
  Result<void> load();
  // What to launch, one for each of SimtFunction::launches.
  using Pipelines = std::vector<VkPipeline>;
  Result<const Pipelines *> pipelines(bool aligned);

  // The pipelines as the driver has compiled them, for SimtFunction::native; empty where it does not tell.
  std::string native() const;

  // The addresses of the code's constants, once load() has uploaded them.
  std::span<const uint64_t> constants() const { return uploaded; }

private:
  Result<void> make(Pipelines &pipelines, const std::string &code);
  void drop(const Pipelines &pipelines) const;
  Result<void> uploadConstants();
  VkPipelineCache pipelineCache();

  Device &device;
  const std::shared_ptr<const codegen::SimtFunction> source;
  codegen::LoadedCode<Pipelines> loaded;
  std::once_flag cacheOnce;
  VkPipelineCache cache = nullptr;
  std::mutex constantsMutex;
  std::vector<uint64_t> uploaded;
};

} // namespace mortise::vulkan
