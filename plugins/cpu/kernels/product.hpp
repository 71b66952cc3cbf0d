// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the files of products share: a product in numbers, what the library makes of it, and what can be fused.
#pragma once

#include "../claims.hpp"
#include "../step_builder.hpp"

namespace mortise::cpu {

// A product in numbers.
struct FixedProduct {
  int64_t a = 0, b = 0, c = 0; // offsets, elements
  std::vector<Axis> batch, m, n, k;
  std::vector<FixedView> post; // of the binary post ops, at their places
  // Axes are sorted by the strides of the result. Whether the result's dimensions are so, too, within batch, m and n.
  bool inOrder = true;
  double flops = 0;
};
// `merge`: axes that are contiguous for these values become one.
FixedProduct fix(const Product &product, const Values &values, bool merge);

// Operands of a product in the library's terms: layouts of rank |batch| + 2, the copies that have to come first, and
// whether the two sides are swapped (the transposed product).
struct LibraryProduct {
  dnnl::matmul::primitive_desc description;
  dnnl::memory::desc a, b, c;                   // as computed on
  dnnl::memory::desc sourceA, sourceB, targetC; // as they lie in memory; equal unless packed
  bool packA = false, packB = false, packC = false, swapped = false, weights = false;
  std::vector<dnnl::memory::desc> others; // of binary post ops
  dnnl::memory::desc bias;                // where there is one
  bool rowBias = false;                   // the first post op is passed as bias
  bool ok = false;
};

// Post ops that follow `value` (with the extents of `result`), claimed only by the caller.
struct Epilogue {
  std::vector<PostOp> post;
  std::vector<uint32_t> nodes; // post ops and reshapes between, in order
  uint32_t target = none;
};
Epilogue findEpilogue(Claims &claims, uint32_t result, int32_t dtype, bool biasOnly);

// An activation of one node or several, as post ops in order. activation.cpp
struct Activation {
  std::vector<PostOp> post;    // empty: there is none that may be fused
  std::vector<uint32_t> nodes; // the last one's is the last post op's
  uint32_t target = none;
};
// The activation that is all that uses `value`.
Activation findActivation(Claims &claims, uint32_t value);

// An activation as loops of our own apply it. It is exact, NaN and infinities included.
struct LoopActivation {
  enum Kind { None, Clip, HardSwish } kind = None; // clip(x, low, high), or x * clip(slope * x + shift, 0, 1)
  float low = 0, high = 0, slope = 0, shift = 0;
};
// nullopt for one that the loops do not know.
std::optional<LoopActivation> loopActivation(std::span<const PostOp> post);

// What matmul.cpp and merged.cpp share, in the order in which a claim calls it.
Product readProduct(const Claims &claims, const MortiseNode &node);
// Elements repeated by a broadcast along a dimension that the library has to walk: read those from dense memory
// instead.
bool repeats(const View &view, const std::vector<int64_t> &batch);
// Sorts the dimensions into batch, m, n and k, from the three views.
void findAxes(Product &product, const Values &sample);
// The sums have terms, whatever the values.
bool hasTerms(const Claims &claims, const Product &product);

// library.cpp: what oneDNN makes of a product. `packAll`: copies of all operands come first. `biased`: a bias is passed
// besides the post ops.
LibraryProduct askLibrary(const Product &product, const FixedProduct &fixed, dnnl::memory::data_type compute,
                          bool packAll, bool biased = false);
// The fastest way that the library has; not `ok` when it has none. Where only a slow one takes the post ops, it is `ok`
// with `keepPostOps` alone, so that a claim tries fewer of them first.
LibraryProduct chooseLibrary(const Product &product, const FixedProduct &fixed, bool keepPostOps);
// The axes are such that the library is asked the same whatever the values.
bool suitsLibrary(const Product &product);

std::string describe(const Product &product, const FixedProduct &fixed);
// A step that reads a and b and writes c, in this order and where they lie; its action is still to be set.
Step productStep(StepBuilder &builder, const Product &product, const FixedProduct &fixed, const char *lowering);

// Views behind `target` that end where a copy would be needed: whoever makes it stores through the strides of `stored`
// instead, which has its extents. `nodes` get those between.
void storeThroughViews(Claims &claims, uint32_t &target, View &stored, std::vector<uint32_t> &nodes);

// few_rows.cpp: up to 4 rows by a loop of our own, with a bias at most.
bool hasFewRows(const Product &product, const FixedProduct &fixed);
void addFewRows(StepBuilder &builder, const Product &product, const FixedProduct &fixed);
// Weights in the library's own layout, made once.
Operand packWeights(StepBuilder &builder, const LibraryProduct &made, Operand source);

} // namespace mortise::cpu
