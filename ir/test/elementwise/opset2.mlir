// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @second_opset
func.func @second_opset(%x: tensor<2x3xf32>, %i: tensor<2xi16>) -> (tensor<2x3xf32>, tensor<2xi16>) {
  // CHECK: mortise.tan %
  %0 = mortise.tan %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.asin %
  %1 = mortise.asin %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.acos %
  %2 = mortise.acos %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.atan %
  %3 = mortise.atan %2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.sinh %
  %4 = mortise.sinh %3 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.cosh %
  %5 = mortise.cosh %4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.asinh %
  %6 = mortise.asinh %5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.acosh %
  %7 = mortise.acosh %6 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.atanh %
  %8 = mortise.atanh %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.log2 %
  %9 = mortise.log2 %8 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.log10 %
  %10 = mortise.log10 %9 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.exp2 %
  %11 = mortise.exp2 %10 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.shift_left
  %12 = mortise.shift_left %i, %i : (tensor<2xi16>, tensor<2xi16>) -> tensor<2xi16>
  // CHECK-NEXT: mortise.shift_right
  %13 = mortise.shift_right %12, %i : (tensor<2xi16>, tensor<2xi16>) -> tensor<2xi16>
  return %11, %13 : tensor<2x3xf32>, tensor<2xi16>
}
