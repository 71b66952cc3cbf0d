// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "proxy.hpp"

#include "../host.hpp"
#include "kernel_proxy.hpp"
#include "ops.hpp"
#include "worker.hpp"
#include <mortise/portable/graph.hpp>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace mortise::runtime::isolation {
namespace {

MortiseStatus *statusOf(const Error &error) { return host().status_create(error.code, error.message.c_str()); }

const DeviceProxy &proxyOf(const MortiseDevice *device) { return *reinterpret_cast<const DeviceProxy *>(device); }
KernelProxy &proxyOf(MortiseKernel *kernel) { return *reinterpret_cast<KernelProxy *>(kernel); }
ConstantsProxy &proxyOf(MortiseConstants *constants) { return *reinterpret_cast<ConstantsProxy *>(constants); }

template <typename Args>
Result<Work> workOf(const Args &args, const MortiseGraph &graph, std::shared_ptr<const Graph> &copy) {
  auto made = Graph::copy(graph);
  if (!made)
    return made.error();
  copy = *made;
  const std::span<const std::byte> bytes = copy->bytes();
  Work work{.device = proxyOf(args.device).number,
            .graph = {reinterpret_cast<const char *>(bytes.data()), bytes.size()},
            .mode = args.compile_options ? args.compile_options->mode : 0,
            .precision = args.compile_options ? args.compile_options->precision : 0,
            .deterministic = args.compile_options ? args.compile_options->deterministic : 0};
  for (size_t i = 0; i < args.option_count; ++i)
    work.options.push_back({args.options[i].key, args.options[i].value});
  for (size_t i = 0; i < args.form_count; ++i)
    work.forms.push_back({args.forms[i].value, args.forms[i].layout});
  return work;
}

MortiseStatus *initialize(MortiseInitializeArgs *) { return nullptr; } // the worker's loader has done it
MortiseStatus *devices(MortiseDevicesArgs *) { return nullptr; }

MortiseStatus *propose(MortiseProposeArgs *args) {
  Connection &connection = *proxyOf(args->device).connection;
  const std::lock_guard lock(connection.mutex);
  std::shared_ptr<const Graph> graph;
  auto work = workOf(*args, *args->graph, graph);
  if (!work)
    return statusOf(work.error());
  bool ended = false;
  auto proposed = connection.ask<Proposed>(Propose{std::move(*work)}, &ended);
  if (!proposed && (ended || !connection.runs())) {
    for (uint32_t node = 0; node < args->graph->node_count; ++node)
      args->refuse(args->sink, node, MORTISE_REASON_ERROR, proposed.error().message.c_str());
    return nullptr;
  }
  if (!proposed)
    return statusOf(proposed.error());
  for (const Candidate &each : proposed->candidates) {
    std::vector<MortiseInPlace> pairs;
    for (size_t i = 0; i + 1 < each.inPlace.size(); i += 2)
      pairs.push_back({each.inPlace[i], each.inPlace[i + 1]});
    std::vector<MortiseForm> forms;
    for (const Form &form : each.forms)
      forms.push_back({form.value, form.layout, 0, 0});
    const MortiseCandidate candidate{.struct_size = sizeof(MortiseCandidate),
                                     .lowering = each.lowering.c_str(),
                                     .nodes = each.nodes.data(),
                                     .node_count = each.nodes.size(),
                                     .cost_ns = each.costNs,
                                     .bytes = each.bytes,
                                     .flops = each.flops,
                                     .in_place = pairs.data(),
                                     .in_place_count = pairs.size(),
                                     .forms = forms.data(),
                                     .form_count = forms.size()};
    args->add(args->sink, &candidate);
  }
  for (const Refusal &refusal : proposed->refusals)
    args->refuse(args->sink, refusal.node, refusal.reason, refusal.detail.c_str());
  return nullptr;
}

MortiseStatus *layoutOf(MortiseLayoutArgs *args) {
  const DeviceProxy &device = proxyOf(args->device);
  const std::lock_guard lock(device.connection->mutex);
  auto sized = device.sizeIn(*args->graph, *args->type, args->layout);
  if (!sized)
    return statusOf(sized.error());
  static thread_local std::vector<MortiseExprStep> steps; // until the next call on this thread, as `name`
  static thread_local std::string name;
  steps.clear();
  for (const ExprStep &step : sized->bytes)
    steps.push_back({step.op, 0, step.value});
  name = std::move(sized->name);
  args->bytes = {steps.data(), steps.size()};
  args->name = name.c_str();
  return nullptr;
}

MortiseStatus *kernelCompile(MortiseCompileArgs *args) {
  const DeviceProxy &device = proxyOf(args->device);
  const std::lock_guard lock(device.connection->mutex);
  std::shared_ptr<const Graph> graph;
  auto work = workOf(*args, *args->region, graph);
  if (!work)
    return statusOf(work.error());
  auto kernel = KernelProxy::compile(device, {std::move(*work), args->lowering}, std::move(graph));
  if (!kernel)
    return statusOf(kernel.error());
  args->kernel = reinterpret_cast<MortiseKernel *>(kernel->release());
  return nullptr;
}

// The worker allocates workspaces, and knows the memory that a plugin wants for constants.
MortiseStatus *kernelInfo(MortiseKernelInfo *args) {
  const KernelProxy &kernel = proxyOf(args->kernel);
  args->steps = kernel.stepPointers.data();
  args->step_count = kernel.stepPointers.size();
  return nullptr;
}

MortiseStatus *kernelDestroy(MortiseKernelArgs *args) {
  const std::unique_ptr<KernelProxy> kernel(&proxyOf(args->kernel));
  Connection &connection = kernel->connection();
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild() || !connection.runs() || kernel->generation != connection.generation())
    return nullptr; // gone with its worker
  const auto told = connection.ask<Nothing>(DestroyKernel{.number = kernel->number});
  return told ? nullptr : statusOf(told.error());
}

MortiseStatus *constantsBind(MortiseConstantsBindArgs *args) {
  KernelProxy &kernel = proxyOf(args->kernel);
  const std::lock_guard lock(kernel.connection().mutex);
  auto constants = std::make_unique<ConstantsProxy>(ConstantsProxy{.kernel = &kernel});
  constants->inputs.assign(args->inputs, args->inputs + kernel.graph->view().input_count);
  if (auto ready = constants->ensure(); !ready)
    return statusOf(ready.error());
  args->packed_bytes = constants->packedBytes;
  args->constants = reinterpret_cast<MortiseConstants *>(constants.release());
  return nullptr;
}

MortiseStatus *constantsDestroy(MortiseConstantsArgs *args) {
  const std::unique_ptr<ConstantsProxy> constants(&proxyOf(args->constants));
  Connection &connection = constants->kernel->connection();
  const std::lock_guard lock(connection.mutex);
  if (isForkedChild() || !connection.runs() || constants->generation != connection.generation())
    return nullptr;
  const auto told = connection.ask<Nothing>(DestroyConstants{.number = constants->number});
  return told ? nullptr : statusOf(told.error());
}

MortiseStatus *enqueue(MortiseEnqueueArgs *args) {
  const auto done = proxyOf(args->constants).run(*args);
  return done ? nullptr : statusOf(done.error());
}

Result<void> infer(Connection &connection, const MortiseInferArgs &args) {
  const std::lock_guard lock(connection.mutex);
  auto question = inferQuestion(args);
  if (!question)
    return question.error();
  const std::string identity = "infer " + question->graph;
  if (connection.faulty.contains(identity))
    return Error{MORTISE_UNSUPPORTED, connection.named() + ": its worker ended in infer with these operands before"};
  bool ended = false;
  auto inferred = connection.ask<Inferred>(*question, &ended);
  if (ended)
    connection.faulty.insert(identity);
  return inferred ? addInferred(*inferred, args) : inferred.error();
}

// The arguments do not say which of several isolated plugins is meant.
MortiseStatus *inferSlot(MortiseInferArgs *) {
  return statusOf({MORTISE_INTERNAL, "expected Plugin::infer to be called in place of an isolated plugin's slot"});
}

bool hasLost(MortiseKernel *kernel) {
  const KernelProxy &proxy = proxyOf(kernel);
  const std::lock_guard lock(proxy.connection().mutex);
  return proxy.connection().faulty.contains(proxy.identity) || proxy.connection().isGivenUp();
}

// A device as the host is shown it, with the texts that it points to. Its memory is the host's, whatever it is.
struct Listed {
  Described told;
  DeviceProxy proxy;
  MortiseSpace home;
  const MortiseSpace *spaces[1];
  MortiseDeviceInfo info;
};

Result<void> list(Listed &listed) {
  const Described &told = listed.told;
  if (!told.sameAs.empty() && !told.inHostMemory)
    return Error{MORTISE_UNSUPPORTED, "expected devices that share nothing, or host memory, found '" + told.kind +
                                          "' in the memory of '" + told.sameAs +
                                          "', which the plugin would not reach from a process of its own; leave the "
                                          "plugin out of the setting isolate"};
  if (told.inHostMemory && told.alignment > tensorsBegin)
    return Error{MORTISE_UNSUPPORTED, "expected host memory that is aligned to at most " +
                                          std::to_string(tensorsBegin) + " bytes, found " +
                                          std::to_string(told.alignment) +
                                          ", which isolation does not carry; leave the plugin out of the setting "
                                          "isolate"};
  listed.proxy.alignment = std::max<uint64_t>(told.alignment, 64);
  listed.home = {sizeof(MortiseSpace),
                 nullptr,
                 told.home.c_str(),
                 MORTISE_SPACE_HOST,
                 static_cast<uint32_t>(std::min<uint64_t>(told.alignment, tensorsBegin)),
                 told.bytes};
  listed.spaces[0] = &listed.home;
  listed.info = {.struct_size = sizeof(MortiseDeviceInfo),
                 .device = reinterpret_cast<MortiseDevice *>(&listed.proxy),
                 .kind = told.kind.c_str(),
                 .name = told.name.c_str(),
                 .ordinal = told.ordinal,
                 .automatic = told.automatic,
                 .threads = told.threads,
                 .space_count = 1,
                 .spaces = listed.spaces,
                 .peak_flops = told.peakFlops,
                 .bandwidth = told.bandwidth,
                 .launch_ns = told.launchNs,
                 .copy_bandwidth = told.copyBandwidth,
                 .copy_ns = told.copyNs,
                 .features = told.features.c_str(),
                 .same_as = told.sameAs.empty() ? nullptr : told.sameAs.c_str(),
                 .dlpack_type = told.dlpackType, // of no use but to say why such a tensor is refused
                 .dlpack_id = told.dlpackId};
  return {};
}

// What the table of an isolated plugin stands on.
struct Opened {
  Connection connection;
  std::deque<Listed> devices;
  std::optional<OpDeclarations> ops;
};

// Until the process ends, as a library's would be: its slots may be called until then.
void keep(std::unique_ptr<Opened> opened) {
  static std::mutex mutex;
  static auto *all = new std::vector<std::unique_ptr<Opened>>;
  const std::lock_guard lock(mutex);
  all->push_back(std::move(opened));
}

Result<std::unique_ptr<LoadedPlugin>> loadFrom(Opened &opened, const Manifest &manifest, const std::string &library) {
  Connection &connection = opened.connection;
  const std::lock_guard lock(connection.mutex);
  if (auto ready = connection.ensure(); !ready)
    return ready.error();
  const Loaded &told = connection.loaded;
  opened.ops.emplace(told.ops);
  static constexpr uint64_t hashes[] = MORTISE_ABI_LAYOUT_HASHES;
  const MortisePlugin offered{.struct_size = sizeof(MortisePlugin),
                              .magic = MORTISE_PLUGIN_MAGIC,
                              .abi_oldest = MORTISE_ABI_OLDEST,
                              .abi_newest = MORTISE_ABI_REVISION,
                              .layout_hashes = hashes,
                              .name = told.name.c_str(),
                              .vendor = told.vendor.c_str(),
                              .version = told.version.c_str(),
                              .opset = told.opset,
                              .initialize = initialize,
                              .devices = devices,
                              .propose = propose,
                              .kernel_compile = kernelCompile,
                              .kernel_info = kernelInfo,
                              .kernel_destroy = kernelDestroy,
                              .constants_bind = constantsBind,
                              .constants_destroy = constantsDestroy,
                              .enqueue = enqueue,
                              .layout = told.hasLayouts ? layoutOf : nullptr,
                              .ops = opened.ops->data(),
                              .op_count = opened.ops->size(),
                              .infer = opened.ops->size() ? inferSlot : nullptr};
  if (told.name != manifest.name || told.opset != manifest.opset)
    return Error{MORTISE_CORRUPT,
                 "expected plugin '" + manifest.name + "' in its worker, found '" + legible(told.name) + "'"};
  if (auto checked = checkOps(offered, manifest); !checked)
    return checked.error();
  auto loaded = std::make_unique<LoadedPlugin>();
  loaded->table = offered;
  loaded->plugin = {told.name, told.vendor, told.version, library, told.build, &loaded->table, told.revision};
  loaded->plugin.hasLost = hasLost;
  loaded->plugin.infer = [&connection](const MortiseInferArgs &args) { return infer(connection, args); };
  loaded->plugin.isolated = true;
  loaded->plugin.deviceless = legible(told.deviceless);
  loaded->plugin.hidden = told.hidden;
  std::vector<const MortiseDeviceInfo *> infos;
  for (const Described &device : told.devices) {
    const auto number = static_cast<uint32_t>(opened.devices.size());
    Listed &made = opened.devices.emplace_back(Listed{device, {&connection, number, 1}, {}, {}, {}});
    if (auto done = list(made); !done)
      return done.error();
    infos.push_back(&made.info);
    if (!device.inHostMemory)
      loaded->plugin.apart.push_back(made.info.device);
  }
  auto checked =
      checkDevices({.struct_size = sizeof(MortiseDevicesArgs), .devices = infos.data(), .device_count = infos.size()},
                   loaded->table, manifest);
  if (!checked)
    return checked.error();
  loaded->devices = std::move(*checked);
  return loaded;
}

} // namespace

Result<std::unique_ptr<LoadedPlugin>> open(const Manifest &manifest, const LoadRequest &request,
                                           const std::string &library) {
  std::unique_ptr<Opened> opened(new Opened{{manifest.name, request, library, "isolate"}, {}, {}});
  auto loaded = loadFrom(*opened, manifest, library);
  if (loaded)
    keep(std::move(opened));
  else if (opened->connection.runs())
    opened->connection.finish();
  return loaded;
}

Result<bool> prove(const Manifest &manifest, const LoadRequest &request, const std::string &library) {
  LoadRequest limited = request;
  limited.isolation = request.probe;
  Connection connection(manifest.name, std::move(limited), library, "probe");
  if (isForkedChild())
    return forkedChildError();
  if (auto started = connection.start(); !started) {
    logMessage(started.error().code == MORTISE_NOT_FOUND ? MORTISE_INFO : MORTISE_WARNING,
               "plugin '" + manifest.name + "' is loaded without a probe: " + started.error().message);
    return false;
  }
  if (auto loaded = connection.load(); !loaded) {
    if (connection.runs())
      connection.finish();
    return loaded.error();
  }
  connection.finish();
  return true;
}

} // namespace mortise::runtime::isolation
