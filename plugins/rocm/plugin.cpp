// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The rocm plugin's table: slots only; the work is in the other files.
#include "kernel.hpp"
#include "lowerings.hpp"
#include "memory.hpp"

#include <mortise/codegen/shared_library.hpp>
#include <mortise/codegen/simt_slots.hpp>

namespace {
using namespace mortise;

struct Traits {
  using Device = rocm::Device;
  using Stream = rocm::Stream;
  using Event = rocm::Event;
  using Function = rocm::Function;
  using Kernel = rocm::Kernel;
  using Constants = codegen::BoundInputs;
  using Instance = codegen::SimtNumbers;
};

struct RocmPlugin : codegen::SlotsOf<RocmPlugin, Traits> {
  static constexpr PluginIdentity identity{"rocm", "Mortise", "0.1.0"};
  std::string driver;

  Result<void> initialize(const MortiseInitializeArgs &args) {
    driver = option(args.options, args.option_count, "driver", rocm::anyLibrary);
    return codegen::checkChoice("driver", driver, {rocm::anyLibrary}, "MORTISE_ROCM_DRIVER");
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() { return rocm::findDevices(driver); }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) { return rocm::propose(proposal); }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    return Kernel::compile(Device::of(args.device), *args.region);
  }

  // The host has copied the constants to the device, and keeps them there.
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    if (!kernel.hasConstants())
      return Packed<Constants>{};
    return Packed<Constants>{kernel.bind(inputs), 0};
  }

  // ---- Streams of the application

  Result<void> streamImport(MortiseStreamArgs &args) {
    auto *native = reinterpret_cast<rocm::hip::Stream>(args.native);
    args.stream = Stream::opaque(new Stream(Device::of(args.device), native, true));
    return {};
  }
  Result<void> streamExport(MortiseStreamArgs &args) {
    Result<Stream *> stream = Stream::of(args.stream, "stream_export");
    if (!stream)
      return stream.error();
    args.native = reinterpret_cast<MortiseAddress>((*stream)->handle);
    return {};
  }

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) { return rocm::allocate(args); }
  Result<void> memoryFree(MortiseMemoryArgs &args) { return rocm::release(args); }
  Result<void> copy(MortiseCopyArgs &args) { return rocm::copy(args); }
  Result<void> peer(MortisePeerArgs &args) { return rocm::findPeer(args); }
  Result<void> hostRegister(MortiseHostMemoryArgs &args) { return rocm::registerHost(args); }
  Result<void> hostUnregister(MortiseHostMemoryArgs &args) { return rocm::unregisterHost(args); }
};
} // namespace

MORTISE_DEFINE_PLUGIN(RocmPlugin)
