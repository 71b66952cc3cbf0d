// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan's regions, compiled, and the constants bound to them.
#pragma once

#include "arena.hpp"
#include "symbols.hpp"
#include <mortise/runtime/program.hpp>

#include <memory>
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

  const MortisePlugin &table() const { return *device->plugin->table; }
  // Wants to be made ready for each set of the symbols' values.
  bool makesInstances() const { return device->plugin->hasInstances && graph->view().symbol_count != 0; }

  Kernel() = default;
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;
  ~Kernel();
};
using KernelPtr = std::shared_ptr<const Kernel>;

struct CompiledRegion {
  const Device *device = nullptr;
  std::shared_ptr<const Graph> graph;
  uint32_t first = 0; // the first region with the same content: equal regions share one kernel
  KernelPtr kernel;   // NULL where it is compiled for each set of values
};
using Regions = std::vector<CompiledRegion>;

// One kernel for equal regions, in parallel threads. The first failure stops the others.
Result<Regions> compileRegions(const plan::PlanT &plan, const Registry &registry);

// Kernels of `which` regions for numbers in place of symbols.
Result<std::vector<KernelPtr>> specialiseRegions(const plan::PlanT &plan, const Regions &regions,
                                                 std::span<const uint32_t> which, std::span<const int64_t> values);

// Bytes that a kernel's calls need. Errors: MORTISE_INTERNAL (no size).
Result<uint64_t> workspaceOf(const Kernel &kernel, std::span<const int64_t> values);

// What a plugin says of its steps, believed once it has been read. Errors: MORTISE_INTERNAL.
Result<std::vector<StepInfo>> readSteps(const char *slot, const MortiseStep *const *steps, size_t count);

Error inRegion(const plan::PlanT &plan, size_t region, const Error &error);
std::string regionText(const plan::PlanT &plan, size_t region); // "region 3 (cpu.region on cpu)"

struct Ready;

// One binding of the constant inputs. `users` counts the calls in flight; it and `ready` are guarded by the program's
// mutex.
struct Bound {
  const Regions *regions = nullptr;
  std::vector<const void *> data;         // per plan input; NULL where it is not constant
  std::vector<Block> staged;              // dense copies of constants that were not
  std::vector<MortiseConstants *> packed; // per region; NULL where it is specialised
  uint64_t packedBytes = 0;
  unsigned users = 0;
  std::vector<std::shared_ptr<Ready>> ready; // sets of values that calls have met

  Bound() = default;
  Bound(const Bound &) = delete;
  Bound &operator=(const Bound &) = delete;
  ~Bound();
};

// Has a kernel pack its constants from `bound.data` and from literals, which lie at `literals[buffer]`.
struct Packed {
  MortiseConstants *constants = nullptr;
  uint64_t bytes = 0;
};
Result<Packed> packConstants(const plan::PlanT &plan, std::span<const std::byte *const> literals, size_t region,
                             const Kernel &kernel, const Bound &bound);
// For every region that has its kernel already.
Result<void> packAll(const plan::PlanT &plan, std::span<const std::byte *const> literals, Bound &bound);

void destroyConstants(const Kernel &kernel, MortiseConstants *constants);

} // namespace mortise::runtime
