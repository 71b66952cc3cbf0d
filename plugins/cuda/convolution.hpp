// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions by the library: one of a region, its numbers for one set of symbol values, and its calls.
#pragma once

#include "library.hpp"
#include "stream.hpp"

#include <mortise/codegen/codegen.hpp>
#include <mortise/symbols.hpp>

#include <array>
#include <span>

namespace mortise::cuda {

inline bool isConvolution(const MortiseNode &node) { return isOp(node, Op::Convolution, Op::FusedConvolution); }
// Whether a library takes the node, for all values of the symbols.
codegen::Support supportsConvolution(const MortiseNode &node, std::span<const SymbolRange> ranges);

// A convolution of a region: a call whose extents may be expressions.
struct ConvolutionShape {
  ConvolutionCall call;       // without x, weight and result
  std::vector<Dim> x, result; // [N, C, spatial...]
  std::vector<int64_t> weight;
};
// For one set of symbol values. Errors: of expressions.
Result<ConvolutionCall> callOf(const ConvolutionShape &shape, std::span<const int64_t> symbols);

// What a call reads and writes.
enum ConvolutionRole : uint8_t { RoleX, RoleWeight, RoleResult, RoleScale, RoleBias, RoleAddend, roleCount };
template <typename T> using PerRole = std::array<T, roleCount>;

struct ConvolutionNumbers {
  std::shared_ptr<LibraryConvolution> library; // NULL: nothing to do
  PerRole<uint64_t> offsets{}, sizes{};        // bytes; of size 0 where there is no such tensor
  PerRole<uint64_t> staging{}; // offset in the workspace of a copy that has the alignment that the library wants
  PerRole<bool> mayStage{};    // otherwise the address always has it
  uint64_t workspaceBytes = 0;
  double flops = 0, bytes = 0;
  std::string extents; // " 8x64x56x56 * 64x64x3x3", for people
};
// `elements`: per role, where the tensor begins behind its address, in elements. `ours`: per role, whether the address
// is one of the plugin's own, which are aligned. The device's context is current.
Result<ConvolutionNumbers> numbersOf(const ConvolutionShape &shape, const PerRole<Dim> &elements,
                                     const PerRole<bool> &ours, ConvolutionLibrary &library,
                                     std::span<const int64_t> symbols);

struct ConvolutionMemory {
  PerRole<MortiseAddress> addresses{};
  MortiseAddress workspace = 0;
};
Result<void> queueConvolution(Stream &stream, const ConvolutionNumbers &numbers, const ConvolutionMemory &memory);

} // namespace mortise::cuda
