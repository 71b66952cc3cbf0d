// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A driver without a GPU, for tests of the plugin's host side. Memory is the process's, work happens when it is queued,
// copies copy, and launches compute nothing; what has happened is kept in a list of its own.
// STAND_IN_OLD, and without driver_stand_in_graphs.cpp: a driver without pools, libraries and graphs.
#include "driver_stand_in_state.hpp"

#include <algorithm>
#include <cstring>

#pragma GCC visibility push(default)
extern "C" {
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end);
void standInConfigure(const char *settings);
const char *standInReport();
const char *standInWork();
void standInQueue(void *stream, const char *text, void (*work)(void *), void (*end)(void *), void *context);
}
#pragma GCC visibility pop

namespace mortise::test {

StandIn &standIn() {
  static auto *made = new StandIn;
  return *made;
}

thread_local CUcontext current = nullptr;
namespace {

CUctx_st contexts[16];

CUresult allocate(CUdeviceptr *address, size_t bytes) {
  void *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (!memory)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  standIn().allocations.insert(*address);
  return CUDA_SUCCESS;
}
CUresult release(CUdeviceptr address) {
  if (standIn().allocations.erase(address) == 0)
    return CUDA_ERROR_INVALID_VALUE;
  std::free(reinterpret_cast<void *>(address));
  return CUDA_SUCCESS;
}
CUresult move(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  std::memmove(reinterpret_cast<void *>(target), reinterpret_cast<const void *>(source), bytes);
  return CUDA_SUCCESS;
}
// Of a kernel in the code, which is PTX, whose parameters all have 8 bytes. NULL: there is none.
CUfunc_st *functionOf(const std::string &code, std::map<std::string, CUfunc_st> &known, const char *name) {
  const size_t at = code.find(".entry " + std::string(name) + "(");
  if (at == code.npos)
    return nullptr;
  CUfunc_st function{name, 0, std::hash<std::string>()(code)};
  function.waits = code.find("griddepcontrol.wait") != code.npos;
  constexpr std::string_view cluster = ".reqnctapercluster ";
  if (const size_t found = code.find(cluster, at); found != code.npos)
    function.cluster = static_cast<unsigned>(std::stoul(code.substr(found + cluster.size())));
  const size_t end = code.find(')', at);
  for (size_t from = at; (from = code.find(".param ", from)) < end; ++from)
    ++function.arguments;
  return &known.try_emplace(name, function).first->second;
}

// ---- Work

void happen(const Work &work) {
  for (const Work &child : work.children)
    happen(child);
  if (work.kind == Work::Child)
    return;
  standIn().work.push_back(work.text);
  if (work.run)
    work.run();
}

std::string hex(uint64_t number) {
  std::ostringstream text;
  text << std::hex << number;
  return text.str();
}

// A stream that is being captured cannot be asked or waited for, and its capture is lost by that.
bool disturbs(CUstream stream) {
  if (!stream || !stream->captured)
    return false;
  stream->invalid = true;
  return true;
}

} // namespace

CUgraphNode add(CUgraph graph, const CUgraphNode *behind, size_t count, Work work) {
  graph->nodes.push_back(std::make_unique<CUgraphNode_st>(CUgraphNode_st{graph, std::move(work), {}, false}));
  graph->nodes.back()->behind.assign(behind, behind + count);
  return graph->nodes.back().get();
}

CUresult queue(CUstream stream, Work work) {
  if (!stream || !stream->captured) {
    happen(work);
    return CUDA_SUCCESS;
  }
  const auto &nodes = stream->captured->nodes;
  const CUgraphNode last = nodes.empty() ? nullptr : nodes.back().get();
  add(stream->captured, &last, last ? 1 : 0, std::move(work));
  return CUDA_SUCCESS;
}

bool isLaunchable(CUfunction function, unsigned blocks, unsigned threads, unsigned shared) {
  return blocks > 0 && blocks % function->cluster == 0 && threads > 0 && threads <= 1024 &&
         shared <= function->mostShared;
}
Work kernel(CUfunction function, unsigned blocks, unsigned threads, unsigned shared, void **arguments) {
  std::string line = "kernel " + function->name + " " + text("code", function->code) + " " + text("blocks", blocks) +
                     " " + text("threads", threads) + (shared ? " " + text("shared", shared) : "") + " arguments=";
  for (size_t i = 0; i < function->arguments; ++i) {
    uint64_t value;
    std::memcpy(&value, arguments[i], sizeof value);
    line += (i ? "," : "") + hex(value);
  }
  return {Work::Kernel, line, {}, {}};
}
Work copyWork(CUdeviceptr target, CUdeviceptr source, size_t bytes) {
  return {Work::Copy,
          "copy " + hex(target) + " from " + hex(source) + " " + text("bytes", bytes),
          [=] { move(target, source, bytes); },
          {}};
}

} // namespace mortise::test

using namespace mortise::test;

#pragma GCC visibility push(default)

void standInConfigure(const char *settings) {
  std::lock_guard<std::recursive_mutex> lock(standIn().mutex);
  standIn().configure(settings);
}

const char *standInReport() {
  thread_local std::string report;
  StandIn &state = standIn();
  std::lock_guard<std::recursive_mutex> lock(state.mutex);
  report = text("allocations", state.allocations.size()) + " " + text("streams", state.streams.size()) + " " +
           text("events", state.events.size()) + " " + text("graphs", state.graphs.size()) + " " +
           text("executables", state.executables.size()) + " " + text("libraries", state.code.size()) + " " +
           text("registrations", state.registrations.size());
  for (const std::string &call : state.calls)
    report += "\n" + call;
  return report.c_str();
}

const char *standInWork() {
  thread_local std::string report;
  std::lock_guard<std::recursive_mutex> lock(standIn().mutex);
  report.clear();
  for (const std::string &line : standIn().work)
    report += line + "\n";
  return report.c_str();
}

void standInQueue(void *stream, const char *text, void (*work)(void *), void (*end)(void *), void *context) {
  std::lock_guard<std::recursive_mutex> lock(standIn().mutex);
  const std::shared_ptr<void> kept(context, end);
  queue(static_cast<CUstream>(stream), {Work::Call, text, [=] { work(kept.get()); }, {}});
}

// ---- The driver and its devices

CUresult cuInit(unsigned) {
  ENTER("cuInit", "");
  return CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
  ENTER("cuDriverGetVersion", "");
  *version = standIn().version;
  return CUDA_SUCCESS;
}
CUresult cuGetErrorName(CUresult result, const char **name) {
  thread_local std::string made;
  made = "CUDA_ERROR_" + std::to_string(static_cast<int>(result));
  *name = made.c_str();
  return CUDA_SUCCESS;
}
CUresult cuGetErrorString(CUresult, const char **name) {
  *name = "the stand-in was told to fail";
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *count) {
  ENTER("cuDeviceGetCount", "");
  *count = standIn().devices;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER("cuDeviceGet", "");
  *device = ordinal;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  ENTER("cuDeviceGetName", "");
  std::strncpy(name, "stand-in", static_cast<size_t>(length));
  return CUDA_SUCCESS;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
  ENTER("cuDeviceTotalMem_v2", "");
  *bytes = size_t{80} << 30;
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ENTER("cuDeviceGetUuid_v2", "");
  std::memset(uuid, device + 1, sizeof *uuid);
  return CUDA_SUCCESS;
}
CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  ENTER("cuDeviceGetAttribute", "");
  static const std::map<CUdevice_attribute, int> values = {
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9}, {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},   {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
      {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},  {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
      {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1}};
  const auto found = values.find(attribute);
  *value = found == values.end() ? 0 : found->second;
  return CUDA_SUCCESS;
}
CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  ENTER("cuDeviceCanAccessPeer", "");
  *can = 1;
  return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ENTER("cuDevicePrimaryCtxRetain", "");
  contexts[device].device = device;
  *context = &contexts[device];
  return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
  ENTER("cuCtxGetCurrent", "");
  *context = current;
  return CUDA_SUCCESS;
}
CUresult cuCtxSetCurrent(CUcontext context) {
  ENTER("cuCtxSetCurrent", "");
  current = context;
  return CUDA_SUCCESS;
}
CUresult cuCtxEnablePeerAccess(CUcontext, unsigned) {
  ENTER("cuCtxEnablePeerAccess", "");
  NEEDS_CONTEXT;
  return CUDA_SUCCESS;
}

// ---- Streams and events

CUresult cuStreamCreate(CUstream *stream, unsigned) {
  ENTER("cuStreamCreate", "");
  NEEDS_CONTEXT;
  *stream = new CUstream_st{.number = ++standIn().streamNumber};
  standIn().streams.insert(*stream);
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream stream) {
  ENTER("cuStreamDestroy_v2", text(stream));
  NEEDS_CONTEXT;
  if (standIn().streams.erase(stream) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  delete stream->captured;
  delete stream;
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ENTER("cuStreamSynchronize", text(stream));
  NEEDS_CONTEXT;
  if (disturbs(stream))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return CUDA_SUCCESS;
}
CUresult cuStreamQuery(CUstream stream) {
  ENTER("cuStreamQuery", text(stream));
  NEEDS_CONTEXT;
  if (disturbs(stream))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  return standIn().hold ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  ENTER("cuStreamWaitEvent", text(stream) + " " + text(event));
  NEEDS_CONTEXT;
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent *event, unsigned) {
  ENTER("cuEventCreate", "");
  NEEDS_CONTEXT;
  *event = new CUevent_st{++standIn().eventNumber, false, 0};
  standIn().events.insert(*event);
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent event) {
  ENTER("cuEventDestroy_v2", text(event));
  NEEDS_CONTEXT;
  if (standIn().events.erase(event) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  ENTER("cuEventRecord", text(event) + " " + text(stream));
  NEEDS_CONTEXT;
  event->recorded = true;
  event->position = ++standIn().position;
  return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent event) {
  ENTER("cuEventQuery", text(event));
  NEEDS_CONTEXT;
  return standIn().hold ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent event) {
  ENTER("cuEventSynchronize", text(event));
  NEEDS_CONTEXT;
  return CUDA_SUCCESS;
}
// A millisecond from each mark to the next.
CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  ENTER("cuEventElapsedTime", "");
  NEEDS_CONTEXT;
  if (!begin->recorded || !end->recorded)
    return CUDA_ERROR_INVALID_HANDLE;
  *milliseconds = static_cast<float>(end->position - begin->position);
  return CUDA_SUCCESS;
}

// ---- Memory

CUresult cuMemAlloc(CUdeviceptr *address, size_t bytes) {
  ENTER("cuMemAlloc_v2", text("bytes", bytes));
  NEEDS_CONTEXT;
  return allocate(address, bytes);
}
CUresult cuMemFree(CUdeviceptr address) {
  ENTER("cuMemFree_v2", "");
  NEEDS_CONTEXT;
  return release(address);
}
CUresult cuMemcpyHtoDAsync(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyHtoDAsync_v2", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return move(target, reinterpret_cast<CUdeviceptr>(source), bytes);
}
CUresult cuMemcpyDtoHAsync(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoHAsync_v2", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return move(reinterpret_cast<CUdeviceptr>(target), source, bytes);
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  ENTER("cuMemcpyDtoDAsync_v2", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return queue(stream, copyWork(target, source, bytes));
}
CUresult cuMemsetD8Async(CUdeviceptr target, unsigned char value, size_t bytes, CUstream stream) {
  ENTER("cuMemsetD8Async", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return queue(stream, {Work::Set,
                        "set " + hex(target) + " " + text("bytes", bytes),
                        [=] { std::memset(reinterpret_cast<void *>(target), value, bytes); },
                        {}});
}
CUresult cuMemcpyPeerAsync(CUdeviceptr target, CUcontext, CUdeviceptr source, CUcontext, size_t bytes,
                           CUstream stream) {
  ENTER("cuMemcpyPeerAsync", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return move(target, source, bytes);
}
CUresult cuMemHostRegister(void *memory, size_t bytes, unsigned) {
  ENTER("cuMemHostRegister_v2", text("bytes", bytes));
  NEEDS_CONTEXT;
  return standIn().registrations.insert(memory).second ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
}
CUresult cuMemHostUnregister(void *memory) {
  ENTER("cuMemHostUnregister", "");
  NEEDS_CONTEXT;
  return standIn().registrations.erase(memory) ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

// ---- Code

static CUresult explain(unsigned count, CUjit_option *options, void **values) {
  constexpr char log[] = "ptxas of the stand-in refuses line 1\n";
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
      std::memcpy(values[i], log, sizeof log);
  return CUDA_SUCCESS;
}

CUresult cuModuleLoadDataEx(CUmodule *module, const void *code, unsigned count, CUjit_option *options, void **values) {
  explain(count, options, values);
  ENTER("cuModuleLoadDataEx", "");
  NEEDS_CONTEXT;
  *module = new CUmod_st{static_cast<const char *>(code)};
  standIn().code.insert(*module);
  return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
  ENTER("cuModuleUnload", "");
  NEEDS_CONTEXT;
  if (standIn().code.erase(module) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  delete module;
  return CUDA_SUCCESS;
}
CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ENTER("cuModuleGetFunction", name);
  NEEDS_CONTEXT;
  *function = functionOf(module->code, module->functions, name);
  return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
// As an H100 has them: 227 KiB.
CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  ENTER("cuFuncSetAttribute", function->name + " " + text("value", static_cast<unsigned>(value)));
  NEEDS_CONTEXT;
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 || value > 227 << 10)
    return CUDA_ERROR_INVALID_VALUE;
  function->mostShared = static_cast<unsigned>(value);
  return CUDA_SUCCESS;
}
CUresult cuLaunchKernel(CUfunction function, unsigned x, unsigned, unsigned, unsigned threads, unsigned, unsigned,
                        unsigned shared, CUstream stream, void **arguments, void **) {
  ENTER("cuLaunchKernel", text(stream) + " " + text("blocks", x) + " " + text("threads", threads));
  NEEDS_CONTEXT;
  if (!isLaunchable(function, x, threads, shared))
    return CUDA_ERROR_INVALID_VALUE;
  return queue(stream, kernel(function, x, threads, shared, arguments));
}

#ifndef STAND_IN_OLD
CUresult cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *options, void **values, unsigned count,
                           CUlibraryOption *, void **, unsigned) {
  explain(count, options, values);
  ENTER("cuLibraryLoadData", "");
  *library = new CUlib_st{static_cast<const char *>(code)};
  standIn().code.insert(*library);
  return CUDA_SUCCESS;
}
CUresult cuLibraryUnload(CUlibrary library) {
  ENTER("cuLibraryUnload", "");
  if (standIn().code.erase(library) == 0)
    return CUDA_ERROR_INVALID_HANDLE;
  delete library;
  return CUDA_SUCCESS;
}
CUresult cuLibraryGetKernel(CUkernel *kernel, CUlibrary library, const char *name) {
  ENTER("cuLibraryGetKernel", name);
  *kernel = reinterpret_cast<CUkernel>(functionOf(library->code, library->functions, name));
  return *kernel ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
CUresult cuKernelGetFunction(CUfunction *function, CUkernel kernel) {
  ENTER("cuKernelGetFunction", "");
  NEEDS_CONTEXT;
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
  ENTER("cuDeviceGetDefaultMemPool", "");
  *pool = reinterpret_cast<CUmemoryPool>(&contexts[device]);
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool, CUmemPool_attribute, void *) {
  ENTER("cuMemPoolSetAttribute", "");
  return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAccess(CUmemoryPool, const CUmemAccessDesc *, size_t) {
  ENTER("cuMemPoolSetAccess", "");
  return CUDA_SUCCESS;
}
CUresult cuMemAllocAsync(CUdeviceptr *address, size_t bytes, CUstream stream) {
  ENTER("cuMemAllocAsync", text(stream) + " " + text("bytes", bytes));
  NEEDS_CONTEXT;
  return allocate(address, bytes);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  ENTER("cuMemFreeAsync", text(stream));
  NEEDS_CONTEXT;
  return release(address);
}
#endif

#pragma GCC visibility pop
