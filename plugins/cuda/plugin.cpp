// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cuda plugin's table: slots only; the work is in the other files.
#include "kernel.hpp"
#include "lowerings.hpp"
#include "memory.hpp"

#include <mortise/codegen/shared_library.hpp>
#include <mortise/codegen/simt_slots.hpp>

namespace {
using namespace mortise;

struct Traits {
  using Device = cuda::Device;
  using Stream = cuda::Stream;
  using Event = cuda::Event;
  using Function = cuda::Function;
  using Kernel = cuda::Kernel;
  using Constants = cuda::Constants;
  using Instance = cuda::Schedule;
};

struct CudaPlugin : codegen::SlotsOf<CudaPlugin, Traits> {
  static constexpr PluginIdentity identity{"cuda", "Mortise", "0.1.0"};
  cuda::Libraries libraries;
  std::string graphs = "on", products = "auto", libraryBias = "on"; // the options, where a compilation has none

  Result<void> initialize(const MortiseInitializeArgs &args) {
    libraries.driver = option(args.options, args.option_count, "driver", "libcuda.so.1");
    libraries.products = option(args.options, args.option_count, "cublaslt", cuda::anyLibrary);
    libraries.convolutions = option(args.options, args.option_count, "cudnn", cuda::anyLibrary);
    if (auto read = readChoice(args, "graphs", {"on", "off", "all"}, graphs); !read)
      return read;
    if (auto read = readChoice(args, "products", {"auto", "library"}, products); !read)
      return read;
    if (auto read = readChoice(args, "library_bias", {"on", "off"}, libraryBias); !read)
      return read;
    if (auto allowed = codegen::checkChoice("driver", libraries.driver, {"libcuda.so.1"}, "MORTISE_CUDA_DRIVER");
        !allowed)
      return allowed;
    if (auto allowed = codegen::checkChoice("cublaslt", libraries.products, {cuda::anyLibrary, cuda::noLibrary},
                                            "MORTISE_CUDA_CUBLASLT");
        !allowed)
      return allowed;
    return codegen::checkChoice("cudnn", libraries.convolutions, {cuda::anyLibrary, cuda::noLibrary},
                                "MORTISE_CUDA_CUDNN");
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() { return cuda::findDevices(libraries); }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) {
    const std::string bias(proposal.option("library_bias", libraryBias));
    if (auto known = checkOneOf("library_bias", {"on", "off"}, bias); !known)
      return known;
    return cuda::propose(proposal, bias == "on");
  }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    std::string wanted = graphs, by = products;
    if (auto read = readChoice(args, "graphs", {"on", "off", "all"}, wanted); !read)
      return read.error();
    if (auto read = readChoice(args, "products", {"auto", "library"}, by); !read)
      return read.error();
    return Kernel::compile(Device::of(args.device), *args.region, *args.compile_options,
                           graphsFor(wanted, args.compile_options->mode),
                           by == "library" ? cuda::ProductsBy::Library : cuda::ProductsBy::Either);
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

  // ---- Streams of the application

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

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) { return cuda::allocate(args); }
  Result<void> memoryFree(MortiseMemoryArgs &args) { return cuda::release(args); }
  Result<void> copy(MortiseCopyArgs &args) { return cuda::copy(args); }
  Result<void> peer(MortisePeerArgs &args) { return cuda::findPeer(args); }
  Result<void> hostRegister(MortiseHostMemoryArgs &args) { return cuda::registerHost(args); }
  Result<void> hostUnregister(MortiseHostMemoryArgs &args) { return cuda::unregisterHost(args); }

private:
  template <typename Args>
  static Result<void> readChoice(const Args &args, const std::string &name,
                                 std::initializer_list<std::string_view> values, std::string &into) {
    into = option(args.options, args.option_count, name, into);
    return checkOneOf(name, values, into);
  }
  static Result<void> checkOneOf(const std::string &name, std::initializer_list<std::string_view> values,
                                 const std::string &found) {
    std::string text;
    for (const std::string_view &value : values) {
      if (found == value)
        return {};
      text += std::string(text.empty() ? "" : &value + 1 == values.end() ? " or " : ", ") + std::string(value);
    }
    return Error{MORTISE_INVALID_ARGUMENT, "option " + name + ": expected " + text + ", found " + found};
  }
  static cuda::Graphs graphsFor(std::string_view wanted, int32_t mode) {
    if (wanted == "off" || mode == MORTISE_MODE_MAX_AUTOTUNE_NO_REPLAY)
      return cuda::Graphs::Off;
    return wanted == "all" || mode == MORTISE_MODE_REDUCE_OVERHEAD ? cuda::Graphs::Calls : cuda::Graphs::Kernels;
  }
};
} // namespace

MORTISE_DEFINE_PLUGIN(CudaPlugin)
