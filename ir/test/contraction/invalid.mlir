// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @extents(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{batch and contracting extents must agree, found lhs [2, 3] and rhs [4, 5] (dot_c5)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @twice(%a: tensor<2x3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{lhs batch [0] and contracting dimensions [0] must be different dimensions of [2, 3] (dot_c2)}}
  %0 = mortise.dot %a, %a {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @counts(%a: tensor<2x2xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{both sides must name equally many batch and contracting dimensions, found [0], [1] and [], [1] (dot_c4)}}
  %0 = mortise.dot %a, %a {lhs_batch = array<i64: 0>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @elements(%a: tensor<2x2xf32>, %b: tensor<2x2xf64>) -> tensor<2x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rhs must have element type f32, found f64 (dot_c1)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x2xf32>, tensor<2x2xf64>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @weight(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of x [2, 4] must be that of weight [4, 6]: 6 (linear_c2)}}
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @bias(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>, %b: tensor<1x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [6], found [1, 6] (linear_c4)}}
  %0 = mortise.linear %x, %w, %b {weight_transposed = false} : (tensor<2x4xf32>, tensor<6x4xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @one_element_type(%a: tensor<2x3xf32>, %b: tensor<3x4xf16>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rhs must have element type f32, found f16 (dot_c1)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x4xf16>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @lhs_axes(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{lhs batch [1] and contracting dimensions [1] must be different dimensions of [2, 3] (dot_c2)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64: 1>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @rhs_axes(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rhs batch [] and contracting dimensions [2] must be different dimensions of [3, 4] (dot_c3)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 2>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @as_many(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{both sides must name equally many batch and contracting dimensions, found [], [1] and [], [] (dot_c4)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @agree(%a: tensor<2x3xf32>, %b: tensor<5x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{batch and contracting extents must agree, found lhs [2, 3] and rhs [5, 4] (dot_c5)}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @linear_rank(%x: tensor<2x3xf32>, %w: tensor<3xf32>) -> tensor<2x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have rank 1 or more and weight rank 2, found [2, 3] and [3] (linear_c1)}}
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @linear_inner(%x: tensor<2x3xf32>, %w: tensor<5x4xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of x [2, 3] must be that of weight [5, 4]: 4 (linear_c2)}}
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<2x3xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @linear_element(%x: tensor<2x3xf32>, %w: tensor<5x3xf16>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{weight must have element type f32, found f16 (linear_c3)}}
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<2x3xf32>, tensor<5x3xf16>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @linear_bias(%x: tensor<2x3xf32>, %w: tensor<5x3xf32>, %b: tensor<3xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [5], found [3] (linear_c4)}}
  %0 = mortise.linear %x, %w, %b {weight_transposed = false} : (tensor<2x3xf32>, tensor<5x3xf32>, tensor<3xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
