// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams of devices, and what a call of a kernel is given.
#pragma once

#include <mortise/runtime/registry.hpp>

#include <utility>
#include <vector>

namespace mortise::tool {

// What a call is given. Its lists are a copy, which may be changed when the kernel has been enqueued.
struct Call {
  std::vector<MortiseAddress> inputs, outputs;
  MortiseAddress workspace = 0;
  std::vector<int64_t> symbols;
  MortiseEnqueueArgs args{};
};

// A stream of a device, or NULL on a device without streams.
class Stream {
public:
  static Result<Stream> create(const runtime::Device &device);
  Stream(Stream &&other) noexcept : device(other.device), stream(std::exchange(other.stream, nullptr)) {}
  ~Stream(); // waits first: no work is in flight on a stream that ends
  MortiseStream *get() const { return stream; }
  Result<void> wait() const;

private:
  explicit Stream(const runtime::Device &device) : device(&device) {}
  const runtime::Device *device;
  MortiseStream *stream = nullptr;
};

} // namespace mortise::tool
