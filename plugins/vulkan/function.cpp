// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "function.hpp"

#include "memory.hpp"

#include <cstring>

namespace mortise::vulkan {

static constexpr auto fullSubgroups = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;

Function::~Function() {
  for (Image &image : images)
    for (VkPipeline each : image.pipelines)
      device.functions().DestroyPipeline(device.handle(), each, nullptr);
  for (const uint64_t each : constants)
    if (auto gone = device.release(each); !gone)
      log(MORTISE_DEBUG, gone.error().message);
}

// What is there stays, so that the next call goes on where this one has failed.
Result<void> Function::uploadConstants() {
  std::lock_guard lock(constantsMutex);
  while (constants.size() < source->constants.size()) {
    const std::string &bytes = source->constants[constants.size()];
    if (auto there = device.start(); !there)
      return there;
    Result<uint64_t> address = device.allocate(bytes.size());
    if (!address)
      return address.error();
    Stream stream(device);
    Result<void> done = upload(stream, *address, reinterpret_cast<const std::byte *>(bytes.data()), bytes.size());
    if (done)
      done = stream.wait();
    if (done) {
      constants.push_back(*address);
      continue;
    }
    if (auto gone = device.release(*address); !gone)
      log(MORTISE_DEBUG, gone.error().message);
    return done;
  }
  return {};
}

Result<void> Function::make(Image &image, const std::string &code) {
  const DeviceFunctions &calls = device.functions();
  std::vector<uint32_t> words(code.size() / sizeof(uint32_t));
  std::memcpy(words.data(), code.data(), code.size());
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = code.size();
  info.pCode = words.data();
  VkShaderModule module = nullptr;
  if (auto made =
          device.check(calls.CreateShaderModule(device.handle(), &info, nullptr, &module), "vkCreateShaderModule");
      !made)
    return made;
  Result<void> done;
  // A thread's number follows from those of its subgroup and in it.
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo subgroups{};
  subgroups.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO;
  subgroups.requiredSubgroupSize = device.subgroupSize();
  const bool hasSubgroups = device.subgroupSize() > 0;
  for (const codegen::SimtLaunch &launch : source->launches) {
    const VkComputePipelineCreateInfo pipelineInfo{
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT, // large grids take several dispatches
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = hasSubgroups ? &subgroups : nullptr,
                  .flags = hasSubgroups ? VkPipelineShaderStageCreateFlags{fullSubgroups} : 0,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = launch.entry.c_str()},
        .layout = device.layout()};
    VkPipeline pipeline = nullptr;
    done = device.check(calls.CreateComputePipelines(device.handle(), nullptr, 1, &pipelineInfo, nullptr, &pipeline),
                        "vkCreateComputePipelines");
    if (!done)
      break;
    image.pipelines.push_back(pipeline);
  }
  calls.DestroyShaderModule(device.handle(), module, nullptr);
  return done;
}

Result<Function::Pipelines> Function::loaded(Variant variant) {
  Image &image = images[variant];
  if (image.isLoaded.load(std::memory_order_acquire))
    return &image.pipelines;
  std::lock_guard lock(image.mutex);
  if (image.isLoaded.load())
    return &image.pipelines;
  if (auto there = device.start(); !there)
    return there.error();
  Result<void> made = make(image, variant == Aligned ? source->alignedCode : source->code);
  if (made) {
    image.isLoaded.store(true, std::memory_order_release);
    return &image.pipelines;
  }
  // The next call tries again, with nothing left of this one.
  for (VkPipeline each : image.pipelines)
    device.functions().DestroyPipeline(device.handle(), each, nullptr);
  image.pipelines.clear();
  return Error{made.error().code, "kernel " + source->launches[0].entry + ": " + made.error().message};
}

Result<void> Function::load() {
  if (auto uploaded = uploadConstants(); !uploaded)
    return uploaded;
  Result<Pipelines> made = loaded(source->alignedCode.empty() ? Plain : Aligned);
  return made ? Result<void>() : made.error();
}

Result<Function::Pipelines> Function::pipelines(bool aligned) {
  return loaded(aligned && !source->alignedCode.empty() ? Aligned : Plain);
}

} // namespace mortise::vulkan
