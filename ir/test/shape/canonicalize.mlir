// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: @identities
func.func @identities(%x: tensor<2x3xf32>, %v: tensor<f32>) -> tensor<2x3xf32> {
  // CHECK-NEXT: return %arg0
  %0 = mortise.reshape %x {shape = #mortise.dims<[2, 3]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = mortise.transpose %0 {permutation = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 3]>, axes = array<i64: 0, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = mortise.slice %2 {starts = #mortise.dims<[0, 0]>, limits = #mortise.dims<[2, 3]>, strides = array<i64: 1, 1>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = mortise.concatenate %3 {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = mortise.pad %4, %v {low = #mortise.dims<[0, 0]>, high = #mortise.dims<[0, 0]>, interior = array<i64: 0, 0>} : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %6 = mortise.reverse %5 {axes = array<i64>} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %6 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @merge
func.func @merge(%x: tensor<2x3x4xf32>) -> (tensor<24xf32>, tensor<3x4x2xf32>, tensor<5x2x6x3x4xf32>) {
  // CHECK-DAG: %[[A:.*]] = mortise.reshape %arg0 {shape = #mortise.dims<[24]>}
  // CHECK-DAG: %[[B:.*]] = mortise.transpose %arg0 {permutation = array<i64: 1, 2, 0>}
  // CHECK-DAG: %[[C:.*]] = mortise.broadcast %arg0 {axes = array<i64: 1, 3, 4>, shape = #mortise.dims<[5, 2, 6, 3, 4]>}
  // CHECK-NEXT: return %[[A]], %[[B]], %[[C]]
  %0 = mortise.reshape %x {shape = #mortise.dims<[6, 4]>} : (tensor<2x3x4xf32>) -> tensor<6x4xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[24]>} : (tensor<6x4xf32>) -> tensor<24xf32>
  %2 = mortise.transpose %x {permutation = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %3 = mortise.transpose %2 {permutation = array<i64: 2, 0, 1>} : (tensor<4x2x3xf32>) -> tensor<3x4x2xf32>
  %4 = mortise.broadcast %x {shape = #mortise.dims<[2, 6, 3, 4]>, axes = array<i64: 0, 2, 3>} : (tensor<2x3x4xf32>) -> tensor<2x6x3x4xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[5, 2, 6, 3, 4]>, axes = array<i64: 1, 2, 3, 4>} : (tensor<2x6x3x4xf32>) -> tensor<5x2x6x3x4xf32>
  return %1, %3, %5 : tensor<24xf32>, tensor<3x4x2xf32>, tensor<5x2x6x3x4xf32>
}

// -----

// A repeated literal is a broadcast of a scalar; what only moves its elements is another.
// CHECK-LABEL: @splats
func.func @splats() -> (tensor<6x2xf32>, tensor<1x3xi64>) {
  // CHECK-DAG: %[[ONE:.*]] = mortise.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-DAG: %[[ZERO:.*]] = mortise.constant dense<0> : tensor<i64>
  // CHECK-DAG: %[[A:.*]] = mortise.broadcast %[[ONE]] {axes = array<i64>, shape = #mortise.dims<[6, 2]>}
  // CHECK-DAG: %[[B:.*]] = mortise.broadcast %[[ZERO]] {axes = array<i64>, shape = #mortise.dims<[1, 3]>}
  // CHECK-NEXT: return %[[A]], %[[B]]
  %0 = mortise.constant dense<1.0> : tensor<2x4x3xf32>
  %1 = mortise.slice %0 {starts = #mortise.dims<[0, 0, 0]>, limits = #mortise.dims<[2, 2, 3]>, strides = array<i64: 1, 1, 1>} : (tensor<2x4x3xf32>) -> tensor<2x2x3xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[2, 6]>} : (tensor<2x2x3xf32>) -> tensor<2x6xf32>
  %3 = mortise.transpose %2 {permutation = array<i64: 1, 0>} : (tensor<2x6xf32>) -> tensor<6x2xf32>
  %4 = mortise.iota {shape = #mortise.dims<[1, 3]>, dtype = "i64", axis = 0 : i64} : () -> tensor<1x3xi64>
  return %3, %4 : tensor<6x2xf32>, tensor<1x3xi64>
}

// -----

// CHECK-LABEL: @slice_literal
func.func @slice_literal() -> tensor<2x1xi32> {
  // CHECK-NEXT: mortise.constant dense<{{\[}}[2], [8]]> : tensor<2x1xi32>
  %0 = mortise.constant dense<[[1, 2, 3], [4, 5, 6], [7, 8, 9]]> : tensor<3x3xi32>
  %1 = mortise.slice %0 {starts = #mortise.dims<[0, 1]>, limits = #mortise.dims<[3, 2]>, strides = array<i64: 2, 1>} : (tensor<3x3xi32>) -> tensor<2x1xi32>
  return %1 : tensor<2x1xi32>
}
