// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plugin offers, compiled and called slot by slot, so that a check chooses the memory, the queue and the order
// of the calls. The runtime does the same for programs.
#pragma once

#include "stream.hpp"

#include <mortise/passes/offers.hpp>
#include <mortise/runtime/call.hpp>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace mortise::tool {

class Kernel {
public:
  // `region`: the offer's, or that with numbers for its symbols. Lives as long as the kernel. Errors: also
  // MORTISE_UNSUPPORTED, by which a plugin withdraws an offer.
  static Result<std::unique_ptr<Kernel>> compile(const passes::Offer &offer, std::shared_ptr<const Graph> region,
                                                 const MortiseCompileOptions &asked);
  ~Kernel();
  Kernel(const Kernel &) = delete;

  const runtime::Device &device;
  const std::shared_ptr<const Graph> region;

private:
  friend class Launch;
  Kernel(const runtime::Device &device, std::shared_ptr<const Graph> region)
      : device(device), region(std::move(region)) {}
  const MortisePlugin &table() const { return *device.plugin->table; }
  Result<void> describe();

  MortiseKernel *kernel = nullptr;
  std::vector<MortiseExprStep> workspace; // empty: none
};

// A kernel made ready for one set of symbol values. It outlives its calls, and the kernel outlives it.
class Launch {
public:
  static Result<std::unique_ptr<Launch>> make(const Kernel &kernel, std::vector<int64_t> symbols);
  ~Launch();
  Launch(const Launch &) = delete;

  uint64_t workspaceBytes() const { return bytes; }

  // Each call has a frame of its own, if the plugin makes frames, until the launch ends. `call` has its addresses, and
  // gets the rest. The plugin may keep none of it.
  Result<void> enqueue(Call &call, MortiseStream *stream);

private:
  explicit Launch(const Kernel &kernel) : kernel(kernel) {}
  const MortisePlugin &table() const { return kernel.table(); }

  const Kernel &kernel;
  std::vector<int64_t> symbols;
  MortiseConstants *constants = nullptr;
  MortiseInstance *instance = nullptr;
  std::vector<MortiseFrame *> frames;
  std::vector<uint64_t> unchanged;
  uint64_t bytes = 0;
};

} // namespace mortise::tool
