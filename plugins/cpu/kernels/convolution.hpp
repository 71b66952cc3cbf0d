// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of convolutions share: a convolution in numbers, its weights, and the layouts of its operands.
#pragma once

#include "../claims.hpp"
#include "../step_builder.hpp"

namespace mortise::cpu {

// A convolution with what the symbols' values add to it.
struct FixedConvolution : Convolution {
  dnnl::memory::dims xDims, resultDims, weightDims,
      weightStrides;                               // weights with the group dimension where there is one
  std::vector<std::vector<int64_t>> affineStrides; // per affine step, of its operands
  double flops = 0;
};

// The view of an operand that the library can read; in memory of the value's own where it could not.
View readable(Claims &claims, uint32_t value);
Convolution readConvolution(Claims &claims, const MortiseNode &node); // without what could be fused
// Reads f32 weights that were converted for this convolution alone as they were before.
void takeConversion(Claims &claims, Convolution &made);
FixedConvolution fix(const Convolution &claimed, dnnl::memory::dims xDims, dnnl::memory::dims resultDims,
                     const Values &values);
std::string title(const FixedConvolution &made);

// Weights in the layout wanted, and a bias of one f32 per channel where there are affine steps; made when constants are
// bound if the weights are constant.
std::pair<Operand, Operand> makeWeights(StepBuilder &builder, const FixedConvolution &made,
                                        const dnnl::memory::desc &wanted);

// A value, seen through `view`, in the layout wanted: as it is, or reordered.
Operand inLayout(StepBuilder &builder, uint32_t index, const FixedView &view, const dnnl::memory::desc &wanted);

// convolution_gradient.cpp
void addGradient(StepBuilder &builder, const Convolution &claimed);

// depthwise.cpp: makes the convolution a loop of the plugin's own where that suits it, and moves the activation of the
// convolution that computes its input there. Its nodes are claimed, its unit is not made yet.
void claimDepthwiseLoop(Claims &claims, Convolution &made);
void addDepthwiseLoop(StepBuilder &builder, const FixedConvolution &made);

} // namespace mortise::cpu
