// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker_kernel.hpp"

#include "../host.hpp"
#include "worker.hpp"
#include <mortise/portable/graph.hpp>

#include <algorithm>
#include <utility>

namespace mortise::runtime::isolation {
namespace {

constexpr size_t mostPrepared = 64; // sets of symbol values of one kernel's constants

Error neither(const char *slot, const char *what) {
  return {MORTISE_INTERNAL, std::string(slot) + ": expected " + what + " or a status, found neither"};
}

} // namespace

Options::Options(const Work &work)
    : compile{.struct_size = sizeof(MortiseCompileOptions),
              .mode = work.mode,
              .precision = work.precision,
              .deterministic = work.deterministic} {
  for (const Option &option : work.options)
    options.push_back({option.key.c_str(), option.value.c_str()});
  for (const Form &form : work.forms)
    forms.push_back({form.value, form.layout, 0, 0});
}

Result<std::shared_ptr<WorkerKernel>> WorkerKernel::compile(const Compile &request, WorkerDevice &device) {
  auto graph = Graph::read(std::as_bytes(std::span(request.work.graph)));
  if (!graph)
    return graph.error();
  auto made = std::make_shared<WorkerKernel>();
  made->request = request;
  made->device = &device;
  made->kernel.device = &device.device;
  made->kernel.graph = std::move(*graph);
  const Options asked(made->request.work);
  MortiseCompileArgs args{.struct_size = sizeof(MortiseCompileArgs),
                          .device = device.device.info.device,
                          .region = &made->kernel.graph->view(),
                          .lowering = made->request.lowering.c_str(),
                          .options = asked.options.data(),
                          .option_count = asked.options.size(),
                          .compile_options = &asked.compile,
                          .forms = asked.forms.data(),
                          .form_count = asked.forms.size()};
  if (auto called = call("kernel_compile", made->kernel.table().kernel_compile, args); !called)
    return called.error();
  if (args.kernel == nullptr)
    return neither("kernel_compile", "a kernel");
  made->kernel.kernel = args.kernel;
  return made;
}

Result<std::unique_ptr<WorkerConstants>> WorkerConstants::bind(std::shared_ptr<WorkerKernel> kernel, const Bind &bind,
                                                               const std::byte *shared) {
  std::unique_ptr<WorkerConstants> made(new WorkerConstants(std::move(kernel)));
  const Kernel &of = made->of->kernel;
  WorkerDevice &device = *made->of->device;
  std::vector<MortiseAddress> addresses(bind.inputs.size());
  const auto copyAll = [&]() -> Result<void> {
    for (size_t i = 0; i < bind.inputs.size(); ++i) {
      const Range &range = bind.inputs[i];
      if (!range.present)
        continue;
      auto copied = WorkerConstant::copy(device, of.constantSpaces.empty() ? 0 : of.constantSpaces[i],
                                         shared + range.offset, range.bytes);
      if (!copied)
        return copied.error();
      addresses[i] = copied->address;
      made->inputs.push_back(std::move(*copied));
    }
    return {};
  };
  if (auto ready = device.begin(); !ready)
    return ready.error();
  if (auto copied = device.end(copyAll()); !copied)
    return copied.error();
  MortiseConstantsBindArgs args{
      .struct_size = sizeof(MortiseConstantsBindArgs), .kernel = of.kernel, .inputs = addresses.data()};
  if (auto called = call("constants_bind", of.table().constants_bind, args); !called)
    return called.error();
  made->constants = args.constants;
  made->packedBytes = args.packed_bytes;
  made->workspace = args.workspace_bytes;
  return made;
}

WorkerConstants::~WorkerConstants() {
  for (auto &[symbols, prepared] : known)
    destroy(symbols, prepared);
  if (constants)
    destroyConstants(of->kernel, constants);
}

void WorkerConstants::destroy(const Values &symbols, Prepared &prepared) {
  const Kernel &kernel = of->kernel;
  MortiseFrameArgs frame{.struct_size = sizeof(MortiseFrameArgs),
                         .kernel = kernel.kernel,
                         .constants = constants,
                         .instance = prepared.instance,
                         .frame = prepared.frame};
  if (frame.frame)
    if (auto called = call("frame_destroy", kernel.table().frame_destroy, frame); !called)
      logMessage(MORTISE_WARNING, "frame_destroy failed: " + called.error().message);
  MortiseInstanceArgs instance{.struct_size = sizeof(MortiseInstanceArgs),
                               .kernel = kernel.kernel,
                               .constants = constants,
                               .symbols = symbols.data(),
                               .instance = prepared.instance};
  if (instance.instance)
    if (auto called = call("instance_destroy", kernel.table().instance_destroy, instance); !called)
      logMessage(MORTISE_WARNING, "instance_destroy failed: " + called.error().message);
  prepared = {};
}

Result<void> WorkerConstants::makeInstance(Prepared &prepared, const Values &symbols) {
  const Kernel &kernel = of->kernel;
  prepared.steps = kernel.steps.size();
  if (kernel.makesInstances()) {
    MortiseInstanceArgs args{.struct_size = sizeof(MortiseInstanceArgs),
                             .kernel = kernel.kernel,
                             .constants = constants,
                             .symbols = symbols.data()};
    if (auto called = call("instance_create", kernel.table().instance_create, args); !called)
      return called;
    if (args.instance == nullptr)
      return neither("instance_create", "an instance");
    prepared.instance = args.instance;
    prepared.workspace = args.workspace_bytes;
    prepared.steps = std::max(prepared.steps, args.step_count);
    return {};
  }
  if ((prepared.workspace = workspace) != 0)
    return {};
  auto known = workspaceOf(kernel, symbols);
  if (!known)
    return known.error();
  prepared.workspace = *known;
  return {};
}

Result<void> WorkerConstants::makeFrame(Prepared &prepared) {
  const Kernel &kernel = of->kernel;
  if (!kernel.device->plugin->hasFrames())
    return {};
  MortiseFrameArgs args{.struct_size = sizeof(MortiseFrameArgs),
                        .kernel = kernel.kernel,
                        .constants = constants,
                        .instance = prepared.instance};
  if (auto called = call("frame_create", kernel.table().frame_create, args); !called)
    return onDevice(*kernel.device, "frame_create", called.error());
  if (args.frame == nullptr)
    return neither("frame_create", "a frame");
  prepared.frame = args.frame;
  return {};
}

Result<WorkerConstants::Prepared *> WorkerConstants::prepare(const Values &symbols) {
  if (const auto found = known.find(symbols); found != known.end())
    return &found->second;
  if (known.size() == mostPrepared) {
    for (auto &[values, prepared] : known)
      destroy(values, prepared);
    known.clear();
  }
  Prepared prepared;
  auto made = makeInstance(prepared, symbols);
  if (made)
    made = makeFrame(prepared);
  if (!made) {
    destroy(symbols, prepared);
    return made.error();
  }
  return &known.emplace(symbols, std::move(prepared)).first->second;
}

// Copies inputs to the device where it has memory of its own, queues the kernel, and copies outputs back. Tensors lie
// in that memory as they do in the shared memory, one behind the other, and the workspace behind them.
Result<void> WorkerConstants::queue(const Enqueue &asked, std::byte *shared, Prepared &prepared, MortiseStream *stream,
                                    std::vector<uint64_t> &stepNs) {
  const Kernel &kernel = of->kernel;
  WorkerDevice &device = *of->device;
  const bool own = !device.device.inHostMemory();
  const uint64_t alignment = std::max<uint64_t>(device.device.home().alignment, 64);
  uint64_t tensors = 0;
  if (own)
    for (const std::vector<Range> *ranges : {&asked.inputs, &asked.outputs})
      for (const Range &range : *ranges)
        tensors = std::max(tensors, range.present ? range.offset - tensorsBegin + range.bytes : 0);
  tensors = (tensors + alignment - 1) / alignment * alignment;
  auto home = device.reserve(tensors + prepared.workspace);
  if (!home)
    return home.error();
  const MortiseAddress base = own ? *home - tensorsBegin : reinterpret_cast<MortiseAddress>(shared);
  std::vector<MortiseAddress> addresses;
  for (const std::vector<Range> *ranges : {&asked.inputs, &asked.outputs})
    for (const Range &range : *ranges)
      addresses.push_back(range.present ? base + range.offset : 0);
  addresses.push_back(prepared.workspace ? *home + tensors : 0);
  for (const Range &range : asked.inputs)
    if (own && range.bytes != 0)
      if (auto copied = device.copyIn(base + range.offset, shared + range.offset, range.bytes); !copied)
        return copied;

  prepared.last.resize(addresses.size());
  prepared.unchanged.assign((addresses.size() + 63) / 64, 0);
  for (size_t i = 0; i < addresses.size(); ++i)
    if (addresses[i] == std::exchange(prepared.last[i], addresses[i]) && addresses[i] != 0)
      prepared.unchanged[i / 64] |= UINT64_C(1) << (i % 64);
  MortiseEnqueueArgs args{.struct_size = sizeof(MortiseEnqueueArgs),
                          .kernel = kernel.kernel,
                          .constants = constants,
                          .stream = stream,
                          .inputs = addresses.data(),
                          .outputs = addresses.data() + asked.inputs.size(),
                          .workspace = addresses.back(),
                          .symbols = asked.symbols.data(),
                          .step_ns = asked.timed ? stepNs.data() : nullptr,
                          .instance = prepared.instance,
                          .frame = prepared.frame,
                          .unchanged = prepared.frame ? prepared.unchanged.data() : nullptr};
  if (auto called = call("enqueue", kernel.table().enqueue, args); !called)
    return called;
  for (const Range &range : asked.outputs)
    if (own && range.bytes != 0)
      if (auto copied = device.copyOut(shared + range.offset, base + range.offset, range.bytes); !copied)
        return copied;
  return {};
}

Result<Enqueued> WorkerConstants::run(const Enqueue &asked, std::byte *shared) {
  auto prepared = prepare(asked.symbols);
  if (!prepared)
    return prepared.error();
  auto stream = of->device->begin();
  if (!stream)
    return stream.error();
  Enqueued answer;
  if (asked.timed)
    answer.stepNs.resize(std::max<size_t>(asked.timed, (*prepared)->steps));
  if (auto done = of->device->end(queue(asked, shared, **prepared, *stream, answer.stepNs)); !done) {
    destroy(asked.symbols, **prepared); // what a failed call has left of it
    known.erase(asked.symbols);
    return done.error();
  }
  answer.stepNs.resize(asked.timed);
  return answer;
}

} // namespace mortise::runtime::isolation
