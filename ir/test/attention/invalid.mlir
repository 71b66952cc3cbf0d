// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @heads(%q: tensor<1x3x5x4xf32>, %k: tensor<1x2x7x4xf32>) -> tensor<1x3x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the heads of q (3) must be a multiple of those of k (2)}}
  %0 = mortise.attention %q, %k, %k {scale = 1.0 : f64, causal = false} : (tensor<1x3x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>) -> tensor<1x3x5x4xf32>
  return %0 : tensor<1x3x5x4xf32>
}

// -----

func.func @mask(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %m: tensor<5x7xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{mask [5, 7] must have rank 4 and broadcast to [1, 2, 5, 7]}}
  %0 = mortise.attention %q, %k, %k, %m {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>, tensor<5x7xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @element(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %m: tensor<1x1x5x7xi32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a mask that is not i1 must have element type f32, found i32}}
  %0 = mortise.attention %q, %k, %k, %m {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x7x4xf32>, tensor<1x1x5x7xi32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

func.func @keys(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x7x4xf32>, %v: tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{v [1, 2, 6, 4] must have the first three extents of k [1, 2, 7, 4]}}
  %0 = mortise.attention %q, %k, %v {scale = 1.0 : f64, causal = false} : (tensor<1x2x5x4xf32>, tensor<1x2x7x4xf32>, tensor<1x2x6x4xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}
