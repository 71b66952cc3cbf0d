// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt --merge-equal %s | FileCheck %s

// Ops that become equal by merging their operands are merged too.
// CHECK-LABEL: func.func @chains
func.func @chains(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NEXT: %[[EXP:.*]] = mortise.exp %arg0
  // CHECK-NEXT: %[[NEG:.*]] = mortise.neg %[[EXP]]
  // CHECK-NEXT: %[[SUM:.*]] = mortise.add %[[NEG]], %[[NEG]]
  // CHECK-NEXT: return %[[SUM]]
  %0 = mortise.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mortise.exp %x : (tensor<4xf32>) -> tensor<4xf32>
  %2 = mortise.neg %0 : (tensor<4xf32>) -> tensor<4xf32>
  %3 = mortise.neg %1 : (tensor<4xf32>) -> tensor<4xf32>
  %4 = mortise.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %4 : tensor<4xf32>
}

// Ops with different attributes, literals or operand order are not equal.
// CHECK-LABEL: func.func @different
func.func @different(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) {
  // CHECK-COUNT-2: mortise.sub
  // CHECK-COUNT-2: mortise.reduce_sum
  // CHECK-COUNT-2: mortise.constant
  %0 = mortise.sub %x, %y : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = mortise.sub %y, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = mortise.reduce_sum %x {axes = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %3 = mortise.reduce_sum %x {axes = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %4 = mortise.constant dense<1.0> : tensor<f32>
  %5 = mortise.constant dense<2.0> : tensor<f32>
  return %0, %1, %2, %3, %4, %5 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>
}
