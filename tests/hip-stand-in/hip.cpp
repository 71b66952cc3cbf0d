// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP's functions. STAND_IN_OLD: those of HIP 5.0, with its struct of properties, and without memory pools.
#include "launch.hpp"
#include "stand_in.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

using namespace mortise::stand_in;
namespace hip = mortise::rocm::hip;
using hip::Status;

namespace {

// Calls `body` with the state, unless the call is to fail. Thread safe.
template <typename Body> Status call(const char *function, Body body) {
  Runtime &state = Runtime::instance();
  const std::lock_guard lock(state.mutex);
  if (const Status instead = state.enter(function); instead != hip::Success)
    return state.leave(instead);
  return state.leave(body(state));
}

double now() {
  const auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(since).count();
}

// Queues `run` on a stream of this thread's device.
template <typename Run> Status queueOn(Runtime &state, hip::Stream handle, const char *what, Run run) {
  const auto stream = state.streamOf(handle);
  if (!stream)
    return hip::InvalidHandle;
  state.queue(*stream, what, std::move(run));
  return hip::Success;
}

// Memory of the host that HIP does not know is copied by the host, which waits.
bool isRegistered(const Runtime &state, const void *memory, size_t bytes) {
  return std::ranges::any_of(state.registrations, [&](const auto &each) {
    const auto *from = static_cast<const std::byte *>(each.first), *at = static_cast<const std::byte *>(memory);
    return from <= at && at + bytes <= from + each.second;
  });
}

} // namespace

#pragma GCC visibility push(default)
extern "C" {

// ---- The library

Status hipInit(unsigned) {
  return call("hipInit", [](Runtime &) { return hip::Success; });
}

Status hipRuntimeGetVersion(int *version) {
  return call("hipRuntimeGetVersion", [&](Runtime &state) {
    *version = state.settings.version;
    return hip::Success;
  });
}

Status hipGetLastError() { return Runtime::instance().takeLastError(); }

const char *hipGetErrorName(Status status) {
  switch (status) {
  case hip::Success:
    return "hipSuccess";
  case hip::OutOfMemory:
    return "hipErrorOutOfMemory";
  case hip::NoDevice:
    return "hipErrorNoDevice";
  case hip::NoBinaryForGpu:
    return "hipErrorNoBinaryForGpu";
  case hip::IllegalAddress:
    return "hipErrorIllegalAddress";
  default:
    return "hipErrorUnknown";
  }
}
const char *hipGetErrorString(Status status) { return status == hip::Success ? "no error" : "the stand-in's error"; }

// ---- Devices

Status hipGetDeviceCount(int *count) {
  return call("hipGetDeviceCount", [&](Runtime &state) {
    *count = state.settings.devices;
    return state.settings.devices > 0 ? hip::Success : hip::NoDevice;
  });
}

Status hipDeviceGet(int *device, int ordinal) {
  return call("hipDeviceGet", [&](Runtime &state) {
    *device = ordinal;
    return state.isDevice(ordinal) ? hip::Success : hip::InvalidDevice;
  });
}

Status hipDeviceGetName(char *name, int bytes, int device) {
  return call("hipDeviceGetName", [&](Runtime &state) {
    if (!state.isDevice(device))
      return hip::InvalidDevice;
    std::snprintf(name, static_cast<size_t>(bytes), "stand-in");
    return hip::Success;
  });
}

Status hipDeviceTotalMem(size_t *bytes, int) {
  return call("hipDeviceTotalMem", [&](Runtime &) {
    *bytes = size_t{64} << 30;
    return hip::Success;
  });
}

Status hipDeviceGetAttribute(int *value, int attribute, int device) {
  return call("hipDeviceGetAttribute", [&](Runtime &state) {
    if (!state.isDevice(device))
      return hip::InvalidDevice;
    const bool isCdna = state.architectureOf(device).starts_with("gfx9");
    switch (attribute) {
    case hip::ClockRate:
      *value = 2100000;
      return hip::Success;
    case hip::MemoryBusWidth:
      *value = 8192;
      return hip::Success;
    case hip::MemoryClockRate:
      *value = 1300000;
      return hip::Success;
    case hip::MultiprocessorCount:
      *value = 304;
      return hip::Success;
    case hip::WarpSize:
      *value = state.settings.wave ? state.settings.wave : isCdna ? 64 : 32;
      return hip::Success;
    case hip::MemoryPoolsSupported:
      *value = state.settings.pools;
      return hip::Success;
    default:
      return hip::InvalidValue;
    }
  });
}

static Status properties(const char *function, void *into, int device, size_t offset) {
  return call(function, [&](Runtime &state) {
    if (!state.isDevice(device))
      return hip::InvalidDevice;
    const std::string name = state.architectureOf(device) + ":sramecc+:xnack-";
    std::memcpy(static_cast<char *>(into) + offset, name.c_str(), name.size() + 1);
    return hip::Success;
  });
}
// A new library still has the old function, which fills the old struct.
Status hipGetDeviceProperties(void *into, int device) {
  return properties("hipGetDeviceProperties", into, device, 396);
}
#ifndef STAND_IN_OLD
Status hipGetDevicePropertiesR0600(void *into, int device) {
  return properties("hipGetDevicePropertiesR0600", into, device, 1160);
}

Status hipDeviceGetUuid(char (*uuid)[16], int device) {
  return call("hipDeviceGetUuid", [&](Runtime &) {
    std::memset(*uuid, device + 1, sizeof *uuid);
    return hip::Success;
  });
}
#endif

Status hipGetDevice(int *device) {
  return call("hipGetDevice", [&](Runtime &state) {
    *device = state.currentDevice();
    return hip::Success;
  });
}

Status hipSetDevice(int device) {
  return call("hipSetDevice", [&](Runtime &state) {
    if (!state.isDevice(device))
      return hip::InvalidDevice;
    state.currentDevice() = device;
    return hip::Success;
  });
}

Status hipDeviceCanAccessPeer(int *can, int device, int peer) {
  return call("hipDeviceCanAccessPeer", [&](Runtime &) {
    *can = device != peer;
    return hip::Success;
  });
}

Status hipDeviceEnablePeerAccess(int peer, unsigned) {
  return call("hipDeviceEnablePeerAccess",
              [&](Runtime &state) { return peer == state.currentDevice() ? hip::InvalidDevice : hip::Success; });
}

// ---- Streams

Status hipStreamCreateWithFlags(hip::Stream *stream, unsigned) {
  return call("hipStreamCreateWithFlags", [&](Runtime &state) {
    auto made = std::make_shared<hip::StreamObject>();
    made->number = ++state.streamNumber;
    made->device = state.currentDevice();
    *stream = made.get();
    state.streams.emplace(made.get(), made);
    return hip::Success;
  });
}

// Returns at once; what is queued still happens.
Status hipStreamDestroy(hip::Stream stream) {
  return call("hipStreamDestroy", [&](Runtime &state) {
    const auto found = state.streamOf(stream);
    if (!found || !stream)
      return hip::InvalidHandle;
    state.orphan(found);
    return hip::Success;
  });
}

Status hipStreamSynchronize(hip::Stream stream) {
  return call("hipStreamSynchronize", [&](Runtime &state) {
    const auto found = state.streamOf(stream);
    if (!found)
      return hip::InvalidHandle;
    state.runUntil(*found, found->queued);
    return hip::Success;
  });
}

Status hipStreamQuery(hip::Stream stream) {
  return call("hipStreamQuery", [&](Runtime &state) {
    const auto found = state.streamOf(stream);
    if (!found)
      return hip::InvalidHandle;
    if (found->queue.empty())
      return hip::Success;
    state.runUntil(*found, found->done + 1); // who asks again and again sees the end
    return hip::NotReady;
  });
}

Status hipStreamWaitEvent(hip::Stream stream, hip::Event event, unsigned) {
  return call("hipStreamWaitEvent", [&](Runtime &state) {
    const auto found = state.events.find(event);
    if (found == state.events.end())
      return hip::InvalidHandle;
    if (!found->second->isRecorded)
      return hip::Success;
    const auto marked = found->second->stream;
    const uint64_t position = found->second->position;
    return queueOn(state, stream, "wait", [&state, marked, position] { state.runUntil(*marked, position); });
  });
}

// ---- Events

Status hipEventCreateWithFlags(hip::Event *event, unsigned) {
  return call("hipEventCreateWithFlags", [&](Runtime &state) {
    auto made = std::make_shared<hip::EventObject>();
    made->number = ++state.eventNumber;
    made->device = state.currentDevice();
    *event = made.get();
    state.events.emplace(made.get(), made);
    return hip::Success;
  });
}

Status hipEventDestroy(hip::Event event) {
  return call("hipEventDestroy", [&](Runtime &state) {
    if (state.events.erase(event))
      return hip::Success;
    state.complain("an event is destroyed that is not there, or no longer");
    return hip::InvalidHandle;
  });
}

Status hipEventRecord(hip::Event event, hip::Stream handle) {
  return call("hipEventRecord", [&](Runtime &state) {
    const auto found = state.events.find(event);
    const auto stream = state.streamOf(handle);
    if (found == state.events.end() || !stream)
      return hip::InvalidHandle;
    const std::shared_ptr<hip::EventObject> object = found->second;
    if (object->device != stream->device) {
      state.complain("an event of one device is recorded in a stream of another");
      return hip::InvalidHandle;
    }
    object->isRecorded = true;
    object->stream = stream;
    object->position = stream->queued + 1;
    state.queue(*stream, "mark", [object] { object->milliseconds = now(); });
    return hip::Success;
  });
}

Status hipEventQuery(hip::Event event) {
  return call("hipEventQuery", [&](Runtime &state) {
    const auto found = state.events.find(event);
    if (found == state.events.end())
      return hip::InvalidHandle;
    hip::EventObject &object = *found->second;
    if (!object.isRecorded || object.stream->done >= object.position)
      return hip::Success;
    state.runUntil(*object.stream, object.stream->done + 1);
    return hip::NotReady;
  });
}

Status hipEventSynchronize(hip::Event event) {
  return call("hipEventSynchronize", [&](Runtime &state) {
    const auto found = state.events.find(event);
    if (found == state.events.end())
      return hip::InvalidHandle;
    if (found->second->isRecorded)
      state.runUntil(*found->second->stream, found->second->position);
    return hip::Success;
  });
}

Status hipEventElapsedTime(float *milliseconds, hip::Event begin, hip::Event end) {
  return call("hipEventElapsedTime", [&](Runtime &state) {
    const auto first = state.events.find(begin), last = state.events.find(end);
    if (first == state.events.end() || last == state.events.end())
      return hip::InvalidHandle;
    for (const auto &each : {first->second, last->second})
      if (!each->isRecorded)
        return hip::InvalidHandle;
      else if (each->stream->done < each->position)
        return hip::NotReady;
    *milliseconds = static_cast<float>(last->second->milliseconds - first->second->milliseconds);
    return hip::Success;
  });
}

// ---- Memory

Status hipMalloc(void **address, size_t bytes) {
  return call("hipMalloc", [&](Runtime &state) {
    if (bytes > (size_t{64} << 30))
      return hip::OutOfMemory;
    *address = state.allocate(bytes, state.currentDevice(), true);
    return hip::Success;
  });
}

Status hipFree(void *address) {
  return call("hipFree", [&](Runtime &state) {
    if (!address)
      return hip::Success;
    if (!state.isAllocation(address)) {
      state.free(address); // which complains
      return hip::InvalidValue;
    }
    state.runAll(state.find(address)->device);
    state.free(address);
    return hip::Success;
  });
}

#ifndef STAND_IN_OLD
Status hipDeviceGetDefaultMemPool(hip::Pool *pool, int device) {
  return call("hipDeviceGetDefaultMemPool", [&](Runtime &state) {
    if (!state.isDevice(device))
      return hip::InvalidDevice;
    *pool = &state.pools[static_cast<size_t>(device)];
    return hip::Success;
  });
}

Status hipMemPoolSetAttribute(hip::Pool, int attribute, void *) {
  return call("hipMemPoolSetAttribute",
              [&](Runtime &) { return attribute == hip::poolReleaseThreshold ? hip::Success : hip::InvalidValue; });
}

Status hipMemPoolSetAccess(hip::Pool, const hip::PoolAccess *access, size_t count) {
  return call("hipMemPoolSetAccess", [&](Runtime &state) {
    return count == 1 && access->locationType == hip::locationDevice && state.isDevice(access->device)
               ? hip::Success
               : hip::InvalidValue;
  });
}

Status hipMallocAsync(void **address, size_t bytes, hip::Stream handle) {
  return call("hipMallocAsync", [&](Runtime &state) {
    if (bytes > (size_t{64} << 30))
      return hip::OutOfMemory;
    const auto stream = state.streamOf(handle);
    if (!stream)
      return hip::InvalidHandle;
    void *made = *address = state.allocate(bytes, stream->device, false);
    state.queue(*stream, "allocate", [&state, made] { state.setThere(made); });
    return hip::Success;
  });
}

Status hipFreeAsync(void *address, hip::Stream stream) {
  return call("hipFreeAsync", [&](Runtime &state) {
    hip::Status done = hip::InvalidValue;
    if (state.isAllocation(address) && !std::exchange(state.find(address)->isLeaving, true))
      done = queueOn(state, stream, "free", [&state, address] { state.free(address); });
    else
      state.complain("memory was freed that is not allocated, or freed twice");
    return done;
  });
}
#endif

// ---- Copies

Status hipMemcpyHtoDAsync(void *target, void *source, size_t bytes, hip::Stream stream) {
  return call("hipMemcpyHtoDAsync", [&](Runtime &state) {
    const auto copy = [&state, target, bytes](const std::byte *from) {
      state.check("copy to the device", target, bytes);
      std::memcpy(target, from, bytes);
    };
    const auto *memory = static_cast<const std::byte *>(source);
    if (isRegistered(state, source, bytes))
      return queueOn(state, stream, "copy", [copy, memory] { copy(memory); });
    return queueOn(state, stream, "copy",
                   [copy, kept = std::vector<std::byte>(memory, memory + bytes)] { copy(kept.data()); });
  });
}

Status hipMemcpyDtoHAsync(void *target, void *source, size_t bytes, hip::Stream stream) {
  return call("hipMemcpyDtoHAsync", [&](Runtime &state) {
    const Status queued = queueOn(state, stream, "copy", [&state, target, source, bytes] {
      state.check("copy from the device", source, bytes);
      std::memcpy(target, source, bytes);
    });
    if (queued == hip::Success && !isRegistered(state, target, bytes)) {
      const auto found = state.streamOf(stream);
      state.runUntil(*found, found->queued);
    }
    return queued;
  });
}

static Status copyWithin(Runtime &state, void *target, const void *source, size_t bytes, hip::Stream stream) {
  return queueOn(state, stream, "copy", [&state, target, source, bytes] {
    state.check("copy from a device", source, bytes);
    state.check("copy to a device", target, bytes);
    std::memmove(target, source, bytes);
  });
}

Status hipMemcpyDtoDAsync(void *target, void *source, size_t bytes, hip::Stream stream) {
  return call("hipMemcpyDtoDAsync", [&](Runtime &state) { return copyWithin(state, target, source, bytes, stream); });
}

Status hipMemcpyPeerAsync(void *target, int, const void *source, int, size_t bytes, hip::Stream stream) {
  return call("hipMemcpyPeerAsync", [&](Runtime &state) { return copyWithin(state, target, source, bytes, stream); });
}

Status hipHostRegister(void *memory, size_t bytes, unsigned) {
  return call("hipHostRegister", [&](Runtime &state) {
    return state.registrations.emplace(memory, bytes).second ? hip::Success : hip::HostMemoryAlreadyRegistered;
  });
}

Status hipHostUnregister(void *memory) {
  return call("hipHostUnregister", [&](Runtime &state) {
    return state.registrations.erase(memory) ? hip::Success : hip::HostMemoryNotRegistered;
  });
}

// ---- Code

Status hipModuleLoadData(hip::Module *module, const void *image) {
  return call("hipModuleLoadData", [&](Runtime &state) {
    std::shared_ptr<hip::ModuleObject> made;
    try {
      made = std::make_shared<hip::ModuleObject>(static_cast<const char *>(image));
    } catch (const std::exception &wrong) {
      state.complain(wrong.what());
      return hip::InvalidImage;
    }
    made->device = state.currentDevice();
    if (made->code.architecture != state.architectureOf(made->device))
      return hip::NoBinaryForGpu;
    for (const auto &[name, metadata] : made->code.kernels) {
      void *entry = made->code.entry(name);
      if (!entry || metadata.arguments.size() > mostArguments) {
        state.complain(name + ": no emulated kernel, or one of too many arguments");
        return hip::InvalidImage;
      }
      made->functions.emplace(name, hip::FunctionObject{name, made.get(), metadata, entry});
    }
    *module = made.get();
    state.modules.emplace(made.get(), made);
    return hip::Success;
  });
}

Status hipModuleUnload(hip::Module module) {
  return call("hipModuleUnload", [&](Runtime &state) {
    const auto found = state.modules.find(module);
    if (found == state.modules.end()) {
      state.complain("a module is unloaded that is not there, or no longer");
      return hip::InvalidHandle;
    }
    if (found->second->launches > 0)
      state.complain("a module is unloaded while its kernels are queued");
    state.modules.erase(found);
    return hip::Success;
  });
}

Status hipModuleGetFunction(hip::Function *function, hip::Module module, const char *name) {
  return call("hipModuleGetFunction", [&](Runtime &state) {
    if (!state.modules.contains(module))
      return hip::InvalidHandle;
    const auto found = module->functions.find(name);
    if (found == module->functions.end())
      return hip::NotFound;
    *function = &found->second;
    return hip::Success;
  });
}

Status hipModuleLaunchKernel(hip::Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
                             unsigned blockY, unsigned blockZ, unsigned sharedBytes, hip::Stream handle,
                             void **arguments, void **extra) {
  return call("hipModuleLaunchKernel", [&](Runtime &state) {
    const auto stream = state.streamOf(handle);
    if (!stream)
      return hip::InvalidHandle;
    const auto module = std::ranges::find_if(state.modules, [&](const auto &each) {
      return std::ranges::any_of(each.second->functions, [&](const auto &has) { return &has.second == function; });
    });
    if (module == state.modules.end()) {
      state.complain("a kernel is launched whose module is not loaded, or no longer");
      return hip::InvalidDeviceFunction;
    }
    if (extra || gridY != 1 || gridZ != 1)
      return hip::NotSupported; // by the stand-in
    if (const Status refused =
            checkLaunch(state, *function, {gridX, gridY, gridZ}, {blockX, blockY, blockZ}, sharedBytes, stream->device);
        refused != hip::Success)
      return refused;
    KernelCall kernel{module->second, function, gridX, blockX, {}};
    for (const KernelArgument &argument : function->metadata.arguments) {
      uint64_t value = 0;
      std::memcpy(&value, *arguments++, std::min<size_t>(argument.bytes, sizeof value));
      kernel.values.push_back(value);
    }
    ++module->second->launches;
    state.queue(*stream, function->name, [&state, kernel = std::move(kernel)] { runKernel(state, kernel); });
    return hip::Success;
  });
}

// ---- For tests

void standInConfigure(const char *settings) { Runtime::instance().configure(settings); }
const char *standInReport() { return Runtime::instance().report(); }
const char *standInProblems() { return Runtime::instance().problems(); }

} // extern "C"
#pragma GCC visibility pop
