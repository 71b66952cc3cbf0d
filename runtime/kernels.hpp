// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The compiled regions of a plan, and one binding of the plan's constant inputs.
#pragma once

#include "arena.hpp"
#include "symbols.hpp"
#include <mortise/runtime/device_memory.hpp>
#include <mortise/runtime/program.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mortise::runtime {

struct StepInfo {
  std::string name, lowering;
  double bytes = 0, flops = 0;
};

struct Kernel {
  const Device *device = nullptr;
  std::shared_ptr<const Graph> graph; // lives as long as the plugin's kernel
  MortiseKernel *kernel = nullptr;
  std::vector<MortiseExprStep> workspace; // empty: none
  std::vector<StepInfo> steps;
  std::vector<uint32_t> constantSpaces; // per region input; empty: all in the home
  std::string cached;                   // as RegionReport has it

  const MortisePlugin &table() const { return *device->plugin->table; }
  // The plugin makes an instance of this kernel for each set of symbol values.
  bool makesInstances() const { return device->plugin->hasInstances() && graph->view().symbol_count != 0; }

  Kernel() = default;
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;
  ~Kernel();
};
using KernelPtr = std::shared_ptr<const Kernel>;

// Fills in what kernel_info says of a kernel.
Result<void> describeKernel(Kernel &kernel);

struct CompiledRegion {
  const Device *device = nullptr;
  std::shared_ptr<const Graph> graph;
  uint32_t first = 0; // the first region with the same content: equal regions share one kernel
  KernelPtr kernel;   // NULL where the region is compiled again for each set of symbol values
  std::string name;   // regionText()
};
using Regions = std::vector<CompiledRegion>;

// Compiles all regions in parallel threads, or loads their kernels; equal regions share one kernel. The first failure
// stops the other threads.
Result<Regions> compileRegions(const plan::PlanT &plan, const Registry &registry, const LoadOptions &options);

std::vector<SavedKernel> saveKernels(const plan::PlanT &plan, const Regions &regions);

// Where a function learns that a plugin refuses a region that it offered; may be NULL. Set beside an error of
// MORTISE_UNSUPPORTED, or not at all.
using RefusedPlace = std::optional<RefusedRegion> *;
void tellRefused(RefusedPlace place, size_t region, const Error &error); // for any error of such a slot

// Compiles the regions numbered in `which` with `values` in place of the plan's symbols.
Result<std::vector<KernelPtr>> specialiseRegions(const plan::PlanT &plan, const Regions &regions,
                                                 std::span<const uint32_t> which, std::span<const int64_t> values,
                                                 const OpenedKernelCache &cache, RefusedPlace refused);

// The workspace of a kernel in bytes. Errors: MORTISE_INTERNAL (the plugin's expression has no value).
Result<uint64_t> workspaceOf(const Kernel &kernel, std::span<const int64_t> values);

// Copies the steps that a plugin reports, after checking every pointer. Errors: MORTISE_INTERNAL.
Result<std::vector<StepInfo>> readSteps(const char *slot, const MortiseStep *const *steps, size_t count);

Error inRegion(const plan::PlanT &plan, size_t region, const Error &error);
std::string regionText(const plan::PlanT &plan, size_t region); // "region 3 (cpu.region on cpu)"

struct Specialisation;

// A copy of a constant or a literal in a device's memory, for all kernels that want it there.
struct Upload {
  uint32_t buffer = 0; // of the plan
  const Device *device = nullptr;
  uint32_t space = 0;
  DeviceMemory memory;
};

// One binding of the constant inputs. `users` counts the calls in flight. The program's mutex guards `users` and
// `specialisations`.
struct Binding {
  const Regions *regions = nullptr;
  std::vector<Place> data;     // per plan input; 0 for an input that is not constant
  std::vector<Block> staged;   // dense copies of constants in host memory: of strided ones, and of what a device has
  std::vector<Upload> uploads; // in device memory
  std::vector<MortiseConstants *> packed; // per region; NULL for a region that is compiled for each set of values
  std::vector<uint64_t> workspaces;       // per region: what its constants ask for, or 0
  std::vector<MortiseAddress> copied;     // per operation of the plan, where it is a copy of a constant on a device
  uint64_t packedBytes = 0;               // held by plugins and in `uploads`
  unsigned users = 0;
  std::vector<std::shared_ptr<Specialisation>>
      specialisations; // one for each set of symbol values that calls have used

  Binding() = default;
  Binding(const Binding &) = delete;
  Binding &operator=(const Binding &) = delete;
  ~Binding();
};

// Asks the plugin to pack a kernel's constants. The sources are `binding.data` and the plan's literals, of which
// `literals` has one pointer per buffer. Copies to device memory what is neither in `binding.uploads` nor in `own`, and
// adds it to `own`.
struct Packed {
  MortiseConstants *constants = nullptr;
  uint64_t bytes = 0, workspace = 0; // bytes: held by the plugin and added to `own`
};
Result<Packed> packConstants(const plan::PlanT &plan, std::span<const std::byte *const> literals, size_t region,
                             const Kernel &kernel, const Binding &binding, std::vector<Upload> &own,
                             RefusedPlace refused);
// Packs the constants of every region that has a kernel. Those of other regions are copied to their devices, where the
// kernels of all sets of values then find them.
Result<void> packAll(const plan::PlanT &plan, std::span<const std::byte *const> literals, Binding &binding,
                     RefusedPlace refused);

// Where a constant or a literal lies in the home of a device, to which it is copied unless it is there.
Result<MortiseAddress> bringTo(const Device &device, uint32_t buffer, const plan::PlanT &plan,
                               std::span<const std::byte *const> literals, Binding &binding);

void destroyConstants(const Kernel &kernel, MortiseConstants *constants);

} // namespace mortise::runtime
