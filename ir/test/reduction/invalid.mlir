// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @axes(%x: tensor<2x3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [1, 1] must be strictly ascending and in 0 .. 1}}
  %0 = mortise.reduce_sum %x {axes = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @boolean(%x: tensor<2x3xi1>) -> tensor<2xi1> {
  // expected-error @+1 {{operand #0 must be statically shaped tensor of number values, but got 'tensor<2x3xi1>'}}
  %0 = mortise.reduce_sum %x {axes = array<i64: 1>} : (tensor<2x3xi1>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// -----

func.func @nothing(%x: tensor<2x0xf32>) -> tensor<2xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along axis 1 is 0, so there is no largest element}}
  %0 = mortise.argmax %x {axis = 1 : i64} : (tensor<2x0xf32>) -> tensor<2xi64>
  return %0 : tensor<2xi64>
}

// -----

func.func @scalar(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 0 is not a dimension of rank 0}}
  %0 = mortise.cumsum %x {axis = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
