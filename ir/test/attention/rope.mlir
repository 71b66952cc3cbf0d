// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose=once -split-input-file | FileCheck %s

// CHECK-LABEL: func.func @half
func.func @half(%x: tensor<2x3x4xf32>, %c: tensor<1x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.slice %arg0 {limits = #mortise.dims<[2, 3, 4]>, starts = #mortise.dims<[0, 0, 2]>, strides = array<i64: 1, 1, 1>} : {{.*}} -> tensor<2x3x2xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.neg %[[V0]] : {{.*}} -> tensor<2x3x2xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.slice %arg0 {limits = #mortise.dims<[2, 3, 2]>, starts = #mortise.dims<[0, 0, 0]>, strides = array<i64: 1, 1, 1>} : {{.*}} -> tensor<2x3x2xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.concatenate %[[V1]], %[[V2]] {axis = 2 : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.broadcast %arg1 {axes = array<i64: 0, 1, 2>, shape = #mortise.dims<[2, 3, 4]>} : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.mul %arg0, %[[V4]] : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[V6:.*]] = mortise.broadcast %arg1 {axes = array<i64: 0, 1, 2>, shape = #mortise.dims<[2, 3, 4]>} : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[V7:.*]] = mortise.mul %[[V3]], %[[V6]] : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: %[[V8:.*]] = mortise.add %[[V5]], %[[V7]] : {{.*}} -> tensor<2x3x4xf32>
  // CHECK-NEXT: return %[[V8]]
  %0 = mortise.rope %x, %c, %c {interleaved = false} : (tensor<2x3x4xf32>, tensor<1x3x4xf32>, tensor<1x3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// Pairs of neighbours.
// CHECK-LABEL: func.func @interleaved
func.func @interleaved(%x: tensor<3x4xf32>, %c: tensor<3x4xf32>) -> tensor<3x4xf32> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.reshape %arg0 {shape = #mortise.dims<[3, 2, 2]>} : {{.*}} -> tensor<3x2x2xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.slice %[[V0]] {limits = #mortise.dims<[3, 2, 2]>, starts = #mortise.dims<[0, 0, 1]>, strides = array<i64: 1, 1, 1>} : {{.*}} -> tensor<3x2x1xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.neg %[[V1]] : {{.*}} -> tensor<3x2x1xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.slice %[[V0]] {limits = #mortise.dims<[3, 2, 1]>, starts = #mortise.dims<[0, 0, 0]>, strides = array<i64: 1, 1, 1>} : {{.*}} -> tensor<3x2x1xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.concatenate %[[V2]], %[[V3]] {axis = 2 : {{.*}} -> tensor<3x2x2xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.reshape %[[V4]] {shape = #mortise.dims<[3, 4]>} : {{.*}} -> tensor<3x4xf32>
  // CHECK-NEXT: %[[V6:.*]] = mortise.mul %arg0, %arg1 : {{.*}} -> tensor<3x4xf32>
  // CHECK-NEXT: %[[V7:.*]] = mortise.mul %[[V5]], %arg1 : {{.*}} -> tensor<3x4xf32>
  // CHECK-NEXT: %[[V8:.*]] = mortise.add %[[V6]], %[[V7]] : {{.*}} -> tensor<3x4xf32>
  // CHECK-NEXT: return %[[V8]]
  %0 = mortise.rope %x, %c, %c {interleaved = true} : (tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
