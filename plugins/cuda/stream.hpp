// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams and events with the rules of the ABI for errors: the first one of a stream stays until a reset, nothing
// further happens until then, and a mark in a failed stream counts as happened.
#pragma once

#include "device.hpp"

#include <memory>
#include <optional>

namespace mortise::cuda {

class Stream {
public:
  static Result<std::unique_ptr<Stream>> create(Device &device);
  // Around a handle of the application, which may be 0, the default stream.
  Stream(Device &device, CUstream handle, bool imported) : device(device), handle(handle), imported(imported) {}
  Stream(const Stream &) = delete;
  static MortiseStream *opaque(Stream *stream) { return reinterpret_cast<MortiseStream *>(stream); }
  // Errors: MORTISE_INVALID_ARGUMENT for NULL.
  static Result<Stream *> of(MortiseStream *handle, const char *slot);

  Result<void> destroy();
  Result<void> wait();   // for all work, with the first error since the last reset
  Result<void> status(); // that error; waits for nothing
  Result<void> reset();  // a device that is lost stays so

  // The error that keeps work from being queued, as far as it is known without asking the driver.
  Result<void> failure() const;
  // Keeps the error if it is the first, and returns it.
  Error fail(Error error);

  Device &device;
  const CUstream handle;
  const bool imported; // the handle is the application's

private:
  std::atomic<bool> failed = false;
  mutable std::mutex mutex;
  Error first;
};

class Event {
public:
  explicit Event(Device &device) : home(device) {}
  Event(const Event &) = delete;
  static Event &of(MortiseEvent *event) { return *reinterpret_cast<Event *>(event); }

  Result<void> create(); // in its home, so that a device which is lost says so early
  Result<void> destroy();
  Result<void> record(Stream &stream);
  Result<void> wait(Stream &stream);
  Result<bool> query();
  Result<void> synchronize();
  Result<uint64_t> since(Event &earlier);

private:
  struct Mark {
    Device *device = nullptr;
    CUevent event = nullptr;
    std::optional<Error> failure; // the stream had failed before the mark
  };
  Result<CUevent> handleFor(Device &device);
  std::optional<Mark> current() const;

  Device &home;
  mutable std::mutex mutex;
  // The driver records an event in streams of its own context only, the ABI in those of any device.
  std::vector<std::pair<Device *, CUevent>> handles;
  std::optional<Mark> mark;
};

// The error of a library's call in the stream, with the device's name, or that of a lost device.
Error libraryError(Stream &stream, const Error &error);

} // namespace mortise::cuda
