// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors before the last rounding, to the result's type. Where this type is the accumulator's, that rounding is among
// them. Each formula stands in docs/conformance/error-bounds.md, under the name of its op.
#pragma once

#include "subject.hpp"

namespace mortise::conformance::formulas {

using Bound = Result<Doubles> (*)(const Subject &);

// elementwise.cpp
Result<Doubles> function(const Subject &of); // one that devices approximate
Result<Doubles> erfcBound(const Subject &of);
Result<Doubles> siluBound(const Subject &of);
Result<Doubles> swigluBound(const Subject &of);
Result<Doubles> geluBound(const Subject &of);
Result<Doubles> arithmeticBound(const Subject &of); // of add, sub, mul and div behind one another
Result<Doubles> dropoutBound(const Subject &of);
Result<Doubles> normalBound(const Subject &of);

double geluError(const Subject &of, double x, double y);
// A factor that may underflow, times an infinity: an infinity or NaN.
bool isUndecided(const Subject &of, size_t i);
// Whether what an op reads is exact, or rounded correctly.
bool isBehindArithmetic(const MortiseNode &node);

// sums.cpp
Result<Doubles> dotBound(const Subject &of); // convolutions, too
Result<Doubles> reduceSumBound(const Subject &of);
Result<Doubles> meanBound(const Subject &of);
Result<Doubles> reduceProdBound(const Subject &of);
Result<Doubles> putBound(const Subject &of); // scatters, too
Result<Doubles> ropeBound(const Subject &of);
Result<Doubles> fusedBound(const Subject &of);
Result<Doubles> quantizedLinearBound(const Subject &of);

// rows.cpp
Result<Doubles> softmaxBound(const Subject &of);
Result<Doubles> logSoftmaxBound(const Subject &of);
Result<Doubles> cumlogsumexpBound(const Subject &of);
Result<Doubles> crossEntropyBound(const Subject &of);
Result<Doubles> trailingNormBound(const Subject &of); // layer_norm and rms_norm
Result<Doubles> groupNormBound(const Subject &of);
Result<Doubles> batchNormBound(const Subject &of);

// attention.cpp
Result<Doubles> attentionBound(const Subject &of);
Result<Doubles> attentionGradientBound(const Subject &of);
Result<Doubles> raggedAttentionBound(const Subject &of);

} // namespace mortise::conformance::formulas
