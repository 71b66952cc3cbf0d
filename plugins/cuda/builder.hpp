// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include "kernel.hpp"

#include <deque>
#include <functional>

namespace mortise::cuda {

// Fills a kernel with steps. One use.
class Builder {
public:
  // `region`: the kernel's, or one that was made of it, whose node i was made of the nodes origins[i]. `shapes`: those
  // of its convolutions, which have numbers of them.
  Builder(Kernel &kernel, const MortiseGraph &region, std::span<const std::vector<uint32_t>> origins,
          std::span<const ConvolutionShape> shapes, const MortiseCompileOptions &options, ProductsBy products)
      : kernel(kernel), region(region), origins(origins), shapes(shapes), options(options), products(products),
        ranges(symbolRanges(region)), typical(typicalValues(region)), placement(region, kernel.buffers) {}
  // Where there are unproved biases it has failed, and begun nothing: a region with WideBiases for them can be built.
  Result<void> run();
  // Nodes that the region was made of: the library has nothing that is proved to add their biases before it rounds.
  std::span<const uint32_t> unprovedBiases() const { return unproved; }

private:
  struct Call { // a product, a convolution or an attention
    const MortiseNode *node = nullptr;
    std::vector<uint32_t> nodes;          // with views of the result
    uint32_t target = 0;                  // the value that it writes
    View result;                          // of an attention, in the target's memory
    const MortiseValue *addend = nullptr; // of a product
    // With an addend, or a bias of f16 or bf16: kept until there is a schedule, which then need not choose.
    std::shared_ptr<LibraryProduct> chosen;
    std::vector<View> operands; // those that there are, as they are read; the addend is the last one
    std::optional<codegen::AttentionCall> attention;
    std::shared_ptr<Function> function; // of the attention
  };
  struct Unit { // of the order
    bool isCall = false;
    uint32_t index = 0; // of a call or a group
    std::vector<uint32_t> inputs, outputs;
  };

  std::vector<View> likelyViews() const;
  bool isCall(const MortiseNode &node, std::span<const View> views) const;
  Result<void> readCalls();
  std::vector<uint32_t> firstReaders(std::span<const View> views) const;
  bool isStoredBefore(const MortiseValue &value, uint32_t node, std::span<const View> views,
                      std::span<const uint32_t> firstReaders) const;
  bool isStoredBehind(const MortiseValue &value, std::span<const MortiseNode *const> soleUsers,
                      std::span<const View> views) const;
  Result<bool> isTaken(Call &call, std::span<const View> views);
  Result<void> checkBias(Call &call, std::span<const View> views);
  Result<void> takeAddend(Call &call, std::span<const MortiseNode *const> soleUsers, std::span<const View> views,
                          std::span<const uint32_t> firstReaders);
  std::optional<View> writtenThrough(const std::vector<uint32_t> &views) const;
  void writeThroughViews(Call &call, const std::vector<const MortiseNode *> &soleUsers) const;
  Result<bool> chooseOperands(const Call &call, const std::function<View(uint32_t)> &viewOf);
  Result<bool> chooseProductOperands(const Call &call, const std::function<View(uint32_t)> &viewOf);
  std::optional<std::pair<bool, bool>> denseOperands(const MortiseNode &node,
                                                     const std::function<View(uint32_t)> &viewOf) const;
  ProductShape shapeOf(const Call &call, std::span<const View> operands) const;
  void findLevels();
  bool isPacked(const MortiseNode &node) const;
  std::vector<bool> valuesToPack() const;
  Result<void> fusePacking();
  Result<void> fuse();
  Result<void> compileGroups();
  Result<void> compileAttentions();
  void orderUnits();
  void deferUpdates();
  Result<void> bundleGroups();
  void placeOutputs();
  bool isOutput(uint32_t value) const;
  Place packed(Dim bytes, bool stays);
  Result<void> addLaunch(uint32_t group);
  Result<Launch> launchOf(const codegen::Group &group, std::shared_ptr<Function> function, bool isPacking);
  Result<void> addPacking();
  Result<void> addCall(const Call &call);
  Result<Product> productOf(const Call &call);
  Result<Convolution> convolutionOf(const Call &call);
  Result<Launch> attentionOf(const Call &call);
  Result<void> addCopies();
  void findLives();
  std::vector<uint32_t> originsOf(const std::vector<uint32_t> &nodes) const;

  Kernel &kernel;
  const MortiseGraph &region;
  const std::span<const std::vector<uint32_t>> origins;
  const std::span<const ConvolutionShape> shapes;
  const MortiseCompileOptions &options;
  const ProductsBy products;
  const std::vector<SymbolRange> ranges;
  const std::vector<int64_t> typical; // values of the symbols
  codegen::FuseRequest request;
  std::vector<Call> calls;
  std::vector<uint32_t> unproved;
  std::vector<codegen::Group> groups;
  std::vector<std::shared_ptr<Function>> functions; // per group

  // What depends on constants alone is computed when they are bound. Values made of literals alone are computed where
  // they are read.
  enum class Level : uint8_t { Literal, Constant, Variable };
  std::vector<Level> levels; // per value
  std::vector<codegen::Group> packingGroups;
  std::vector<std::shared_ptr<Function>> packingFunctions;
  std::vector<bool> isInPacked; // per value: a packing group writes it
  // The region as the groups of calls see it: what is packed has no operands.
  MortiseGraph unpacked{};
  std::deque<MortiseNode> stubs;
  std::vector<const MortiseNode *> unpackedNodes;

  std::vector<Unit> units;
  codegen::Placement placement;
};

} // namespace mortise::cuda
