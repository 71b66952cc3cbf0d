// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @bits
func.func @bits(%x: tensor<4xi8>, %y: tensor<4xi8>) -> tensor<4xf8E4M3FN> {
  // CHECK: mortise.not
  %0 = mortise.not %x : (tensor<4xi8>) -> tensor<4xi8>
  // CHECK-NEXT: mortise.and
  %1 = mortise.and %0, %y : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  // CHECK-NEXT: mortise.or
  %2 = mortise.or %1, %y : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  // CHECK-NEXT: mortise.xor
  %3 = mortise.xor %2, %y : (tensor<4xi8>, tensor<4xi8>) -> tensor<4xi8>
  // CHECK-NEXT: mortise.convert %{{.*}} {dtype = "ui8"} : (tensor<4xi8>) -> tensor<4xui8>
  %4 = mortise.convert %3 {dtype = "ui8"} : (tensor<4xi8>) -> tensor<4xui8>
  // CHECK-NEXT: mortise.convert %{{.*}} {dtype = "f8E4M3FN"}
  %5 = mortise.convert %4 {dtype = "f8E4M3FN"} : (tensor<4xui8>) -> tensor<4xf8E4M3FN>
  return %5 : tensor<4xf8E4M3FN>
}
