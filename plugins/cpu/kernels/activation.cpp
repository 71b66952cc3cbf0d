// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations as post ops of oneDNN: those of one node, clips to [0, c] (relu6) and hard-swish, x * clip(x + s, 0, c) /
// c, in the nodes that PyTorch's decompositions make of them.
#include "product.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mortise::cpu {

// oneDNN's relu turns NaN into 0 and so hides it. x * clip(huge * x, 0, 1) keeps it; -inf becomes NaN.
static constexpr float reluSlope = 3e38f;

static PostOp postOp(const MortiseNode &node, dnnl::algorithm algorithm, float alpha = 0, float beta = 0) {
  PostOp post;
  post.node = node.index;
  post.op = opName(node);
  post.algorithm = algorithm;
  post.alpha = alpha;
  post.beta = beta;
  return post;
}

// undef when the library has none for the node, or none that may be fused.
static PostOp ofOneNode(const Options &options, const MortiseNode &node) {
  using enum dnnl::algorithm;
  if (isOp(node, "mortise.tanh"))
    return postOp(node, eltwise_tanh);
  if (isOp(node, "mortise.logistic"))
    return postOp(node, eltwise_logistic);
  if (options.fuseActivations && isOp(node, "mortise.silu"))
    return postOp(node, eltwise_swish, 1);
  if (options.fuseActivations && isOp(node, "mortise.gelu"))
    return postOp(node, stringAttribute(node, "approximate") == "tanh" ? eltwise_gelu_tanh : eltwise_gelu_erf);
  if (options.fuseActivations && isOp(node, "mortise.relu"))
    return postOp(node, eltwise_hardswish, reluSlope);
  return {};
}

static bool isFree(const Claims &claims, const MortiseNode *node) {
  return node && !claims.isTaken(*node) && node->result_count == 1;
}

// The literal that a node of two operands has beside `value`.
static std::optional<double> otherLiteral(Claims &claims, const MortiseNode &node, uint32_t value) {
  if (node.operand_count != 2 || node.operands[0]->index == node.operands[1]->index)
    return std::nullopt;
  const size_t other = node.operands[0]->index == value ? 1 : 0;
  return claims.splat(node.operands[other]->index);
}

namespace {
// clip(value, 0, high) of two nodes, which may come in either order.
struct Clip {
  const MortiseNode *first = nullptr, *last = nullptr;
  double high = 0;
};
} // namespace

static std::optional<Clip> findClip(Claims &claims, uint32_t value) {
  const MortiseNode *first = claims.facts.soleUser(value);
  if (!isFree(claims, first))
    return std::nullopt;
  const uint32_t between = first->results[0]->index;
  const MortiseNode *last = claims.facts.soleUser(between);
  if (!isFree(claims, last))
    return std::nullopt;
  auto isLow = [&](const MortiseNode &node, uint32_t of) {
    return isOp(node, "mortise.relu") || (isOp(node, "mortise.max") && otherLiteral(claims, node, of) == 0.0);
  };
  auto high = [&](const MortiseNode &node, uint32_t of) {
    return isOp(node, "mortise.min") ? otherLiteral(claims, node, of) : std::nullopt;
  };
  std::optional<double> bound;
  if (isLow(*first, value))
    bound = high(*last, between);
  else if (isLow(*last, between))
    bound = high(*first, value);
  if (!bound || !(*bound > 0) || std::isinf(*bound)) // also NaN
    return std::nullopt;
  return Clip{first, last, *bound};
}

// x * clip(x + shift, 0, high) / high
static std::optional<Activation> findHardSwish(Claims &claims, uint32_t value) {
  const std::vector<uint32_t> &users = claims.facts.users[value];
  if (users.size() != 2 || users[0] == users[1] || claims.facts.isOutput(value))
    return std::nullopt;
  for (size_t i = 0; i < 2; ++i) {
    const MortiseNode &add = *claims.facts.graph.nodes[users[i]], &product = *claims.facts.graph.nodes[users[1 - i]];
    if (!isOp(add, "mortise.add") || !isOp(product, "mortise.mul") || claims.isTaken(add) || claims.isTaken(product))
      continue;
    const std::optional<double> shift = otherLiteral(claims, add, value);
    const std::optional<Clip> clip = shift ? findClip(claims, add.results[0]->index) : std::nullopt;
    if (!clip || claims.facts.soleUser(clip->last->results[0]->index) != &product)
      continue;
    const uint32_t whole = product.results[0]->index;
    const MortiseNode *scale = claims.facts.soleUser(whole);
    if (!isFree(claims, scale))
      continue;
    const std::optional<double> factor = otherLiteral(claims, *scale, whole);
    const bool divides = isOp(*scale, "mortise.div") && scale->operands[0]->index == whole && factor == clip->high;
    // A factor of 1 / high is rounded to f32.
    const bool multiplies = isOp(*scale, "mortise.mul") && factor && std::abs(*factor * clip->high - 1) <= 0x1p-24;
    if (!divides && !multiplies)
      continue;
    PostOp post = postOp(*scale, dnnl::algorithm::eltwise_hardswish, static_cast<float>(1 / clip->high),
                         static_cast<float>(*shift / clip->high));
    post.op = "hard_swish";
    return Activation{{post},
                      {add.index, clip->first->index, clip->last->index, product.index, scale->index},
                      scale->results[0]->index};
  }
  return std::nullopt;
}

Activation findActivation(Claims &claims, uint32_t value) {
  Activation found;
  if (claims.facts.options.fuseActivations) {
    if (std::optional<Activation> swish = findHardSwish(claims, value))
      return std::move(*swish);
    if (std::optional<Clip> clip = findClip(claims, value)) {
      // oneDNN's clip replaces NaN by its lower bound. That is -inf here, of which the relu that follows makes NaN
      // again.
      PostOp high = postOp(*clip->first, dnnl::algorithm::eltwise_clip, -std::numeric_limits<float>::infinity(),
                           static_cast<float>(clip->high));
      high.continues = true;
      found.post = {high, postOp(*clip->last, dnnl::algorithm::eltwise_hardswish, reluSlope)};
      found.nodes = {clip->first->index, clip->last->index};
      found.target = clip->last->results[0]->index;
      return found;
    }
  }
  const MortiseNode *user = claims.facts.soleUser(value);
  if (!isFree(claims, user))
    return found;
  PostOp post = ofOneNode(claims.facts.options, *user);
  if (post.algorithm == dnnl::algorithm::undef)
    return found;
  found.post = {post};
  found.nodes = {user->index};
  found.target = user->results[0]->index;
  return found;
}

std::optional<LoopActivation> loopActivation(std::span<const PostOp> post) {
  if (post.empty())
    return LoopActivation{};
  const PostOp &last = post.back();
  if (last.algorithm != dnnl::algorithm::eltwise_hardswish)
    return std::nullopt;
  LoopActivation made;
  if (last.alpha == reluSlope) { // as ofOneNode() and findActivation() write relu and clips
    made.kind = LoopActivation::Clip;
    made.high = post.size() == 2 ? post[0].beta : std::numeric_limits<float>::infinity();
  } else {
    made.kind = LoopActivation::HardSwish;
    made.slope = last.alpha;
    made.shift = last.beta;
  }
  return made;
}

} // namespace mortise::cpu
