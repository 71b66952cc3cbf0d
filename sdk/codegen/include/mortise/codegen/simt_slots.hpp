// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The slots that plugins share whose kernels are SimtFunctions and whose queues are those of a driver.
#pragma once

#include <mortise/codegen/simt_plugin.hpp>
#include <mortise/codegen/simt_queue.hpp>

namespace mortise::codegen {

// The slots for kernels, streams and events. `Traits` names Device and Function (compileGroups), Stream (with create()
// and destroy()), Event (likewise), Kernel (with generatedFunctions(), those of all its steps), Constants and Instance
// (SimtNumbers or what is made of it).
template <typename Self, typename Traits> class SlotsOf : public PluginAdaptor<Self> {
public:
  using Kernel = typename Traits::Kernel;
  using Constants = typename Traits::Constants;
  using Instance = typename Traits::Instance;
  using Device = typename Traits::Device;
  using Stream = typename Traits::Stream;
  using Event = typename Traits::Event;

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.usual->workspace.expr();
    kernel.usual->steps.fill(info);
    return {};
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
  // What is saved is the code. What libraries choose, and compile, is made again.
  Result<std::vector<std::byte>> save(const Kernel &kernel) {
    const auto functions = kernel.generatedFunctions();
    return savedCode<typename Traits::Function>(functions);
  }
  Result<std::unique_ptr<Kernel>> load(const MortiseCompileArgs &args) {
    const auto *saved = static_cast<const std::byte *>(args.saved);
    return withSavedCode(Device::of(args.device), {saved, args.saved_bytes},
                         [&] { return static_cast<Self &>(*this).compile(args); });
  }
  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    return kernel.enqueue(constants, instanceOf<Self>(args), args);
  }

  Result<void> streamCreate(MortiseStreamArgs &args) {
    auto made = Stream::create(Device::of(args.device));
    if (!made)
      return made.error();
    args.stream = Stream::opaque(made->release());
    return {};
  }
  Result<void> streamDestroy(MortiseStreamArgs &args) {
    Result<Stream *> stream = Stream::of(args.stream, "stream_destroy");
    if (!stream)
      return stream.error();
    return std::unique_ptr<Stream>(*stream)->destroy();
  }
  Result<void> streamWait(MortiseStreamArgs &args) { return withStream(args, "stream_wait", &Stream::wait); }
  Result<void> streamStatus(MortiseStreamArgs &args) { return withStream(args, "stream_status", &Stream::status); }
  Result<void> streamReset(MortiseStreamArgs &args) { return withStream(args, "stream_reset", &Stream::reset); }

  Result<void> eventCreate(MortiseEventArgs &args) {
    auto event = std::make_unique<Event>(Device::of(args.device));
    if (auto made = event->create(); !made)
      return made;
    args.event = reinterpret_cast<MortiseEvent *>(event.release());
    return {};
  }
  Result<void> eventDestroy(MortiseEventArgs &args) {
    return std::unique_ptr<Event>(&Event::of(args.event))->destroy();
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
    const Result<uint64_t> elapsed = Event::of(args.event).since(Event::of(args.since));
    if (!elapsed)
      return elapsed.error();
    args.elapsed_ns = *elapsed;
    return {};
  }

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

} // namespace mortise::codegen
