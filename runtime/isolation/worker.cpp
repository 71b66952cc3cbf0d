// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "worker.hpp"

#include "../crash.hpp"
#include "../host.hpp"
#include "../kernels.hpp"
#include "../loader.hpp"
#include "../plugin_memory.hpp"
#include "message.hpp"
#include <mortise/portable/graph.hpp>
#include <mortise/runtime/manifest.hpp>

#include <cstdlib>
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

struct FreeMemory {
  void operator()(void *memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, FreeMemory>;

// The options of a Work, as a plugin reads them.
struct Asks {
  std::vector<MortiseOption> options;
  MortiseCompileOptions compile;
  explicit Asks(const Work &work)
      : compile{.struct_size = sizeof(MortiseCompileOptions),
                .mode = work.mode,
                .precision = work.precision,
                .deterministic = work.deterministic} {
    for (const Option &option : work.options)
      options.push_back({option.key.c_str(), option.value.c_str()});
  }
};

struct Compiled {
  Compile request; // the kernel may keep pointers to its options
  std::shared_ptr<const Graph> graph;
  MortiseDevice *device;
  uint32_t alignment;
  MortiseKernel *kernel;
  std::vector<MortiseExprStep> workspace;
};

struct Constants {
  std::shared_ptr<Compiled> of;
  std::vector<Memory> inputs; // copies, which stay as long as the constants
  MortiseConstants *constants;
  uint64_t workspace;
};

class Worker {
public:
  Result<std::string> answer(const Question &question) {
    switch (question.kind) {
    case Load::kind:
      return on<Load, Loaded>(question);
    case Propose::kind:
      return on<Propose, Proposed>(question);
    case Compile::kind:
      return on<Compile, Handle>(question);
    case Info::kind:
      return on<Info, Informed>(question);
    case Bind::kind:
      return on<Bind, Bound>(question);
    case Enqueue::kind:
      return on<Enqueue, Enqueued>(question);
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
                  plugin->table.opset,
                  plugin->plugin.abiRevision,
                  {}};
    for (const MortiseDeviceInfo &info : plugin->devices) {
      devices.push_back(std::make_unique<Device>(Device{&plugin->plugin, info}));
      announce(*devices.back());
      std::vector<Space> spaces;
      for (uint32_t i = 0; i < info.space_count; ++i)
        spaces.push_back(
            {info.spaces[i]->name, info.spaces[i]->kind, info.spaces[i]->alignment, info.spaces[i]->bytes});
      loaded.devices.push_back({info.kind, info.name, textOf(info.features), textOf(info.same_as), info.ordinal,
                                info.automatic, info.threads, std::move(spaces), info.peak_flops, info.bandwidth,
                                info.launch_ns});
    }
    return loaded;
  }

  Result<MortiseDevice *> deviceOf(const Work &work) const {
    if (work.device >= devices.size())
      return invalid("expected one of " + std::to_string(devices.size()) + " devices, found " +
                     std::to_string(work.device));
    return devices[work.device]->info.device;
  }

  Result<Proposed> tell(const Propose &propose) {
    auto device = deviceOf(propose.work);
    if (!device)
      return device.error();
    auto graph = Graph::read(std::as_bytes(std::span(propose.work.graph)));
    if (!graph)
      return graph.error();
    const Asks asks(propose.work);
    Proposed proposed;
    MortiseProposeArgs args{.struct_size = sizeof(MortiseProposeArgs),
                            .device = *device,
                            .graph = &(*graph)->view(),
                            .options = asks.options.data(),
                            .option_count = asks.options.size(),
                            .compile_options = &asks.compile,
                            .sink = &proposed,
                            .add =
                                [](void *sink, const MortiseCandidate *candidate) {
                                  Candidate copy{textOf(candidate->lowering),
                                                 {candidate->nodes, candidate->nodes + candidate->node_count},
                                                 candidate->cost_ns,
                                                 candidate->bytes,
                                                 candidate->flops,
                                                 {}};
                                  for (size_t i = 0; i < candidate->in_place_count; ++i)
                                    copy.inPlace.insert(copy.inPlace.end(),
                                                        {candidate->in_place[i].input, candidate->in_place[i].output});
                                  static_cast<Proposed *>(sink)->candidates.push_back(std::move(copy));
                                },
                            .refuse =
                                [](void *sink, uint32_t node, int32_t reason, const char *detail) {
                                  static_cast<Proposed *>(sink)->refusals.push_back({node, reason, textOf(detail)});
                                }};
    if (auto called = call("propose", plugin->table.propose, args); !called)
      return called.error();
    return proposed;
  }

  Result<Handle> tell(const Compile &request) {
    auto device = deviceOf(request.work);
    if (!device)
      return device.error();
    auto graph = Graph::read(std::as_bytes(std::span(request.work.graph)));
    if (!graph)
      return graph.error();
    auto compiled = std::make_shared<Compiled>(
        Compiled{request, *graph, *device, devices[request.work.device]->home().alignment, nullptr, {}});
    const Asks asks(compiled->request.work);
    MortiseCompileArgs args{.struct_size = sizeof(MortiseCompileArgs),
                            .device = *device,
                            .region = &compiled->graph->view(),
                            .lowering = compiled->request.lowering.c_str(),
                            .options = asks.options.data(),
                            .option_count = asks.options.size(),
                            .compile_options = &asks.compile};
    if (auto called = call("kernel_compile", plugin->table.kernel_compile, args); !called)
      return called.error();
    if (args.kernel == nullptr)
      return Error{MORTISE_INTERNAL, "kernel_compile: expected a kernel or a status, found neither"};
    compiled->kernel = args.kernel;
    kernels[++last] = std::move(compiled);
    return Handle{last};
  }

  Result<Informed> tell(const Info &asked) {
    const auto found = kernels.find(asked.kernel);
    if (found == kernels.end())
      return invalid("expected a kernel of this worker");
    Compiled &compiled = *found->second;
    MortiseKernelInfo info{.struct_size = sizeof(MortiseKernelInfo), .kernel = compiled.kernel};
    if (auto called = call("kernel_info", plugin->table.kernel_info, info); !called)
      return called.error();
    compiled.workspace.assign(info.workspace.steps, info.workspace.steps + info.workspace.count);
    Informed informed{{}, info.code_bytes};
    for (size_t i = 0; i < info.step_count; ++i) {
      const MortiseStep &step = *info.steps[i];
      informed.steps.push_back(
          {textOf(step.name), textOf(step.lowering),
           step.nodes ? std::vector(step.nodes, step.nodes + step.node_count) : std::vector<uint32_t>(), step.bytes,
           step.flops});
    }
    return informed;
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

  static Result<Memory> allocate(uint64_t bytes, uint64_t alignment) {
    alignment = std::max<uint64_t>(alignment, 64);
    void *memory =
        std::aligned_alloc(alignment, (std::max<uint64_t>(bytes, 1) + alignment - 1) / alignment * alignment);
    if (memory == nullptr)
      return Error{MORTISE_OUT_OF_MEMORY,
                   "cannot allocate " + std::to_string(bytes) + " bytes within the worker's limit"};
    return Memory(memory);
  }

  Result<Bound> tell(const Bind &bind) {
    const auto found = kernels.find(bind.kernel);
    if (found == kernels.end())
      return invalid("expected a kernel of this worker");
    auto base = sharedOf(bind.shared);
    if (!base)
      return base.error();
    auto made = std::make_unique<Constants>(Constants{found->second, {}, nullptr, 0});
    std::vector<MortiseAddress> inputs;
    for (const Range &range : bind.inputs) {
      inputs.push_back(0);
      if (!range.present)
        continue;
      auto memory = allocate(range.bytes, made->of->alignment);
      if (!memory)
        return memory.error();
      std::memcpy(memory->get(), *base + range.offset, range.bytes);
      inputs.back() = reinterpret_cast<MortiseAddress>(memory->get());
      made->inputs.push_back(std::move(*memory));
    }
    MortiseConstantsBindArgs args{
        .struct_size = sizeof(MortiseConstantsBindArgs), .kernel = made->of->kernel, .inputs = inputs.data()};
    if (auto called = call("constants_bind", plugin->table.constants_bind, args); !called)
      return called.error();
    made->constants = args.constants;
    made->workspace = args.workspace_bytes;
    constants[++last] = std::move(made);
    return Bound{last, args.packed_bytes};
  }

  Result<Enqueued> tell(const Enqueue &asked);

  Result<Nothing> tell(const DestroyConstants &asked) {
    const auto found = constants.find(asked.number);
    if (found == constants.end())
      return invalid("expected constants of this worker");
    const auto gone = std::move(found->second);
    constants.erase(found);
    MortiseConstantsArgs args{
        .struct_size = sizeof(MortiseConstantsArgs), .kernel = gone->of->kernel, .constants = gone->constants};
    if (gone->constants)
      if (auto called = call("constants_destroy", plugin->table.constants_destroy, args); !called)
        return called.error();
    return Nothing{};
  }

  Result<Nothing> tell(const DestroyKernel &asked) {
    const auto found = kernels.find(asked.number);
    if (found == kernels.end())
      return invalid("expected a kernel of this worker");
    const auto gone = std::move(found->second);
    kernels.erase(found);
    MortiseKernelArgs args{.struct_size = sizeof(MortiseKernelArgs), .kernel = gone->kernel};
    if (auto called = call("kernel_destroy", plugin->table.kernel_destroy, args); !called)
      return called.error();
    return Nothing{};
  }

  const LoadedPlugin *plugin = nullptr;
  std::vector<std::unique_ptr<Device>> devices;
  std::map<uint64_t, std::shared_ptr<Compiled>> kernels;
  std::map<uint64_t, std::unique_ptr<Constants>> constants;
  uint64_t last = 0; // number of a kernel or of constants
  std::byte *shared = nullptr;
  uint64_t mapped = 0;
};

Result<void> closed(Result<void> earlier, Result<void> later) { return earlier ? later : earlier; }

// The host is told of no stream, instance or frame: one of each is made for the call where the plugin has them.
Result<Enqueued> Worker::tell(const Enqueue &asked) {
  const auto found = constants.find(asked.constants);
  if (found == constants.end())
    return invalid("expected constants of this worker");
  const Constants &bound = *found->second;
  const Compiled &of = *bound.of;
  const MortisePlugin &table = plugin->table;
  auto base = sharedOf(asked.shared);
  if (!base)
    return base.error();
  std::vector<MortiseAddress> inputs, outputs;
  for (auto [ranges, addresses] : {std::pair(&asked.inputs, &inputs), std::pair(&asked.outputs, &outputs)})
    for (const Range &range : *ranges)
      addresses->push_back(range.present ? reinterpret_cast<MortiseAddress>(*base + range.offset) : 0);

  MortiseInstanceArgs instance{.struct_size = sizeof(MortiseInstanceArgs),
                               .kernel = of.kernel,
                               .constants = bound.constants,
                               .symbols = asked.symbols.data()};
  const bool instanced = plugin->plugin.hasInstances() && of.graph->view().symbol_count != 0;
  if (instanced)
    if (auto called = call("instance_create", table.instance_create, instance); !called)
      return called.error();
  uint64_t bytes = instanced ? instance.workspace_bytes : bound.workspace;
  if (!instanced && bytes == 0 && !of.workspace.empty()) {
    auto evaluated = evaluate({of.workspace.data(), of.workspace.size()}, asked.symbols);
    if (!evaluated || *evaluated < 0)
      return Error{MORTISE_INTERNAL, "kernel_info: its workspace expression does not evaluate to a size"};
    bytes = static_cast<uint64_t>(*evaluated);
  }
  auto workspace = allocate(bytes, of.alignment);
  if (!workspace)
    return workspace.error();
  MortiseStreamArgs stream{.struct_size = sizeof(MortiseStreamArgs), .device = of.device};
  if (plugin->plugin.hasStreams())
    if (auto called = call("stream_create", table.stream_create, stream); !called)
      return called.error();
  MortiseFrameArgs frame{.struct_size = sizeof(MortiseFrameArgs),
                         .kernel = of.kernel,
                         .constants = bound.constants,
                         .instance = instance.instance};
  if (plugin->plugin.hasFrames())
    if (auto called = call("frame_create", table.frame_create, frame); !called)
      return called.error();
  Enqueued answer;
  if (asked.timed)
    answer.stepNs.resize(std::max<size_t>(asked.timed, instance.step_count));
  const std::vector<uint64_t> unchanged((inputs.size() + outputs.size() + 1 + 63) / 64);
  MortiseEnqueueArgs args{.struct_size = sizeof(MortiseEnqueueArgs),
                          .kernel = of.kernel,
                          .constants = bound.constants,
                          .stream = stream.stream,
                          .inputs = inputs.data(),
                          .outputs = outputs.data(),
                          .workspace = bytes ? reinterpret_cast<MortiseAddress>(workspace->get()) : 0,
                          .symbols = asked.symbols.data(),
                          .step_ns = asked.timed ? answer.stepNs.data() : nullptr,
                          .instance = instance.instance,
                          .frame = frame.frame,
                          .unchanged = frame.frame ? unchanged.data() : nullptr};
  Result<void> done = call("enqueue", table.enqueue, args);
  if (stream.stream) {
    done = closed(done, call("stream_wait", table.stream_wait, stream));
    done = closed(done, call("stream_destroy", table.stream_destroy, stream));
  }
  if (frame.frame)
    done = closed(done, call("frame_destroy", table.frame_destroy, frame));
  if (instance.instance)
    done = closed(done, call("instance_destroy", table.instance_destroy, instance));
  if (!done)
    return done.error();
  answer.stepNs.resize(asked.timed);
  return answer;
}

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
