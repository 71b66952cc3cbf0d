// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @extents(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{batch and contracting extents must agree, found lhs [2, 3] and rhs [4, 5]}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @twice(%a: tensor<2x3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{lhs batch [0] and contracting dimensions [0] must be different dimensions of [2, 3]}}
  %0 = mortise.dot %a, %a {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @counts(%a: tensor<2x2xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{both sides must name equally many batch and contracting dimensions}}
  %0 = mortise.dot %a, %a {lhs_batch = array<i64: 0>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @elements(%a: tensor<2x2xf32>, %b: tensor<2x2xf64>) -> tensor<2x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rhs must have element type f32, found f64}}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x2xf32>, tensor<2x2xf64>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
}

// -----

func.func @weight(%x: tensor<2x4xf32>, %w: tensor<4x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of x [2, 4] must be that of weight [4, 6]: 6}}
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<2x4xf32>, tensor<4x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @bias(%x: tensor<2x4xf32>, %w: tensor<6x4xf32>, %b: tensor<1x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [6], found [1, 6]}}
  %0 = mortise.linear %x, %w, %b {weight_transposed = false} : (tensor<2x4xf32>, tensor<6x4xf32>, tensor<1x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
