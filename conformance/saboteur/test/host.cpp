// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host.hpp"

#include <mortise/conformance/error_bounds.hpp>

#include <csignal>
#include <cstring>
#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace mortise::test {

std::chrono::milliseconds hostDelay{0};
bool hostCancels = false;

namespace {

void inTwoThreads(int64_t count, int64_t grain, MortiseTask task, void *context) {
  std::this_thread::sleep_for(hostDelay);
  const int64_t middle = std::min(count, std::max(count / 2, grain));
  std::thread other([&] { task(context, 0, middle); });
  if (middle < count)
    task(context, middle, count);
  other.join();
}

const MortiseHost &makeHost() {
  static const MortiseHost table = [] {
    auto host = sized<MortiseHost>();
    host.abi_revision = MORTISE_ABI_REVISION;
    host.opset = MORTISE_OPSET;
    host.status_create = [](int32_t code, const char *message) { return new MortiseStatus{code, message}; };
    host.status_code = [](const MortiseStatus *status) { return status ? status->code : 0; };
    host.status_message = [](const MortiseStatus *status) { return status ? status->message.c_str() : ""; };
    host.status_destroy = [](MortiseStatus *status) { delete status; };
    host.log = [](int32_t, const char *) {};
    host.parallel_for = inTwoThreads;
    host.thread_count = [] { return int32_t(2); };
    host.cancelled = [] { return int32_t(hostCancels); };
    return host;
  }();
  return table;
}

const MortiseCompileOptions &options() {
  static const MortiseCompileOptions made = [] {
    auto options = sized<MortiseCompileOptions>();
    options.precision = MORTISE_PRECISION_HIGHEST;
    options.deterministic = 1;
    return options;
  }();
  return made;
}

constexpr uint8_t unwritten = 0x5a;

Bytes encoded(const Data &data) {
  Bytes bytes = encode(data);
  bytes.resize(bytes.size() - 8); // which it adds
  return bytes;
}

} // namespace

const MortiseHost &hostTable() { return makeHost(); }

const MortisePlugin &plugin() {
  static const MortisePlugin *table = [] {
    void *library = dlopen(MORTISE_PLUGIN_FILE, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw std::runtime_error(dlerror());
    return reinterpret_cast<MortisePluginFn>(dlsym(library, MORTISE_PLUGIN_SYMBOL))();
  }();
  return *table;
}

MortiseDevice *handleOf(Device device) {
  auto args = sized<MortiseDevicesArgs>();
  EXPECT_EQ(call(plugin().devices, args), "");
  return args.devices[device]->device;
}

std::string tryToPlant(const std::string &fault) {
  const MortiseOption option{"fault", fault.c_str()};
  auto args = sized<MortiseInitializeArgs>();
  args.host = &hostTable();
  args.options = &option;
  args.option_count = 1;
  return call(plugin().initialize, args);
}
void plant(const std::string &fault) { EXPECT_EQ(tryToPlant(fault), ""); }

std::string take(MortiseStatus *status) {
  const std::string text = status ? std::to_string(status->code) + ": " + status->message : "";
  delete status;
  return text;
}
int32_t codeOf(MortiseStatus *status) {
  const int32_t code = status ? status->code : int32_t(MORTISE_OK);
  delete status;
  return code;
}

std::set<std::string> &shown() {
  static std::set<std::string> made;
  return made;
}

// ---- Streams and events

Stream::Stream(Device device) : device(device) {
  auto args = sized<MortiseStreamArgs>();
  args.device = handleOf(device);
  EXPECT_EQ(call(plugin().stream_create, args), "");
  handle = args.stream;
}
static std::string callOn(const Stream &stream, MortiseStatus *(*slot)(MortiseStreamArgs *)) {
  auto args = sized<MortiseStreamArgs>();
  args.device = handleOf(stream.device);
  args.stream = stream.handle;
  return call(slot, args);
}
Stream::~Stream() { EXPECT_EQ(callOn(*this, plugin().stream_destroy), ""); }
std::string Stream::wait() const { return callOn(*this, plugin().stream_wait); }
std::string Stream::reset() const { return callOn(*this, plugin().stream_reset); }

static MortiseEventArgs eventArgs(MortiseEvent *event) {
  auto args = sized<MortiseEventArgs>();
  args.device = handleOf(WithQueue);
  args.event = event;
  return args;
}
Event::Event() {
  auto args = eventArgs(nullptr);
  EXPECT_EQ(call(plugin().event_create, args), "");
  handle = args.event;
}
Event::~Event() {
  auto args = eventArgs(handle);
  EXPECT_EQ(call(plugin().event_destroy, args), "");
}
std::string Event::on(MortiseStatus *(*slot)(MortiseEventArgs *), const Stream &stream) const {
  auto args = eventArgs(handle);
  args.stream = stream.handle;
  return call(slot, args);
}
std::string Event::synchronize() const {
  auto args = eventArgs(handle);
  return call(plugin().event_synchronize, args);
}
bool Event::hasHappened() const {
  auto args = eventArgs(handle);
  EXPECT_EQ(call(plugin().event_query, args), "");
  return args.happened != 0;
}

// ---- Memory

Memory::Memory(Device device, size_t bytes) : device(device), size(bytes) {
  if (device == InHost) {
    own.assign(bytes + 64, unwritten); // a vector's memory is aligned less than the space's
    at = addressOf(own.data() + (64 - addressOf(own.data()) % 64) % 64);
    return;
  }
  auto args = sized<MortiseMemoryArgs>();
  args.device = handleOf(device);
  args.bytes = std::max<size_t>(bytes, 1);
  EXPECT_EQ(call(plugin().memory_allocate, args), "");
  at = args.address;
}
Memory::~Memory() {
  auto args = sized<MortiseMemoryArgs>();
  args.device = handleOf(device);
  args.address = at;
  if (device == WithQueue && at)
    EXPECT_EQ(call(plugin().memory_free, args), "");
}
void Memory::free(const Stream &stream) {
  auto args = sized<MortiseMemoryArgs>();
  args.device = handleOf(device);
  args.stream = stream.handle;
  args.address = std::exchange(at, 0);
  EXPECT_EQ(call(plugin().memory_free, args), "");
}
std::string Memory::copy(void *memory, bool toDevice, const Stream *stream) const {
  auto args = sized<MortiseCopyArgs>();
  args.device = handleOf(device);
  args.stream = stream ? stream->handle : nullptr;
  (toDevice ? args.target_device : args.source_device) = args.device;
  args.target = toDevice ? at : addressOf(memory);
  args.source = toDevice ? addressOf(memory) : at;
  args.bytes = size;
  return call(plugin().copy, args);
}
void Memory::write(const Bytes &bytes) const {
  if (size == 0)
    return;
  if (device == InHost)
    std::memcpy(pointer(at), bytes.data(), size);
  else
    EXPECT_EQ(copy(const_cast<uint8_t *>(bytes.data()), true, nullptr), "");
}
Bytes Memory::read(const Stream *stream) const {
  Bytes bytes(size);
  if (size == 0)
    return bytes;
  if (device == InHost)
    std::memcpy(bytes.data(), pointer(at), size);
  else
    EXPECT_EQ(copy(bytes.data(), false, stream), "");
  if (stream)
    EXPECT_EQ(stream->wait(), "");
  return bytes;
}

// ---- Kernels

static MortiseCompileArgs compileArgs(Device device, const MortiseGraph &graph, const char *lowering) {
  auto args = sized<MortiseCompileArgs>();
  args.device = handleOf(device);
  args.region = &graph;
  args.lowering = lowering;
  args.compile_options = &options();
  return args;
}
int32_t compileCode(const MortiseGraph &graph) {
  auto args = compileArgs(InHost, graph, "saboteur.region");
  MortiseStatus *status = plugin().kernel_compile(&args);
  auto destroy = sized<MortiseKernelArgs>();
  destroy.kernel = args.kernel;
  if (!status)
    EXPECT_EQ(call(plugin().kernel_destroy, destroy), "");
  return codeOf(status);
}

Kernel::Kernel(Device device, const MortiseGraph &graph, const char *lowering) : device(device), graph(graph) {
  auto args = compileArgs(device, graph, lowering);
  EXPECT_EQ(call(plugin().kernel_compile, args), "");
  handle = args.kernel;
}
Kernel::~Kernel() {
  auto args = sized<MortiseKernelArgs>();
  args.kernel = handle;
  if (handle)
    EXPECT_EQ(call(plugin().kernel_destroy, args), "");
}
MortiseKernelInfo Kernel::info() const {
  auto args = sized<MortiseKernelInfo>();
  args.kernel = handle;
  EXPECT_EQ(call(plugin().kernel_info, args), "");
  return args;
}
size_t Kernel::workspaceBytes() const {
  const MortiseExpr expr = info().workspace;
  return expr.count ? static_cast<size_t>(expr.steps[0].value) : 0;
}
Bound Kernel::bind(const std::vector<MortiseAddress> &inputs) const {
  auto args = sized<MortiseConstantsBindArgs>();
  args.kernel = handle;
  args.inputs = inputs.data();
  EXPECT_EQ(call(plugin().constants_bind, args), "");
  return {args.constants, args.packed_bytes};
}
void Kernel::unbind(Bound bound) const {
  auto args = sized<MortiseConstantsArgs>();
  args.kernel = handle;
  args.constants = bound.handle;
  EXPECT_EQ(call(plugin().constants_destroy, args), "");
}
Call::Call(const Kernel &kernel, std::vector<MortiseAddress> inputs, std::vector<MortiseAddress> outputs,
           MortiseAddress workspace, const Stream *stream)
    : inputs(std::move(inputs)), outputs(std::move(outputs)) {
  args.kernel = kernel.handle;
  args.stream = stream ? stream->handle : nullptr;
  args.inputs = this->inputs.data();
  args.outputs = this->outputs.data();
  args.workspace = workspace;
}

Buffers Kernel::run(const Buffers &inputs) const {
  std::vector<std::unique_ptr<Memory>> memory;
  const auto place = [&](size_t bytes) {
    return memory.emplace_back(std::make_unique<Memory>(device, bytes))->address();
  };
  std::vector<MortiseAddress> in, out;
  for (const Bytes &input : inputs) {
    in.push_back(place(input.size()));
    memory.back()->write(input);
  }
  for (size_t o = 0; o < graph.output_count; ++o) {
    const size_t bytes = byteSize(*graph.outputs[o]->type);
    out.push_back(place(bytes));
    memory.back()->write(Bytes(bytes, unwritten));
  }
  for (size_t a = 0; a < graph.alias_count; ++a)
    out[graph.aliases[a]->output] = in[graph.aliases[a]->input];
  const MortiseAddress workspace = place(workspaceBytes());
  memory.back()->write(Bytes(workspaceBytes(), 0xc1));
  {
    const Stream stream(device);
    EXPECT_EQ(Call(*this, in, out, workspace, &stream).enqueue(), "");
    EXPECT_EQ(stream.wait(), "");
  }
  Buffers found;
  for (size_t o = 0; o < graph.output_count; ++o)
    for (const auto &each : memory)
      if (each->address() == out[o] && found.size() == o)
        found.push_back(each->read());
  return found;
}

Proposed propose(const MortiseGraph &graph) {
  Proposed found;
  auto args = sized<MortiseProposeArgs>();
  args.device = handleOf(InHost);
  args.graph = &graph;
  args.compile_options = &options();
  args.sink = &found;
  args.add = [](void *sink, const MortiseCandidate *candidate) {
    ++static_cast<Proposed *>(sink)->candidates;
    static_cast<Proposed *>(sink)->inPlace.assign(candidate->in_place, candidate->in_place + candidate->in_place_count);
  };
  args.refuse = [](void *sink, uint32_t, int32_t, const char *) { ++static_cast<Proposed *>(sink)->refusals; };
  EXPECT_EQ(call(plugin().propose, args), "");
  return found;
}

// ---- Graphs

Make one(const std::string &op, std::vector<Data> operands, std::vector<Slot> results,
         std::vector<Attribute> attributes) {
  return [=](ViewBuilder &builder) {
    std::vector<const MortiseValue *> values;
    std::vector<Data> given;
    for (const Data &operand : operands) {
      values.push_back(operand.given ? builder.input(operand.dtype, operand.dims) : nullptr);
      if (operand.given)
        given.push_back(operand);
    }
    std::vector<const MortiseType *> types;
    for (const Slot &slot : results)
      types.push_back(builder.type(slot.dtype, slot.dims));
    for (MortiseValue *result : builder.ops(op, values, types, attributes))
      builder.output(result);
    return given;
  };
}

Graph::Graph(const Make &make) {
  for (const Data &data : make(builder))
    inputs.push_back(encoded(data));
  view();
}

Buffers Graph::expected() {
  Buffers own = inputs, outputs;
  std::vector<const void *> in;
  std::vector<void *> out;
  for (Bytes &input : own) {
    input.resize(input.size() + 8);
    in.push_back(input.data());
  }
  for (size_t o = 0; o < view().output_count; ++o)
    out.push_back(outputs.emplace_back(byteSize(*view().outputs[o]->type), unwritten).data());
  const Result<void> done = reference::interpret(view(), in, out);
  EXPECT_TRUE(done) << done.error().message;
  return outputs;
}

std::string difference(Graph &graph, const Buffers &found, bool bits) {
  const Buffers wanted = graph.expected();
  if (bits)
    return found == wanted ? "" : "other bits";
  std::vector<const void *> inputs;
  for (Bytes &input : graph.inputs)
    inputs.push_back(input.data());
  conformance::Judge judge(graph.view(), inputs);
  for (size_t o = 0; o < wanted.size(); ++o) {
    const auto text = judge.differences(o, std::as_bytes(std::span(found[o])), std::as_bytes(std::span(wanted[o])));
    EXPECT_TRUE(text) << text.error().message;
    if (text && !text->empty())
      return *text;
  }
  return "";
}

int signalOf(const std::function<void()> &body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (!freopen("/dev/null", "w", stderr))
      _exit(1);
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

} // namespace mortise::test
