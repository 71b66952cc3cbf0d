// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of the driver's, and events that mark them.
#pragma once

#include "device.hpp"

#include <mortise/codegen/simt_queue.hpp>

#include <memory>

namespace mortise::cuda {

class Queue {
public:
  using Device = cuda::Device;
  static constexpr char kind[] = "cuda";
  static Result<std::unique_ptr<codegen::StreamOf<Queue>>> create(Device &device);
  // Around a handle of the application, which may be 0, the default stream.
  Queue(Device &device, CUstream handle, bool imported) : device(device), handle(handle), imported(imported) {}
  Queue(const Queue &) = delete;
  Result<void> destroy();
  Result<void> synchronize();
  Result<void> query();

  Device &device;
  const CUstream handle;
  const bool imported; // the handle is the application's
};
using Stream = codegen::StreamOf<Queue>;

class Marker {
public:
  struct Mark {
    Device *device = nullptr;
    CUevent event = nullptr;
  };
  explicit Marker(Device &device) : home(device) {}
  Marker(const Marker &) = delete;

  Result<void> create(); // in its home, so that a device which is lost says so early
  Result<void> destroy();
  Result<Mark> mark(Stream &stream);
  static Result<void> follow(Stream &stream, const Mark &mark);
  static Result<bool> happened(const Mark &mark);
  static Result<void> await(const Mark &mark);
  static Result<uint64_t> elapsed(const Mark &begin, const Mark &end);

private:
  Result<CUevent> handleFor(Device &device);

  Device &home;
  // The driver records an event in streams of its own context only, the ABI in those of any device.
  std::vector<std::pair<Device *, CUevent>> handles;
};
using Event = codegen::EventOf<Stream, Marker>;

// The error of a library's call in the stream, with the device's name, or that of a lost device.
Error libraryError(Stream &stream, const Error &error);

} // namespace mortise::cuda
