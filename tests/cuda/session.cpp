// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "session.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/registry.hpp>
#include <mortise/symbols.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <filesystem>
#include <mutex>
#include <sstream>
#include <unistd.h>

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

static void *opened(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  return handle;
}

const MortisePlugin &cudaPlugin() {
  static const MortisePlugin &table = []() -> const MortisePlugin & {
    detail::hostTable = &loggingHost(); // Status, in this program, reads statuses through it
    return *reinterpret_cast<MortisePluginFn>(dlsym(opened(MORTISE_TEST_CUDA_PLUGIN), MORTISE_PLUGIN_SYMBOL))();
  }();
  return table;
}

static void must(const Result<void> &result) {
  if (!result)
    throw Failed(result.error());
}

Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &driver, const std::string &products,
                                                        const std::string &convolutions) {
  setenv("MORTISE_CUDA_DRIVER", driver.c_str(), 1);
  setenv("MORTISE_CUDA_CUBLASLT", products.c_str(), 1);
  setenv("MORTISE_CUDA_CUDNN", convolutions.c_str(), 1);
  const MortiseOption options[] = {
      {"driver", driver.c_str()}, {"cublaslt", products.c_str()}, {"cudnn", convolutions.c_str()}};
  MortiseInitializeArgs initialize{};
  initialize.host = &loggingHost();
  initialize.plugin_path = MORTISE_TEST_CUDA_PLUGIN;
  initialize.options = options;
  initialize.option_count = std::size(options);
  if (auto called = call(cudaPlugin().initialize, initialize); !called)
    return called.error();
  MortiseDevicesArgs found{};
  if (auto called = call(cudaPlugin().devices, found); !called)
    return called.error();
  return std::span(found.devices, found.device_count);
}

// ---- Sessions

static void *blas() {
  static void *handle = opened(MORTISE_TEST_BLAS_STAND_IN);
  return handle;
}
static void *dnn() {
  static void *handle = opened(MORTISE_TEST_DNN_STAND_IN);
  return handle;
}
static void useQueue(StandInQueue queue) {
  reinterpret_cast<BlasUse>(dlsym(blas(), "blasStandInUse"))(queue);
  reinterpret_cast<DnnUse>(dlsym(dnn(), "dnnStandInUse"))(queue);
}

// A link of its own: the plugin finds devices once for each path, and the stand-in is one library for all.
Session::Session(const std::string &settings, const std::string &library, const std::string &products,
                 const std::string &convolutions) {
  static std::atomic<int> number = 0;
  path = std::filesystem::temp_directory_path() /
         ("mortise-stand-in-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so");
  std::filesystem::create_symlink(library, path);
  handle = opened(path.c_str());
  standInConfigure = reinterpret_cast<StandInConfigure>(symbol("standInConfigure"));
  standInReport = reinterpret_cast<StandInReport>(symbol("standInReport"));
  standInWork = reinterpret_cast<StandInReport>(symbol("standInWork"));
  useQueue(reinterpret_cast<StandInQueue>(symbol("standInQueue")));
  configure("devices=2 version=13000 " + settings);
  takeLog();
  auto found = start(path, products, convolutions);
  log = takeLog();
  if (found)
    for (const MortiseDeviceInfo *info : *found)
      devices.push_back(info->device);
  else if (found.error().code == MORTISE_NOT_FOUND)
    log += found.error().message;
  else
    throw Failed(found.error());
}

Session::~Session() {
  configure("");
  std::filesystem::remove(path);
}

static std::vector<std::string> linesOf(const std::string &text) {
  std::istringstream lines(text);
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);)
    list.push_back(line);
  return list;
}

std::vector<std::string> Session::calls() const {
  std::vector<std::string> list = linesOf(standInReport());
  list.erase(list.begin());
  return list;
}

std::vector<std::string> Session::work() const { return linesOf(standInWork()); }

void *Session::symbol(const char *name) const { return dlsym(handle, name); }

std::string Session::counts() const {
  const std::string report = standInReport();
  return report.substr(0, report.find('\n'));
}

size_t Session::callsOf(const std::string &function) const {
  const std::vector<std::string> list = calls();
  return static_cast<size_t>(
      std::ranges::count_if(list, [&](const std::string &line) { return line.substr(0, line.find(' ')) == function; }));
}

void Session::warmUp() const {
  for (MortiseDevice *device : devices)
    freeMemory(device, makeMemory(device, 256), 256);
}

// ---- Products

void configureBlas(const std::string &settings) {
  reinterpret_cast<BlasConfigure>(dlsym(blas(), "blasStandInConfigure"))(settings.c_str());
}
static std::vector<std::string> blasReport() {
  return linesOf(reinterpret_cast<BlasReport>(dlsym(blas(), "blasStandInReport"))());
}
std::vector<std::string> blasCalls(const std::string &function) {
  std::vector<std::string> list = blasReport();
  std::erase_if(list, [&](const std::string &line) { return line.substr(0, line.find(' ')) != function; });
  return list;
}
std::string blasCounts() { return blasReport()[0]; }

// ---- Convolutions

void configureDnn(const std::string &settings) {
  reinterpret_cast<DnnConfigure>(dlsym(dnn(), "dnnStandInConfigure"))(settings.c_str());
}
static std::vector<std::string> dnnReport() {
  return linesOf(reinterpret_cast<DnnReport>(dlsym(dnn(), "dnnStandInReport"))());
}
std::vector<std::string> dnnLines(const std::string &word) {
  std::vector<std::string> list = dnnReport();
  list.erase(list.begin());
  std::erase_if(list, [&](const std::string &line) { return line.find(word) == line.npos; });
  return list;
}
std::string dnnCounts() { return dnnReport()[0]; }

// ---- Handles

MortiseStream *makeStream(MortiseDevice *device) {
  MortiseStreamArgs args{};
  args.device = device;
  must(call(cudaPlugin().stream_create, args));
  return args.stream;
}

void destroyStream(MortiseStream *stream) {
  MortiseStreamArgs args{};
  args.stream = stream;
  must(call(cudaPlugin().stream_destroy, args));
}

MortiseEvent *makeEvent(MortiseDevice *device) {
  MortiseEventArgs args{};
  args.device = device;
  must(call(cudaPlugin().event_create, args));
  return args.event;
}

void destroyEvent(MortiseEvent *event) {
  MortiseEventArgs args{};
  args.event = event;
  must(call(cudaPlugin().event_destroy, args));
}

Result<void> record(MortiseEvent *event, MortiseStream *stream) {
  MortiseEventArgs args{};
  args.event = event;
  args.stream = stream;
  return call(cudaPlugin().event_record, args);
}

Result<void> wait(MortiseEvent *event, MortiseStream *stream) {
  MortiseEventArgs args{};
  args.event = event;
  args.stream = stream;
  return call(cudaPlugin().event_wait, args);
}

MortiseAddress makeMemory(MortiseDevice *device, uint64_t bytes, MortiseStream *stream) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.stream = stream;
  args.bytes = bytes;
  must(call(cudaPlugin().memory_allocate, args));
  return args.address;
}

void freeMemory(MortiseDevice *device, MortiseAddress address, uint64_t bytes, MortiseStream *stream) {
  MortiseMemoryArgs args{};
  args.device = device;
  args.stream = stream;
  args.bytes = bytes;
  args.address = address;
  must(call(cudaPlugin().memory_free, args));
}

// ---- Regions

Region::Region(MortiseDevice *device, std::shared_ptr<const Graph> made, How how)
    : device(device), graph(std::move(made)) {
  auto options = sized<MortiseCompileOptions>();
  options.precision = how.precision;
  options.mode = how.mode;
  options.deterministic = how.deterministic;
  const MortiseOption chosen[] = {{"graphs", how.graphs}};
  MortiseCompileArgs args{};
  args.options = chosen;
  args.option_count = 1;
  args.device = device;
  args.region = &graph->view();
  args.lowering = "cuda.region";
  args.compile_options = &options;
  must(call(cudaPlugin().kernel_compile, args));
  kernel = args.kernel;
  try {
    MortiseKernelInfo info{};
    info.kernel = kernel;
    must(call(cudaPlugin().kernel_info, info));
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
  must(call(cudaPlugin().kernel_info, info));
  std::string text;
  for (size_t i = 0; i < info.step_count; ++i)
    text += std::string(info.steps[i]->lowering) + " " + info.steps[i]->name + "\n";
  return text;
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
  must(call(cudaPlugin().constants_bind, args));
  constants = args.constants;
  packedBytes = args.packed_bytes;
}

void Region::endConstants() {
  MortiseConstantsArgs args{};
  args.kernel = kernel;
  args.constants = std::exchange(constants, nullptr);
  if (args.constants)
    (void)call(cudaPlugin().constants_destroy, args);
}

void Region::prepare(std::vector<int64_t> values) {
  endInstance();
  symbols = std::move(values);
  MortiseInstanceArgs args{};
  args.kernel = kernel;
  args.symbols = symbols.data();
  must(call(cudaPlugin().instance_create, args));
  instance = args.instance;
  workspaceBytes = args.workspace_bytes;
  allocate();
}

void Region::endInstance() {
  MortiseInstanceArgs made{};
  made.kernel = kernel;
  made.instance = std::exchange(instance, nullptr);
  if (made.instance)
    (void)call(cudaPlugin().instance_destroy, made);
  MortiseMemoryArgs memory{};
  memory.device = device;
  memory.bytes = workspaceBytes;
  memory.address = std::exchange(workspace, 0);
  if (memory.address)
    (void)call(cudaPlugin().memory_free, memory);
}

void Region::end() {
  endInstance();
  endConstants();
  MortiseKernelArgs args{};
  args.kernel = kernel;
  (void)call(cudaPlugin().kernel_destroy, args);
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
  return call(cudaPlugin().enqueue, args);
}

void runAndCompare(const Session &session, Region &region, const MortiseGraph &graph, uint64_t skew) {
  MortiseDevice *device = session.devices[0];
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
      std::memcpy(pointer(in.back()), inputs[i].data(), inputs[i].size());
    given.push_back(inputs[i].data());
  }
  for (size_t i = 0; i < graph.output_count; ++i) {
    wants[i].resize(byteSize(*graph.outputs[i]->type));
    out.push_back(allocate(wants[i].size()));
    std::memset(pointer(out.back()), 0x5a, wants[i].size());
    wanted.push_back(wants[i].data());
  }
  std::vector<MortiseAddress> constants(in.size());
  for (size_t i = 0; i < graph.input_count; ++i)
    if (graph.inputs[i]->flags & MORTISE_VALUE_CONSTANT)
      constants[i] = in[i];
  if (std::ranges::any_of(constants, [](MortiseAddress address) { return address != 0; }))
    region.bind(constants);
  for (int round = 0; round < 2; ++round) {
    const auto queued = region.enqueue(stream, in, out);
    ASSERT_TRUE(queued) << queued.error().message;
    ASSERT_TRUE(reference::interpret(graph, given, wanted));
    conformance::Judge judge(graph, given);
    for (size_t i = 0; i < graph.output_count; ++i) {
      const std::span got(pointer<std::byte>(out[i]), wants[i].size());
      const auto text = judge.differences(i, got, wants[i]);
      ASSERT_TRUE(text) << text.error().message;
      EXPECT_EQ(*text, "") << region.text() << testing::PrintToString(blasCalls("cublasLtMatmul"))
                           << testing::PrintToString(dnnLines("execute"));
    }
  }
  for (const auto &[address, bytes] : owned)
    freeMemory(device, address, bytes);
  destroyStream(stream);
}

Answer propose(MortiseDevice *device, const MortiseGraph &graph, int32_t precision) {
  Answer answer;
  auto options = sized<MortiseCompileOptions>();
  options.precision = precision;
  MortiseProposeArgs args{};
  args.device = device;
  args.graph = &graph;
  args.compile_options = &options;
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
  EXPECT_TRUE(call(cudaPlugin().propose, args));
  return answer;
}

std::shared_ptr<const Graph> product(int32_t dtype, int64_t size, bool bias) {
  Network net;
  net.output(net.linear(net.input(dtype, {size, size}), net.input(dtype, {size, size}),
                        bias ? net.input(dtype, {size}) : ir::noValue));
  return net.finish();
}

std::shared_ptr<const Graph> smallGraph() {
  Network net;
  const ValueId x = net.input(MORTISE_F32, {64, 128});
  net.output(net.op("exp", {net.op("add", {x, x})}));
  return net.finish();
}

} // namespace mortise::test
