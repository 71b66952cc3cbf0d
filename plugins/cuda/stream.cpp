// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

#include <cmath>

namespace mortise::cuda {

// ---- Streams

Result<std::unique_ptr<Stream>> Stream::create(Device &device) {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  CUstream handle = nullptr;
  if (auto made = device.check(device.driver.streamCreate(&handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"); !made)
    return made.error();
  return std::make_unique<Stream>(device, handle, false);
}

Result<Stream *> Stream::of(MortiseStream *handle, const char *slot) {
  if (!handle)
    return Error{MORTISE_INVALID_ARGUMENT,
                 std::string(slot) + ": expected a stream, found NULL; devices of kind cuda have streams, make one "
                                     "with stream_create"};
  return reinterpret_cast<Stream *>(handle);
}

Result<void> Stream::destroy() {
  if (imported)
    return {};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.streamDestroy(handle), "cuStreamDestroy");
}

Result<void> Stream::failure() const {
  if (failed) {
    std::lock_guard lock(mutex);
    if (failed)
      return first;
  }
  return device.alive();
}

Error Stream::fail(Error error) {
  std::lock_guard lock(mutex);
  if (!failed)
    first = std::move(error);
  failed = true;
  return first;
}

Result<void> Stream::wait() {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return fail(entered.error());
  // Also behind an error: what was queued before it has to have happened.
  if (auto done = device.check(device.driver.streamSynchronize(handle), "cuStreamSynchronize"); !done)
    return fail(done.error());
  return failure();
}

Result<void> Stream::status() {
  if (auto known = failure(); !known)
    return known;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return fail(entered.error());
  const CUresult found = device.driver.streamQuery(handle);
  if (found == CUDA_ERROR_NOT_READY)
    return {};
  if (auto asked = device.check(found, "cuStreamQuery"); !asked)
    return fail(asked.error());
  return {};
}

Result<void> Stream::reset() {
  if (auto alive = device.alive(); !alive)
    return alive;
  std::lock_guard lock(mutex);
  failed = false;
  return {};
}

// ---- Events

Result<CUevent> Event::handleFor(Device &device) {
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

Result<void> Event::create() {
  std::lock_guard lock(mutex);
  Result<CUevent> made = handleFor(home);
  return made ? Result<void>() : made.error();
}

Result<void> Event::destroy() {
  Result<void> first;
  for (const auto &[device, event] : handles) {
    Result<Entered> entered = Entered::into(*device);
    Result<void> done = entered ? device->check(device->driver.eventDestroy(event), "cuEventDestroy") : entered.error();
    if (first && !done)
      first = done;
  }
  return first;
}

std::optional<Event::Mark> Event::current() const {
  std::lock_guard lock(mutex);
  return mark;
}

Result<void> Event::record(Stream &stream) {
  std::lock_guard lock(mutex);
  if (auto known = stream.failure(); !known) {
    mark = Mark{&stream.device, nullptr, known.error()};
    return {};
  }
  Result<Entered> entered = Entered::into(stream.device);
  Result<CUevent> event = entered ? handleFor(stream.device) : entered.error();
  Result<void> done =
      event ? stream.device.check(stream.device.driver.eventRecord(*event, stream.handle), "cuEventRecord")
            : event.error();
  if (!done) { // without a mark, those who wait would not wait
    mark = Mark{&stream.device, nullptr, stream.fail(done.error())};
    return mark->failure.value();
  }
  mark = Mark{&stream.device, *event, std::nullopt};
  return {};
}

Result<void> Event::wait(Stream &stream) {
  const std::optional<Mark> waited = current();
  if (!waited)
    return {};
  if (waited->failure) {
    stream.fail(*waited->failure); // the next wait for the stream returns it
    return {};
  }
  if (!stream.failure())
    return {};
  Result<Entered> entered = Entered::into(stream.device);
  if (!entered)
    return stream.fail(entered.error());
  const CUresult queued = stream.device.driver.streamWaitEvent(stream.handle, waited->event, CU_EVENT_WAIT_DEFAULT);
  if (auto done = stream.device.check(queued, "cuStreamWaitEvent"); !done)
    return stream.fail(done.error());
  return {};
}

Result<bool> Event::query() {
  const std::optional<Mark> asked = current();
  if (!asked)
    return true;
  if (asked->failure)
    return *asked->failure;
  Result<Entered> entered = Entered::into(*asked->device);
  if (!entered)
    return entered.error();
  const CUresult found = asked->device->driver.eventQuery(asked->event);
  if (found == CUDA_ERROR_NOT_READY)
    return false;
  if (auto done = asked->device->check(found, "cuEventQuery"); !done)
    return done.error();
  return true;
}

Result<void> Event::synchronize() {
  const std::optional<Mark> awaited = current(); // not under the lock: others may ask while this thread waits
  if (!awaited)
    return {};
  if (awaited->failure)
    return *awaited->failure;
  Result<Entered> entered = Entered::into(*awaited->device);
  if (!entered)
    return entered.error();
  return awaited->device->check(awaited->device->driver.eventSynchronize(awaited->event), "cuEventSynchronize");
}

Result<uint64_t> Event::since(Event &earlier) {
  const std::optional<Mark> end = current(), begin = earlier.current();
  if (!end || !begin || !end->event || !begin->event || end->device != begin->device)
    return uint64_t{0}; // clocks of two devices do not compare
  Result<Entered> entered = Entered::into(*end->device);
  if (!entered)
    return entered.error();
  float milliseconds = 0;
  const CUresult asked = end->device->driver.eventElapsedTime(&milliseconds, begin->event, end->event);
  if (auto done = end->device->check(asked, "cuEventElapsedTime"); !done)
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
