// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @count(%x: tensor<2x3xf32>) -> tensor<5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [5] must have as many elements as operand [2, 3] (reshape_c1)}}
  %0 = mortise.reshape %x {shape = #mortise.dims<[5]>} : (tensor<2x3xf32>) -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

func.func @negative(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [-1] must be at least 0 in every entry (shape_c1)}}
  %0 = mortise.reshape %x {shape = #mortise.dims<[-1]>} : (tensor<2x3xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @permutation(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{permutation [1, 1] must name each of the 2 dimensions once (transpose_c1)}}
  %0 = mortise.transpose %x {permutation = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @extent(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{extent 2 of operand dimension 0 must be 1 or 3, the extent of result dimension 0 (broadcast_c3)}}
  %0 = mortise.broadcast %x {shape = #mortise.dims<[3]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @ascending(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [1, 0] must be strictly ascending and in 0 .. 1 (broadcast_c2)}}
  %0 = mortise.broadcast %x {shape = #mortise.dims<[3, 2]>, axes = array<i64: 1, 0>} : (tensor<2x3xf32>) -> tensor<3x2xf32>
  return %0 : tensor<3x2xf32>
}

// -----

func.func @size(%x: tensor<f32>) -> tensor<4294967296x4294967296xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{has more bytes than a machine can address}}
  %0 = mortise.broadcast %x {shape = #mortise.dims<[4294967296, 4294967296]>, axes = array<i64>} : (tensor<f32>) -> tensor<4294967296x4294967296xf32>
  return %0 : tensor<4294967296x4294967296xf32>
}

// -----

func.func @limits(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dimension 0: expected 0 <= start <= limit <= 4, found 1 and 5 (slice_c3)}}
  %0 = mortise.slice %x {starts = #mortise.dims<[1]>, limits = #mortise.dims<[5]>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @ranks(%x: tensor<4xf32>, %y: tensor<4x1xf32>) -> tensor<8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{operand 1, tensor<4x1xf32>, must agree with operand 0, tensor<4xf32>, but for dimension 0 (concatenate_c3)}}
  %0 = mortise.concatenate %x, %y {axis = 0 : i64} : (tensor<4xf32>, tensor<4x1xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @none() -> tensor<8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{needs at least one operand (concatenate_c1)}}
  %0 = mortise.concatenate {axis = 0 : i64} : () -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

func.func @cut(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<1xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dimension 0: extent 4 cannot be padded by -3 and -2 (pad_c4)}}
  %0 = mortise.pad %x, %v {low = #mortise.dims<[-3]>, high = #mortise.dims<[-2]>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<1xf32>
  return %0 : tensor<1xf32>
}

// -----

func.func @axis() -> tensor<4xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 1 is not a dimension of rank 1: expected 0 <= axis < 1 (iota_c2)}}
  %0 = mortise.iota {shape = #mortise.dims<[4]>, dtype = "i32", axis = 1 : i64} : () -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @sparse() -> tensor<2xf32> {
  // expected-error @+1 {{value must be dense elements of a ranked tensor (constant_c1)}}
  %0 = mortise.constant sparse<[[0]], [1.0]> : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @dtype() -> tensor<4xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype "int" is unknown (iota_c1)}}
  %0 = mortise.iota {shape = #mortise.dims<[4]>, dtype = "int", axis = 0 : i64} : () -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @few(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [0] must have 2 entries, found 1 (broadcast_c1)}}
  %0 = mortise.broadcast %x {shape = #mortise.dims<[2, 3]>, axes = array<i64: 0>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

func.func @starts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{starts [0, 0] must have 1 entries, found 2 (slice_c1)}}
  %0 = mortise.slice %x {starts = #mortise.dims<[0, 0]>, limits = #mortise.dims<[4]>, strides = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @strides(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{strides [0] must be at least 1 in every entry (slice_c2)}}
  %0 = mortise.slice %x {starts = #mortise.dims<[0]>, limits = #mortise.dims<[4]>, strides = array<i64: 0>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @beside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 1 is not a dimension of rank 1: expected 0 <= axis < 1 (concatenate_c2)}}
  %0 = mortise.concatenate %x {axis = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @value(%x: tensor<4xf32>, %v: tensor<1xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{value must have shape [], found [1] (pad_c1)}}
  %0 = mortise.pad %x, %v {low = #mortise.dims<[0]>, high = #mortise.dims<[0]>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @amounts(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{low [0, 0] must have 1 entries, found 2 (pad_c2)}}
  %0 = mortise.pad %x, %v {low = #mortise.dims<[0, 0]>, high = #mortise.dims<[0]>, interior = array<i64: 0>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @interior(%x: tensor<4xf32>, %v: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{interior [-1] must be at least 0 in every entry (pad_c3)}}
  %0 = mortise.pad %x, %v {low = #mortise.dims<[0]>, high = #mortise.dims<[0]>, interior = array<i64: -1>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @turned(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axes [1] must be strictly ascending and in 0 .. 0 (reverse_c1)}}
  %0 = mortise.reverse %x {axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
