// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// HIP's streams, and events that mark them.
#pragma once

#include "device.hpp"

#include <memory>
#include <vector>

namespace mortise::rocm {

class Queue {
public:
  using Device = rocm::Device;
  static constexpr char kind[] = "rocm";
  static Result<std::unique_ptr<codegen::StreamOf<Queue>>> create(Device &device);
  // Around a handle of the application, which may be 0, the default stream.
  Queue(Device &device, hip::Stream handle, bool imported) : device(device), handle(handle), imported(imported) {}
  Queue(const Queue &) = delete;
  Result<void> destroy();
  Result<void> synchronize();
  Result<void> query();

  Device &device;
  const hip::Stream handle;
  const bool imported; // the handle is the application's
};
using Stream = codegen::StreamOf<Queue>;

class Marker {
public:
  struct Mark {
    Device *device = nullptr;
    hip::Event event = nullptr;
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
  Result<hip::Event> handleFor(Device &device);

  Device &home;
  // HIP records an event in streams of its own device only, the ABI in those of any device.
  std::vector<std::pair<Device *, hip::Event>> handles;
};
using Event = codegen::EventOf<Stream, Marker>;

} // namespace mortise::rocm
