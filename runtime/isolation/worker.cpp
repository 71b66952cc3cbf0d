// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

#include "../crash.hpp"
#include "../host.hpp"
#include "../loader.hpp"
#include "../plugin_memory.hpp"
#include "ops.hpp"
#include "worker_kernel.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/manifest.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

namespace mortise::runtime::isolation {
namespace {

std::string textOf(const char *text) { return text ? text : ""; }

Error invalid(std::string message) { return {MORTISE_INVALID_ARGUMENT, std::move(message)}; }

// What the plugin and its devices have in process, in words, and the host is not shown.
std::vector<std::string> hiddenOf(const LoadedPlugin &loaded) {
  std::vector<std::string> hidden;
  const auto add = [&](bool has, const char *what) {
    if (has)
      hidden.emplace_back(what);
  };
  const auto any = [&](auto has) { return std::ranges::any_of(loaded.devices, has); };
  const Plugin &plugin = loaded.plugin;
  add(any([](const MortiseDeviceInfo &info) { return info.spaces[0]->kind != MORTISE_SPACE_HOST; }),
      "memory of its own (each call copies its tensors there and back)");
  add(any([](const MortiseDeviceInfo &info) { return info.space_count > 1; }), "memory spaces beside the home");
  add(any([](const MortiseDeviceInfo &info) { return info.dlpack_type != 0; }), "tensors of DLPack");
  add(plugin.hasStreams(), "streams");
  add(loaded.table.peer != nullptr, "copies between devices");
  add(plugin.hasSaving(), "saved kernels");
  return hidden;
}

// A limit for one ordinal is stronger than that for its kind.
uint64_t limitOf(const MortiseDeviceInfo &info, const std::vector<Limit> &limits) {
  uint64_t ofKind = 0, ofDevice = 0;
  for (const Limit &limit : limits) {
    if (limit.device == info.kind)
      ofKind = limit.bytes;
    if (limit.device == std::string(info.kind) + ":" + std::to_string(info.ordinal))
      ofDevice = limit.bytes;
  }
  return ofDevice ? ofDevice : ofKind;
}

// A candidate as the host is told it; nullopt: the host is told of refusals instead.
std::optional<Candidate> carried(const MortiseCandidate &candidate, const Device &device, Proposed &into) {
  Candidate copy{textOf(candidate.lowering),
                 {candidate.nodes, candidate.nodes + candidate.node_count},
                 candidate.cost_ns,
                 candidate.bytes,
                 candidate.flops,
                 {},
                 {}};
  for (const MortiseInPlace &pair : std::span(candidate.in_place, candidate.in_place_count))
    copy.inPlace.insert(copy.inPlace.end(), {pair.input, pair.output});
  for (const MortiseForm &form : std::span(candidate.forms, candidate.form_count)) {
    if (form.space == 0) {
      copy.forms.push_back({form.value, form.layout});
      continue;
    }
    const MortiseDeviceInfo &info = device.info;
    const std::string space = form.space < info.space_count ? textOf(info.spaces[form.space]->name) : "?";
    for (uint32_t node : copy.nodes)
      into.refusals.push_back({node, MORTISE_REASON_MEMORY,
                               "lowering '" + copy.lowering + "' wants a value in space '" + space +
                                   "' of the device, which a plugin in a process of its own does not have; leave "
                                   "it out of the setting isolate"});
    return std::nullopt;
  }
  return copy;
}

class Worker {
public:
  Result<std::string> answer(const Question &question) {
    switch (question.kind) {
    case Load::kind:
      return on<Load, Loaded>(question);
    case Propose::kind:
      return on<Propose, Proposed>(question);
    case Size::kind:
      return on<Size, Sized>(question);
    case Compile::kind:
      return on<Compile, Compiled>(question);
    case Bind::kind:
      return on<Bind, Bound>(question);
    case Enqueue::kind:
      return on<Enqueue, Enqueued>(question);
    case Infer::kind:
      return on<Infer, Inferred>(question);
    case DestroyConstants::kind:
      return on<DestroyConstants, Nothing>(question);
    case DestroyKernel::kind:
      return on<DestroyKernel, Nothing>(question);
    default:
      return invalid("expected a question of the worker protocol, found kind " + std::to_string(question.kind));
    }
  }

private:
  template <typename Asked, typename Told> Result<std::string> on(const Question &question) {
    auto asked = decode<Asked>(question.body);
    if (!asked)
      return asked.error();
    if (Asked::kind != Load::kind && plugin == nullptr)
      return invalid("expected the question 'load' first");
    Result<Told> told = tell(*asked);
    if (!told)
      return told.error();
    return encode(*told);
  }

  Result<Loaded> tell(const Load &load) {
    setLogLevel(load.logLevel);
    auto manifest = readManifest(load.manifest);
    if (!manifest)
      return manifest.error();
    LoadRequest request{.files = {load.library, load.manifest}, .owners = {load.owners.begin(), load.owners.end()}};
    for (const Option &option : load.options)
      request.options.push_back({option.key, option.value, "host"});
    auto opened = loadPlugin(*manifest, request);
    if (!opened)
      return opened.error();
    plugin = *opened;
    Loaded loaded{plugin->plugin.name,
                  plugin->plugin.vendor,
                  plugin->plugin.version,
                  plugin->plugin.build,
                  plugin->plugin.deviceless,
                  plugin->table.opset,
                  plugin->plugin.abiRevision,
                  plugin->table.layout != nullptr,
                  {},
                  declaredOps(plugin->table),
                  hiddenOf(*plugin)};
    for (const MortiseDeviceInfo &info : plugin->devices) {
      devices.push_back(std::make_unique<WorkerDevice>(plugin->plugin, info, limitOf(info, load.memoryLimits)));
      announce(devices.back()->device);
      const MortiseSpace &home = *info.spaces[0];
      loaded.devices.push_back({info.kind, info.name, textOf(info.features), textOf(info.same_as), home.name,
                                info.ordinal, info.automatic, info.threads, home.alignment, info.dlpack_type,
                                info.dlpack_id, home.kind == MORTISE_SPACE_HOST, home.bytes, info.peak_flops,
                                info.bandwidth, info.launch_ns, info.copy_ns, info.copy_bandwidth});
    }
    return loaded;
  }

  Result<WorkerDevice *> deviceOf(uint32_t number) const {
    if (number >= devices.size())
      return invalid("expected one of " + std::to_string(devices.size()) + " devices, found " + std::to_string(number));
    return devices[number].get();
  }

  Result<Proposed> tell(const Propose &propose) {
    auto device = deviceOf(propose.work.device);
    if (!device)
      return device.error();
    auto graph = Graph::read(std::as_bytes(std::span(propose.work.graph)));
    if (!graph)
      return graph.error();
    const Options asked(propose.work);
    struct Sink {
      const Device &device;
      Proposed proposed;
      std::mutex mutex; // a plugin may call from threads of its own
    } sink{(*device)->device, {}, {}};
    MortiseProposeArgs args{.struct_size = sizeof(MortiseProposeArgs),
                            .device = (*device)->device.info.device,
                            .graph = &(*graph)->view(),
                            .options = asked.options.data(),
                            .option_count = asked.options.size(),
                            .compile_options = &asked.compile,
                            .sink = &sink,
                            .add =
                                [](void *into, const MortiseCandidate *candidate) {
                                  Sink &sink = *static_cast<Sink *>(into);
                                  const std::lock_guard lock(sink.mutex);
                                  if (auto copy = carried(*candidate, sink.device, sink.proposed))
                                    sink.proposed.candidates.push_back(std::move(*copy));
                                },
                            .refuse =
                                [](void *into, uint32_t node, int32_t reason, const char *detail) {
                                  Sink &sink = *static_cast<Sink *>(into);
                                  const std::lock_guard lock(sink.mutex);
                                  sink.proposed.refusals.push_back({node, reason, textOf(detail)});
                                },
                            .forms = asked.forms.data(),
                            .form_count = asked.forms.size()};
    if (auto called = call("propose", plugin->table.propose, args); !called)
      return called.error();
    return std::move(sink.proposed);
  }

  Result<Sized> tell(const Size &size) {
    auto device = deviceOf(size.device);
    if (!device)
      return device.error();
    auto graph = Graph::read(std::as_bytes(std::span(size.graph)));
    if (!graph)
      return graph.error();
    if (plugin->table.layout == nullptr || (*graph)->view().input_count != 1)
      return invalid("expected one value, and a plugin that has layouts");
    MortiseLayoutArgs args{.struct_size = sizeof(MortiseLayoutArgs),
                           .device = (*device)->device.info.device,
                           .graph = &(*graph)->view(),
                           .type = (*graph)->view().inputs[0]->type,
                           .layout = size.layout};
    if (auto called = call("layout", plugin->table.layout, args); !called)
      return called.error();
    Sized sized{textOf(args.name), {}};
    for (const MortiseExprStep &step : std::span(args.bytes.steps, args.bytes.count))
      sized.bytes.push_back({step.op, step.value});
    return sized;
  }

  Result<Inferred> tell(const Infer &asked) const { return answerInfer(plugin->table, asked); }

  Result<Compiled> tell(const Compile &request) {
    auto device = deviceOf(request.work.device);
    if (!device)
      return device.error();
    auto made = WorkerKernel::compile(request, **device);
    if (!made)
      return made.error();
    if (auto described = describeKernel((*made)->kernel); !described)
      return described.error();
    Compiled compiled{++last, {}};
    for (const StepInfo &step : (*made)->kernel.steps)
      compiled.steps.push_back({step.name, step.lowering, step.bytes, step.flops});
    kernels[last] = std::move(*made);
    return compiled;
  }

  Result<std::byte *> sharedOf(uint64_t bytes) {
    if (bytes > mapped) {
      void *fresh = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, workerMemory, 0);
      if (fresh == MAP_FAILED)
        return Error{MORTISE_OUT_OF_MEMORY, "cannot map " + std::to_string(bytes) + " bytes of shared memory"};
      if (shared)
        munmap(shared, mapped);
      shared = static_cast<std::byte *>(fresh);
      mapped = bytes;
    }
    return shared;
  }

  Result<Bound> tell(const Bind &bind) {
    const auto found = kernels.find(bind.kernel);
    if (found == kernels.end())
      return invalid("expected a kernel of this worker");
    auto base = sharedOf(bind.shared);
    if (!base)
      return base.error();
    auto made = WorkerConstants::bind(found->second, bind, *base);
    if (!made)
      return made.error();
    const Bound bound{++last, (*made)->packedBytes};
    constants[last] = std::move(*made);
    return bound;
  }

  Result<Enqueued> tell(const Enqueue &asked) {
    const auto found = constants.find(asked.constants);
    if (found == constants.end())
      return invalid("expected constants of this worker");
    auto base = sharedOf(asked.shared);
    if (!base)
      return base.error();
    return found->second->run(asked, *base);
  }

  Result<Nothing> tell(const DestroyConstants &asked) {
    if (constants.erase(asked.number) == 0)
      return invalid("expected constants of this worker");
    return Nothing{};
  }

  Result<Nothing> tell(const DestroyKernel &asked) {
    if (kernels.erase(asked.number) == 0)
      return invalid("expected a kernel of this worker");
    return Nothing{};
  }

  const LoadedPlugin *plugin = nullptr;
  std::vector<std::unique_ptr<WorkerDevice>> devices;
  std::map<uint64_t, std::shared_ptr<WorkerKernel>> kernels;
  std::map<uint64_t, std::unique_ptr<WorkerConstants>> constants;
  uint64_t last = 0; // number of a kernel or of constants
  std::byte *shared = nullptr;
  uint64_t mapped = 0;
};

// Ends the process with the host, also while a slot hangs. PR_SET_PDEATHSIG would end it with the thread that started
// it.
void watchHost() {
  std::thread([host = getppid()] {
    pollfd socket{workerSocket, POLLRDHUP, 0};
    do
      if (poll(&socket, 1, 500) > 0)
        _exit(0);
    while (getppid() == host);
    _exit(0);
  }).detach();
}

char *shownSlot = nullptr;

// In the questions of this thread alone: a plugin's other threads ask the host nothing that asks a plugin.
void show(const Asked &now) { std::strncpy(shownSlot, now.slot ? now.slot : "", shownBytes - 1); }

} // namespace

int serve() {
  // Between pages that nothing may touch, so that a plugin that writes past the end of other memory stops before it.
  void *guarded = mmap(nullptr, 3 * tensorsBegin, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (guarded == MAP_FAILED)
    return 1;
  void *shown = mmap(static_cast<std::byte *>(guarded) + tensorsBegin, tensorsBegin, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_FIXED, workerMemory, 0);
  if (shown == MAP_FAILED)
    return 1;
  shownSlot = static_cast<char *>(shown);
  showAsked = show;
  watchHost();
  watchCrashes();
  if (!sendMessage(workerSocket, greeting(), -1)) // the host is gone
    return 0;
  static auto *worker = new Worker; // never destroyed: the process ends where it is
  for (;;) {
    auto received = receiveMessage(workerSocket, -1);
    if (!received)
      return received.error().code == MORTISE_DEVICE_LOST ? 0 : 1;
    auto question = decode<Question>(*received);
    if (!question)
      return 1;
    const AboutScope about(question->about.empty() ? nullptr : question->about.c_str());
    auto told = worker->answer(*question);
    const Answer answer{told ? MORTISE_OK : told.error().code, told ? "" : told.error().message, told ? *told : ""};
    if (!sendMessage(workerSocket, encode(answer), -1))
      return 1;
  }
}

} // namespace mortise::runtime::isolation
