// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counter-based random numbers: every backend gives the same bits for the same key and offset, in any order of computation.
//
// The words are those of Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3; SC 2011).
// Word w of a key and an offset is lane w mod 4 of the block whose counter is offset + floor(w / 4), as 64 bits that wrap:
// c0 its low half, c1 its high half, c2 = c3 = 0; k0 and k1 are the low and the high half of the key. A block is ten rounds
//     (c0, c1, c2, c3) <- (hi(M1 * c2) ^ c1 ^ k0, lo(M1 * c2), hi(M0 * c0) ^ c3 ^ k1, lo(M0 * c0))
// with M0 = 0xD2511F53, M1 = 0xCD9E8D57, and k0 += 0x9E3779B9, k1 += 0xBB67AE85 after each round. The lanes are c0 to c3.
// After an op that draws n words, the next offset is offset + ceil(n / 4). StableHLO's rng_bit_generator leaves the mapping to
// backends and has none of the distributions. Random bits, uniform numbers and decisions based on them have the same bits
// everywhere; normal draws, made with log and cos, may differ in the last places.
include "mortise/ir/dialect.td"

def Mortise_I64Tensor : Mortise_TensorOf<[I64]>;

let since = 2 in {
def Mortise_RandomBitsOp : Mortise_Op<"random_bits"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "random bits from `key` and `offset`";
  let description = [{
    Philox4x32-10. Element i in row-major order is word i or its low bits; for i64, the words 2 i (low half) and 2 i + 1.
    Word w is lane w mod 4 of the block with counter offset + floor(w / 4). (random_c1) `key` and `offset` are scalars, in all ops of
    this family. (random_c2) `dtype` is one of i64, i32, i16, i8, ui8. (random_c3) No extent is negative.
  }];
  let arguments = (ins Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset, Mortise_Dims:$shape, StrAttr:$dtype);
  let results = (outs Mortise_TensorOf<[I64, I32, I16, I8, UI8]>:$result);
}
def Mortise_UniformOp : Mortise_CompositeOp<"uniform"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "uniform numbers in [0, 1)";
  let description = [{
    The top p bits of element i of random_bits (i64 for f64, else i32), times 2^-p, exactly: p is 53 for f64, 24 for f32, 11 for
    f16 and 8 for bf16. So 1 and -0 are never drawn. (random_c2) `dtype` is one of these types.
  }];
  let arguments = (ins Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset, Mortise_Dims:$shape, StrAttr:$dtype);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_NormalOp : Mortise_CompositeOp<"normal"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "normally distributed numbers, of mean 0 and variance 1";
  let description = [{
    Box and Muller's method: sqrt(-2 log(1 - u)) cos(2 pi v) with u, v = uniform numbers of shape [2, shape...], in f64 for f64 and in
    f32 otherwise, rounded to `dtype` at the end. So f32 draws lie within +-5.8, f64 draws within +-8.6; none is NaN or an infinity,
    and a zero has either sign. (random_c2) `dtype` is one of f64, f32, f16, bf16.
  }];
  let arguments = (ins Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset, Mortise_Dims:$shape, StrAttr:$dtype);
  let results = (outs Mortise_FloatTensor:$result);
}
def Mortise_BernoulliOp : Mortise_CompositeOp<"bernoulli"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "true with probability p, per element";
  let description = [{
    u < p with u = uniform of p's shape in f32, compared exactly: p <= 0 and NaN give false, p >= 1 gives true.
  }];
  let arguments = (ins Mortise_FloatTensor:$p, Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset);
  let results = (outs Mortise_BoolTensor:$result);
}
def Mortise_DropoutOp : Mortise_CompositeOp<"dropout"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "zeroes each element with probability p and scales the others by 1 / (1 - p); and which were kept";
  let description = [{
    kept = u >= p with u = uniform of x's shape in f32, compared exactly; result = kept ? x * (1 / (1 - p)) : 0. Factor and
    product are computed in at least f32 (f64 for f64) and rounded to x's type once. A dropped element becomes +0 whatever it was
    (PyTorch multiplies, so there NaN stays); kept elements follow IEEE 754. (dropout_c1) 0 <= p <= 1. p = 1 keeps nothing.
  }];
  let arguments = (ins Mortise_FloatTensor:$x, Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset, F64Attr:$p);
  let results = (outs Mortise_FloatTensor:$result, Mortise_BoolTensor:$kept);
}
def Mortise_RandomPermutationOp : Mortise_CompositeOp<"random_permutation"> {
  let opTraits = [MortiseTrait_Random];
  let summary = "the numbers 0 .. n - 1 in random order";
  let description = [{
    The indices of a stable ascending sort of n elements of random_bits, i64. (random_permutation_c1) `shape` is [n], not negative.
  }];
  let arguments = (ins Mortise_I64Tensor:$key, Mortise_I64Tensor:$offset, Mortise_Dims:$shape);
  let results = (outs Mortise_I64Tensor:$result);
}
}
