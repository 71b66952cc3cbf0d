// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which attentions have a kernel of their own, and what it is given.
#include <mortise/codegen/attention.hpp>

#include <mortise/codegen/simt.hpp>

#include <bit>
#include <sstream>

namespace mortise::codegen {

std::string AttentionCode::name() const {
  static constexpr const char *masks[] = {"", " mask", " added"};
  return std::string("attention ") + dtypeName(dtype) + " " + std::to_string(depth) + " " + std::to_string(width) +
         (causal ? " causal" : "") + masks[static_cast<size_t>(mask)] + " " +
         (split == Split::Keys ? "keys by " + std::to_string(subgroups) : std::to_string(blockQueries())) +
         (cluster > 1 ? " x " + std::to_string(cluster) : "") + (smallTiles ? " small" : "") +
         (readsAhead ? "" : " unbuffered");
}

// ---- Which nodes

Support supportsAttention(const MortiseNode &node, const SimtTarget &target) {
  const auto refuse = [](MortiseReason reason, std::string detail) {
    return Support{false, reason, "no kernel for this attention: " + std::move(detail) + ": use its decomposition"};
  };
  if (target.matrices != mmaLayout)
    return refuse(MORTISE_REASON_HARDWARE, "it needs products of small matrices in registers, as mma.sync has them");
  const MortiseType &q = *node.operands[0]->type, &v = *node.operands[2]->type;
  if (q.dtype != MORTISE_BF16 && q.dtype != MORTISE_F16)
    return refuse(MORTISE_REASON_DTYPE, std::string("expected f16 or bf16, found ") + dtypeName(q.dtype));
  for (size_t i = 0; i < node.operand_count; ++i)
    for (const Dim &dim : node.operands[i] ? dimsOf(*node.operands[i]->type) : std::vector<Dim>())
      if (!dim.isValid())
        return refuse(MORTISE_REASON_NEEDS_STATIC,
                      "an extent's expression is none in " + typeString(*node.operands[i]->type));
  // The scale is a part of the factor of exponents, and no number may lose its sign or its digits by that.
  constexpr double smallest = 0x1p-120, largest = 0x1p120;
  if (const double scale = findAttribute(node, "scale")->f64; !(scale >= smallest && scale <= largest)) {
    std::ostringstream found;
    found << "expected a scale from 2^-120 to 2^120, found " << scale;
    return refuse(MORTISE_REASON_ATTRIBUTE, found.str());
  }
  for (const Dim &size : {dimsOf(q)[3], dimsOf(v)[3]}) {
    const std::optional<int64_t> number = size.number();
    if (!number)
      return refuse(MORTISE_REASON_NEEDS_STATIC, "expected a number of elements of a vector, found a symbol");
    if (*number < 1 || *number > AttentionCode::mostSize || *number % 8 != 0)
      return refuse(MORTISE_REASON_SIZE, "expected vectors of 8, 16 .. " + std::to_string(AttentionCode::mostSize) +
                                             " elements, found " + std::to_string(*number));
  }
  return {};
}

bool suitsAttention(const View &view) { return view.strides.back() == Dim(1); }

// ---- What it is given

AttentionCall attentionCall(const MortiseNode &node, std::span<const View> operands, const View &result,
                            std::span<const int64_t> typical, const SimtTarget &target) {
  AttentionCall call;
  call.q = operands[0], call.k = operands[1], call.v = operands[2], call.result = result;
  call.scale = findAttribute(node, "scale")->f64;
  AttentionCode &code = call.code;
  code.dtype = node.results[0]->type->dtype;
  code.depth = static_cast<unsigned>(*call.q.dims[3].number());
  code.width = static_cast<unsigned>(*call.v.dims[3].number());
  code.causal = intAttribute(node, "causal") != 0;
  if (operands.size() > 3) {
    call.mask = operands[3];
    code.mask = node.operands[3]->type->dtype == MORTISE_I1 ? AttentionCode::Mask::Hides : AttentionCode::Mask::Adds;
  }
  const auto most = [&](const Dim &dim, int64_t limit) { // whether a typical number is at most that
    const Result<int64_t> number = dim.evaluate(typical);
    return number && *number <= limit;
  };
  // More queries share what is read of k and v, but each multiprocessor wants a block. 132 is what Hopper has, and
  // about what others have. Where tiles of queries are fewer than two for each, there are subgroups left to share out
  // the keys: two blocks of four fit a multiprocessor, or one of eight.
  constexpr int64_t wantedBlocks = 132;
  code.split = AttentionCode::Split::Keys;
  if (!most(call.q.dims[2], AttentionCode::tileRows - 1) && !most(call.blocks(), 2 * wantedBlocks))
    code.split = AttentionCode::Split::Queries;
  code.subgroups = code.mostSubgroups();
  const bool isOneEach = code.split == AttentionCode::Split::Keys && most(call.blocks(), wantedBlocks);
  if (code.split == AttentionCode::Split::Keys && !isOneEach)
    code.subgroups /= 2;
  // A tile is one long chain of instructions. Where there are subgroups for all keys, each has a short one.
  code.smallTiles =
      isOneEach && code.tileKeys() > 32 && most(call.k.dims[2], int64_t(target.cluster) * code.subgroups * 32);
  const auto isTooMany = [&] {
    if (code.split == AttentionCode::Split::Keys)
      return most(call.k.dims[2], int64_t(code.subgroups) / 2 * code.tileKeys());
    return most(call.blocks(), wantedBlocks - 1) || most(call.q.dims[2], code.blockQueries() / 2);
  };
  while (code.subgroups > 1 && isTooMany())
    code.subgroups /= 2;
  // Then more blocks share out the keys, as long as each subgroup has some.
  const auto wantsMore = [&] {
    return code.split == AttentionCode::Split::Keys && code.subgroups == code.mostSubgroups() &&
           most(call.blocks(), wantedBlocks / 2) &&
           !most(call.k.dims[2], int64_t(code.cluster) * code.subgroups * code.tileKeys());
  };
  while (code.cluster < target.cluster && wantsMore())
    code.cluster *= 2;
  // Two blocks fit a multiprocessor, three if they do not read ahead (f16 and bf16 of 64 elements, sm_90).
  code.readsAhead = code.split == AttentionCode::Split::Keys || most(call.blocks(), 2 * wantedBlocks);
  return call;
}

std::vector<Dim> AttentionCall::numbers() const {
  const int64_t size = dtypeBits(code.dtype) / 8;
  std::vector<Dim> list{q.dims[1], floorDiv(q.dims[1], max(k.dims[1], 1)), q.dims[2], k.dims[2],
                        static_cast<int64_t>(std::bit_cast<uint32_t>(static_cast<float>(scale)))};
  for (const View *view : {&q, &k, &v, &result}) {
    list.push_back(view->offset * size);
    for (size_t i = 0; i < 3; ++i)
      list.push_back(view->strides[i] * size);
  }
  if (mask) {
    const int64_t maskSize = code.mask == AttentionCode::Mask::Adds ? size : 1;
    const Dim scores[] = {q.dims[0], q.dims[1], q.dims[2], k.dims[2]};
    list.push_back(mask->offset * maskSize);
    for (size_t i = 0; i < 4; ++i)
      list.push_back(mask->strides[i] * repetition(mask->dims[i], scores[i]) * maskSize);
  }
  return list;
}

Dim AttentionCall::rows() const { return floorDiv(q.dims[1], max(k.dims[1], 1)) * q.dims[2]; }

Dim AttentionCall::blocks() const {
  if (code.split == AttentionCode::Split::Keys)
    return q.dims[0] * k.dims[1] * ceilDiv(rows(), Dim(AttentionCode::tileRows)) * int64_t(code.cluster);
  return q.dims[0] * q.dims[1] * ceilDiv(q.dims[2], Dim(code.blockQueries()));
}

Dim AttentionCall::bytes() const {
  Dim all = 0;
  for (const View *view : {&q, &k, &v, &result})
    all += elementCount(std::span<const Dim>(view->dims)) * (dtypeBits(code.dtype) / 8);
  if (mask)
    all += elementCount(std::span<const Dim>(mask->dims)) *
           (code.mask == AttentionCode::Mask::Adds ? dtypeBits(code.dtype) / 8 : 1);
  return all;
}

Dim AttentionCall::flops() const {
  const Dim pairs = q.dims[0] * q.dims[1] * q.dims[2] * k.dims[2];
  const Dim all = pairs * int64_t(2 * (code.depth + code.width));
  return code.causal ? floorDiv(all, 2) : all;
}

} // namespace mortise::codegen
