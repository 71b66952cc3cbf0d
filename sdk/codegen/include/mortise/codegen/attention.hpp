// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention as one kernel of a GPU, which never writes its scores (decision 0067). The code depends on AttentionCode;
// extents, strides and the scale are given with each launch, so that one kernel serves all lengths, batches and
// layouts.
#pragma once

#include <mortise/codegen/codegen.hpp>

namespace mortise::codegen {

struct SimtTarget;

// What the code depends on.
struct AttentionCode {
  enum class Mask : uint8_t { None, Hides, Adds }; // of i1, or of the element type
  // What the subgroups of a block share out: the queries of a head, or, where there are few, the keys. Then the rows of
  // a block are queries of all heads that share a head of k and v.
  enum class Split : uint8_t { Queries, Keys };
  static constexpr unsigned tileRows = 16;  // that a subgroup takes at once
  static constexpr unsigned mostSize = 128; // of a vector
  int32_t dtype = MORTISE_BF16;             // or MORTISE_F16
  unsigned depth = 0, width = 0;            // elements of a query or key, and of a value
  Mask mask = Mask::None;
  bool causal = false;
  unsigned subgroups = 1; // of a block: 1, 2, 4 .. mostSubgroups
  Split split = Split::Queries;
  // Split::Queries: the next tile is read while this one is computed. Without, more blocks fit a multiprocessor.
  bool readsAhead = true;
  // Split::Keys: blocks that share out the keys of the same rows, 1, 2, 4 .. SimtTarget::cluster. Several only where
  // each has mostSubgroups.
  unsigned cluster = 1;
  bool smallTiles = false; // Split::Keys: 32 keys at once, not 64, as vectors of more than 64 elements have them anyway
  auto operator<=>(const AttentionCode &) const = default;
  unsigned tileKeys() const { // at once
    return split == Split::Keys && (smallTiles || std::max(depth, width) > 64) ? 32 : 64;
  }
  unsigned mostSubgroups() const { return split == Split::Keys ? 8 : 4; }
  unsigned blockQueries() const { return tileRows * subgroups; } // Split::Queries
  std::string name() const;                                      // that of no other code
};

// What a launch is given behind the addresses of q, k, v, the mask if there is one, and the result: integers of 8
// bytes. From Q on they count bytes: for each tensor where it begins behind its address, then its strides along batch,
// heads and rows, and those of the mask along keys, too. Elements of a row of the other tensors lie side by side.
struct AttentionNumber {
  enum : uint32_t {
    Heads,
    HeadsPerKey, // query heads that share a head of k and v
    Queries,
    Keys,
    Scale, // the bits of an f32
    Q,
    K = Q + 4,
    V = K + 4,
    Result = V + 4,
    Mask = Result + 4,
    End = Mask + 5
  };
  static uint32_t count(const AttentionCode &code) { return code.mask == AttentionCode::Mask::None ? Mask : End; }
};

// One node, with views in whose memory its operands and its result lie. Elements of a row have stride 1, but in the
// mask.
struct AttentionCall {
  AttentionCode code;
  View q, k, v, result;
  std::optional<View> mask;
  double scale = 1;
  std::vector<Dim> numbers() const; // in the order of AttentionNumber
  Dim blocks() const;
  Dim rows() const; // queries of all heads that share a head of k and v
  Dim bytes() const, flops() const;
};

// Whether the target has a kernel for the node; otherwise the reason for a refusal.
Support supportsAttention(const MortiseNode &node, const SimtTarget &target);

// Whether an operand (other than the mask) or the result may lie so.
bool suitsAttention(const View &view);

// For a node that is supported. `operands`: those that there are. `typical`: values of the symbols, which decide what
// the subgroups of a block share out, how many it has, and how many blocks share the keys of a row. The code is right
// for all values.
AttentionCall attentionCall(const MortiseNode &node, std::span<const View> operands, const View &result,
                            std::span<const int64_t> typical, const SimtTarget &target);

} // namespace mortise::codegen
