// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x3x4xf32>, %p: tensor<2x3xi1>) -> (tensor<3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<2xi1>, tensor<2x4xi64>, tensor<2x3x4xf32>, tensor<2x4xf32>) {
  // CHECK: mortise.reduce_sum %{{.*}} {axes = array<i64: 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  %0 = mortise.reduce_sum %x {axes = array<i64: 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3xf32>
  // CHECK-NEXT: mortise.reduce_prod
  %1 = mortise.reduce_prod %x {axes = array<i64: 2>} : (tensor<2x3x4xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.reduce_max
  %2 = mortise.reduce_max %x {axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<f32>
  // CHECK-NEXT: mortise.reduce_min
  %3 = mortise.reduce_min %p {axes = array<i64: 1>} : (tensor<2x3xi1>) -> tensor<2xi1>
  // CHECK-NEXT: mortise.argmax %{{.*}} {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
  %4 = mortise.argmax %x {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
  // CHECK-NEXT: mortise.cumsum
  %5 = mortise.cumsum %x {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  // CHECK-NEXT: mortise.mean
  %6 = mortise.mean %x {axes = array<i64: 1>} : (tensor<2x3x4xf32>) -> tensor<2x4xf32>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<3xf32>, tensor<2x3xf32>, tensor<f32>, tensor<2xi1>, tensor<2x4xi64>, tensor<2x3x4xf32>, tensor<2x4xf32>
}
