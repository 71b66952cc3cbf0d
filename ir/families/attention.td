// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and the ops that prepare its operands. f16, bf16 and f8 compute in f32 and round once at the end; an intermediate
// result outside the range of f32 (f64 for f64) becomes infinity or 0. Sums accumulate in at least that type, in any order.
// StableHLO has none of these ops.
include "mortise/ir/dialect.td"

def Mortise_AttentionOp : Mortise_CompositeOp<"attention"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "softmax(scale * q k^T + mask) v";
  let description = [{
    q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E] with H a multiple of G (query head h reads head h / (H / G)): [B, H, Q, E].
    mask broadcasts to [B, H, Q, K]: i1, true where a key is seen, or of q's type and added. `causal` lets query i see keys 0 .. i; the others
    are treated as false in an i1 mask and as -inf in an added one.

    The score of a key that an i1 mask hides is -inf, whatever q and k hold; an added mask is added, so a NaN score stays NaN. A key with score
    -inf has weight 0, and 0 times an infinite or NaN v is NaN, as in PyTorch's definition. (Kernels may leave such keys out; then a v that no
    query sees has no effect.) A query that sees no key because of mask and `causal` alone (an added mask: -inf at every key) has weight 0 for
    every key, as in PyTorch's CPU kernels. A query whose scores are all -inf for another reason gives NaN, as softmax does. With K = 0 the
    result is 0.

    Constraints:
    * attention_c1: q, k and v have rank 4.
    * attention_c2: k has B and D of q.
    * attention_c3: v has B, G and K of k.
    * attention_c4: H is a multiple of G, for all values of symbols.
    * attention_c5: k and v have the element type of q, which is the result's.
    * attention_c6: mask has rank 4 and extents 1 or those of [B, H, Q, K], and is i1 or of q's element type.
  }];
  let arguments = (ins Mortise_FloatTensor:$q, Mortise_FloatTensor:$k, Mortise_FloatTensor:$v,
                       Optional<Mortise_Tensor>:$mask, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Mortise_FloatTensor:$result);
}
let since = 3 in {
def Mortise_AttentionForwardOp : Mortise_CompositeOp<"attention_forward"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "attention, and what its gradient needs: the logarithm of the sum of exp(score) of each query";
  let description = [{
    `result` is that of `attention`, and its constraints hold. log_sums [B, H, Q] is f32 (f64 where q is f64): of the scores that `attention`
    defines, log(sum(exp(score))) over the keys, and 0 for a query whose scores are all -inf, or where K is 0, as PyTorch's CPU kernel has it.
  }];
  let arguments = (ins Mortise_FloatTensor:$q, Mortise_FloatTensor:$k, Mortise_FloatTensor:$v,
                       Optional<Mortise_Tensor>:$mask, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Mortise_FloatTensor:$result, Mortise_FloatTensor:$log_sums);
}
def Mortise_AttentionGradientOp : Mortise_CompositeOp<"attention_gradient"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "the gradients of attention's q, k and v, from that of its result";
  let description = [{
    With weight = exp(score - log_sums), the scores being those of `attention` (a hidden key's is -inf, so its weight is 0), and
    change = weight * (gradient . v - sum(gradient * result)) * scale, per query and key: q_gradient = sum over keys of change * k,
    k_gradient = sum of change * q and v_gradient = sum of weight * gradient over queries, and over the heads that share the key's. Each has the type of its
    operand. (Dao et al., FlashAttention, arXiv:2205.14135, algorithm 4.) 0 times an infinity or NaN is NaN; kernels may leave hidden keys
    out. `result` and log_sums are those of attention_forward; with others, the formula holds.

    Constraints, beyond those of `attention`:
    * attention_gradient_c1: `result` and `gradient` have the shape [B, H, Q, E] and q's element type.
    * attention_gradient_c2: log_sums has the shape [B, H, Q], and is f32, or f64 where q is f64.
  }];
  let arguments = (ins Mortise_FloatTensor:$q, Mortise_FloatTensor:$k, Mortise_FloatTensor:$v, Mortise_FloatTensor:$result,
                       Mortise_FloatTensor:$log_sums, Mortise_FloatTensor:$gradient, Optional<Mortise_Tensor>:$mask, F64Attr:$scale,
                       BoolAttr:$causal);
  let results = (outs Mortise_FloatTensor:$q_gradient, Mortise_FloatTensor:$k_gradient, Mortise_FloatTensor:$v_gradient);
}
}
def Mortise_RopeOp : Mortise_CompositeOp<"rope"> {
  let summary = "rotary embedding: x * cos + rotated(x) * sin";
  let description = [{
    x [..., D], as a rule [batch, heads, sequence, D]. With `interleaved` false, rotated(x) is -x[D/2:] followed by x[:D/2]; with true, each pair (a, b) of
    neighbours becomes (-b, a). cos and sin broadcast to x where an extent is 1, so that [1, 1, sequence, D] serves all heads. Both products
    and their sum follow IEEE 754, so an infinity or NaN reaches the other element of its pair as well.

    Constraints:
    * rope_c1: x has rank 1 or more, and D is even for all values of symbols.
    * rope_c2: cos and sin have the rank and the element type of x, extents 1 or x's, and D as the last.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$cos, Mortise_FloatTensor:$sin, BoolAttr:$interleaved);
  let results = (outs Mortise_FloatTensor:$result);
  let since = 2;
}
def Mortise_RaggedAttentionOp : Mortise_CompositeOp<"ragged_attention"> {
  let opTraits = [MortiseTrait_Contraction];
  let summary = "attention over sequences of different lengths, packed by rows";
  let description = [{
    q [T, H, D], k [S, G, D], v [S, G, E] with H a multiple of G: [T, H, E]. Row i of q belongs to sequence n = (number of q_offsets at most i) - 1,
    when n >= 0 and i < q_offsets[n + 1] (an index beyond the last reads the last), else to no sequence; rows of k and v follow the same rule with
    k_offsets. So with ascending offsets, sequence n has the rows q_offsets[n] .. q_offsets[n + 1] - 1, and rows outside all sequences are padding.
    A query sees the keys of its sequence; with `causal`, only keys at least as far from the end of the sequence as the query is, so the last query
    sees all keys. (`attention` counts from the start; both agree when a sequence has as many queries as keys.) A query that sees no key gives
    what attention gives: 0 if v is finite. In all else this op is `attention` with an i1 mask over the packed rows, including the rules for
    infinities and NaN.

    Constraints:
    * ragged_attention_c1: q, k and v have rank 3.
    * ragged_attention_c2: k has D of q; v has S and G of k.
    * ragged_attention_c3: H is a multiple of G, for all values of symbols.
    * ragged_attention_c4: k and v have the element type of q, which is the result's.
    * ragged_attention_c5: q_offsets and k_offsets have rank 1 and one extent, at least 1.
  }];
  let arguments = (ins Mortise_FloatTensor:$q, Mortise_FloatTensor:$k, Mortise_FloatTensor:$v, Mortise_TensorOf<[I64]>:$q_offsets,
                       Mortise_TensorOf<[I64]>:$k_offsets, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Mortise_FloatTensor:$result);
  let since = 2;
}
