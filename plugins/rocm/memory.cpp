// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory.hpp"

#include <set>

namespace mortise::rocm {

static void *pointer(MortiseAddress address) { return reinterpret_cast<void *>(address); }

// ---- Allocation
//
// Where the device has a pool all memory comes from it, since memory of the pool may be freed with a stream or without
// one, and that of hipMalloc only without.

Result<void> allocate(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  const Driver &driver = device.driver;
  if (args.space != 0)
    return Error{MORTISE_INVALID_ARGUMENT, "expected space 0, found " + std::to_string(args.space)};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  void *address = nullptr;
  const auto asked = [&](Result<void> done) -> Result<void> {
    if (!done)
      return Error{done.error().code, done.error().message + "; wanted " + std::to_string(args.bytes) + " bytes"};
    args.address = reinterpret_cast<MortiseAddress>(address);
    return {};
  };
  if (!device.hasPool())
    return asked(device.check(driver.malloc(&address, args.bytes), "hipMalloc"));
  if (args.stream)
    return asked(device.check(driver.mallocAsync(&address, args.bytes, reinterpret_cast<Stream *>(args.stream)->handle),
                              "hipMallocAsync"));
  Result<hip::Stream> service = device.serviceStream();
  if (!service)
    return service.error();
  Result<void> done = device.check(driver.mallocAsync(&address, args.bytes, *service), "hipMallocAsync");
  if (done) { // usable at once, in any stream
    done = device.check(driver.streamSynchronize(*service), "hipStreamSynchronize");
    if (!done && driver.freeAsync(address, *service) != hip::Success)
      driver.getLastError(); // the first error is told
  }
  return asked(std::move(done));
}

Result<void> release(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  const Driver &driver = device.driver;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const auto *stream = reinterpret_cast<const Stream *>(args.stream);
  if (device.hasPool()) {
    Result<hip::Stream> behind = stream ? Result<hip::Stream>(stream->handle) : device.serviceStream();
    if (!behind)
      return behind.error();
    return device.check(driver.freeAsync(pointer(args.address), *behind), "hipFreeAsync");
  }
  Result<void> waited; // hipFree waits in all versions so far, which nothing promises
  if (stream)
    waited = device.check(driver.streamSynchronize(stream->handle), "hipStreamSynchronize");
  Result<void> freed = device.check(driver.free(pointer(args.address)), "hipFree");
  return waited ? freed : waited;
}

// ---- Copies

// Lets `device`, which is current, reach the memory of `other` over the bus, once. Without it HIP copies through the
// host's memory, so that a failure costs time only.
static void enablePeer(Device &device, Device &other) {
  static std::mutex mutex;
  static auto *known = new std::set<std::pair<const Device *, const Device *>>;
  std::lock_guard lock(mutex);
  if (!known->insert({&device, &other}).second)
    return;
  const Driver &driver = device.driver;
  const hip::Status enabled = driver.deviceEnablePeerAccess(other.ordinal(), 0);
  Result<void> done;
  if (enabled == hip::PeerAccessAlreadyEnabled)
    driver.getLastError();
  else
    done = device.check(enabled, "hipDeviceEnablePeerAccess");
  if (done && other.hasPool() && driver.memPoolSetAccess) { // a pool has access rights of its own
    const hip::PoolAccess access{hip::locationDevice, device.ordinal(), hip::accessReadWrite};
    done = device.check(driver.memPoolSetAccess(other.memoryPool(), &access, 1), "hipMemPoolSetAccess");
  }
  if (!done)
    log(MORTISE_WARNING, "copies between rocm:" + std::to_string(device.ordinal()) + " and rocm:" +
                             std::to_string(other.ordinal()) + " pass through the host: " + done.error().message);
}

static Result<bool> reaches(Device &device, Device &other) {
  int can = 0;
  const hip::Status asked = device.driver.deviceCanAccessPeer(&can, device.ordinal(), other.ordinal());
  if (auto done = device.check(asked, "hipDeviceCanAccessPeer"); !done)
    return done.error();
  return can != 0;
}

static Result<void> copyBetween(const MortiseCopyArgs &args, Stream &stream) {
  Device &target = Device::of(args.target_device), &source = Device::of(args.source_device);
  Device &other = &stream.device == &target ? source : target;
  Result<bool> direct = reaches(stream.device, other);
  if (!direct)
    return direct.error();
  if (*direct)
    enablePeer(stream.device, other);
  return stream.device.check(stream.device.driver.memcpyPeerAsync(pointer(args.target), target.ordinal(),
                                                                  pointer(args.source), source.ordinal(), args.bytes,
                                                                  stream.handle),
                             "hipMemcpyPeerAsync");
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
  void *target = pointer(args.target), *source = pointer(args.source);
  Result<void> done;
  // Pageable memory of the host goes through buffers of HIP's, which may make the call wait, and is right.
  if (!args.source_device)
    done = device.check(driver.memcpyHtoDAsync(target, source, args.bytes, stream.handle), "hipMemcpyHtoDAsync");
  else if (!args.target_device)
    done = device.check(driver.memcpyDtoHAsync(target, source, args.bytes, stream.handle), "hipMemcpyDtoHAsync");
  else if (args.target_device == args.source_device)
    done = device.check(driver.memcpyDtoDAsync(target, source, args.bytes, stream.handle), "hipMemcpyDtoDAsync");
  else
    done = copyBetween(args, stream);
  return done ? Result<void>() : stream.fail(done.error());
}

Result<void> findPeer(MortisePeerArgs &args) {
  args.reaches = 0;
  args.bandwidth = args.copy_ns = 0; // depends on what lies between them, which no attribute tells
  if (args.device == args.other)
    return {};
  Result<bool> direct = reaches(Device::of(args.device), Device::of(args.other));
  if (!direct)
    return direct.error();
  args.reaches = *direct;
  return {};
}

// ---- Memory of the host

Result<void> registerHost(const MortiseHostMemoryArgs &args) {
  Device &device = Device::of(args.device);
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.hostRegister(args.memory, args.bytes, hip::hostRegisterPortable),
                      "hipHostRegister");
}

Result<void> unregisterHost(const MortiseHostMemoryArgs &args) {
  Device &device = Device::of(args.device);
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.hostUnregister(args.memory), "hipHostUnregister");
}

} // namespace mortise::rocm
