// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// CHECK-LABEL: @mean
func.func @mean(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  // CHECK-DAG: %[[S:.*]] = mortise.reduce_sum %arg0 {axes = array<i64: 1>}
  // CHECK-DAG: %[[C:.*]] = mortise.constant dense<2.500000e-01> : tensor<f32>
  // CHECK-DAG: %[[B:.*]] = mortise.broadcast %[[C]]
  // CHECK: mortise.mul %[[S]], %[[B]]
  %0 = mortise.mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// The mean of nothing is 0 * inf.
// CHECK-LABEL: @nothing
func.func @nothing(%x: tensor<2x0xf32>) -> tensor<2xf32> {
  // CHECK: mortise.constant dense<0x7F800000> : tensor<f32>
  %0 = mortise.mean %x {axes = array<i64: 1>} : (tensor<2x0xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
