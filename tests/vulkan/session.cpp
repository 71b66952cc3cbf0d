// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "session.hpp"

#include <mortise/runtime/registry.hpp>
#include <mortise/symbols.hpp>

#include <dlfcn.h>

namespace mortise::test {

const MortisePlugin &vulkanPlugin() {
  static const MortisePlugin &table = []() -> const MortisePlugin & {
    detail::hostTable = &runtime::host(); // Status, in this program, reads statuses through it
    void *handle = dlopen(MORTISE_TEST_VULKAN_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
      throw std::runtime_error(dlerror());
    return *reinterpret_cast<MortisePluginFn>(dlsym(handle, MORTISE_PLUGIN_SYMBOL))();
  }();
  return table;
}

static void must(const Result<void> &result) {
  if (!result)
    throw Failed(result.error());
}

Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &device, const std::string &loader,
                                                        const std::string &arithmetic, const std::string &subgroups) {
  const MortiseOption options[] = {{"loader", loader.c_str()},
                                   {"device", device.c_str()},
                                   {"arithmetic", arithmetic.c_str()},
                                   {"subgroups", subgroups.c_str()}};
  MortiseInitializeArgs initialize{};
  initialize.host = &runtime::host();
  initialize.plugin_path = MORTISE_TEST_VULKAN_PLUGIN;
  initialize.options = options;
  initialize.option_count = std::size(options);
  if (auto called = call(vulkanPlugin().initialize, initialize); !called)
    return called.error();
  MortiseDevicesArgs found{};
  if (auto called = call(vulkanPlugin().devices, found); !called)
    return called.error();
  return std::span(found.devices, found.device_count);
}

// ---- Streams and memory

Stream::Stream(MortiseDevice *device) : device(device) {
  MortiseStreamArgs args{};
  args.device = device;
  must(call(vulkanPlugin().stream_create, args));
  handle = args.stream;
}

Stream::~Stream() {
  (void)wait();
  for (const auto &[address, bytes] : memory) {
    MortiseMemoryArgs args{};
    args.device = device;
    args.bytes = bytes;
    args.address = address;
    (void)call(vulkanPlugin().memory_free, args);
  }
  MortiseStreamArgs args{};
  args.device = device;
  args.stream = handle;
  (void)call(vulkanPlugin().stream_destroy, args);
}

MortiseAddress Stream::allocate(uint64_t bytes) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.bytes = bytes;
  must(call(vulkanPlugin().memory_allocate, args));
  memory.emplace_back(args.address, bytes);
  return args.address;
}

static MortiseCopyArgs copyOf(const Stream &stream, MortiseAddress target, MortiseAddress source, uint64_t bytes) {
  MortiseCopyArgs args{};
  args.device = args.target_device = args.source_device = stream.device;
  args.stream = stream.handle;
  args.target = target;
  args.source = source;
  args.bytes = bytes;
  return args;
}

void Stream::upload(MortiseAddress target, const void *source, uint64_t bytes) {
  MortiseCopyArgs args = copyOf(*this, target, reinterpret_cast<MortiseAddress>(source), bytes);
  args.source_device = nullptr;
  must(call(vulkanPlugin().copy, args));
}

void Stream::download(void *target, MortiseAddress source, uint64_t bytes) {
  MortiseCopyArgs args = copyOf(*this, reinterpret_cast<MortiseAddress>(target), source, bytes);
  args.target_device = nullptr;
  must(call(vulkanPlugin().copy, args));
  must(wait());
}

void Stream::copy(MortiseAddress target, MortiseAddress source, uint64_t bytes) {
  MortiseCopyArgs args = copyOf(*this, target, source, bytes);
  must(call(vulkanPlugin().copy, args));
}

Result<void> Stream::wait() {
  MortiseStreamArgs args{};
  args.device = device;
  args.stream = handle;
  return call(vulkanPlugin().stream_wait, args);
}

// ---- Regions

Region::Region(MortiseDevice *device, std::shared_ptr<const Graph> made) : graph(std::move(made)) {
  auto options = sized<MortiseCompileOptions>();
  MortiseCompileArgs args{};
  args.device = device;
  args.region = &graph->view();
  args.lowering = "vulkan.region";
  args.compile_options = &options;
  must(call(vulkanPlugin().kernel_compile, args));
  kernel = args.kernel;
  MortiseKernelInfo info{};
  info.kernel = kernel;
  must(call(vulkanPlugin().kernel_info, info));
  steps = info.step_count;
  if (const Result<int64_t> bytes = evaluate(info.workspace, {}); info.workspace.count && bytes)
    workspaceBytes = static_cast<uint64_t>(*bytes);
}

Region::~Region() {
  MortiseKernelArgs args{};
  args.kernel = kernel;
  (void)call(vulkanPlugin().kernel_destroy, args);
}

Result<void> Region::enqueue(Stream &stream, std::vector<MortiseAddress> inputs, std::vector<MortiseAddress> outputs,
                             uint64_t *stepNs) const {
  MortiseEnqueueArgs args{};
  args.kernel = kernel;
  args.stream = stream.handle;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.workspace = workspaceBytes ? stream.allocate(workspaceBytes) : 0;
  args.step_ns = stepNs;
  return call(vulkanPlugin().enqueue, args);
}

} // namespace mortise::test
