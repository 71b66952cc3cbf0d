// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "other.hpp"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace saboteur {
namespace {

std::vector<std::string> loadedLibraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *list) {
        if (info->dlpi_name && *info->dlpi_name)
          static_cast<std::vector<std::string> *>(list)->push_back(info->dlpi_name);
        return 0;
      },
      &paths);
  return paths;
}

Result<void> call(MortiseStatus *status) { return mortise::Status(status).result(); }

// The lowering of a candidate of all nodes.
Result<std::string> loweringOf(const MortisePlugin &plugin, MortiseDevice *device, const MortiseCompileArgs &from) {
  struct Sink {
    size_t nodes;
    std::string lowering;
  } sink{from.region->node_count, ""};
  auto args = mortise::sized<MortiseProposeArgs>();
  args.device = device;
  args.graph = from.region;
  args.compile_options = from.compile_options;
  args.sink = &sink;
  args.add = [](void *into, const MortiseCandidate *candidate) {
    if (auto &found = *static_cast<Sink *>(into); candidate->node_count == found.nodes)
      found.lowering = candidate->lowering;
  };
  args.refuse = [](void *, uint32_t, int32_t, const char *) {};
  if (auto proposed = call(plugin.propose(&args)); !proposed)
    return proposed.error();
  if (sink.lowering.empty())
    return Error{MORTISE_UNSUPPORTED, "the other plugin does not take the region"};
  return sink.lowering;
}

} // namespace

const MortisePlugin *otherPlugin() {
  const MortisePlugin *self = mortise_plugin();
  for (const std::string &path : loadedLibraries())
    if (void *library = dlopen(path.c_str(), RTLD_NOLOAD | RTLD_NOW | RTLD_LOCAL))
      if (auto entry = reinterpret_cast<MortisePluginFn>(dlsym(library, MORTISE_PLUGIN_SYMBOL)))
        if (const MortisePlugin *table = entry(); table != self && !table->stream_create)
          return table;
  return nullptr;
}

Result<std::unique_ptr<OtherKernel>> OtherKernel::make(const MortiseCompileArgs &from) {
  const MortisePlugin *plugin = otherPlugin();
  if (!plugin)
    return Error{MORTISE_UNSUPPORTED, "there is no other plugin"};
  auto devices = mortise::sized<MortiseDevicesArgs>();
  if (auto listed = call(plugin->devices(&devices)); !listed || devices.device_count == 0)
    return Error{MORTISE_UNSUPPORTED, "the other plugin has no device"};
  MortiseCompileArgs args = from;
  args.device = devices.devices[0]->device;
  args.options = nullptr;
  args.option_count = 0;
  const Result<std::string> lowering = loweringOf(*plugin, args.device, args);
  if (!lowering)
    return lowering.error();
  args.lowering = lowering->c_str();
  if (auto compiled = call(plugin->kernel_compile(&args)); !compiled)
    return compiled.error();
  auto made = std::make_unique<OtherKernel>();
  made->plugin = plugin;
  made->kernel = args.kernel;
  auto info = mortise::sized<MortiseKernelInfo>();
  info.kernel = args.kernel;
  if (auto described = call(plugin->kernel_info(&info)); !described)
    return described.error();
  made->bytes = info.workspace.count == 1 ? static_cast<uint64_t>(info.workspace.steps[0].value) : 0;
  return made;
}

OtherKernel::~OtherKernel() {
  auto args = mortise::sized<MortiseKernelArgs>();
  args.kernel = kernel;
  if (kernel)
    (void)call(plugin->kernel_destroy(&args));
}

Result<std::shared_ptr<OtherConstants>> OtherKernel::bind(const MortiseAddress *inputs) const {
  auto args = mortise::sized<MortiseConstantsBindArgs>();
  args.kernel = kernel;
  args.inputs = inputs;
  if (auto bound = call(plugin->constants_bind(&args)); !bound)
    return bound.error();
  return std::make_shared<OtherConstants>(*this, args.constants);
}

Result<void> OtherKernel::enqueue(const OtherConstants *constants, const MortiseEnqueueArgs &from) const {
  MortiseEnqueueArgs args = from;
  args.kernel = kernel;
  args.constants = constants ? constants->get() : nullptr;
  args.stream = nullptr;
  args.frame = nullptr;
  args.unchanged = nullptr;
  return call(plugin->enqueue(&args));
}

OtherConstants::~OtherConstants() {
  auto args = mortise::sized<MortiseConstantsArgs>();
  args.kernel = kernel.kernel;
  args.constants = handle;
  if (handle)
    (void)call(kernel.plugin->constants_destroy(&args));
}

} // namespace saboteur
