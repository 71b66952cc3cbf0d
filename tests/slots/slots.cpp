// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "slots.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/registry.hpp>
#include <mortise/symbols.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <mutex>

namespace mortise::test {

static std::mutex logMutex;
static std::string logged;

std::string takeLog() {
  std::lock_guard lock(logMutex);
  return std::exchange(logged, "");
}

static const MortiseHost &loggingHost() {
  static const MortiseHost table = [] {
    MortiseHost made = runtime::host();
    made.log = [](int32_t, const char *message) {
      std::lock_guard lock(logMutex);
      logged += std::string(message) + "\n";
    };
    return made;
  }();
  return table;
}

const MortisePlugin &testedPlugin() {
  static const MortisePlugin &table = []() -> const MortisePlugin & {
    detail::hostTable = &loggingHost(); // Status, in this program, reads statuses through it
    void *handle = dlopen(MORTISE_TEST_PLUGIN, RTLD_NOW | RTLD_LOCAL);
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

Result<std::span<const MortiseDeviceInfo *const>> startPlugin(std::span<const MortiseOption> options) {
  MortiseInitializeArgs initialize{};
  initialize.host = &loggingHost();
  initialize.plugin_path = MORTISE_TEST_PLUGIN;
  initialize.options = options.data();
  initialize.option_count = options.size();
  if (auto called = call(testedPlugin().initialize, initialize); !called)
    return called.error();
  MortiseDevicesArgs found{};
  if (auto called = call(testedPlugin().devices, found); !called)
    return called.error();
  return std::span(found.devices, found.device_count);
}

// ---- Handles

MortiseStream *makeStream(MortiseDevice *device) {
  MortiseStreamArgs args{};
  args.device = device;
  must(call(testedPlugin().stream_create, args));
  return args.stream;
}

void destroyStream(MortiseStream *stream) {
  MortiseStreamArgs args{};
  args.stream = stream;
  must(call(testedPlugin().stream_destroy, args));
}

MortiseEvent *makeEvent(MortiseDevice *device) {
  MortiseEventArgs args{};
  args.device = device;
  must(call(testedPlugin().event_create, args));
  return args.event;
}

void destroyEvent(MortiseEvent *event) {
  MortiseEventArgs args{};
  args.event = event;
  must(call(testedPlugin().event_destroy, args));
}

Result<void> record(MortiseEvent *event, MortiseStream *stream) {
  MortiseEventArgs args{};
  args.event = event;
  args.stream = stream;
  return call(testedPlugin().event_record, args);
}

Result<void> wait(MortiseEvent *event, MortiseStream *stream) {
  MortiseEventArgs args{};
  args.event = event;
  args.stream = stream;
  return call(testedPlugin().event_wait, args);
}

MortiseAddress makeMemory(MortiseDevice *device, uint64_t bytes, MortiseStream *stream) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.stream = stream;
  args.bytes = bytes;
  must(call(testedPlugin().memory_allocate, args));
  return args.address;
}

void freeMemory(MortiseDevice *device, MortiseAddress address, uint64_t bytes, MortiseStream *stream) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.stream = stream;
  args.bytes = bytes;
  args.address = address;
  must(call(testedPlugin().memory_free, args));
}

void upload(MortiseDevice *device, MortiseStream *stream, MortiseAddress target, const void *source, uint64_t bytes) {
  MortiseCopyArgs args{};
  args.device = args.target_device = device;
  args.stream = stream;
  args.target = target;
  args.source = reinterpret_cast<MortiseAddress>(source);
  args.bytes = bytes;
  must(call(testedPlugin().copy, args));
}

void download(MortiseDevice *device, MortiseStream *stream, void *target, MortiseAddress source, uint64_t bytes) {
  MortiseCopyArgs args{};
  args.device = args.source_device = device;
  args.stream = stream;
  args.target = reinterpret_cast<MortiseAddress>(target);
  args.source = source;
  args.bytes = bytes;
  must(call(testedPlugin().copy, args));
  MortiseStreamArgs waited{};
  waited.stream = stream;
  must(call(testedPlugin().stream_wait, waited));
}

// ---- Regions

Region::Region(MortiseDevice *device, std::shared_ptr<const Graph> made, How how)
    : device(device), graph(std::move(made)) {
  auto options = sized<MortiseCompileOptions>();
  options.precision = how.precision;
  options.mode = how.mode;
  options.deterministic = how.deterministic;
  MortiseCompileArgs args{};
  args.options = how.options.data();
  args.option_count = how.options.size();
  args.device = device;
  args.region = &graph->view();
  args.lowering = MORTISE_TEST_LOWERING;
  args.compile_options = &options;
  if (how.saved) {
    args.saved = how.saved->data();
    args.saved_bytes = how.saved->size();
  }
  must(call(how.saved ? testedPlugin().kernel_load : testedPlugin().kernel_compile, args));
  kernel = args.kernel;
  try {
    MortiseKernelInfo info{};
    info.kernel = kernel;
    must(call(testedPlugin().kernel_info, info));
    steps = info.step_count;
    if (info.workspace.count) {
      const Result<int64_t> bytes = evaluate(info.workspace, {});
      workspaceBytes = bytes ? static_cast<uint64_t>(*bytes) : 0;
    }
    if (graph->view().symbol_count == 0)
      allocate();
  } catch (...) {
    end();
    throw;
  }
}

Region::~Region() { end(); }

std::string Region::text() const {
  MortiseKernelInfo info{};
  info.kernel = kernel;
  must(call(testedPlugin().kernel_info, info));
  std::string text;
  for (size_t i = 0; i < info.step_count; ++i)
    text += std::string(info.steps[i]->lowering) + " " + info.steps[i]->name + "\n";
  return text;
}

std::vector<std::byte> Region::save() const {
  std::vector<std::byte> bytes;
  MortiseKernelSaveArgs args{};
  args.kernel = kernel;
  args.sink = &bytes;
  args.write = [](void *sink, const void *from, uint64_t count) {
    const auto *first = static_cast<const std::byte *>(from);
    auto &into = *static_cast<std::vector<std::byte> *>(sink);
    into.insert(into.end(), first, first + count);
  };
  must(call(testedPlugin().kernel_save, args));
  return bytes;
}

void Region::allocate() {
  if (workspaceBytes)
    workspace = makeMemory(device, workspaceBytes);
}

void Region::bind(std::vector<MortiseAddress> inputs) {
  endConstants();
  MortiseConstantsBindArgs args{};
  args.kernel = kernel;
  args.inputs = inputs.data();
  must(call(testedPlugin().constants_bind, args));
  constants = args.constants;
  packedBytes = args.packed_bytes;
}

void Region::endConstants() {
  MortiseConstantsArgs args{};
  args.kernel = kernel;
  args.constants = std::exchange(constants, nullptr);
  if (args.constants)
    (void)call(testedPlugin().constants_destroy, args);
}

void Region::prepare(std::vector<int64_t> values) {
  endInstance();
  symbols = std::move(values);
  MortiseInstanceArgs args{};
  args.kernel = kernel;
  args.symbols = symbols.data();
  must(call(testedPlugin().instance_create, args));
  instance = args.instance;
  workspaceBytes = args.workspace_bytes;
  allocate();
}

void Region::endInstance() {
  MortiseInstanceArgs made{};
  made.kernel = kernel;
  made.instance = std::exchange(instance, nullptr);
  if (made.instance)
    (void)call(testedPlugin().instance_destroy, made);
  MortiseMemoryArgs memory{};
  memory.device = device;
  memory.bytes = workspaceBytes;
  memory.address = std::exchange(workspace, 0);
  if (memory.address)
    (void)call(testedPlugin().memory_free, memory);
}

void Region::end() {
  endInstance();
  endConstants();
  MortiseKernelArgs args{};
  args.kernel = kernel;
  (void)call(testedPlugin().kernel_destroy, args);
}

Result<void> Region::enqueueIn(MortiseAddress place, MortiseStream *stream, std::vector<MortiseAddress> inputs,
                               std::vector<MortiseAddress> outputs, uint64_t *stepNs) const {
  MortiseEnqueueArgs args{};
  args.kernel = kernel;
  args.stream = stream;
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.workspace = place;
  args.constants = constants;
  args.symbols = symbols.data();
  args.instance = instance;
  args.step_ns = stepNs;
  return call(testedPlugin().enqueue, args);
}

void runAndCompare(MortiseDevice *device, Region &region, const MortiseGraph &graph, uint64_t skew) {
  MortiseStream *stream = makeStream(device);
  std::vector<std::vector<std::byte>> inputs(graph.input_count), wants(graph.output_count);
  std::vector<MortiseAddress> in, out;
  std::vector<std::pair<MortiseAddress, uint64_t>> owned;
  const auto allocate = [&](size_t bytes) {
    owned.push_back({makeMemory(device, bytes + skew + 256), bytes + skew + 256});
    return owned.back().first + skew;
  };
  std::vector<const void *> given;
  std::vector<void *> wanted;
  for (size_t i = 0; i < graph.input_count; ++i) {
    inputs[i].resize(byteSize(*graph.inputs[i]->type));
    randomFill(*graph.inputs[i], i, inputs[i]);
    in.push_back(allocate(inputs[i].size()));
    if (!inputs[i].empty())
      upload(device, stream, in.back(), inputs[i].data(), inputs[i].size());
    given.push_back(inputs[i].data());
  }
  for (size_t i = 0; i < graph.output_count; ++i) {
    wants[i].assign(byteSize(*graph.outputs[i]->type), std::byte{0x5a});
    out.push_back(allocate(wants[i].size()));
    if (!wants[i].empty())
      upload(device, stream, out.back(), wants[i].data(), wants[i].size());
    wanted.push_back(wants[i].data());
  }
  std::vector<MortiseAddress> constants(in.size());
  for (size_t i = 0; i < graph.input_count; ++i)
    if (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
      constants[i] = in[i];
  MortiseStreamArgs waited{};
  waited.stream = stream;
  must(call(testedPlugin().stream_wait, waited)); // what is bound must be there
  if (std::ranges::any_of(constants, [](MortiseAddress address) { return address != 0; }))
    region.bind(constants);
  for (int round = 0; round < 2; ++round) {
    const auto queued = region.enqueue(stream, in, out);
    ASSERT_TRUE(queued) << queued.error().message;
    std::vector<std::vector<std::byte>> got;
    for (size_t i = 0; i < graph.output_count; ++i) {
      got.emplace_back(wants[i].size());
      if (!got[i].empty())
        download(device, stream, got[i].data(), out[i], got[i].size());
    }
    ASSERT_TRUE(reference::interpret(graph, given, wanted));
    conformance::Judge judge(graph, given);
    for (size_t i = 0; i < graph.output_count; ++i) {
      const auto text = judge.differences(i, got[i], wants[i]);
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_EQ(*text, "") << region.text();
    }
  }
  for (const auto &[address, bytes] : owned)
    freeMemory(device, address, bytes);
  destroyStream(stream);
}

Answer propose(MortiseDevice *device, const MortiseGraph &graph, int32_t precision,
               const std::vector<MortiseOption> &callOptions) {
  Answer answer;
  auto options = sized<MortiseCompileOptions>();
  options.precision = precision;
  MortiseProposeArgs args{};
  args.device = device;
  args.graph = &graph;
  args.compile_options = &options;
  args.options = callOptions.data();
  args.option_count = callOptions.size();
  args.sink = &answer;
  args.add = [](void *sink, const MortiseCandidate *candidate) {
    auto &to = *static_cast<Answer *>(sink);
    ++to.candidates;
    to.costNs = candidate->cost_ns;
    to.flops = candidate->flops;
  };
  args.refuse = [](void *sink, uint32_t, int32_t reason, const char *detail) {
    auto &to = *static_cast<Answer *>(sink);
    to.reason = reason;
    to.detail = detail;
  };
  must(call(testedPlugin().propose, args));
  return answer;
}

std::shared_ptr<const Graph> smallGraph() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64, 128});
  net.output(net.op("exp", {net.op("add", {x, x})}));
  return net.finish();
}

} // namespace mortise::test
