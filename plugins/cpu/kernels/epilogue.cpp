// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be fused behind a product: additions, multiplications and activations of its one user, and theirs.
#include "product.hpp"

#include <algorithm>

namespace mortise::cpu {

// The other operand of a binary node as a view with the result's extents.
static bool otherOperand(Claims &claims, const MortiseNode &node, uint32_t current, std::span<const Dim> extents,
                         int32_t dtype, PostOp &post) {
  if (node.operands[0]->index == node.operands[1]->index)
    return false;
  uint32_t other = node.operands[0]->index == current ? node.operands[1]->index : node.operands[0]->index;
  if (claims.facts.type(other).dtype != dtype)
    return false;
  std::optional<View> view = reshapeView(claims.viewOf(other), extents);
  if (!view)
    return false;
  post.other = view->base;
  post.view = std::move(*view);
  return true;
}

Epilogue findEpilogue(Claims &claims, uint32_t result, int32_t dtype, bool biasOnly) {
  Epilogue found;
  found.target = result;
  std::span<const Dim> extents = claims.facts.extents(result);
  std::vector<uint32_t> pending; // reshapes not yet followed by a post op
  uint32_t current = result;
  size_t binaries = 0;
  auto accept = [&](std::span<const uint32_t> nodes, uint32_t target) {
    found.nodes.insert(found.nodes.end(), pending.begin(), pending.end());
    pending.clear();
    found.nodes.insert(found.nodes.end(), nodes.begin(), nodes.end());
    current = found.target = target;
  };
  for (;;) {
    if (Activation next = biasOnly ? Activation() : findActivation(claims, current); !next.post.empty()) {
      found.post.insert(found.post.end(), next.post.begin(), next.post.end());
      accept(next.nodes, next.target);
      continue;
    }
    const MortiseNode *user = claims.facts.soleUser(current);
    if (!user || claims.isTaken(*user) || user->result_count != 1)
      break;
    if (isOp(*user, "mortise.reshape")) {
      pending.push_back(user->index);
      current = user->results[0]->index;
      continue;
    }
    PostOp post;
    post.node = user->index;
    post.op = opName(*user);
    bool add = isOp(*user, "mortise.add"), multiply = isOp(*user, "mortise.mul"), subtract = isOp(*user, "mortise.sub");
    if (subtract && user->operands[0]->index != current)
      break;
    if (add || multiply || subtract) {
      if (!otherOperand(claims, *user, current, extents, dtype, post))
        break;
      post.algorithm = add        ? dnnl::algorithm::binary_add
                       : multiply ? dnnl::algorithm::binary_mul
                                  : dnnl::algorithm::binary_sub;
      bool bias = add && claims.facts.isConstant(post.other);
      for (size_t i = 0; i + 1 < extents.size(); ++i)
        bias &= extents[i] == 1 || post.view.strides[i] == 0;
      if (biasOnly && (!bias || !found.post.empty()))
        break;
      uint32_t other = user->operands[0]->index == current ? user->operands[1]->index : user->operands[0]->index;
      if (std::optional<double> scalar = claims.splat(other); scalar && !biasOnly) {
        post.algorithm = dnnl::algorithm::eltwise_linear;
        post.alpha = multiply ? static_cast<float>(*scalar) : 1;
        post.beta = multiply ? 0 : static_cast<float>(add ? *scalar : -*scalar);
        post.other = none; // alpha and beta hold the literal
        post.view = {};
      } else if (++binaries > 3) {
        break;
      }
    } else {
      break;
    }
    found.post.push_back(std::move(post));
    accept(std::span(&user->index, 1), user->results[0]->index);
  }
  return found;
}

} // namespace mortise::cpu
