// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// CHECK-LABEL: @linear
func.func @linear(%x: tensor<2x3x4xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>) -> tensor<2x3x6xf32> {
  // CHECK: %[[Y:.*]] = mortise.dot %arg0, %arg1 {lhs_batch = array<i64>, lhs_contract = array<i64: 2>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>}
  // CHECK: %[[B:.*]] = mortise.broadcast %arg2 {axes = array<i64: 2>, shape = #mortise.dims<[2, 3, 6]>}
  // CHECK: mortise.add %[[Y]], %[[B]]
  %0 = mortise.linear %x, %w, %b {weight_transposed = false} : (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  return %0 : tensor<2x3x6xf32>
}

// -----

// CHECK-LABEL: @transposed
func.func @transposed(%x: tensor<4xf32>, %w: tensor<4x6xf32>) -> tensor<6xf32> {
  // CHECK: %[[Y:.*]] = mortise.dot {{.*}} rhs_contract = array<i64: 0>
  // CHECK-NEXT: return %[[Y]]
  %0 = mortise.linear %x, %w {weight_transposed = true} : (tensor<4xf32>, tensor<4x6xf32>) -> tensor<6xf32>
  return %0 : tensor<6xf32>
}
