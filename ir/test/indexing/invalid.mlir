// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @empty(%x: tensor<0x2xf32>, %i: tensor<3xi64>) -> tensor<3x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent 0 (take_c2)}}
  %0 = mortise.take %x, %i {axis = 0 : i64} : (tensor<0x2xf32>, tensor<3xi64>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @float_indices(%x: tensor<2xf32>, %i: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+1 {{operand #1 must be tensor of known extents of i64 or i32 values, but got 'tensor<3xf32>'}}
  %0 = mortise.take %x, %i {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @along(%x: tensor<2x3xf32>, %i: tensor<2x4xi64>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{off the axis, extents of indices [2, 4] must be at most those of operand [2, 3] (along_c3)}}
  %0 = mortise.take_along %x, %i {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x4xi64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @coordinates(%x: tensor<2x3xf32>, %i: tensor<5x3xi64>) -> tensor<5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of indices [5, 3] must be a number, at most the rank of operand [2, 3] (nd_c1)}}
  %0 = mortise.take_nd %x, %i : (tensor<2x3xf32>, tensor<5x3xi64>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @updates(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<3x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have shape [2, 3], found [3, 3] (put_c3)}}
  %0 = mortise.put %x, %i, %u {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<3x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @mode(%x: tensor<4x3xf32>, %i: tensor<2xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{attribute 'mode' failed to satisfy constraint: string attribute that is one of: set, add}}
  %0 = mortise.put %x, %i, %u {axis = 0 : i64, mode = "max"} : (tensor<4x3xf32>, tensor<2xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @take_axis(%x: tensor<4x3xf32>, %i: tensor<2xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (take_c1)}}
  %0 = mortise.take %x, %i {axis = 2 : i64} : (tensor<4x3xf32>, tensor<2xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @along_rank(%x: tensor<4x3xf32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{indices [4] must have the rank of operand [4, 3] (along_c1)}}
  %0 = mortise.take_along %x, %i {axis = 0 : i64} : (tensor<4x3xf32>, tensor<4xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @along_axis(%x: tensor<4x3xf32>, %i: tensor<4x3xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2 (along_c2)}}
  %0 = mortise.take_along %x, %i {axis = -1 : i64} : (tensor<4x3xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @along_empty(%x: tensor<0x3xf32>, %i: tensor<4x3xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent 0 (take_along_c1)}}
  %0 = mortise.take_along %x, %i {axis = 0 : i64} : (tensor<0x3xf32>, tensor<4x3xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @nd_empty(%x: tensor<0x3xf32>, %i: tensor<4x1xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent 0 (take_nd_c1)}}
  %0 = mortise.take_nd %x, %i : (tensor<0x3xf32>, tensor<4x1xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @put_axis(%x: tensor<4x3xf32>, %i: tensor<4xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (put_c1)}}
  %0 = mortise.put %x, %i, %x {axis = 2 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<4xi64>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @put_rank(%x: tensor<4x3xf32>, %i: tensor<4x1xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{indices must have rank 1, found [4, 1] (put_c2)}}
  %0 = mortise.put %x, %i, %x {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @table(%x: tensor<f32>, %i: tensor<4xi64>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{table must have rank 1 or more (embedding_c1)}}
  %0 = mortise.embedding %x, %i : (tensor<f32>, tensor<4xi64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @rows(%x: tensor<0x3xf32>, %i: tensor<4xi64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent 0 (embedding_c2)}}
  %0 = mortise.embedding %x, %i : (tensor<0x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @scatter_shape(%x: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have shape [2, 3], found [4, 3] (scatter_along_c1)}}
  %0 = mortise.scatter_along %x, %i, %u {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @scatter_element(%x: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf64>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have element type f32, found f64 (scatter_along_c1)}}
  %0 = mortise.scatter_along %x, %i, %u {axis = 0 : i64, mode = "set"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf64>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @scatter_mode(%x: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{attribute 'mode' failed to satisfy constraint: string attribute that is one of: set, add, mul, max, min}}
  %0 = mortise.scatter_along %x, %i, %u {axis = 0 : i64, mode = "mean"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @scatter_depth(%x: tensor<4x3xf32>, %i: tensor<2x3xi64>, %u: tensor<2xf32>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of indices [2, 3] must be a number, at most the rank of operand [4, 3] (nd_c1)}}
  %0 = mortise.scatter_nd %x, %i, %u {mode = "set"} : (tensor<4x3xf32>, tensor<2x3xi64>, tensor<2xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @scatter_slices(%x: tensor<4x3xf32>, %i: tensor<2x1xi64>, %u: tensor<2xf32>) -> tensor<4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have shape [2, 3], found [2] (scatter_nd_c1)}}
  %0 = mortise.scatter_nd %x, %i, %u {mode = "set"} : (tensor<4x3xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

func.func @sequence(%s: tensor<2x5xf32>, %v: tensor<3x5xf32>) -> tensor<3x5xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{sequence [2, 5] must have rank 1, or the extents of values [3, 5] but for the last (searchsorted_c1)}}
  %0 = mortise.searchsorted %s, %v {right = false} : (tensor<2x5xf32>, tensor<3x5xf32>) -> tensor<3x5xi64>
  return %0 : tensor<3x5xi64>
}

// -----

func.func @values(%s: tensor<5xf32>, %v: tensor<3xf64>) -> tensor<3xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{values must have element type f32, found f64 (searchsorted_c2)}}
  %0 = mortise.searchsorted %s, %v {right = false} : (tensor<5xf32>, tensor<3xf64>) -> tensor<3xi64>
  return %0 : tensor<3xi64>
}
