// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Biases that the library of products does not add.
#pragma once

#include "rewriting.hpp"

namespace mortise::cuda {

// Exchanges linears whose bias the library is not proved to add before it rounds: it stores their product in f32, and a
// group adds the bias.
class WideBiases : public RegionRewriter {
public:
  explicit WideBiases(std::span<const uint32_t> linears) : linears(linears) {} // numbers of nodes

private:
  bool changeNode(const MortiseNode &node, Drafts &drafts) override;

  const std::span<const uint32_t> linears;
};

} // namespace mortise::cuda
