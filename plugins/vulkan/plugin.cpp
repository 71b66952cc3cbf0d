// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vulkan plugin's table: slots only; the work is in the other files.
#include "kernel.hpp"
#include "lowerings.hpp"
#include "memory.hpp"

#include <cstdlib>

namespace {
using namespace mortise;
using vulkan::Device;
using vulkan::Event;
using vulkan::Stream;

struct VulkanPlugin : PluginAdaptor<VulkanPlugin> {
  static constexpr PluginIdentity identity{"vulkan", "Mortise", "0.1.0"};
  using Kernel = vulkan::Kernel;
  using Constants = vulkan::Constants;
  using Instance = vulkan::Schedule;
  vulkan::Choice choice;

  // The loader's code runs in the process. A project's settings may come with a clone and must not choose it, so that
  // another one has to be the environment's.
  Result<void> initialize(const MortiseInitializeArgs &args) {
    static constexpr char usual[] = "libvulkan.so.1", variable[] = "MORTISE_VULKAN_LOADER";
    choice.loader = option(args.options, args.option_count, "loader", usual);
    choice.device = option(args.options, args.option_count, "device", "");
    const auto choose = [&](const char *name, const char *yes, const char *no, bool &chosen) -> Result<void> {
      const std::string found(option(args.options, args.option_count, name, yes));
      chosen = found == yes;
      if (chosen || found == no)
        return {};
      return Error{MORTISE_INVALID_ARGUMENT,
                   std::string("option ") + name + ": expected " + yes + " or " + no + ", found " + found};
    };
    if (auto asked = choose("arithmetic", "known", "promised", choice.reliance.arithmetic); !asked)
      return asked;
    if (auto asked = choose("subgroups", "on", "off", choice.reliance.subgroups); !asked)
      return asked;
    const char *chosen = std::getenv(variable);
    if (choice.loader == usual || choice.loader == (chosen ? chosen : ""))
      return {};
    return Error{MORTISE_INVALID_ARGUMENT, std::string("option loader: expected ") + usual + " or the value of " +
                                               variable + ", found " + choice.loader +
                                               " from elsewhere; set the environment variable instead"};
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() { return vulkan::findDevices(choice); }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) { return vulkan::propose(proposal); }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    return Kernel::compile(Device::of(args.device), *args.region);
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.usual->workspace.expr();
    kernel.usual->steps.fill(info);
    return {};
  }

  // The host has copied the constants to the device, and keeps them there.
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    if (!kernel.hasConstants())
      return Packed<Constants>{};
    auto constants = std::make_unique<Constants>();
    constants->inputs.assign(inputs, inputs + kernel.inputCount());
    return Packed<Constants>{std::move(constants), 0};
  }

  Result<std::unique_ptr<Instance>> instantiate(const Kernel &kernel, const Constants *, MortiseInstanceArgs &args) {
    auto made = kernel.scheduleFor({args.symbols, kernel.symbolCount()});
    if (!made)
      return made.error();
    args.workspace_bytes = (*made)->workspaceBytes;
    args.packed_bytes = 0;
    (*made)->steps.fill(args);
    return made;
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    return kernel.enqueue(constants, instanceOf<VulkanPlugin>(args), args);
  }

  // ---- Streams and events

  Result<void> streamCreate(MortiseStreamArgs &args) {
    args.stream = Stream::opaque(new Stream(Device::of(args.device)));
    return {};
  }
  Result<void> streamDestroy(MortiseStreamArgs &args) {
    Result<Stream *> stream = Stream::of(args.stream, "stream_destroy");
    if (!stream)
      return stream.error();
    delete *stream;
    return {};
  }
  Result<void> streamWait(MortiseStreamArgs &args) { return withStream(args, "stream_wait", &Stream::wait); }
  Result<void> streamStatus(MortiseStreamArgs &args) { return withStream(args, "stream_status", &Stream::status); }
  Result<void> streamReset(MortiseStreamArgs &args) { return withStream(args, "stream_reset", &Stream::reset); }

  Result<void> eventCreate(MortiseEventArgs &args) {
    args.event = reinterpret_cast<MortiseEvent *>(new Event);
    return {};
  }
  Result<void> eventDestroy(MortiseEventArgs &args) {
    delete &Event::of(args.event);
    return {};
  }
  Result<void> eventRecord(MortiseEventArgs &args) { return withStream(args, "event_record", &Event::record); }
  Result<void> eventWait(MortiseEventArgs &args) { return withStream(args, "event_wait", &Event::wait); }
  Result<void> eventQuery(MortiseEventArgs &args) {
    const Result<bool> happened = Event::of(args.event).query();
    args.happened = !happened || *happened; // what has failed has happened
    return happened ? Result<void>() : happened.error();
  }
  Result<void> eventSynchronize(MortiseEventArgs &args) { return Event::of(args.event).synchronize(); }
  Result<void> eventElapsed(MortiseEventArgs &args) {
    args.elapsed_ns = 0; // events are numbers, which no clock has seen; profiled calls time their steps
    return {};
  }

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) { return vulkan::allocate(args); }
  Result<void> memoryFree(MortiseMemoryArgs &args) { return vulkan::release(args); }
  Result<void> copy(MortiseCopyArgs &args) { return vulkan::copy(args); }

private:
  static Result<void> withStream(MortiseStreamArgs &args, const char *slot, Result<void> (Stream::*body)()) {
    Result<Stream *> stream = Stream::of(args.stream, slot);
    return stream ? ((*stream)->*body)() : stream.error();
  }
  static Result<void> withStream(MortiseEventArgs &args, const char *slot, Result<void> (Event::*body)(Stream &)) {
    Result<Stream *> stream = Stream::of(args.stream, slot);
    return stream ? (Event::of(args.event).*body)(**stream) : stream.error();
  }
};
} // namespace

MORTISE_DEFINE_PLUGIN(VulkanPlugin)
