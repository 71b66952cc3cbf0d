// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @heads(%q: tensor<1x3x5x4xf32>, %k: tensor<1x2x7x4xf32>) -> tensor<1x3x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the heads of q (3) must be a multiple of those of k (2) (attention_c4)}}
  %0 = mortise.attention %q, %k, %k {scale = 1.0 : f64, causal = false} : (tensor<1x3x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>) -> tensor<1x3x5x4xf32>
  return %0 : tensor<1x3x5x4xf32>
}

// -----

func.func @mask(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %m: tensor<5x7xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{mask [5, 7] must have rank 4 and broadcast to [1, 2, 5, 7] (attention_c6)}}
  %0 = mortise.attention %q, %k, %k, %m {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>, tensor<5x7xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @element(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %m: tensor<1x1x5x7xi32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a mask that is not i1 must have element type f32, found i32 (attention_c6)}}
  %0 = mortise.attention %q, %k, %k, %m {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>, tensor<1x1x5x7xi32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @keys(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %v: tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{v [1, 2, 6, 4] must have the first three extents of k [1, 2, 7, 4] (attention_c3)}}
  %0 = mortise.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @ragged_rank(%q: tensor<9x8xf32>, %k: tensor<7x2x8xf32>, %v: tensor<7x2x8xf32>, %o: tensor<3xi64>, %p: tensor<3xi64>) -> tensor<9x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{q, k and v must have rank 3, found [9, 8], [7, 2, 8] and [7, 2, 8] (ragged_attention_c1)}}
  %0 = mortise.ragged_attention %q, %k, %v, %o, %p {scale = 1.0 : f64, causal = false} : (tensor<9x8xf32>, tensor<7x2x8xf32>, tensor<7x2x8xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<9x8xf32>
  return %0 : tensor<9x8xf32>
}

// -----

func.func @ragged_keys(%q: tensor<9x4x8xf32>, %k: tensor<7x2x8xf32>, %v: tensor<6x2x8xf32>, %o: tensor<3xi64>, %p: tensor<3xi64>) -> tensor<9x4x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{k [7, 2, 8] must have the last extent of q [9, 4, 8], and v [6, 2, 8] the first two of k (ragged_attention_c2)}}
  %0 = mortise.ragged_attention %q, %k, %v, %o, %p {scale = 1.0 : f64, causal = false} : (tensor<9x4x8xf32>, tensor<7x2x8xf32>, tensor<6x2x8xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<9x4x8xf32>
  return %0 : tensor<9x4x8xf32>
}

// -----

func.func @ragged_heads(%q: tensor<9x4x8xf32>, %k: tensor<7x3x8xf32>, %v: tensor<7x3x8xf32>, %o: tensor<3xi64>, %p: tensor<3xi64>) -> tensor<9x4x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the heads of q (4) must be a multiple of those of k (3) (ragged_attention_c3)}}
  %0 = mortise.ragged_attention %q, %k, %v, %o, %p {scale = 1.0 : f64, causal = false} : (tensor<9x4x8xf32>, tensor<7x3x8xf32>, tensor<7x3x8xf32>, tensor<3xi64>, tensor<3xi64>) -> tensor<9x4x8xf32>
  return %0 : tensor<9x4x8xf32>
}

// -----

func.func @ragged_element(%q: tensor<9x4x8xf32>, %k: tensor<7x2x8xf32>, %v: tensor<7x2x8xf16>, %o: tensor<3xi64>, %p: tensor<3xi64>) -> tensor<9x4x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{v must have element type f32, found f16 (ragged_attention_c4)}}
  %0 = mortise.ragged_attention %q, %k, %v, %o, %p {scale = 1.0 : f64, causal = false} : (tensor<9x4x8xf32>, tensor<7x2x8xf32>, tensor<7x2x8xf16>, tensor<3xi64>, tensor<3xi64>) -> tensor<9x4x8xf32>
  return %0 : tensor<9x4x8xf32>
}

// -----

func.func @ragged_offsets(%q: tensor<9x4x8xf32>, %k: tensor<7x2x8xf32>, %v: tensor<7x2x8xf32>, %o: tensor<3xi64>, %p: tensor<4xi64>) -> tensor<9x4x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{q_offsets [3] and k_offsets [4] must have rank 1 and one extent, at least 1 (ragged_attention_c5)}}
  %0 = mortise.ragged_attention %q, %k, %v, %o, %p {scale = 1.0 : f64, causal = false} : (tensor<9x4x8xf32>, tensor<7x2x8xf32>, tensor<7x2x8xf32>, tensor<3xi64>, tensor<4xi64>) -> tensor<9x4x8xf32>
  return %0 : tensor<9x4x8xf32>
}

// -----

func.func @ranks(%q: tensor<1x2x5x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{q, k and v must have rank 4, found [1, 2, 5, 4], [2, 5, 4] and [1, 2, 5, 4] (attention_c1)}}
  %0 = mortise.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @batch(%q: tensor<1x2x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{k [2, 2, 5, 4] must have the first and last extents of q [1, 2, 5, 4] (attention_c2)}}
  %0 = mortise.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @elements(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x5x4xf32>, %v: tensor<1x2x5x4xf16>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{v must have element type f32, found f16 (attention_c5)}}
  %0 = mortise.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf16>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @odd(%x: tensor<2x5xf32>, %c: tensor<2x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have rank 1 or more and an even last extent, found [2, 5] (rope_c1)}}
  %0 = mortise.rope %x, %c, %c {interleaved = false} : (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @angles(%x: tensor<2x3x4xf32>, %c: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cos [3, 4] must have the rank of x [2, 3, 4], its last extent, and extents 1 or its elsewhere (rope_c2)}}
  %0 = mortise.rope %x, %c, %c {interleaved = false} : (tensor<2x3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

func.func @gradient(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %s: tensor<1x2x5xf32>, %g: tensor<1x2x5x3xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{gradient [1, 2, 5, 3] must have the shape [1, 2, 5, 4] (attention_gradient_c1)}}
  %0:3 = mortise.attention_gradient %q, %k, %k, %q, %s, %g {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5xf32>, tensor<1x2x5x3xf32>) -> (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>)
  return %0#0 : tensor<1x2x5x4xf32>
}

// -----

func.func @sums(%q: tensor<1x2x5x4xbf16>, %k: tensor<1x2x7x4xbf16>, %s: tensor<1x2x5xbf16>) -> tensor<1x2x5x4xbf16> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{log_sums must have element type f32, found bf16 (attention_gradient_c2)}}
  %0:3 = mortise.attention_gradient %q, %k, %k, %q, %s, %q {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xbf16>, tensor<1x2x7x4xbf16>, tensor<1x2x7x4xbf16>, tensor<1x2x5x4xbf16>, tensor<1x2x5xbf16>, tensor<1x2x5x4xbf16>) -> (tensor<1x2x5x4xbf16>, tensor<1x2x7x4xbf16>, tensor<1x2x7x4xbf16>)
  return %0#0 : tensor<1x2x5x4xbf16>
}

// -----

func.func @forward(%q: tensor<1x3x5x4xf32>, %k: tensor<1x2x7x4xf32>) -> tensor<1x3x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the heads of q (3) must be a multiple of those of k (2) (attention_c4)}}
  %0:2 = mortise.attention_forward %q, %k, %k {scale = 1.0 : f64, causal = false} : (tensor<1x3x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>) -> (tensor<1x3x5x4xf32>, tensor<1x3x5xf32>)
  return %0#1 : tensor<1x3x5xf32>
}
