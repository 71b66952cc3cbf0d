// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The vulkan plugin's table: slots only; the work is in the other files.
#include "kernel.hpp"
#include "lowerings.hpp"
#include "memory.hpp"

#include <mortise/codegen/shared_library.hpp>
#include <mortise/codegen/simt_slots.hpp>

namespace {
using namespace mortise;

struct Traits {
  using Device = vulkan::Device;
  using Stream = vulkan::Stream;
  using Event = vulkan::Event;
  using Function = vulkan::Function;
  using Kernel = vulkan::Kernel;
  using Constants = codegen::BoundInputs;
  using Instance = codegen::SimtNumbers;
};

struct VulkanPlugin : codegen::SlotsOf<VulkanPlugin, Traits> {
  static constexpr PluginIdentity identity{"vulkan", "Mortise", "0.1.0"};
  vulkan::Choice choice;

  Result<void> initialize(const MortiseInitializeArgs &args) {
    choice.loader = option(args.options, args.option_count, "loader", "libvulkan.so.1");
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
    if (auto asked = choose("matrices", "on", "off", choice.reliance.matrices); !asked)
      return asked;
    return codegen::checkChoice("loader", choice.loader, {"libvulkan.so.1"}, "MORTISE_VULKAN_LOADER");
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() { return vulkan::findDevices(choice); }

  // ---- Compilation

  Result<void> propose(Proposal &proposal) { return vulkan::propose(proposal); }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    return Kernel::compile(vulkan::Device::of(args.device), *args.region);
  }

  // The host has copied the constants to the device, and keeps them there.
  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    if (!kernel.hasConstants())
      return Packed<Constants>{};
    return Packed<Constants>{kernel.bind(inputs), 0};
  }

  // ---- Memory

  Result<void> memoryAllocate(MortiseMemoryArgs &args) { return vulkan::allocate(args); }
  Result<void> memoryFree(MortiseMemoryArgs &args) { return vulkan::release(args); }
  Result<void> copy(MortiseCopyArgs &args) { return vulkan::copy(args); }
};
} // namespace

MORTISE_DEFINE_PLUGIN(VulkanPlugin)
