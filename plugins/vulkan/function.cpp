// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "function.hpp"

#include "memory.hpp"

#include <cstring>

namespace mortise::vulkan {

static constexpr auto fullSubgroups = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;

Function::~Function() {
  loaded.dropAll([&](const Pipelines &pipelines) { drop(pipelines); });
  if (cache)
    device.functions().DestroyPipelineCache(device.handle(), cache, nullptr);
  for (const uint64_t each : uploaded)
    if (auto gone = device.release(each); !gone)
      log(MORTISE_DEBUG, gone.error().message);
}

void Function::drop(const Pipelines &pipelines) const {
  for (VkPipeline each : pipelines)
    device.functions().DestroyPipeline(device.handle(), each, nullptr);
}

// What is there stays, so that the next call goes on where this one has failed.
Result<void> Function::uploadConstants() {
  std::lock_guard lock(constantsMutex);
  while (uploaded.size() < source->constants.size()) {
    const std::string &bytes = source->constants[uploaded.size()];
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
      uploaded.push_back(*address);
      continue;
    }
    if (auto gone = device.release(*address); !gone)
      log(MORTISE_DEBUG, gone.error().message);
    return done;
  }
  return {};
}

// One for each function, so that its data are those of its pipelines alone. Begins with what an earlier process has
// saved. NULL where the driver makes none, which costs time only.
VkPipelineCache Function::pipelineCache() {
  std::call_once(cacheOnce, [&] {
    VkPipelineCacheCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
    info.initialDataSize = source->native.size();
    info.pInitialData = source->native.data();
    auto made = device.check(device.functions().CreatePipelineCache(device.handle(), &info, nullptr, &cache),
                             "vkCreatePipelineCache");
    if (!made) {
      log(MORTISE_WARNING, made.error().message);
      cache = nullptr;
    }
  });
  return cache;
}

std::string Function::native() const {
  const DeviceFunctions &calls = device.functions();
  size_t bytes = 0;
  std::string data;
  if (!cache || calls.GetPipelineCacheData(device.handle(), cache, &bytes, nullptr) != VK_SUCCESS)
    return data;
  data.resize(bytes);
  if (calls.GetPipelineCacheData(device.handle(), cache, &bytes, data.data()) != VK_SUCCESS)
    bytes = 0; // it has grown meanwhile, say
  data.resize(bytes);
  return data;
}

Result<void> Function::make(Pipelines &pipelines, const std::string &code) {
  if (auto there = device.start(); !there)
    return there;
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
    done = device.check(
        calls.CreateComputePipelines(device.handle(), pipelineCache(), 1, &pipelineInfo, nullptr, &pipeline),
        "vkCreateComputePipelines");
    if (!done)
      break;
    pipelines.push_back(pipeline);
  }
  calls.DestroyShaderModule(device.handle(), module, nullptr);
  return done;
}

Result<const Function::Pipelines *> Function::pipelines(bool aligned) {
  return loaded.get(
      aligned, [&](Pipelines &made, const std::string &code) { return make(made, code); },
      [&](const Pipelines &made) { drop(made); });
}

Result<void> Function::load() {
  if (auto done = uploadConstants(); !done)
    return done;
  auto made = pipelines(/*aligned=*/true);
  return made ? Result<void>() : made.error();
}

} // namespace mortise::vulkan
