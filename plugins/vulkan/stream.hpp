// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams and events with the rules of the ABI for errors: the first one of a stream stays until a reset, nothing
// further happens until then, and a mark in a failed stream counts as happened. A device has one queue, in which
// everything happens in the order of its submission, so that a stream is the number of its last submission.
#pragma once

#include "device.hpp"

#include <optional>

namespace mortise::vulkan {

class Stream {
public:
  explicit Stream(Device &device) : device(device) {}
  Stream(const Stream &) = delete;
  static MortiseStream *opaque(Stream *stream) { return reinterpret_cast<MortiseStream *>(stream); }
  // Errors: MORTISE_INVALID_ARGUMENT for NULL.
  static Result<Stream *> of(MortiseStream *handle, const char *slot);

  Result<void> wait();   // for all work, with the first error since the last reset
  Result<void> status(); // that error; waits for nothing
  Result<void> reset();  // a device that is lost stays so

  // The error that keeps work from being queued.
  Result<void> failure() const;
  // Keeps the error if it is the first, and returns it.
  Error fail(Error error);
  void follow(uint64_t submission); // it is work of this stream
  uint64_t last() const { return newest.load(); }

  Device &device;

private:
  std::atomic<uint64_t> newest = 0;
  std::atomic<bool> failed = false;
  mutable std::mutex mutex;
  Error first;
};

class Event {
public:
  static Event &of(MortiseEvent *event) { return *reinterpret_cast<Event *>(event); }
  Result<void> record(Stream &stream);
  Result<void> wait(Stream &stream);
  Result<bool> query();
  Result<void> synchronize();

private:
  struct Mark {
    Device *device = nullptr;
    uint64_t submission = 0;
    std::optional<Error> failure; // the stream had failed before the mark
  };
  std::optional<Mark> current() const;

  mutable std::mutex mutex;
  std::optional<Mark> mark;
};

} // namespace mortise::vulkan
