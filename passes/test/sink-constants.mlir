// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt --sink-constants %s | FileCheck %s

// CHECK-LABEL: func.func @each_user
func.func @each_user(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mortise.constant
  // CHECK-NEXT: %[[SUM:.*]] = mortise.add %arg0, %[[A]]
  // CHECK-NEXT: %[[B:.*]] = mortise.constant
  // CHECK-NEXT: %[[PRODUCT:.*]] = mortise.mul %[[SUM]], %[[B]]
  // CHECK-NEXT: %[[C:.*]] = mortise.constant
  // CHECK-NEXT: return %[[PRODUCT]], %[[C]]
  %c = mortise.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = mortise.add %x, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mortise.mul %0, %c : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1, %c : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @broadcasts
func.func @broadcasts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: constant
  // CHECK-NEXT: broadcast
  // CHECK-NEXT: add
  // CHECK-NEXT: constant
  // CHECK-NEXT: broadcast
  // CHECK-NEXT: mul
  %c = mortise.constant dense<2.0> : tensor<f32>
  %b = mortise.broadcast %c {shape = #mortise.dims<[4]>, axes = array<i64>} : (tensor<f32>) -> tensor<4xf32>
  %0 = mortise.add %x, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %1 = mortise.mul %0, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A user that reads a literal twice gets one copy.
// CHECK-LABEL: func.func @twice
func.func @twice() -> tensor<f32> {
  // CHECK-COUNT-1: constant
  // CHECK-NOT: constant
  %c = mortise.constant dense<2.0> : tensor<f32>
  %0 = mortise.mul %c, %c : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
