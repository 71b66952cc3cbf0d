// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "stream.hpp"

#include <mortise/runtime/device_memory.hpp>

namespace mortise::tool {

Result<Stream> Stream::create(const runtime::Device &device) {
  Stream made(device);
  if (!device.plugin->hasStreams())
    return made;
  MortiseStreamArgs args{};
  if (auto called = runtime::callOn(device, "stream_create", device.plugin->table->stream_create, args); !called)
    return called.error();
  made.stream = args.stream;
  if (!args.stream)
    return Error{MORTISE_INTERNAL, "stream_create: expected a stream or a status, found neither"};
  return made;
}

Result<void> Stream::wait() const {
  MortiseStreamArgs args{};
  args.stream = stream;
  return stream ? runtime::callOn(*device, "stream_wait", device->plugin->table->stream_wait, args) : Result<void>();
}

Stream::~Stream() {
  if (!stream)
    return;
  (void)wait();
  MortiseStreamArgs args{};
  args.stream = stream;
  (void)runtime::callOn(*device, "stream_destroy", device->plugin->table->stream_destroy, args);
}

} // namespace mortise::tool
