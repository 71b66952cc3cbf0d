// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @empty(%x: tensor<0x2xf32>, %i: tensor<3xi64>) -> tensor<3x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent 0}}
  %0 = mortise.take %x, %i {axis = 0 : i64} : (tensor<0x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @float_indices(%x: tensor<2xf32>, %i: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{operand #1 must be statically shaped tensor of i64 or i32 values, but got 'tensor<3xf32>'}}
  %0 = mortise.take %x, %i {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @along(%x: tensor<2x3xf32>, %i: tensor<2x4xi64>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{off the axis, extents of indices [2, 4] must be at most those of operand [2, 3]}}
  %0 = mortise.take_along %x, %i {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @coordinates(%x: tensor<2x3xf32>, %i: tensor<5x3xi64>) -> tensor<5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of indices [5, 3] must be at most the rank of operand [2, 3]}}
  %0 = mortise.take_nd %x, %i : (tensor<2x3xf32>, tensor<5x3xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @updates(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<3x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have shape [2, 3], found [3, 3]}}
  %0 = mortise.put %x, %i, %u {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<3x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @mode(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{attribute 'mode' failed to satisfy constraint: string attribute that is one of: set, add}}
  %0 = mortise.put %x, %i, %u {axis = 0 : i64, mode = "max"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}
