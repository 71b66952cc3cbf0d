// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

namespace mortise::vulkan {

// ---- Streams

Result<Stream *> Stream::of(MortiseStream *handle, const char *slot) {
  if (!handle)
    return Error{MORTISE_INVALID_ARGUMENT,
                 std::string(slot) + ": expected a stream, found NULL; devices of kind vulkan have streams, make one "
                                     "with stream_create"};
  return reinterpret_cast<Stream *>(handle);
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

void Stream::follow(uint64_t submission) {
  uint64_t before = newest.load();
  while (before < submission && !newest.compare_exchange_weak(before, submission)) {
  }
}

Result<void> Stream::wait() {
  // Also behind an error: what was queued before it has to have happened.
  if (auto done = device.wait(last()); !done)
    return fail(done.error());
  return failure();
}

Result<void> Stream::status() {
  if (auto known = failure(); !known)
    return known;
  if (auto asked = device.happened(last()); !asked)
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

std::optional<Event::Mark> Event::current() const {
  std::lock_guard lock(mutex);
  return mark;
}

Result<void> Event::record(Stream &stream) {
  Mark made{&stream.device, stream.last(), std::nullopt};
  if (auto known = stream.failure(); !known)
    made.failure = known.error();
  std::lock_guard lock(mutex);
  mark = std::move(made);
  return {};
}

Result<void> Event::wait(Stream &stream) {
  const std::optional<Mark> awaited = current();
  if (!awaited)
    return {};
  if (awaited->failure) {
    stream.fail(*awaited->failure); // the next wait for the stream returns it
    return {};
  }
  if (!stream.failure())
    return {};
  if (awaited->device == &stream.device) { // what is queued later happens later
    stream.follow(awaited->submission);
    return {};
  }
  if (auto done = awaited->device->wait(awaited->submission); !done) // devices share no semaphores
    return stream.fail(done.error());
  return {};
}

Result<bool> Event::query() {
  const std::optional<Mark> asked = current();
  if (!asked)
    return true;
  if (asked->failure)
    return *asked->failure;
  return asked->device->happened(asked->submission);
}

Result<void> Event::synchronize() {
  const std::optional<Mark> awaited = current(); // not under the lock: others may ask while this thread waits
  if (!awaited)
    return {};
  if (awaited->failure)
    return *awaited->failure;
  return awaited->device->wait(awaited->submission);
}

} // namespace mortise::vulkan
