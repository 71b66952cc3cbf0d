// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products by the library: what it can read in place, and how one product becomes calls.
#pragma once

#include "library.hpp"
#include "rewriting.hpp"
#include "stream.hpp"

#include <mortise/codegen/codegen.hpp>
#include <mortise/views.hpp>

#include <map>
#include <optional>

namespace mortise::cuda {

enum class ProductsBy : uint8_t { Either /* groups where that is faster */, Library };

// ---- Which nodes

inline bool isProduct(const MortiseNode &node) { return isOp(node, Op::Dot, Op::Linear); }
// Whether a library takes the node, whatever its neighbours. `addsNarrowBias`: it may add a bias of f16 or bf16.
codegen::Support supportsProduct(const MortiseNode &node, bool addsNarrowBias);

// MORTISE_F16 or MORTISE_BF16 where both operands of a product of f32 are numbers of that type, converted: their
// products are exact in f32, so that it is a product of narrow numbers that is stored in f32. 0: not so.
int32_t narrowType(const MortiseNode &product);

// Exchanges products for others that the library computes, or computes faster. Operands that were converted from f16 or
// bf16 are read as they were: the product has operands of one type and a result of another, which no graph of the host
// has. A dot whose dense operands the library could not read gets transposes, which put batch dimensions first, and
// those that are summed last, in one order on both sides.
class CanonicalProducts : public RegionRewriter {
public:
  explicit CanonicalProducts(Device &device) : device(device) {}
  bool concern(const MortiseGraph &graph) const; // otherwise there is nothing to rewrite

private:
  bool isCall(const MortiseNode &node) const { // the library computes it
    return isProduct(node) && device.hasProductsOf(node.results[0]->type->dtype);
  }
  bool changeNode(const MortiseNode &node, Drafts &drafts) override;
  void transposeOperands(const MortiseNode &node, Drafts &drafts);
  const MortiseValue *narrowed(const MortiseValue &value, Drafts &drafts);

  Device &device;
  std::map<const MortiseValue *, const MortiseValue *> narrowViews; // by the original of f32
};

// ---- Axes

// One dimension of a product, with its strides in lhs (a), rhs (b) and result (c).
template <typename Number> struct ProductAxis {
  Number extent = 1, a = 0, b = 0, c = 0;
};
template <typename Number> struct ProductAxes {
  std::vector<ProductAxis<Number>> batch, m, n, k;
};

// Of a dot or linear whose operands are read through these views, and whose result is dense. Axes that are contiguous
// for all values of the symbols are one.
ProductAxes<Dim> axesOf(const MortiseNode &node, const View &lhs, const View &rhs);
// Whether the library reads them in few calls, for all values of the symbols.
bool fitsLibrary(const ProductAxes<Dim> &axes, std::span<const SymbolRange> ranges);

// Whether a generated kernel computes the product, read through these views, rather than the library: it has few rows
// (or columns), so that it takes as long as reading the other operand once, which vectors of 16 bytes do. `typical`:
// values of the symbols. `flops`: of the device in f32.
bool suitsGroup(const MortiseNode &node, const View &lhs, const View &rhs, std::span<const SymbolRange> ranges,
                std::span<const int64_t> typical, double flops);

// ---- Numbers

// A product of a region. Offsets count elements.
struct ProductShape {
  int32_t dtype = MORTISE_F32, resultDtype = MORTISE_F32;        // of operands, and of result, bias and addend
  bool tensorFloats = false, hasBias = false, hasAddend = false; // the addend lies as the result does
  Dim aOffset = 0, bOffset = 0, biasOffset = 0, addendOffset = 0;
  ProductAxes<Dim> axes;
};

// For one set of symbol values.
struct ProductNumbers {
  struct Part { // bytes, of one call of the library; the addend's are those of c
    uint64_t a = 0, b = 0, c = 0;
  };
  std::shared_ptr<LibraryProduct> library; // NULL: sums without terms, or nothing to do
  std::vector<Part> parts;
  uint64_t bias = 0, addend = 0;       // bytes
  uint64_t rowBytes = 0, rowCount = 0; // of the result
  uint64_t workspaceBytes = 0;
  double flops = 0, bytes = 0;
  std::string extents; // " 64x128x256", for people
};
// The device's context is current.
Result<ProductNumbers> numbersOf(const ProductShape &shape, ProductLibrary &library, std::span<const int64_t> symbols);

struct ProductMemory {
  MortiseAddress a = 0, b = 0, c = 0, bias = 0, addend = 0, workspace = 0;
};
Result<void> queueProduct(Stream &stream, const ProductNumbers &numbers, const ProductMemory &memory);

} // namespace mortise::cuda
