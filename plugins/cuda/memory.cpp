// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory.hpp"

#include <set>

namespace mortise::cuda {

// ---- Allocation
//
// Where the device has a pool all memory comes from it, since memory of the pool may be freed with a stream or without
// one, and that of cuMemAlloc only without.

Result<void> allocate(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  const Driver &driver = device.driver;
  if (args.space != 0)
    return Error{MORTISE_INVALID_ARGUMENT, "expected space 0, found " + std::to_string(args.space)};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  CUdeviceptr address = 0;
  const auto asked = [&](Result<void> done) -> Result<void> {
    if (!done)
      return Error{done.error().code, done.error().message + "; wanted " + std::to_string(args.bytes) + " bytes"};
    args.address = address;
    return {};
  };
  if (!device.hasPool())
    return asked(device.check(driver.memAlloc(&address, args.bytes), "cuMemAlloc"));
  if (args.stream)
    return asked(
        device.check(driver.memAllocAsync(&address, args.bytes, reinterpret_cast<Stream *>(args.stream)->handle),
                     "cuMemAllocAsync"));
  Result<CUstream> service = device.serviceStream();
  if (!service)
    return service.error();
  Result<void> done = device.check(driver.memAllocAsync(&address, args.bytes, *service), "cuMemAllocAsync");
  if (done) { // usable at once, in any stream
    done = device.check(driver.streamSynchronize(*service), "cuStreamSynchronize");
    if (!done)
      driver.memFreeAsync(address, *service);
  }
  return asked(std::move(done));
}

Result<void> release(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  const Driver &driver = device.driver;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  auto *stream = reinterpret_cast<Stream *>(args.stream);
  if (device.hasPool()) {
    Result<CUstream> behind = stream ? Result<CUstream>(stream->handle) : device.serviceStream();
    if (!behind)
      return behind.error();
    return device.check(driver.memFreeAsync(args.address, *behind), "cuMemFreeAsync");
  }
  // cuMemFree promises nothing about work that is queued.
  Result<void> waited;
  if (stream)
    waited = device.check(driver.streamSynchronize(stream->handle), "cuStreamSynchronize");
  Result<void> freed = device.check(driver.memFree(args.address), "cuMemFree");
  return waited ? freed : waited;
}

// ---- Copies

// Lets `device` reach the memory of `other` over the bus, once. Without it the driver copies through the host's memory,
// so that a failure costs time only.
static void enablePeer(Device &device, Device &other, CUcontext context) {
  static std::mutex mutex;
  static auto *known = new std::set<std::pair<const Device *, const Device *>>;
  std::lock_guard lock(mutex);
  if (!known->insert({&device, &other}).second)
    return;
  const Driver &driver = device.driver;
  const CUresult enabled = driver.ctxEnablePeerAccess(context, 0);
  Result<void> done;
  if (enabled != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED)
    done = device.check(enabled, "cuCtxEnablePeerAccess");
  if (done && other.hasPool() && driver.memPoolSetAccess) { // a pool has access rights of its own
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = device.handle();
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    done = device.check(driver.memPoolSetAccess(other.memoryPool(), &access, 1), "cuMemPoolSetAccess");
  }
  if (!done)
    log(MORTISE_WARNING, "copies between cuda:" + std::to_string(device.ordinal()) + " and cuda:" +
                             std::to_string(other.ordinal()) + " pass through the host: " + done.error().message);
}

static bool reaches(Device &device, Device &other, Result<void> &asked) {
  int can = 0;
  asked =
      device.check(device.driver.deviceCanAccessPeer(&can, device.handle(), other.handle()), "cuDeviceCanAccessPeer");
  return asked && can != 0;
}

static Result<void> copyBetween(const MortiseCopyArgs &args, Stream &stream) {
  Device &target = Device::of(args.target_device), &source = Device::of(args.source_device);
  Result<CUcontext> to = target.context(), from = source.context();
  if (!to || !from)
    return to ? from.error() : to.error();
  Device &other = &stream.device == &target ? source : target;
  Result<void> asked;
  if (reaches(stream.device, other, asked))
    enablePeer(stream.device, other, &other == &target ? *to : *from);
  if (!asked)
    return asked;
  return stream.device.check(
      stream.device.driver.memcpyPeerAsync(args.target, *to, args.source, *from, args.bytes, stream.handle),
      "cuMemcpyPeerAsync");
}

Result<void> copy(const MortiseCopyArgs &args) {
  Result<Stream *> found = Stream::of(args.stream, "copy");
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (!args.target_device && !args.source_device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected memory of a device on one side of the copy, found none"};
  if (auto known = stream.failure(); !known)
    return known;
  Device &device = stream.device;
  const Driver &driver = device.driver;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return stream.fail(entered.error());
  Result<void> done;
  // Pageable memory of the host goes through buffers of the driver's, which may make the call wait, and is right.
  if (!args.source_device)
    done = device.check(driver.memcpyHtoDAsync(args.target, pointer(args.source), args.bytes, stream.handle),
                        "cuMemcpyHtoDAsync");
  else if (!args.target_device)
    done = device.check(driver.memcpyDtoHAsync(pointer(args.target), args.source, args.bytes, stream.handle),
                        "cuMemcpyDtoHAsync");
  else if (args.target_device == args.source_device)
    done =
        device.check(driver.memcpyDtoDAsync(args.target, args.source, args.bytes, stream.handle), "cuMemcpyDtoDAsync");
  else
    done = copyBetween(args, stream);
  return done ? Result<void>() : stream.fail(done.error());
}

Result<void> findPeer(MortisePeerArgs &args) {
  Result<void> asked;
  args.reaches = args.device != args.other && reaches(Device::of(args.device), Device::of(args.other), asked);
  args.bandwidth = args.copy_ns = 0; // depends on what lies between them, which no attribute tells
  return asked;
}

// ---- Memory of the host

Result<void> registerHost(const MortiseHostMemoryArgs &args) {
  Device &device = Device::of(args.device);
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.memHostRegister(args.memory, args.bytes, CU_MEMHOSTREGISTER_PORTABLE),
                      "cuMemHostRegister");
}

Result<void> unregisterHost(const MortiseHostMemoryArgs &args) {
  Device &device = Device::of(args.device);
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.memHostUnregister(args.memory), "cuMemHostUnregister");
}

} // namespace mortise::cuda
