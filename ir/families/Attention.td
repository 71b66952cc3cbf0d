// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
include "mortise/ir/Dialect.td"

def Mortise_AttentionOp : Mortise_CompositeOp<"attention"> {
  let summary = "softmax(scale * q k^T + mask) v";
  let description = [{
    q [B, H, Q, D], k [B, G, K, D], v [B, G, K, E] with H a multiple of G (query head h reads head h / (H / G)): [B, H, Q, E].
    mask broadcasts to [B, H, Q, K] (rank 4, extents 1 or equal): i1, true where a key is seen, or of q's type and added. `causal` lets
    query i see keys 0 .. i. A query that sees no key (with an added mask: every key at -inf) gives 0, as PyTorch's CPU kernels do.
  }];
  let arguments = (ins Mortise_FloatTensor:$q, Mortise_FloatTensor:$k, Mortise_FloatTensor:$v,
                       Optional<Mortise_Tensor>:$mask, F64Attr:$scale, BoolAttr:$causal);
  let results = (outs Mortise_FloatTensor:$result);
}
