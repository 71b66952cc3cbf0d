// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// CHECK-LABEL: @embedding
func.func @embedding(%x: tensor<5x6xf32>, %i: tensor<2x3xi64>) -> tensor<2x3x6xf32> {
  // CHECK-NEXT: mortise.take %arg0, %arg1 {axis = 0 : i64}
  %0 = mortise.embedding %x, %i : (tensor<5x6xf32>, tensor<2x3xi64>) -> tensor<2x3x6xf32>
  return %0 : tensor<2x3x6xf32>
}
