// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!i = tensor<?x?xi64, #mortise.dims<#symbols, [b, s]>>
!b = tensor<?xi64, #mortise.dims<#symbols, [b]>>
!k = tensor<?x4xf32, #mortise.dims<#symbols, [b, 4]>>
!ki = tensor<?x4xi64, #mortise.dims<#symbols, [b, 4]>>

// Several results, of symbolic extents.
// CHECK-LABEL: func.func @running
func.func @running(%x: !x) -> (!b, !x, !x, !i, !x, !i, !x, !i, !k, !ki) {
  // CHECK: mortise.argmin %{{.*}} {axis = 1 : i64}
  %0 = mortise.argmin %x {axis = 1 : i64} : (!x) -> !b
  // CHECK-NEXT: %[[P:.*]] = mortise.cumprod %{{.*}} {axis = 1 : i64}
  %p = mortise.cumprod %x {axis = 1 : i64} : (!x) -> !x
  // CHECK-NEXT: mortise.cumlogsumexp %[[P]]
  %1 = mortise.cumlogsumexp %p {axis = 1 : i64} : (!x) -> !x
  // CHECK-NEXT: %[[V:.*]], %[[I:.*]] = mortise.cummax %{{.*}} {axis = 0 : i64} : (tensor<?x?xf32, #b_s>) -> (tensor<?x?xf32, #b_s>, tensor<?x?xi64, #b_s>)
  %2, %3 = mortise.cummax %x {axis = 0 : i64} : (!x) -> (!x, !i)
  // CHECK-NEXT: %{{.*}}, %{{.*}} = mortise.cummin %[[V]]
  %4, %5 = mortise.cummin %2 {axis = 1 : i64} : (!x) -> (!x, !i)
  // CHECK-NEXT: %{{.*}}, %{{.*}} = mortise.sort %{{.*}} {axis = 1 : i64, descending = true, stable = false}
  %6, %7 = mortise.sort %x {axis = 1 : i64, descending = true, stable = false} : (!x) -> (!x, !i)
  // CHECK-NEXT: %{{.*}}, %{{.*}} = mortise.top_k %{{.*}} {axis = 1 : i64, k = 4 : i64, largest = true, sorted = false}
  %8, %9 = mortise.top_k %x {k = 4 : i64, axis = 1 : i64, largest = true, sorted = false} : (!x) -> (!k, !ki)
  // CHECK-NEXT: return %{{.*}}, %{{.*}}, %[[V]], %[[I]]
  return %0, %1, %2, %3, %4, %5, %6, %7, %8, %9 : !b, !x, !x, !i, !x, !i, !x, !i, !k, !ki
}
