// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @literals
func.func @literals() -> (tensor<3xi1>, tensor<3xi4>, tensor<2xbf16>, tensor<0xf32>, tensor<2x2xi64>) {
  // CHECK: dense<[true, false, true]> : tensor<3xi1>
  %0 = mortise.constant dense<[true, false, true]> : tensor<3xi1>
  // CHECK-NEXT: dense<[1, -8, 7]> : tensor<3xi4>
  %1 = mortise.constant dense<[1, -8, 7]> : tensor<3xi4>
  // CHECK-NEXT: dense<[1.000000e+00, -2.500000e+00]> : tensor<2xbf16>
  %2 = mortise.constant dense<[1.0, -2.5]> : tensor<2xbf16>
  // CHECK-NEXT: dense<> : tensor<0xf32>
  %3 = mortise.constant dense<> : tensor<0xf32>
  // CHECK-NEXT: dense<7> : tensor<2x2xi64>
  %4 = mortise.constant dense<7> : tensor<2x2xi64>
  return %0, %1, %2, %3, %4 : tensor<3xi1>, tensor<3xi4>, tensor<2xbf16>, tensor<0xf32>, tensor<2x2xi64>
}
