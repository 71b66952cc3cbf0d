// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention and what prepares its operands. f16, bf16 and f8 compute in f32 and round once at the end.
include "mortise/ir/Dialect.td"

def Mortise_AttentionOp : Mortise_CompositeOp<"attention"> {
  let summary = "softmax(scale * q k^T + mask) v";
  let description = [{
    q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E] with H a multiple of G (query head h reads head h / (H / G)): [B, H, Q, E].
    mask broadcasts to [B, H, Q, K]: i1, true where a key is seen, or of q's type and added. `causal` lets query i see keys 0 .. i; the others
    are false in an i1 mask, and -inf in an added one.

    A score of a key that an i1 mask hides is -inf, whatever q and k hold; an added mask is added, so that NaN stays NaN. A key with score -inf has
    weight 0, and 0 times an infinite or NaN v is NaN, as it is in PyTorch's definition. (Kernels may leave such keys out; then v does not
    count where no query sees it.) A query that sees no key, by mask and `causal` alone (with an added mask: -inf at every key), has weight 0
    for each, as PyTorch's CPU kernels do; one whose scores are all -inf otherwise gives NaN, as softmax does. With K = 0 the result is 0.

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
def Mortise_RopeOp : Mortise_CompositeOp<"rope"> {
  let summary = "rotary embedding: x * cos + rotated(x) * sin";
  let description = [{
    x [..., D], as a rule [batch, heads, sequence, D]. With `interleaved` false, rotated(x) is -x[D/2:] followed by x[:D/2]; with true, each pair (a, b) of
    neighbours becomes (-b, a). cos and sin broadcast to x where an extent is 1, so that [1, 1, sequence, D] serves all heads.

    Constraints:
    * rope_c1: x has rank 1 or more, and D is even for all values of symbols.
    * rope_c2: cos and sin have the rank and the element type of x, extents 1 or x's, and D as the last.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_FloatTensor:$cos, Mortise_FloatTensor:$sin, BoolAttr:$interleaved);
  let results = (outs Mortise_FloatTensor:$result);
  let since = 2;
}
