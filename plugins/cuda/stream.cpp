// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

#include <cmath>

namespace mortise::cuda {

// ---- Streams

Result<std::unique_ptr<Stream>> Queue::create(Device &device) {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  CUstream handle = nullptr;
  if (auto made = device.check(device.driver.streamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); !made)
    return made.error();
  return std::make_unique<Stream>(device, handle, false);
}

Result<void> Queue::destroy() {
  if (imported)
    return {};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.streamDestroy(handle), "cuStreamDestroy");
}

Result<void> Queue::synchronize() {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.streamSynchronize(handle), "cuStreamSynchronize");
}

Result<void> Queue::query() {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const CUresult found = device.driver.streamQuery(handle);
  return found == CUDA_ERROR_NOT_READY ? Result<void>() : device.check(found, "cuStreamQuery");
}

// ---- Events

Result<CUevent> Marker::handleFor(Device &device) {
  for (const auto &[owner, event] : handles)
    if (owner == &device)
      return event;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  CUevent made = nullptr;
  // With its time, which event_elapsed tells.
  if (auto done = device.check(device.driver.eventCreate(&made, CU_EVENT_DEFAULT), "cuEventCreate"); !done)
    return done.error();
  handles.push_back({&device, made});
  return made;
}

Result<void> Marker::create() {
  Result<CUevent> made = handleFor(home);
  return made ? Result<void>() : made.error();
}

Result<void> Marker::destroy() {
  Result<void> first;
  for (const auto &[device, event] : handles) {
    Result<Entered> entered = Entered::into(*device);
    Result<void> done = entered ? device->check(device->driver.eventDestroy(event), "cuEventDestroy") : entered.error();
    if (first && !done)
      first = done;
  }
  return first;
}

Result<Marker::Mark> Marker::mark(Stream &stream) {
  Result<Entered> entered = Entered::into(stream.device);
  Result<CUevent> event = entered ? handleFor(stream.device) : entered.error();
  if (!event)
    return event.error();
  const CUresult recorded = stream.device.driver.eventRecord(*event, stream.handle);
  if (auto done = stream.device.check(recorded, "cuEventRecord"); !done)
    return done.error();
  return Mark{&stream.device, *event};
}

Result<void> Marker::follow(Stream &stream, const Mark &mark) {
  Result<Entered> entered = Entered::into(stream.device);
  if (!entered)
    return entered.error();
  const CUresult queued = stream.device.driver.streamWaitEvent(stream.handle, mark.event, CU_EVENT_WAIT_DEFAULT);
  return stream.device.check(queued, "cuStreamWaitEvent");
}

Result<bool> Marker::happened(const Mark &mark) {
  Result<Entered> entered = Entered::into(*mark.device);
  if (!entered)
    return entered.error();
  const CUresult found = mark.device->driver.eventQuery(mark.event);
  if (found == CUDA_ERROR_NOT_READY)
    return false;
  if (auto done = mark.device->check(found, "cuEventQuery"); !done)
    return done.error();
  return true;
}

Result<void> Marker::await(const Mark &mark) {
  Result<Entered> entered = Entered::into(*mark.device);
  if (!entered)
    return entered.error();
  return mark.device->check(mark.device->driver.eventSynchronize(mark.event), "cuEventSynchronize");
}

Result<uint64_t> Marker::elapsed(const Mark &begin, const Mark &end) {
  Result<Entered> entered = Entered::into(*end.device);
  if (!entered)
    return entered.error();
  float milliseconds = 0;
  const CUresult asked = end.device->driver.eventElapsedTime(&milliseconds, begin.event, end.event);
  if (auto done = end.device->check(asked, "cuEventElapsedTime"); !done)
    return done.error();
  return static_cast<uint64_t>(std::llround(std::max(0.0f, milliseconds) * 1e6));
}

Error libraryError(Stream &stream, const Error &error) {
  // The library's errors do not tell whether the device is lost. The driver's do.
  Device &device = stream.device;
  const CUresult state = device.driver.streamQuery(stream.handle);
  if (state != CUDA_SUCCESS && state != CUDA_ERROR_NOT_READY)
    if (Result<void> told = device.check(state, "cuStreamQuery"); told.error().code == MORTISE_DEVICE_LOST)
      return Error{MORTISE_DEVICE_LOST, error.message + "; " + told.error().message};
  return Error{error.code, "cuda:" + std::to_string(device.ordinal()) + ": " + error.message};
}

} // namespace mortise::cuda
