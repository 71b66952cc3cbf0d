// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @indexing
func.func @indexing(%x: tensor<5x6x7xf32>, %i: tensor<2x3xi64>, %j: tensor<2x6x7xi32>, %n: tensor<4x2xi64>, %k: tensor<2xi64>, %u: tensor<5x2x7xf32>, %v: tensor<4x7xf32>)
    -> (tensor<5x2x3x7xf32>, tensor<2x6x7xf32>, tensor<4x7xf32>, tensor<5x6x7xf32>, tensor<2x3x6x7xf32>, tensor<5x6x7xf32>, tensor<4x7xi64>) {
  // CHECK: mortise.take %{{.*}}, %{{.*}} {axis = 1 : i64} : (tensor<5x6x7xf32>, tensor<2x3xi64>) -> tensor<5x2x3x7xf32>
  %0 = mortise.take %x, %i {axis = 1 : i64} : (tensor<5x6x7xf32>, tensor<2x3xi64>) -> tensor<5x2x3x7xf32>
  // CHECK-NEXT: mortise.take_along
  %1 = mortise.take_along %x, %j {axis = 0 : i64} : (tensor<5x6x7xf32>, tensor<2x6x7xi32>) -> tensor<2x6x7xf32>
  // CHECK-NEXT: mortise.take_nd
  %2 = mortise.take_nd %x, %n : (tensor<5x6x7xf32>, tensor<4x2xi64>) -> tensor<4x7xf32>
  // CHECK-NEXT: mortise.put %{{.*}}, %{{.*}}, %{{.*}} {axis = 1 : i64, mode = "add"}
  %3 = mortise.put %x, %k, %u {axis = 1 : i64, mode = "add"} : (tensor<5x6x7xf32>, tensor<2xi64>, tensor<5x2x7xf32>) -> tensor<5x6x7xf32>
  // CHECK-NEXT: mortise.embedding
  %4 = mortise.embedding %x, %i : (tensor<5x6x7xf32>, tensor<2x3xi64>) -> tensor<2x3x6x7xf32>
  // CHECK-NEXT: mortise.scatter_along %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64, mode = "max"} : (tensor<5x6x7xf32>, tensor<2x6x7xi32>, tensor<2x6x7xf32>) -> tensor<5x6x7xf32>
  %5 = mortise.scatter_along %3, %j, %1 {axis = 0 : i64, mode = "max"} : (tensor<5x6x7xf32>, tensor<2x6x7xi32>, tensor<2x6x7xf32>) -> tensor<5x6x7xf32>
  // CHECK-NEXT: mortise.scatter_nd %{{.*}}, %{{.*}}, %{{.*}} {mode = "mul"}
  %6 = mortise.scatter_nd %5, %n, %v {mode = "mul"} : (tensor<5x6x7xf32>, tensor<4x2xi64>, tensor<4x7xf32>) -> tensor<5x6x7xf32>
  // CHECK-NEXT: mortise.searchsorted %{{.*}}, %{{.*}} {right = true} : (tensor<4x7xf32>, tensor<4x7xf32>) -> tensor<4x7xi64>
  %7 = mortise.searchsorted %2, %v {right = true} : (tensor<4x7xf32>, tensor<4x7xf32>) -> tensor<4x7xi64>
  return %0, %1, %2, %3, %4, %6, %7 : tensor<5x2x3x7xf32>, tensor<2x6x7xf32>, tensor<4x7xf32>, tensor<5x6x7xf32>, tensor<2x3x6x7xf32>, tensor<5x6x7xf32>, tensor<4x7xi64>
}
