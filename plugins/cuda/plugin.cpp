// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cuda plugin's table: slots only; the work is in the other files.
#include "kernel.hpp"
#include "lowerings.hpp"
#include "memory.hpp"

#include <algorithm>
#include <cstdlib>

namespace {
using namespace mortise;
using cuda::Device;
using cuda::Event;
using cuda::Stream;

struct CudaPlugin : PluginAdaptor<CudaPlugin> {
  static constexpr PluginIdentity identity{"cuda", "Mortise", "0.1.0"};
  using Kernel = cuda::Kernel;
  using Constants = cuda::Constants;
  using Instance = cuda::Schedule;
  cuda::Libraries libraries;
  std::string graphs = "on"; // the option, where a compilation has none

  // Code runs from the libraries that the options name. A project's settings may come with a clone and must not choose
  // them, so that a path has to be the environment's.
  Result<void> initialize(const MortiseInitializeArgs &args) {
    libraries.driver = option(args.options, args.option_count, "driver", "libcuda.so.1");
    libraries.products = option(args.options, args.option_count, "cublaslt", cuda::anyLibrary);
    libraries.convolutions = option(args.options, args.option_count, "cudnn", cuda::anyLibrary);
    if (auto read = readGraphs(args, graphs); !read)
      return read;
    if (auto allowed = checkPath("driver", libraries.driver, {"libcuda.so.1"}, "MORTISE_CUDA_DRIVER"); !allowed)
      return allowed;
    if (auto allowed =
            checkPath("cublaslt", libraries.products, {cuda::anyLibrary, cuda::noLibrary}, "MORTISE_CUDA_CUBLASLT");
        !allowed)
      return allowed;
    return checkPath("cudnn", libraries.convolutions, {cuda::anyLibrary, cuda::noLibrary}, "MORTISE_CUDA_CUDNN");
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() { return cuda::findDevices(libraries); }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) { return cuda::propose(proposal); }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    std::string wanted = graphs;
    if (auto read = readGraphs(args, wanted); !read)
      return read.error();
    return Kernel::compile(Device::of(args.device), *args.region, *args.compile_options,
                           graphsFor(wanted, args.compile_options->mode));
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
    Result<std::unique_ptr<Constants>> constants = kernel.bind(inputs);
    if (!constants)
      return constants.error();
    const uint64_t bytes = (*constants)->packedBytes;
    return Packed<Constants>{std::move(*constants), bytes};
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
    return kernel.enqueue(constants, instanceOf<CudaPlugin>(args), args);
  }

  // ---- Streams and events

  Result<void> streamCreate(MortiseStreamArgs &args) {
    auto made = Stream::create(Device::of(args.device));
    if (!made)
      return made.error();
    args.stream = Stream::opaque(made->release());
    return {};
  }
  Result<void> streamImport(MortiseStreamArgs &args) {
    args.stream = Stream::opaque(new Stream(Device::of(args.device), pointer<CUstream_st>(args.native), true));
    return {};
  }
  Result<void> streamExport(MortiseStreamArgs &args) {
    Result<Stream *> stream = Stream::of(args.stream, "stream_export");
    if (!stream)
      return stream.error();
    args.native = addressOf((*stream)->handle);
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

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) { return cuda::allocate(args); }
  Result<void> memoryFree(MortiseMemoryArgs &args) { return cuda::release(args); }
  Result<void> copy(MortiseCopyArgs &args) { return cuda::copy(args); }
  Result<void> peer(MortisePeerArgs &args) { return cuda::findPeer(args); }
  Result<void> hostRegister(MortiseHostMemoryArgs &args) { return cuda::registerHost(args); }
  Result<void> hostUnregister(MortiseHostMemoryArgs &args) { return cuda::unregisterHost(args); }

private:
  template <typename Args> static Result<void> readGraphs(const Args &args, std::string &into) {
    into = option(args.options, args.option_count, "graphs", into);
    if (into == "on" || into == "off" || into == "all")
      return {};
    return Error{MORTISE_INVALID_ARGUMENT, "option graphs: expected on, off or all, found " + into};
  }
  static cuda::Graphs graphsFor(std::string_view wanted, int32_t mode) {
    if (wanted == "off" || mode == MORTISE_MODE_MAX_AUTOTUNE_NO_REPLAY)
      return cuda::Graphs::Off;
    return wanted == "all" || mode == MORTISE_MODE_REDUCE_OVERHEAD ? cuda::Graphs::Calls : cuda::Graphs::Kernels;
  }
  static Result<void> checkPath(const char *name, const std::string &value,
                                std::initializer_list<std::string_view> usual, const char *variable) {
    const char *chosen = std::getenv(variable);
    if (std::ranges::find(usual, value) != usual.end() || value == (chosen ? chosen : ""))
      return {};
    std::string expected;
    for (const std::string_view each : usual)
      expected += std::string(each) + ", ";
    return Error{MORTISE_INVALID_ARGUMENT, "option " + std::string(name) + ": expected " + expected +
                                               "or the value of " + variable + ", found " + value +
                                               " from elsewhere; set the environment variable instead"};
  }
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

MORTISE_DEFINE_PLUGIN(CudaPlugin)
