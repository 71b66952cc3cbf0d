// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "memory.hpp"

#include <cstring>

namespace mortise::vulkan {

// ---- Allocation

Result<void> allocate(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  if (args.space != 0)
    return Error{MORTISE_INVALID_ARGUMENT, "expected space 0, found " + std::to_string(args.space)};
  if (auto there = device.start(); !there)
    return there;
  Result<uint64_t> made = device.allocate(args.bytes);
  if (!made)
    return made.error();
  args.address = *made;
  return {};
}

// The stream's work has happened before its memory goes. Memory that may be in use stays.
Result<void> release(MortiseMemoryArgs &args) {
  Device &device = Device::of(args.device);
  if (const auto *stream = reinterpret_cast<const Stream *>(args.stream))
    if (auto waited = device.wait(stream->last()); !waited && device.alive())
      return waited;
  return device.release(args.address);
}

// ---- Copies

static std::byte *pointer(MortiseAddress address) { return reinterpret_cast<std::byte *>(address); }

Result<void> recordCopy(Device &device, const Device::Commands &commands, uint64_t target, uint64_t source,
                        uint64_t bytes) {
  Result<Allocation> to = device.at(target), from = device.at(source);
  if (!to || !from)
    return to ? from.error() : to.error();
  const VkBufferCopy region{source - from->address, target - to->address, bytes};
  device.functions().CmdCopyBuffer(commands.handle, from->buffer, to->buffer, 1, &region);
  return {};
}

static Result<void> submit(Stream &stream, Device::Commands commands) {
  Result<uint64_t> queued = stream.device.submit(std::move(commands));
  if (!queued)
    return queued.error();
  stream.follow(*queued);
  return {};
}

Result<void> upload(Stream &stream, uint64_t target, const std::byte *source, uint64_t bytes) {
  Device &device = stream.device;
  Result<Allocation> to = device.at(target);
  if (!to)
    return to.error();
  Result<bool> isIdle = device.happened(stream.last());
  if (!isIdle)
    return isIdle.error();
  if (to->mapped && *isIdle) { // nothing of this stream is before it, and submissions see what the host wrote
    std::memcpy(to->mapped + (target - to->address), source, bytes);
    return {};
  }
  Result<Allocation> between = device.staging(bytes);
  if (!between)
    return between.error();
  std::memcpy(between->mapped, source, bytes);
  Result<Device::Commands> commands = device.begin();
  if (!commands) {
    device.giveBack(*between);
    return commands.error();
  }
  commands->staging.push_back(*between);
  const VkBufferCopy region{0, target - to->address, bytes};
  device.functions().CmdCopyBuffer(commands->handle, between->buffer, to->buffer, 1, &region);
  return submit(stream, std::move(*commands));
}

// Waits: ordinary memory of the host can only be written by the host.
static Result<void> download(Stream &stream, std::byte *target, uint64_t source, uint64_t bytes) {
  Device &device = stream.device;
  Result<Allocation> from = device.at(source);
  if (!from)
    return from.error();
  if (from->mapped) {
    if (auto waited = device.wait(stream.last()); !waited)
      return waited;
    std::memcpy(target, from->mapped + (source - from->address), bytes);
    return {};
  }
  Result<Allocation> between = device.staging(bytes);
  if (!between)
    return between.error();
  Result<Device::Commands> commands = device.begin();
  Result<void> done = commands ? Result<void>() : commands.error();
  if (commands) {
    const VkBufferCopy region{source - from->address, 0, bytes};
    device.functions().CmdCopyBuffer(commands->handle, from->buffer, between->buffer, 1, &region);
    done = submit(stream, std::move(*commands));
  }
  if (done)
    done = device.wait(stream.last());
  if (done)
    std::memcpy(target, between->mapped, bytes);
  device.giveBack(*between);
  return done;
}

// Through the host.
static Result<void> copyBetween(const MortiseCopyArgs &args, Stream &stream) {
  Device &source = Device::of(args.source_device), &target = Device::of(args.target_device);
  std::vector<std::byte> between(args.bytes);
  Stream other(&stream.device == &source ? target : source); // events have ordered it
  if (&stream.device == &source) {
    if (auto done = download(stream, between.data(), args.source, args.bytes); !done)
      return done;
    if (auto done = upload(other, args.target, between.data(), args.bytes); !done)
      return done;
    return other.wait();
  }
  if (auto waited = stream.wait(); !waited)
    return waited;
  if (auto done = download(other, between.data(), args.source, args.bytes); !done)
    return done;
  return upload(stream, args.target, between.data(), args.bytes);
}

Result<void> copy(const MortiseCopyArgs &args) {
  Result<Stream *> found = Stream::of(args.stream, "copy");
  if (!found)
    return found.error();
  Stream &stream = **found;
  if (!args.target_device && !args.source_device)
    return Error{MORTISE_INVALID_ARGUMENT, "expected memory of a device on one side of the copy, found none"};
  if (auto known = stream.failure(); !known)
    return known;
  for (MortiseDevice *each : {args.target_device, args.source_device})
    if (each)
      if (auto there = Device::of(each).start(); !there)
        return stream.fail(there.error());
  Result<void> done;
  if (!args.source_device) {
    done = upload(stream, args.target, pointer(args.source), args.bytes);
  } else if (!args.target_device) {
    done = download(stream, pointer(args.target), args.source, args.bytes);
  } else if (args.target_device != args.source_device) {
    done = copyBetween(args, stream);
  } else {
    Result<Device::Commands> commands = stream.device.begin();
    done = commands ? recordCopy(stream.device, *commands, args.target, args.source, args.bytes) : commands.error();
    if (done)
      done = submit(stream, std::move(*commands));
    else if (commands)
      stream.device.drop(std::move(*commands));
  }
  return done ? Result<void>() : stream.fail(done.error());
}

} // namespace mortise::vulkan
