// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf16, #mortise.dims<#symbols, [b, s]>>
!p = tensor<?x?xi1, #mortise.dims<#symbols, [b, s]>>
!n = tensor<?xi64, #mortise.dims<#symbols, [b*s]>>

// CHECK-LABEL: func.func @random
func.func @random(%k: tensor<i64>, %o: tensor<i64>, %x: !x) -> (tensor<2x3xui8>, tensor<4xf64>, !x, !p, !x, !p, !n) {
  // CHECK: mortise.random_bits %{{.*}}, %{{.*}} {dtype = "ui8", shape = #mortise.dims<[2, 3]>} : (tensor<i64>, tensor<i64>) -> tensor<2x3xui8>
  %0 = mortise.random_bits %k, %o {shape = #mortise.dims<[2, 3]>, dtype = "ui8"} : (tensor<i64>, tensor<i64>) -> tensor<2x3xui8>
  // CHECK-NEXT: mortise.uniform %{{.*}}, %{{.*}} {dtype = "f64", shape = #mortise.dims<[4]>} : (tensor<i64>, tensor<i64>) -> tensor<4xf64>
  %1 = mortise.uniform %k, %o {shape = #mortise.dims<[4]>, dtype = "f64"} : (tensor<i64>, tensor<i64>) -> tensor<4xf64>
  // CHECK-NEXT: mortise.normal %{{.*}}, %{{.*}} {dtype = "f16", shape = #b_s}
  %2 = mortise.normal %k, %o {shape = #mortise.dims<#symbols, [b, s]>, dtype = "f16"} : (tensor<i64>, tensor<i64>) -> !x
  // CHECK-NEXT: mortise.bernoulli
  %3 = mortise.bernoulli %x, %k, %o : (!x, tensor<i64>, tensor<i64>) -> !p
  // CHECK-NEXT: %{{.*}}, %{{.*}} = mortise.dropout %{{.*}}, %{{.*}}, %{{.*}} {p = 2.500000e-01 : f64}
  %4, %5 = mortise.dropout %x, %k, %o {p = 0.25 : f64} : (!x, tensor<i64>, tensor<i64>) -> (!x, !p)
  // CHECK-NEXT: mortise.random_permutation %{{.*}}, %{{.*}} {shape = #bs}
  %6 = mortise.random_permutation %k, %o {shape = #mortise.dims<#symbols, [b*s]>} : (tensor<i64>, tensor<i64>) -> !n
  return %0, %1, %2, %3, %4, %5, %6 : tensor<2x3xui8>, tensor<4xf64>, !x, !p, !x, !p, !n
}
