// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @groups(%x: tensor<1x4x9xf32>, %w: tensor<6x2x3xf32>) -> tensor<1x6x7xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the second extent of weight [6, 2, 3] must be the channels of x [1, 4, 9] divided by groups: 4 (convolution_c3)}}
  %0 = mortise.convolution %x, %w {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<1x4x9xf32>, tensor<6x2x3xf32>) -> tensor<1x6x7xf32>
  return %0 : tensor<1x6x7xf32>
}

// -----

func.func @size(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3xf32>) -> tensor<1x6x7xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{strides [1, 1] must have 1 entries, found 2 (window_c2)}}
  %0 = mortise.convolution %x, %w {strides = array<i64: 1, 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<1x4x9xf32>, tensor<6x4x3xf32>) -> tensor<1x6x7xf32>
  return %0 : tensor<1x6x7xf32>
}

// -----

func.func @large(%x: tensor<1x4x2xf32>) -> tensor<1x4x0xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the window [3] with dilations [1] is larger than the padded spatial extents [2] (window_c4)}}
  %0 = mortise.max_pool %x {window = array<i64: 3>, strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>} : (tensor<1x4x2xf32>) -> tensor<1x4x0xf32>
  return %0 : tensor<1x4x0xf32>
}

// -----

func.func @stride(%x: tensor<1x4x2xf32>) -> tensor<1x4x1xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{strides [0] must be at least 1 in every entry (window_c3)}}
  %0 = mortise.max_pool %x {window = array<i64: 2>, strides = array<i64: 0>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>} : (tensor<1x4x2xf32>) -> tensor<1x4x1xf32>
  return %0 : tensor<1x4x1xf32>
}

// -----

func.func @rank(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have a batch, a channel and one to three spatial dimensions, found [4, 2] (window_c1)}}
  %0 = mortise.sum_pool %x {window = array<i64>, strides = array<i64>, low = array<i64>, high = array<i64>, dilations = array<i64>} : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %0 : tensor<4x2xf32>
}

// -----

func.func @ranks(%x: tensor<1x4x9xf32>, %w: tensor<6x4x3x3xf32>) -> tensor<1x6x7xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{weight [6, 4, 3, 3] must have the rank of x [1, 4, 9] (convolution_c1)}}
  %0 = mortise.convolution %x, %w {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<1x4x9xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x7xf32>
  return %0 : tensor<1x6x7xf32>
}

// -----

func.func @channels(%x: tensor<1x2x5xf32>, %w: tensor<4x2x3xf32>, %b: tensor<2xf32>) -> tensor<1x4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [4], found [2] (fused_convolution_c1)}}
  %0 = mortise.fused_convolution %x, %w bias %b {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, activation = "relu"} : (tensor<1x2x5xf32>, tensor<4x2x3xf32>, tensor<2xf32>) -> tensor<1x4x3xf32>
  return %0 : tensor<1x4x3xf32>
}
