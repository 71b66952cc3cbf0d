// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plan's regions, compiled, and the constants bound to them.
#pragma once

#include "Arena.h"
#include <mortise/runtime/Program.h>
#include <mortise/runtime/plan_generated.h>

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
  uint64_t workspace = 0;
  std::vector<StepInfo> steps;

  const MortisePlugin &table() const { return *device->plugin->table; }

  Kernel() = default;
  Kernel(const Kernel &) = delete;
  Kernel &operator=(const Kernel &) = delete;
  ~Kernel();
};
using Kernels = std::vector<std::unique_ptr<Kernel>>;

// One kernel per region, in parallel threads. The first failure stops the others.
Result<Kernels> compileKernels(const plan::PlanT &plan, const Registry &registry);

std::string regionText(const plan::PlanT &plan, size_t region); // "region 3 (cpu.region on cpu)"

// One binding of the constant inputs. `users` counts the calls in flight and is guarded by the program's mutex.
struct Bound {
  const Kernels *kernels = nullptr;
  uint64_t number = 0;                    // tells bindings apart
  std::vector<const void *> data;         // per plan input; NULL where it is not constant
  std::vector<Block> staged;              // dense copies of constants that were not
  std::vector<MortiseConstants *> packed; // per region
  uint64_t packedBytes = 0;
  unsigned users = 0;

  Bound() = default;
  Bound(const Bound &) = delete;
  Bound &operator=(const Bound &) = delete;
  ~Bound();
};

// Has every kernel pack its constants from `bound.data` and from literals, which lie at `literals[buffer]`.
Result<void> packConstants(const plan::PlanT &plan, std::span<const std::byte *const> literals, Bound &bound);

} // namespace mortise::runtime
