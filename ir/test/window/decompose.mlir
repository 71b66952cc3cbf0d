// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose=once -split-input-file | FileCheck %s

// Composites stay: a plugin takes relu with what is before it.
// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<1x2x5xf32>, %w: tensor<4x2x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<1x4x3xf32> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.convolution %arg0, %arg1 {dilations = array<i64: 1>, groups = 1 : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.broadcast %arg2 {axes = array<i64: 1>, shape = #mortise.dims<[1, 4, 3]>} : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.mul %[[V0]], %[[V1]] : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.broadcast %arg3 {axes = array<i64: 1>, shape = #mortise.dims<[1, 4, 3]>} : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.add %[[V2]], %[[V3]] : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.relu %[[V4]] : {{.*}} -> tensor<1x4x3xf32>
  // CHECK-NEXT: return %[[V5]]
  %0 = mortise.fused_convolution %x, %w scale %s bias %b {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, activation = "relu"} : (tensor<1x2x5xf32>, tensor<4x2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x3xf32>
  return %0 : tensor<1x4x3xf32>
}
