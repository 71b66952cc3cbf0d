// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @products
func.func @products(%a: tensor<2x3x4xf32>, %b: tensor<5x4x2xf32>, %w: tensor<6x4xf32>, %t: tensor<4x6xf32>, %c: tensor<6xf32>)
    -> (tensor<2x3x5xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>) {
  // CHECK: mortise.dot %{{.*}}, %{{.*}} {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 2>, rhs_contract = array<i64: 1>}
  %0 = mortise.dot %a, %b {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 2>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>}
    : (tensor<2x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x3x5xf32>
  // CHECK-NEXT: mortise.linear %{{.*}}, %{{.*}}, %{{.*}} {weight_transposed = false}
  %1 = mortise.linear %a, %w, %c {weight_transposed = false} : (tensor<2x3x4xf32>, tensor<6x4xf32>, tensor<6xf32>) -> tensor<2x3x6xf32>
  // CHECK-NEXT: mortise.linear %{{.*}}, %{{[^,]*}} {weight_transposed = true}
  %2 = mortise.linear %a, %t {weight_transposed = true} : (tensor<2x3x4xf32>, tensor<4x6xf32>) -> tensor<2x3x6xf32>
  return %0, %1, %2 : tensor<2x3x5xf32>, tensor<2x3x6xf32>, tensor<2x3x6xf32>
}
