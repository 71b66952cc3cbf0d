// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cpu plugin's table: slots only; the work is in lowerings.cpp and kernel.cpp.
#include "device.hpp"
#include "kernel.hpp"
#include "lowerings.hpp"
#include "recycle.hpp"

namespace {
using namespace mortise;

struct CpuPlugin : PluginAdaptor<CpuPlugin> {
  static constexpr PluginIdentity identity{"cpu", "Mortise", "0.1.0"};
  using Kernel = cpu::Kernel;
  using Constants = cpu::Constants;
  using Instance = cpu::Instance;
  cpu::Options options;

  static Result<void> readOptions(const MortiseOption *list, size_t count, cpu::Options &into) {
    auto flag = [&](const char *key, bool &value) -> Result<void> {
      std::string_view found = option(list, count, key, value ? "true" : "false");
      if (found != "true" && found != "false")
        return Error{MORTISE_INVALID_ARGUMENT,
                     std::string("option ") + key + ": expected true or false, found " + std::string(found)};
      value = found == "true";
      return {};
    };
    if (std::string_view level = option(list, count, "isa", cpu::isa()); level != cpu::isa())
      if (Result<void> result = cpu::setIsa(level); !result) // refuses: the process has its level
        return result;
    if (Result<void> result = flag("fuse_activations", into.fuseActivations); !result)
      return result;
    if (Result<void> result = flag("pack_weights", into.packWeights); !result)
      return result;
    const std::string usual = std::to_string(into.hashBits);
    const std::string_view bits = option(list, count, "weight_hash_bits", usual);
    if (bits != "128" && bits != "0")
      return Error{MORTISE_INVALID_ARGUMENT, "option weight_hash_bits: expected 128 or 0, found " + std::string(bits)};
    into.hashBits = bits == "0" ? 0 : 128;
    using Stamping = cpu::Options::Stamping;
    constexpr std::string_view names[] = {"false", "true", "required"};
    std::string_view stamping = option(list, count, "stamp_layers", names[static_cast<size_t>(into.stamping)]);
    for (Stamping choice : {Stamping::No, Stamping::Yes, Stamping::Required})
      if (stamping == names[static_cast<size_t>(choice)]) {
        into.stamping = choice;
        return {};
      }
    return Error{MORTISE_INVALID_ARGUMENT,
                 "option stamp_layers: expected true, false or required, found " + std::string(stamping)};
  }

  Result<void> initialize(const MortiseInitializeArgs &args) {
    if (Result<void> result = cpu::setIsa(option(args.options, args.option_count, "isa", "native")); !result)
      return result;
    cpu::recycleLibraryMemory();
    return readOptions(args.options, args.option_count, options);
  }

  Result<std::span<const MortiseDeviceInfo *const>> devices() {
    static const MortiseDeviceInfo *const list[] = {&cpu::deviceInfo()};
    return std::span<const MortiseDeviceInfo *const>(list);
  }

  Result<void> propose(Proposal &proposal) { return cpu::propose(proposal); }

  Result<std::unique_ptr<Kernel>> compile(const MortiseCompileArgs &args) {
    if (cancelled())
      return cancelledError();
    cpu::Options chosen = options;
    if (Result<void> result = readOptions(args.options, args.option_count, chosen); !result)
      return result.error();
    return cpu::compileKernel(*args.region, chosen);
  }

  Result<std::vector<std::byte>> save(const Kernel &kernel) { return cpu::saveKernel(kernel); }

  Result<std::unique_ptr<Kernel>> load(const MortiseCompileArgs &args) {
    if (Result<void> loaded = cpu::loadFunctions({static_cast<const std::byte *>(args.saved), args.saved_bytes});
        !loaded)
      return loaded.error();
    return compile(args);
  }

  Result<void> describe(const Kernel &kernel, MortiseKernelInfo &info) {
    info.workspace = kernel.executable->workspace.expr();
    // Kernels share the process's code: equal groups are compiled once.
    const std::shared_ptr<codegen::Compiler> &code = kernel.executable->schedule.code;
    info.code_bytes = code ? code->statistics().codeBytes : 0;
    kernel.executable->steps.fill(info);
    return {};
  }

  Result<Packed<Constants>> bind(const Kernel &kernel, const MortiseAddress *inputs) {
    if (!kernel.hasConstants)
      return Packed<Constants>{};
    Result<std::unique_ptr<Constants>> made = kernel.bindConstants(inputs);
    if (!made)
      return made.error();
    const uint64_t bytes = (*made)->bound ? (*made)->bound->bytes : 0;
    return Packed<Constants>{std::move(*made), bytes};
  }

  Result<std::unique_ptr<Instance>> instantiate(const Kernel &kernel, const Constants *constants,
                                                MortiseInstanceArgs &args) {
    Result<std::unique_ptr<Instance>> made = kernel.instantiate(constants, args.symbols);
    if (!made)
      return made.error();
    args.workspace_bytes = (*made)->executable->schedule.workspaceBytes;
    args.packed_bytes = (*made)->bound->bytes;
    if ((*made)->executable->slots.empty()) // its steps are the kernel's, one by one
      (*made)->executable->steps.fill(args);
    return std::move(*made);
  }

  Result<void> enqueue(const Kernel &kernel, const Constants *constants, const MortiseEnqueueArgs &args) {
    return kernel.run(constants, instanceOf<CpuPlugin>(args), args);
  }
};
} // namespace

MORTISE_DEFINE_PLUGIN(CpuPlugin)
