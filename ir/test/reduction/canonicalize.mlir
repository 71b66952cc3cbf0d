// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -canonicalize | FileCheck %s

// CHECK-LABEL: @no_axes
func.func @no_axes(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: return %arg0
  %0 = mortise.reduce_sum %x {axes = array<i64>} : (tensor<2xf32>) -> tensor<2xf32>
  %1 = mortise.reduce_max %0 {axes = array<i64>} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
