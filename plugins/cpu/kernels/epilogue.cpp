// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be fused behind a product: additions, multiplications and activations of its one user, and theirs.
#include "product.hpp"

#include <algorithm>

namespace mortise::cpu {

PostOp activation(const Options &options, const MortiseNode &node) {
  PostOp post;
  post.node = node.index;
  post.op = opName(node);
  bool any = options.fuseActivations;
  if (isOp(node, "mortise.tanh")) {
    post.algorithm = dnnl::algorithm::eltwise_tanh;
  } else if (isOp(node, "mortise.logistic")) {
    post.algorithm = dnnl::algorithm::eltwise_logistic;
  } else if (isOp(node, "mortise.silu") && any) {
    post.algorithm = dnnl::algorithm::eltwise_swish;
    post.alpha = 1;
  } else if (isOp(node, "mortise.gelu") && any) {
    post.algorithm = stringAttribute(node, "approximate") == "tanh" ? dnnl::algorithm::eltwise_gelu_tanh
                                                                    : dnnl::algorithm::eltwise_gelu_erf;
  } else if (isOp(node, "mortise.relu") && any) {
    // oneDNN's relu turns NaN into 0 and so hides it. x * clip(huge * x, 0, 1) keeps it; -inf becomes NaN.
    post.algorithm = dnnl::algorithm::eltwise_hardswish;
    post.alpha = 3e38f;
  }
  return post;
}

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
  while (const MortiseNode *user = claims.facts.soleUser(current)) {
    if (claims.isTaken(*user) || user->result_count != 1)
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
      post = activation(claims.facts.options, *user);
      if (post.algorithm == dnnl::algorithm::undef || biasOnly)
        break;
    }
    found.nodes.insert(found.nodes.end(), pending.begin(), pending.end());
    pending.clear();
    found.nodes.push_back(user->index);
    found.post.push_back(std::move(post));
    current = user->results[0]->index;
    found.target = current;
  }
  return found;
}

} // namespace mortise::cpu
