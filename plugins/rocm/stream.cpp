// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

#include <cmath>

namespace mortise::rocm {

// ---- Streams

Result<std::unique_ptr<Stream>> Queue::create(Device &device) {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  hip::Stream handle = nullptr;
  if (auto made = device.check(device.driver.streamCreate(&handle, hip::streamNonBlocking), "hipStreamCreateWithFlags");
      !made)
    return made.error();
  return std::make_unique<Stream>(device, handle, false);
}

Result<void> Queue::destroy() {
  if (imported)
    return {};
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.streamDestroy(handle), "hipStreamDestroy");
}

Result<void> Queue::synchronize() {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  return device.check(device.driver.streamSynchronize(handle), "hipStreamSynchronize");
}

Result<void> Queue::query() {
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  const Result<bool> asked = device.checkReady(device.driver.streamQuery(handle), "hipStreamQuery");
  return asked ? Result<void>() : asked.error();
}

// ---- Events

Result<hip::Event> Marker::handleFor(Device &device) {
  for (const auto &[owner, event] : handles)
    if (owner == &device)
      return event;
  Result<Entered> entered = Entered::into(device);
  if (!entered)
    return entered.error();
  hip::Event made = nullptr;
  // With its time, which event_elapsed tells.
  if (auto done = device.check(device.driver.eventCreate(&made, hip::eventDefault), "hipEventCreateWithFlags"); !done)
    return done.error();
  handles.push_back({&device, made});
  return made;
}

Result<void> Marker::create() {
  Result<hip::Event> made = handleFor(home);
  return made ? Result<void>() : made.error();
}

Result<void> Marker::destroy() {
  Result<void> first;
  for (const auto &[device, event] : handles) {
    Result<Entered> entered = Entered::into(*device);
    Result<void> done =
        entered ? device->check(device->driver.eventDestroy(event), "hipEventDestroy") : entered.error();
    if (first && !done)
      first = done;
  }
  return first;
}

Result<Marker::Mark> Marker::mark(Stream &stream) {
  Result<Entered> entered = Entered::into(stream.device);
  Result<hip::Event> event = entered ? handleFor(stream.device) : entered.error();
  if (!event)
    return event.error();
  const hip::Status recorded = stream.device.driver.eventRecord(*event, stream.handle);
  if (auto done = stream.device.check(recorded, "hipEventRecord"); !done)
    return done.error();
  return Mark{&stream.device, *event};
}

Result<void> Marker::follow(Stream &stream, const Mark &mark) {
  Result<Entered> entered = Entered::into(stream.device);
  if (!entered)
    return entered.error();
  const hip::Status queued = stream.device.driver.streamWaitEvent(stream.handle, mark.event, 0);
  return stream.device.check(queued, "hipStreamWaitEvent");
}

Result<bool> Marker::happened(const Mark &mark) {
  Result<Entered> entered = Entered::into(*mark.device);
  if (!entered)
    return entered.error();
  return mark.device->checkReady(mark.device->driver.eventQuery(mark.event), "hipEventQuery");
}

Result<void> Marker::await(const Mark &mark) {
  Result<Entered> entered = Entered::into(*mark.device);
  if (!entered)
    return entered.error();
  return mark.device->check(mark.device->driver.eventSynchronize(mark.event), "hipEventSynchronize");
}

Result<uint64_t> Marker::elapsed(const Mark &begin, const Mark &end) {
  Result<Entered> entered = Entered::into(*end.device);
  if (!entered)
    return entered.error();
  float milliseconds = 0;
  const hip::Status asked = end.device->driver.eventElapsedTime(&milliseconds, begin.event, end.event);
  if (auto done = end.device->check(asked, "hipEventElapsedTime"); !done)
    return done.error();
  return static_cast<uint64_t>(std::llround(std::max(0.0f, milliseconds) * 1e6));
}

} // namespace mortise::rocm
