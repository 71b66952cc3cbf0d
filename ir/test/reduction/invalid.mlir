// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @axes(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [1, 1] must be strictly ascending and in 0 .. 1 (reduce_c1)}}
  %0 = mortise.reduce_sum %x {axes = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @boolean(%x: tensor<2x3xi1>) -> tensor<2xi1> {
  // expected-error @+1 {{operand #0 must be tensor of known extents of number values, but got 'tensor<2x3xi1>'}}
  %0 = mortise.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x3xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// -----

func.func @nothing(%x: tensor<2x0xf32>) -> tensor<2xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along axis 1 is 0, so there is no largest or smallest element: expected at least 1 (arg_c2)}}
  %0 = mortise.argmax %x {axis = 1 : i64} : (tensor<2x0xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 0 is not a dimension of rank 0: expected 0 <= axis < 0 (running_c1)}}
  %0 = mortise.cumsum %x {axis = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @mean(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [2] must be strictly ascending and in 0 .. 1 (mean_c1)}}
  %0 = mortise.mean %x {axes = array<i64: 2>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @argmin(%x: tensor<2x3xf32>) -> tensor<2x3xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (arg_c1)}}
  %0 = mortise.argmin %x {axis = 2 : i64} : (tensor<2x3xf32>) -> tensor<2x3xi64>
  return %0 : tensor<2x3xi64>
}

// -----

func.func @cumlogsumexp(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {
  // expected-error @+1 {{operand #0 must be tensor of known extents of float values, but got 'tensor<2x3xi32>'}}
  %0 = mortise.cumlogsumexp %x {axis = 0 : i64} : (tensor<2x3xi32>) -> tensor<2x3xi32>
  return %0 : tensor<2x3xi32>
}

// -----

func.func @cummax(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (running_c1)}}
  %0, %1 = mortise.cummax %x {axis = 2 : i64} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi64>
}

// -----

func.func @indices(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  // expected-error @+1 {{'mortise.cummin' op result #1 must be tensor of known extents of 64-bit signless integer values, but got 'tensor<2x3xf32>'}}
  %0, %1 = mortise.cummin %x {axis = 0 : i64} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

func.func @sort(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2 (running_c1)}}
  %0, %1 = mortise.sort %x {axis = -1 : i64, descending = false, stable = true} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi64>
}

// -----

func.func @top_axis(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (top_k_c1)}}
  %0, %1 = mortise.top_k %x {k = 2 : i64, axis = 2 : i64, largest = true, sorted = true} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi64>
}

// -----

func.func @top_k(%x: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{k is 4: expected at least 0 and at most 3, the extent along axis 1 (top_k_c2)}}
  %0, %1 = mortise.top_k %x {k = 4 : i64, axis = 1 : i64, largest = true, sorted = true} : (tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xi64>)
  return %0, %1 : tensor<2x3xf32>, tensor<2x3xi64>
}
