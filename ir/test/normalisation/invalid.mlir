// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @axis(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2 (softmax_c1)}}
  %0 = mortise.softmax %x {axis = -1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @scale(%x: tensor<2x4xf32>, %s: tensor<2xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have shape [4], found [2] (layer_norm_c2)}}
  %0 = mortise.layer_norm %x scale %s {axis = 1 : i64, epsilon = 0.0 : f64} : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @element(%x: tensor<2x4xf32>, %s: tensor<4xf64>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have element type f32, found f64 (rms_norm_c2)}}
  %0 = mortise.rms_norm %x, %s {axis = 1 : i64, epsilon = 0.0 : f64} : (tensor<2x4xf32>, tensor<4xf64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @groups(%x: tensor<2x4x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the channels (4) must be a multiple of groups (3) (group_norm_c2)}}
  %0 = mortise.group_norm %x {groups = 3 : i64, epsilon = 0.0 : f64} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// -----

func.func @channels(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have a batch and a channel dimension, found [4] (batch_norm_c1)}}
  %0 = mortise.batch_norm %x mean %x variance %x {epsilon = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @approximate(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{attribute 'approximate' failed to satisfy constraint: string attribute that is one of: none, tanh}}
  %0 = mortise.gelu %x {approximate = "sigmoid"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @softmax_axis(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (softmax_c1)}}
  %0 = mortise.softmax %x {axis = 2 : i64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @log_softmax_axis(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2 (log_softmax_c1)}}
  %0 = mortise.log_softmax %x {axis = -1 : i64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @layer_norm_axis(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (layer_norm_c1)}}
  %0 = mortise.layer_norm %x {axis = 2 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @layer_norm_scale(%x: tensor<2x6xf32>, %s: tensor<2xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have shape [6], found [2] (layer_norm_c2)}}
  %0 = mortise.layer_norm %x scale %s {axis = 1 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>, tensor<2xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @rms_norm_axis(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (rms_norm_c1)}}
  %0 = mortise.rms_norm %x {axis = 2 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @rms_norm_scale(%x: tensor<2x6xf32>, %s: tensor<6xf16>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have element type f32, found f16 (rms_norm_c2)}}
  %0 = mortise.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>, tensor<6xf16>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @group_norm_rank(%x: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have a batch and a channel dimension, found [6] (group_norm_c1)}}
  %0 = mortise.group_norm %x {groups = 2 : i64, epsilon = 1.0 : f64} : (tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @group_norm_groups(%x: tensor<2x6xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the channels (6) must be a multiple of groups (4) (group_norm_c2)}}
  %0 = mortise.group_norm %x {groups = 4 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @group_norm_bias(%x: tensor<2x6xf32>, %b: tensor<2xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [6], found [2] (group_norm_c3)}}
  %0 = mortise.group_norm %x bias %b {groups = 2 : i64, epsilon = 1.0 : f64} : (tensor<2x6xf32>, tensor<2xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @batch_norm_rank(%x: tensor<6xf32>, %m: tensor<6xf32>) -> tensor<6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have a batch and a channel dimension, found [6] (batch_norm_c1)}}
  %0 = mortise.batch_norm %x mean %m variance %m {epsilon = 1.0 : f64} : (tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// -----

func.func @batch_norm_mean(%x: tensor<2x6xf32>, %m: tensor<2xf32>) -> tensor<2x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{mean must have shape [6], found [2] (batch_norm_c2)}}
  %0 = mortise.batch_norm %x mean %m variance %m {epsilon = 1.0 : f64} : (tensor<2x6xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// -----

func.func @targets(%x: tensor<2x6xf32>, %t: tensor<6xi64>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{targets must have shape [2], found [6] (cross_entropy_c1)}}
  %0 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 0.0 : f64, reduction = "sum"} : (tensor<2x6xf32>, tensor<6xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @smoothing(%x: tensor<2x6xf32>, %t: tensor<2xi64>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{label_smoothing must be from 0 to 1, found 1.500000 (cross_entropy_c2)}}
  %0 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 1.5 : f64, reduction = "sum"} : (tensor<2x6xf32>, tensor<2xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

func.func @ignored(%x: tensor<2x6xf32>, %t: tensor<2xi32>) -> tensor<f32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{ignore_index must fit the i32 of targets, found 3000000000 (cross_entropy_c3)}}
  %0 = mortise.cross_entropy %x, %t {ignore_index = 3000000000 : i64, label_smoothing = 0.0 : f64, reduction = "sum"} : (tensor<2x6xf32>, tensor<2xi32>) -> tensor<f32>
  return %0 : tensor<f32>
}
