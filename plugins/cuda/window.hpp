// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and pools of a region, rewritten into what the library and generated groups compute.
#pragma once

#include "convolution.hpp"
#include "rewriting.hpp"

#include <map>
#include <optional>

namespace mortise::cuda {

inline bool isPool(const MortiseNode &node) { return isOp(node, Op::MaxPool, Op::SumPool); }
// Whether a group computes it, of slices, for all values of the symbols.
codegen::Support supportsPool(const MortiseNode &node);

// A convolution becomes a node that the Builder calls the library for, with an attribute that is the number of its
// shape, between nodes for what the library does not do. Where its kernels want channels last, its values are stored
// so, and ops on elements that follow compute in that order, up to the next convolution: transposes are views. An
// addition and a relu behind a convolution of f16 or bf16 are the library's as well. What it is slow at becomes a
// convolution of a group. A pool becomes the largest, or the sum, of slices.
class WindowRewriter : public RegionRewriter {
public:
  static constexpr const char *shapeAttribute = "cuda.shape";
  static bool concern(const MortiseGraph &graph); // otherwise there is nothing to rewrite
  WindowRewriter(const MortiseGraph &graph, Device &device, const MortiseCompileOptions &options);
  // Asks the library for what the region's convolutions need most, by several threads: it takes its time, and remembers
  // the answers. Errors: those of the device.
  Result<void> prepare();
  std::vector<ConvolutionShape> shapes; // by number, when the copy is done

private:
  // A convolution with what follows it.
  struct Pattern {
    const MortiseNode *convolution = nullptr;
    const MortiseValue *addend = nullptr;
    bool hasRelu = false; // after the addition
    const MortiseNode *last = nullptr;
    std::vector<uint32_t> nodes;
  };
  // How the library is asked.
  struct Form {
    int32_t dtype = MORTISE_F32, resultDtype = MORTISE_F32;
    bool isWhole = false; // it computes all that the pattern has
  };
  // Of the spatial dimensions. The library pads both sides alike, `pad` nodes do the rest.
  struct Window {
    std::vector<int64_t> strides, dilations, padding, extraLow, extraHigh;
  };

  bool changeNode(const MortiseNode &node, Drafts &drafts) override;
  void findPatterns();
  Pattern patternOf(const MortiseNode &convolution) const;
  bool isGenerated(const MortiseNode &convolution) const;
  std::vector<Form> formsOf(const Pattern &pattern) const;
  ConvolutionShape shapeOf(const Pattern &pattern, const Form &form) const;
  static Window windowOf(const MortiseNode &node);
  Result<std::shared_ptr<LibraryConvolution>> ask(const ConvolutionShape &shape) const;

  bool convolve(const Pattern &pattern, Drafts &drafts);
  const MortiseValue *generated(const Pattern &pattern, Drafts &drafts);
  const MortiseValue *finished(const Pattern &pattern, const MortiseValue *sums, int64_t channelAxis, Drafts &drafts);
  bool pool(const MortiseNode &node, Drafts &drafts);
  bool follow(const MortiseNode &node, Drafts &drafts);
  const MortiseValue *padded(const MortiseValue &value, size_t firstSpatial, std::vector<int64_t> low,
                             std::vector<int64_t> high, std::vector<std::byte> filling, Drafts &drafts);
  const MortiseValue *lastOf(const MortiseValue &value, Drafts &drafts);
  void replaceByLast(const MortiseNode &node, const MortiseValue &last, Drafts &drafts);

  const MortiseGraph &graph;
  Device &device;
  const MortiseCompileOptions &options;
  const std::vector<int64_t> typical;
  std::vector<const MortiseNode *> soleUsers;                 // per value
  std::map<uint32_t, Pattern> patterns;                       // by the last node
  std::vector<bool> absorbed;                                 // per node: it belongs to a pattern that ends later
  std::map<const MortiseValue *, const MortiseValue *> lasts; // by value: the same with channels last
};

} // namespace mortise::cuda
