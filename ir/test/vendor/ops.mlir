// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

#symbols = #mortise.symbols<b in [2, 64]>
!x = tensor<?x4xi8, #mortise.dims<#symbols, [b, 4]>>

// CHECK-LABEL: func.func @vendors
func.func @vendors(%x: !x, %t: tensor<256xi8>, %p: tensor<i1>) -> (!x, tensor<2xf32>, tensor<i64>, tensor<256xi8>) {
  // CHECK: mortise.vendor "acme_npu.lookup"(%{{.*}}, %{{.*}}) {} : (tensor<?x4xi8, #b_4>, tensor<256xi8>) -> tensor<?x4xi8, #b_4>
  %0 = mortise.vendor "acme_npu.lookup"(%x, %t) {} : (!x, tensor<256xi8>) -> !x
  // CHECK-NEXT: %{{.*}}:2 = mortise.vendor "acme.make"() {axes = array<i64: 0, 2>, by = 2.000000e+00 : f64, fast = true, mode = "near", shape = #b_2b, table = dense<[1, 2]> : tensor<2xi8>, times = 3 : i64, weights = array<f64: 5.000000e-01>} : () -> (tensor<2xf32>, tensor<i64>)
  %1:2 = mortise.vendor "acme.make"() {axes = array<i64: 0, 2>, by = 2.0 : f64, fast = true, mode = "near", shape = #mortise.dims<#symbols, [b, 2*b]>, table = dense<[1, 2]> : tensor<2xi8>, times = 3 : i64, weights = array<f64: 0.5>} : () -> (tensor<2xf32>, tensor<i64>)
  // CHECK: mortise.vendor "acme.flip"(%{{.*}}) {} : (tensor<256xi8>) -> tensor<256xi8>
  %2 = mortise.if %p, %t then {
  ^bb0(%a: tensor<256xi8>):
    %3 = mortise.vendor "acme.flip"(%a) {} : (tensor<256xi8>) -> tensor<256xi8>
    mortise.yield %3 : tensor<256xi8>
  } else {
  ^bb0(%a: tensor<256xi8>):
    mortise.yield %a : tensor<256xi8>
  } : (tensor<i1>, tensor<256xi8>) -> tensor<256xi8>
  return %0, %1#0, %1#1, %2 : !x, tensor<2xf32>, tensor<i64>, tensor<256xi8>
}
