// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Made from ir/families/*.td by ./dev docs; do not edit.
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x0_0: tensor<2x3xf32>, %x0_1: tensor<2x3xf32>) -> (tensor<2x3xf32>) {
  // CHECK: mortise.copysign %
  %0 = mortise.copysign %x0_0, %x0_1 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
