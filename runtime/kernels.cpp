// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernels.hpp"

#include "host.hpp"
#include "plan_check.hpp"
#include "specialisation.hpp"
#include <mortise/runtime/call.hpp>
#include <mortise/runtime/guard.hpp>
#include <mortise/runtime/kernel_cache.hpp>
#include <mortise/threads.hpp>

#include <algorithm>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace mortise::runtime {
namespace {

constexpr uint64_t mostBytes = UINT64_C(1) << 47;

// Finds a region's device by its plugin and by either form of the device's name ("kind" or "kind:0").
Result<const Device *> deviceOf(const plan::RegionT &region, const Registry &registry) {
  auto found = registry.find(region.device);
  if (!found)
    return found.error();
  for (const Device *device : registry.devices())
    if (device->plugin->name == region.plugin &&
        (device->name() == region.device ||
         std::string(device->info.kind) + ":" + std::to_string(device->info.ordinal) == region.device))
      return device;
  return Error{MORTISE_NOT_FOUND, "expected plugin '" + region.plugin + "' to offer device '" + region.device +
                                      "', found it only from others; install that plugin or compile again"};
}

Result<void> readConstantSpaces(Kernel &kernel, const MortiseKernelInfo &info) {
  const size_t count = kernel.graph->view().input_count;
  if (info.constant_spaces == nullptr || count == 0)
    return {};
  if (!isReadable(info.constant_spaces, count * sizeof(uint32_t)))
    return Error{MORTISE_INTERNAL, "kernel_info: expected constant_spaces to hold one number per input, found memory "
                                   "that cannot be read"};
  kernel.constantSpaces.assign(info.constant_spaces, info.constant_spaces + count);
  for (uint32_t space : kernel.constantSpaces)
    if (space != MORTISE_HOST_SPACE && space >= kernel.device->info.space_count)
      return Error{MORTISE_INTERNAL, "kernel_info: expected constant_spaces to name spaces of device '" +
                                         kernel.device->name() + "', which has " +
                                         std::to_string(kernel.device->info.space_count) + ", found " +
                                         std::to_string(space)};
  return {};
}

} // namespace

Result<void> describeKernel(Kernel &kernel) {
  MortiseKernelInfo info{.struct_size = sizeof(MortiseKernelInfo), .kernel = kernel.kernel};
  if (auto called = call("kernel_info", kernel.table().kernel_info, info); !called)
    return called;
  if (info.workspace.count != 0) {
    if (info.workspace.count > 4096 ||
        !isReadable(info.workspace.steps, info.workspace.count * sizeof(MortiseExprStep)))
      return Error{MORTISE_INTERNAL, "kernel_info: expected a workspace expression, found memory that cannot be read"};
    kernel.workspace.assign(info.workspace.steps, info.workspace.steps + info.workspace.count);
  }
  auto steps = readSteps("kernel_info", info.steps, info.step_count);
  if (!steps)
    return steps.error();
  kernel.steps = std::move(*steps);
  if (auto spaces = readConstantSpaces(kernel, info); !spaces)
    return spaces;
  if (kernel.graph->view().symbol_count == 0)
    if (auto known = workspaceOf(kernel, {}); !known)
      return known.error();
  return {};
}

namespace {

std::vector<MortiseOption> optionsOf(const plan::RegionT &region) {
  std::vector<MortiseOption> options;
  for (const auto &option : region.options)
    options.push_back({option->key.c_str(), option->value.c_str()});
  return options;
}

MortiseCompileOptions askedOf(const plan::PlanT &plan) {
  return {.struct_size = sizeof(MortiseCompileOptions),
          .mode = plan.mode,
          .precision = plan.precision,
          .deterministic = plan.deterministic};
}

bool canSave(const Device &device) { return device.plugin->hasSaving() && device.info.fingerprint != nullptr; }

// The forms of a region's inputs and outputs: those of their buffers.
std::vector<MortiseForm> formsOf(const plan::PlanT &plan, const plan::RegionT &region, const MortiseGraph &graph) {
  std::vector<MortiseForm> forms;
  const auto add = [&](uint32_t number, const MortiseValue &value) {
    const plan::BufferT &buffer = *plan.buffers[number];
    const MortiseForm form{value.index, buffer.layout, plan.spaces[buffer.space]->number, 0};
    if ((form.layout != MORTISE_PLAIN_LAYOUT || form.space != 0) &&
        std::ranges::find(forms, form.value, &MortiseForm::value) == forms.end())
      forms.push_back(form);
  };
  for (size_t i = 0; i < region.inputs.size(); ++i)
    add(region.inputs[i], *graph.inputs[i]);
  for (size_t i = 0; i < region.outputs.size(); ++i)
    add(region.outputs[i], *graph.outputs[i]);
  return forms;
}

std::string keyOf(const plan::PlanT &plan, const plan::RegionT &region, const Device &device, const Graph &graph,
                  bool withGraph) {
  const auto key = [&](std::span<const std::byte> bytes) {
    return cacheKey("kernel", device, region.lowering, optionsOf(region), askedOf(plan),
                    formsOf(plan, region, graph.view()), bytes);
  };
  if (!withGraph)
    return key({});
  MortiseGraph unnamed = graph.view(); // its name says how many graphs the process compiled before it
  unnamed.name = "";
  const auto copy = Graph::copy(unnamed);
  return key(copy ? (*copy)->bytes() : graph.bytes());
}

// Adds a reason why the kernel has to be compiled.
void miss(Kernel &kernel, const std::string &reason) { kernel.cached += (kernel.cached.empty() ? "" : "; ") + reason; }

// Makes the kernel from the bytes of one that was saved. False: `kernel.cached` says why that is impossible.
Result<bool> loadKernel(Kernel &kernel, MortiseCompileArgs args, std::span<const std::byte> bytes, const char *cached) {
  args.saved = bytes.data();
  args.saved_bytes = bytes.size();
  auto loaded = call("kernel_load", kernel.table().kernel_load, args);
  if (loaded && args.kernel != nullptr) {
    kernel.kernel = args.kernel;
    kernel.cached = cached;
    return true;
  }
  if (!loaded && loaded.error().code == MORTISE_CANCELLED)
    return loaded.error();
  const std::string why =
      "kernel_load: " + (loaded ? "expected a kernel or a status, found neither" : loaded.error().message);
  miss(kernel, why);
  logMessage(MORTISE_WARNING,
             "plugin '" + kernel.device->plugin->name + "' cannot use a saved kernel and compiles it again; " + why);
  return false;
}

// What the plugin writes of the kernel. A kernel that cannot be saved is compiled again, so that a failure is no error.
std::optional<std::vector<std::byte>> bytesOf(const Kernel &kernel) {
  std::vector<std::byte> bytes;
  MortiseKernelSaveArgs args{.struct_size = sizeof(MortiseKernelSaveArgs),
                             .kernel = kernel.kernel,
                             .sink = &bytes,
                             .write = [](void *sink, const void *from, uint64_t count) {
                               const auto *first = static_cast<const std::byte *>(from);
                               auto &into = *static_cast<std::vector<std::byte> *>(sink);
                               into.insert(into.end(), first, first + count);
                             }};
  if (auto saved = call("kernel_save", kernel.table().kernel_save, args); !saved) {
    logMessage(MORTISE_WARNING,
               "plugin '" + kernel.device->plugin->name + "': a kernel is not saved: " + saved.error().message);
    return std::nullopt;
  }
  return bytes;
}

// Fills in the kernel from the program's file, from disk, or by compiling it, which is then kept on disk.
Result<void> obtain(Kernel &kernel, MortiseCompileArgs args, const plan::PlanT &plan, const plan::RegionT &region,
                    const SavedKernel *saved, const OpenedKernelCache &cache) {
  const auto compile = [&]() -> Result<void> {
    if (auto called = call("kernel_compile", kernel.table().kernel_compile, args); !called)
      return called;
    if (args.kernel == nullptr)
      return Error{MORTISE_INTERNAL, "kernel_compile: expected a kernel or a status, found neither"};
    kernel.kernel = args.kernel;
    return {};
  };
  const Device &device = *kernel.device;
  if (!canSave(device)) {
    miss(kernel, "the plugin keeps no kernels of this device");
    return compile();
  }
  if (saved && saved->key != keyOf(plan, region, device, *kernel.graph, false)) {
    miss(kernel, "the program's file has the kernel of another device, or another build of the plugin");
  } else if (saved) {
    const auto loaded = loadKernel(kernel, args, saved->bytes, "saved");
    if (!loaded || *loaded)
      return loaded ? Result<void>() : loaded.error();
  }
  if (!cache) {
    miss(kernel, cache.error().message);
    return compile();
  }
  const std::string key = keyOf(plan, region, device, *kernel.graph, true);
  if (const auto found = (*cache)->find(key); !found) {
    miss(kernel, found.error().message);
  } else {
    const auto loaded = loadKernel(kernel, args, *found, "hit");
    if (!loaded || *loaded)
      return loaded ? Result<void>() : loaded.error();
    (*cache)->setAside(key);
  }
  if (auto compiled = compile(); !compiled)
    return compiled;
  if (const auto bytes = bytesOf(kernel))
    if (auto stored = (*cache)->store(key, *bytes); !stored)
      logMessage(MORTISE_WARNING,
                 "plugin '" + device.plugin->name + "': a kernel is not kept on disk: " + stored.error().message);
  return {};
}

// `saved`: the region's kernel in the program's file, or NULL.
Result<KernelPtr> compileKernel(const plan::PlanT &plan, const plan::RegionT &region, const Device &device,
                                std::shared_ptr<const Graph> graph, const SavedKernel *saved,
                                const OpenedKernelCache &cache) {
  auto kernel = std::make_shared<Kernel>();
  kernel->device = &device;
  kernel->graph = std::move(graph);
  const std::vector<MortiseOption> options = optionsOf(region);
  const MortiseCompileOptions asked = askedOf(plan);
  const std::vector<MortiseForm> forms = formsOf(plan, region, kernel->graph->view());
  const MortiseCompileArgs args{.struct_size = sizeof(MortiseCompileArgs),
                                .device = device.info.device,
                                .region = &kernel->graph->view(),
                                .lowering = region.lowering.c_str(),
                                .options = options.data(),
                                .option_count = options.size(),
                                .compile_options = &asked,
                                .forms = forms.data(),
                                .form_count = forms.size()};
  if (auto obtained = obtain(*kernel, args, plan, region, saved, cache); !obtained)
    return obtained.error();
  if (auto described = describeKernel(*kernel); !described)
    return described.error();
  return KernelPtr(std::move(kernel));
}

// Runs jobs in parallel threads. The first failure raises the flag that MortiseHost::cancelled reads in the other
// threads.
template <typename Answer>
Result<std::vector<Answer>> inParallel(const plan::PlanT &plan, std::span<const uint32_t> regions,
                                       const std::function<Result<Answer>(uint32_t)> &job) {
  std::vector<std::optional<Result<Answer>>> answers(regions.size());
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  auto work = [&] {
    const CancelScope scope(stop);
    for (size_t i; !stop && (i = next.fetch_add(1)) < regions.size();) {
      const std::string region = regionText(plan, regions[i]);
      const AboutScope about(region.c_str());
      answers[i].emplace(job(regions[i]));
      if (!*answers[i])
        stop = true;
    }
  };
  inThreads(std::min<size_t>(regions.size(), compileThreads()), work);

  // A cancelled region is a consequence: report the region that failed first.
  for (const bool cancelled : {false, true})
    for (size_t i = 0; i < regions.size(); ++i)
      if (answers[i] && !*answers[i] && (answers[i]->error().code == MORTISE_CANCELLED) == cancelled)
        return inRegion(plan, regions[i], answers[i]->error());
  std::vector<Answer> all;
  for (auto &answer : answers)
    all.push_back(std::move(**answer));
  return all;
}

bool equalForms(const plan::PlanT &plan, const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
  return std::ranges::equal(a, b, [&](uint32_t left, uint32_t right) {
    const plan::BufferT &one = *plan.buffers[left], &other = *plan.buffers[right];
    return one.layout == other.layout && plan.spaces[one.space]->number == plan.spaces[other.space]->number;
  });
}

bool equalContent(const plan::PlanT &plan, const plan::RegionT &a, const plan::RegionT &b) {
  return equalForms(plan, a.inputs, b.inputs) && equalForms(plan, a.outputs, b.outputs) && a.plugin == b.plugin &&
         a.device == b.device && a.lowering == b.lowering && a.graph == b.graph && a.specialise == b.specialise &&
         std::ranges::equal(a.options, b.options, [](const auto &left, const auto &right) {
           return left->key == right->key && left->value == right->value;
         });
}

// For each region, the number of the first region with equal content.
std::vector<uint32_t> findEqual(const plan::PlanT &plan) {
  std::vector<uint32_t> result;
  std::unordered_multimap<size_t, uint32_t> firsts;
  for (uint32_t i = 0; i < plan.regions.size(); ++i) {
    const plan::RegionT &region = *plan.regions[i];
    const size_t hash =
        std::hash<std::string_view>()({reinterpret_cast<const char *>(region.graph.data()), region.graph.size()});
    uint32_t first = i;
    for (auto [at, end] = firsts.equal_range(hash); at != end; ++at)
      if (equalContent(plan, *plan.regions[at->second], region)) {
        first = at->second;
        break;
      }
    if (first == i)
      firsts.emplace(hash, i);
    result.push_back(first);
  }
  return result;
}

} // namespace

Kernel::~Kernel() {
  if (kernel == nullptr)
    return;
  MortiseKernelArgs args{.struct_size = sizeof(MortiseKernelArgs), .kernel = kernel};
  if (auto called = call("kernel_destroy", table().kernel_destroy, args); !called)
    logMessage(MORTISE_WARNING, "kernel_destroy failed: " + called.error().message);
}

void tellRefused(RefusedPlace place, size_t region, const Error &error) {
  if (place && error.code == MORTISE_UNSUPPORTED)
    *place = RefusedRegion{static_cast<uint32_t>(region), error.message};
}

Error inRegion(const plan::PlanT &plan, size_t region, const Error &error) {
  return {error.code, regionText(plan, region) + ": " + error.message};
}

std::string regionText(const plan::PlanT &plan, size_t region) {
  return "region " + std::to_string(region) + " (" + plan.regions[region]->lowering + " on " +
         plan.regions[region]->device + ")";
}

Result<uint64_t> workspaceOf(const Kernel &kernel, std::span<const int64_t> values) {
  if (kernel.workspace.empty())
    return 0;
  auto bytes = evaluate({kernel.workspace.data(), kernel.workspace.size()}, values);
  if (!bytes)
    return Error{MORTISE_INTERNAL, "kernel_info: its workspace expression does not evaluate: " + bytes.error().message};
  if (*bytes < 0 || static_cast<uint64_t>(*bytes) > mostBytes)
    return Error{MORTISE_INTERNAL,
                 "kernel_info: expected a workspace size, found " + std::to_string(*bytes) + " bytes"};
  return static_cast<uint64_t>(*bytes);
}

Result<std::vector<StepInfo>> readSteps(const char *slot, const MortiseStep *const *steps, size_t count) {
  constexpr size_t most = 1 << 20;
  const std::string which = std::string(slot) + ": ";
  if (count > most || (count && !holds(steps, count)))
    return Error{MORTISE_INTERNAL, which + "expected a list of steps, found memory that cannot be read"};
  std::vector<StepInfo> result;
  for (size_t i = 0; i < count; ++i) {
    const MortiseStep *step = steps[i];
    if (!holds(step))
      return Error{MORTISE_INTERNAL, which + "expected a MortiseStep in place " + std::to_string(i) +
                                         ", found an address where none can be read"};
    const auto name = readPrefix(step->name), lowering = readPrefix(step->lowering);
    if (!name || !lowering)
      return Error{MORTISE_INTERNAL, which + "expected step " + std::to_string(i) +
                                         " to have a name and a lowering, found " +
                                         (step->name && step->lowering ? "memory that cannot be read" : "NULL")};
    result.push_back({legible(*name), legible(*lowering), step->bytes, step->flops});
  }
  return result;
}

Result<Regions> compileRegions(const plan::PlanT &plan, const Registry &registry, const LoadOptions &options) {
  Regions regions(plan.regions.size());
  const std::vector<uint32_t> first = findEqual(plan);
  std::vector<uint32_t> fresh;
  std::mutex mutex; // guards *options.refused
  for (uint32_t i = 0; i < regions.size(); ++i)
    if (first[i] == i)
      fresh.push_back(i);
  auto made = inParallel<CompiledRegion>(plan, fresh, [&](uint32_t i) -> Result<CompiledRegion> {
    const plan::RegionT &region = *plan.regions[i];
    auto device = deviceOf(region, registry);
    if (!device)
      return device.error();
    auto graph = Graph::read(std::as_bytes(std::span(region.graph)));
    if (!graph)
      return graph.error();
    if (auto checked = checkRegion(plan, i, (*graph)->view()); !checked)
      return checked.error();
    CompiledRegion compiled{*device, std::move(*graph), i, nullptr, regionText(plan, i)};
    if (region.specialise)
      return compiled;
    const auto saved = std::ranges::find(options.kernels, i, &SavedKernel::region);
    auto kernel = compileKernel(plan, region, *compiled.device, compiled.graph,
                                saved == options.kernels.end() ? nullptr : &*saved, registry.cache());
    if (!kernel) {
      const std::lock_guard lock(mutex);
      tellRefused(options.refused, i, kernel.error());
      return kernel.error();
    }
    compiled.kernel = std::move(*kernel);
    return compiled;
  });
  if (!made)
    return made.error();
  for (size_t i = 0; i < fresh.size(); ++i)
    regions[fresh[i]] = std::move((*made)[i]);
  for (uint32_t i = 0; i < regions.size(); ++i)
    if (first[i] != i) {
      regions[i] = regions[first[i]];
      regions[i].name = regionText(plan, i);
      if (auto checked = checkRegion(plan, i, regions[i].graph->view()); !checked)
        return inRegion(plan, i, checked.error());
    }
  return regions;
}

std::vector<SavedKernel> saveKernels(const plan::PlanT &plan, const Regions &regions) {
  std::vector<SavedKernel> saved;
  for (uint32_t i = 0; i < regions.size(); ++i)
    if (const Kernel *kernel = regions[i].kernel.get(); kernel && regions[i].first == i && canSave(*kernel->device))
      if (auto bytes = bytesOf(*kernel))
        saved.push_back({i, keyOf(plan, *plan.regions[i], *kernel->device, *kernel->graph, false), std::move(*bytes)});
  return saved;
}

Result<std::vector<KernelPtr>> specialiseRegions(const plan::PlanT &plan, const Regions &regions,
                                                 std::span<const uint32_t> which, std::span<const int64_t> values,
                                                 const OpenedKernelCache &cache, RefusedPlace refused) {
  std::mutex mutex; // guards *refused
  return inParallel<KernelPtr>(plan, which, [&](uint32_t i) -> Result<KernelPtr> {
    auto graph = specialise(regions[i].graph->view(), values);
    if (!graph)
      return graph.error();
    auto kernel = compileKernel(plan, *plan.regions[i], *regions[i].device, std::move(*graph), nullptr, cache);
    if (!kernel) {
      const std::lock_guard lock(mutex);
      tellRefused(refused, i, kernel.error());
    }
    return kernel;
  });
}

Binding::~Binding() {
  specialisations.clear(); // instances refer to packed constants, so they are destroyed first
  for (size_t i = 0; i < packed.size(); ++i)
    if (packed[i])
      destroyConstants(*(*regions)[i].kernel, packed[i]);
}

void destroyConstants(const Kernel &kernel, MortiseConstants *constants) {
  MortiseConstantsArgs args{
      .struct_size = sizeof(MortiseConstantsArgs), .kernel = kernel.kernel, .constants = constants};
  if (auto called = call("constants_destroy", kernel.table().constants_destroy, args); !called)
    logMessage(MORTISE_WARNING, "constants_destroy failed: " + called.error().message);
}

namespace {

// Makes constants available in the memory of devices.
class Uploader {
public:
  Uploader(const plan::PlanT &plan, std::span<const std::byte *const> literals, const Binding &binding,
           std::vector<Upload> &own)
      : plan(plan), literals(literals), binding(binding), own(own) {}

  // The constant in buffer `number`, in the space that a kernel of `kernelDevice` wants.
  Result<MortiseAddress> get(uint32_t number, const Device &kernelDevice, uint32_t space) {
    const plan::BufferT &buffer = *plan.buffers[number];
    const Place source = buffer.kind == plan::BufferKind::Literal
                             ? Place{nullptr, reinterpret_cast<uintptr_t>(literals[number])}
                             : binding.data[buffer.index];
    const Device &device = kernelDevice.owner();
    const bool onHost = space == MORTISE_HOST_SPACE || kernelDevice.info.spaces[space]->kind == MORTISE_SPACE_HOST;
    if (onHost && source.device)
      return Error{MORTISE_UNSUPPORTED,
                   "expected a constant in host memory, where its kernel packs it, found it in that "
                   "of device '" +
                       source.device->name() + "'; pass a copy in host memory"};
    if (onHost || (space == 0 && source.device && source.device->sharesMemory(device)))
      return source.address;
    for (const std::vector<Upload> *uploads : {&binding.uploads, static_cast<const std::vector<Upload> *>(&own)})
      for (const Upload &upload : *uploads)
        if (upload.buffer == number && upload.device == &device && upload.space == space)
          return upload.memory.address();
    const uint64_t size = *denseBytes(*buffer.type);
    auto memory = DeviceMemory::allocate(device, space, size);
    if (!memory)
      return memory.error();
    if (auto copied = copyNow({&device, memory->address()}, source, size); !copied)
      return copied.error();
    const MortiseAddress address = memory->address();
    bytes += size;
    own.push_back({number, &device, space, std::move(*memory)});
    return address;
  }

  uint64_t bytes = 0; // copied

private:
  const plan::PlanT &plan;
  std::span<const std::byte *const> literals;
  const Binding &binding;
  std::vector<Upload> &own;
};

} // namespace

Result<Packed> packConstants(const plan::PlanT &plan, std::span<const std::byte *const> literals, size_t region,
                             const Kernel &kernel, const Binding &binding, std::vector<Upload> &own,
                             RefusedPlace refused) {
  const MortiseGraph &graph = kernel.graph->view();
  Uploader uploader(plan, literals, binding, own);
  std::vector<MortiseAddress> inputs(graph.input_count);
  for (size_t j = 0; j < graph.input_count; ++j) {
    if (!(graph.inputs[j]->flags & MORTISE_VALUE_CONSTANT))
      continue;
    auto address = uploader.get(plan.regions[region]->inputs[j], *kernel.device,
                                kernel.constantSpaces.empty() ? 0 : kernel.constantSpaces[j]);
    if (!address)
      return inRegion(plan, region, address.error());
    inputs[j] = *address;
  }
  const std::string name = regionText(plan, region);
  const AboutScope about(name.c_str());
  MortiseConstantsBindArgs args{
      .struct_size = sizeof(MortiseConstantsBindArgs), .kernel = kernel.kernel, .inputs = inputs.data()};
  if (auto called = call("constants_bind", kernel.table().constants_bind, args); !called) {
    tellRefused(refused, region, called.error());
    return inRegion(plan, region, called.error());
  }
  if (args.workspace_bytes > mostBytes) {
    if (args.constants)
      destroyConstants(kernel, args.constants);
    return inRegion(plan, region,
                    {MORTISE_INTERNAL, "constants_bind: expected a workspace size, found " +
                                           std::to_string(args.workspace_bytes) + " bytes"});
  }
  return Packed{args.constants, uploader.bytes + args.packed_bytes, args.workspace_bytes};
}

Result<void> packAll(const plan::PlanT &plan, std::span<const std::byte *const> literals, Binding &binding,
                     RefusedPlace refused) {
  binding.packed.reserve(binding.regions->size());
  for (size_t i = 0; i < binding.regions->size(); ++i) {
    const CompiledRegion &region = (*binding.regions)[i];
    if (region.kernel) {
      auto packed = packConstants(plan, literals, i, *region.kernel, binding, binding.uploads, refused);
      if (!packed)
        return packed.error();
      binding.packed.push_back(packed->constants);
      binding.workspaces.push_back(packed->workspace);
      binding.packedBytes += packed->bytes;
      continue;
    }
    binding.packed.push_back(nullptr);
    binding.workspaces.push_back(0);
    Uploader uploader(plan, literals, binding, binding.uploads);
    const MortiseGraph &graph = region.graph->view();
    for (size_t j = 0; j < graph.input_count; ++j)
      if (graph.inputs[j]->flags & MORTISE_VALUE_CONSTANT)
        if (auto address = uploader.get(plan.regions[i]->inputs[j], *region.device, 0); !address)
          return inRegion(plan, i, address.error());
    binding.packedBytes += uploader.bytes;
  }
  return {};
}

Result<MortiseAddress> bringTo(const Device &device, uint32_t buffer, const plan::PlanT &plan,
                               std::span<const std::byte *const> literals, Binding &binding) {
  Uploader uploader(plan, literals, binding, binding.uploads);
  auto address = uploader.get(buffer, device, 0);
  binding.packedBytes += uploader.bytes;
  return address;
}

} // namespace mortise::runtime
