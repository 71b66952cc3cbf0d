// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One graph compiled by the plugin, as a whole.
#pragma once

#include "device.hpp"
#include "verdict.hpp"

namespace mortise::conformance {

struct Refused {
  int32_t reason = 0;
  std::string why;
};

// What a plugin offers for a graph.
struct Proposal {
  std::string lowering;
  std::vector<uint32_t> nodes;
  bool hasForms = false; // it wants layouts or spaces of the plugin's own
  double cost = 0;       // nanoseconds
  std::vector<MortiseInPlace> pairs;
};
struct Proposals {
  std::vector<Proposal> candidates;
  std::vector<std::pair<uint32_t, Refused>> refusals; // by node
};
Result<Proposals> proposalsFor(Device &device, const MortiseGraph &graph, const MortiseCompileOptions &options);

class Kernel {
public:
  // NULL when the plugin refuses, which `refused` describes then. Errors: a slot fails.
  static Result<std::unique_ptr<Kernel>> compile(Device &device, std::shared_ptr<const Graph> graph, Refused &refused);
  // From what save() gave, in place of kernel_compile.
  static Result<std::unique_ptr<Kernel>> load(Device &device, std::shared_ptr<const Graph> graph,
                                              std::span<const std::byte> saved, Refused &refused);
  ~Kernel();
  Kernel(const Kernel &) = delete;

  Result<std::vector<std::byte>> save() const;

  Device &device;
  const std::shared_ptr<const Graph> graph; // for the plugin's opset
  MortiseKernel *handle = nullptr;
  MortiseKernelInfo info{};
  std::vector<MortiseInPlace> pairs; // of the candidate
  bool deterministic = false;        // the plugin has promised equal bits for equal inputs

private:
  Kernel(Device &device, std::shared_ptr<const Graph> graph) : device(device), graph(std::move(graph)) {}
  struct Offer;
  static Result<std::unique_ptr<Kernel>> make(Device &device, std::shared_ptr<const Graph> graph,
                                              const std::span<const std::byte> *saved, Refused &refused);
  std::string described() const; // the words of kernel_info
  Result<std::optional<Offer>> propose(Refused &refused);
};

} // namespace mortise::conformance
