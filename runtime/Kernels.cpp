// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Kernels.h"

#include "Guard.h"
#include "Host.h"
#include "PlanCheck.h"
#include <mortise/runtime/Call.h>

#include <algorithm>
#include <optional>
#include <thread>

namespace mortise::runtime {
namespace {

Error inRegion(const plan::PlanT &plan, size_t region, const Error &error) {
  return {error.code, regionText(plan, region) + ": " + error.message};
}

// A region's device by plugin and by either form of its name.
Result<const Device *> deviceOf(const plan::RegionT &region, const Registry &registry) {
  for (const auto &device : registry.devices())
    if (device->plugin->name == region.plugin &&
        (device->name() == region.device ||
         std::string(device->info.kind) + ":" + std::to_string(device->info.ordinal) == region.device))
      return device.get();
  auto found = registry.find(region.device);
  if (!found)
    return found.error();
  return Error{MORTISE_NOT_FOUND, "expected plugin '" + region.plugin + "' to offer device '" + region.device +
                                      "', found it only from others; install that plugin or compile again"};
}

Result<void> describe(Kernel &kernel) {
  MortiseKernelInfo info{.struct_size = sizeof(MortiseKernelInfo), .kernel = kernel.kernel};
  if (auto called = call("kernel_info", kernel.table().kernel_info, info); !called)
    return called;
  if (info.workspace.count != 0) {
    if (info.workspace.count > 4096 ||
        !isReadable(info.workspace.steps, info.workspace.count * sizeof(MortiseExprStep)))
      return Error{MORTISE_INTERNAL, "kernel_info: expected a workspace expression, found memory that cannot be read"};
    auto bytes = evaluate(info.workspace, {});
    if (!bytes)
      return bytes.error();
    if (*bytes < 0 || *bytes > (INT64_C(1) << 47))
      return Error{MORTISE_INTERNAL,
                   "kernel_info: expected a workspace size, found " + std::to_string(*bytes) + " bytes"};
    kernel.workspace = static_cast<uint64_t>(*bytes);
  }
  constexpr size_t most = 1 << 20;
  if (info.step_count > most || (info.step_count && !isReadable(info.steps, info.step_count * sizeof(void *))))
    return Error{MORTISE_INTERNAL, "kernel_info: expected a list of steps, found memory that cannot be read"};
  for (size_t i = 0; i < info.step_count; ++i) {
    const MortiseStep *step = info.steps[i];
    if (step == nullptr || step->name == nullptr || step->lowering == nullptr)
      return Error{MORTISE_INTERNAL,
                   "kernel_info: expected step " + std::to_string(i) + " to have a name and a lowering, found NULL"};
    kernel.steps.push_back({step->name, step->lowering, step->bytes, step->flops});
  }
  return {};
}

Result<std::unique_ptr<Kernel>> compileKernel(const plan::PlanT &plan, uint32_t number, const Registry &registry) {
  const plan::RegionT &region = *plan.regions[number];
  auto kernel = std::make_unique<Kernel>();
  auto device = deviceOf(region, registry);
  if (!device)
    return device.error();
  auto graph = Graph::read(std::as_bytes(std::span(region.graph)));
  if (!graph)
    return graph.error();
  if (auto checked = checkRegion(plan, number, (*graph)->view()); !checked)
    return checked.error();
  kernel->graph = std::move(*graph);
  kernel->device = *device;
  std::vector<MortiseOption> options;
  for (const auto &option : region.options)
    options.push_back({option->key.c_str(), option->value.c_str()});
  MortiseCompileArgs args{.struct_size = sizeof(MortiseCompileArgs),
                          .device = kernel->device->info.device,
                          .region = &kernel->graph->view(),
                          .lowering = region.lowering.c_str(),
                          .options = options.data(),
                          .option_count = options.size()};
  if (auto called = call("kernel_compile", kernel->table().kernel_compile, args); !called)
    return called.error();
  if (args.kernel == nullptr)
    return Error{MORTISE_INTERNAL, "kernel_compile: expected a kernel or a status, found neither"};
  kernel->kernel = args.kernel;
  if (auto described = describe(*kernel); !described)
    return described.error();
  return kernel;
}

} // namespace

Kernel::~Kernel() {
  if (kernel == nullptr)
    return;
  MortiseKernelArgs args{.struct_size = sizeof(MortiseKernelArgs), .kernel = kernel};
  if (auto called = call("kernel_destroy", table().kernel_destroy, args); !called)
    logMessage(MORTISE_WARNING, "kernel_destroy failed: " + called.error().message);
}

std::string regionText(const plan::PlanT &plan, size_t region) {
  return "region " + std::to_string(region) + " (" + plan.regions[region]->lowering + " on " +
         plan.regions[region]->device + ")";
}

Result<Kernels> compileKernels(const plan::PlanT &plan, const Registry &registry) {
  const size_t count = plan.regions.size();
  std::vector<std::optional<Result<std::unique_ptr<Kernel>>>> answers(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> stop{false};
  auto work = [&] {
    const CancelScope scope(stop);
    for (size_t i; !stop && (i = next.fetch_add(1)) < count;) {
      answers[i].emplace(compileKernel(plan, static_cast<uint32_t>(i), registry));
      if (!*answers[i])
        stop = true;
    }
  };
  std::vector<std::thread> threads;
  const size_t helpers = std::min<size_t>(count, std::max(1, host().thread_count()));
  for (size_t i = 1; i < helpers; ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();

  // A region that was told to stop is not the one to blame.
  for (const bool cancelled : {false, true})
    for (size_t i = 0; i < count; ++i)
      if (answers[i] && !*answers[i] && (answers[i]->error().code == MORTISE_CANCELLED) == cancelled)
        return inRegion(plan, i, answers[i]->error());
  Kernels kernels;
  for (auto &answer : answers)
    kernels.push_back(std::move(**answer));
  return kernels;
}

Bound::~Bound() {
  for (size_t i = 0; i < packed.size(); ++i) {
    if (packed[i] == nullptr)
      continue;
    const Kernel &kernel = *(*kernels)[i];
    MortiseConstantsArgs args{
        .struct_size = sizeof(MortiseConstantsArgs), .kernel = kernel.kernel, .constants = packed[i]};
    if (auto called = call("constants_destroy", kernel.table().constants_destroy, args); !called)
      logMessage(MORTISE_WARNING, "constants_destroy failed: " + called.error().message);
  }
}

Result<void> packConstants(const plan::PlanT &plan, std::span<const std::byte *const> literals, Bound &bound) {
  for (size_t i = 0; i < bound.kernels->size(); ++i) {
    const Kernel &kernel = *(*bound.kernels)[i];
    const MortiseGraph &graph = kernel.graph->view();
    std::vector<const void *> inputs(graph.input_count);
    for (size_t j = 0; j < graph.input_count; ++j) {
      const uint32_t number = plan.regions[i]->inputs[j];
      const plan::BufferT &buffer = *plan.buffers[number];
      if (graph.inputs[j]->flags & MORTISE_VALUE_CONSTANT)
        inputs[j] = buffer.kind == plan::BufferKind::Literal ? literals[number] : bound.data[buffer.index];
    }
    MortiseConstantsBindArgs args{
        .struct_size = sizeof(MortiseConstantsBindArgs), .kernel = kernel.kernel, .inputs = inputs.data()};
    if (auto called = call("constants_bind", kernel.table().constants_bind, args); !called)
      return inRegion(plan, i, called.error());
    bound.packed.push_back(args.constants);
    bound.packedBytes += args.packed_bytes;
  }
  return {};
}

} // namespace mortise::runtime
