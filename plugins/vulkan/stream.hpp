// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams and events. A device has one queue, in which everything happens in the order of its submission, so that a
// stream is the number of its last submission, and an event the number of one.
#pragma once

#include "device.hpp"

#include <mortise/codegen/simt_queue.hpp>

#include <memory>

namespace mortise::vulkan {

class Queue {
public:
  using Device = vulkan::Device;
  static constexpr char kind[] = "vulkan";
  explicit Queue(Device &device) : device(device) {}
  Queue(const Queue &) = delete;
  static Result<std::unique_ptr<codegen::StreamOf<Queue>>> create(Device &device);
  Result<void> destroy() { return {}; }

  Result<void> synchronize() { return device.wait(last()); }
  Result<void> query();
  void follow(uint64_t submission); // it is work of this stream
  uint64_t last() const { return newest.load(); }

  Device &device;

private:
  std::atomic<uint64_t> newest = 0;
};
using Stream = codegen::StreamOf<Queue>;

class Marker {
public:
  struct Mark {
    Device *device = nullptr;
    uint64_t submission = 0;
  };
  explicit Marker(Device &) {}
  Result<void> create() { return {}; }
  Result<void> destroy() { return {}; }

  Result<Mark> mark(Stream &stream) { return Mark{&stream.device, stream.last()}; }
  static Result<void> follow(Stream &stream, const Mark &mark);
  static Result<bool> happened(const Mark &mark) { return mark.device->happened(mark.submission); }
  static Result<void> await(const Mark &mark) { return mark.device->wait(mark.submission); }
  // No clock has seen a number; profiled calls time their steps.
  static Result<uint64_t> elapsed(const Mark &, const Mark &) { return uint64_t{0}; }
};
using Event = codegen::EventOf<Stream, Marker>;

} // namespace mortise::vulkan
