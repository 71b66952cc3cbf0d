// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @axis(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2}}
  %0 = mortise.softmax %x {axis = -1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @scale(%x: tensor<2x4xf32>, %s: tensor<2xf32>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have shape [4], found [2]}}
  %0 = mortise.layer_norm %x scale %s {axis = 1 : i64, epsilon = 0.0 : f64} : (tensor<2x4xf32>, tensor<2xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @element(%x: tensor<2x4xf32>, %s: tensor<4xf64>) -> tensor<2x4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have element type f32, found f64}}
  %0 = mortise.rms_norm %x, %s {axis = 1 : i64, epsilon = 0.0 : f64} : (tensor<2x4xf32>, tensor<4xf64>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

func.func @groups(%x: tensor<2x4x3xf32>) -> tensor<2x4x3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the channels (4) must be a multiple of groups (3)}}
  %0 = mortise.group_norm %x {groups = 3 : i64, epsilon = 0.0 : f64} : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// -----

func.func @channels(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have a batch and a channel dimension, found [4]}}
  %0 = mortise.batch_norm %x mean %x variance %x {epsilon = 0.0 : f64} : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @approximate(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{attribute 'approximate' failed to satisfy constraint: string attribute that is one of: none, tanh}}
  %0 = mortise.gelu %x {approximate = "sigmoid"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
