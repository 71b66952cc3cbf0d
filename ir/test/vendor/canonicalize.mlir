// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --canonicalize --cse | FileCheck %s

// A vendor's op is pure and opaque: nodes without readers go, equal ones become one, and no other is touched.
// CHECK-LABEL: func.func @pure
func.func @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[A:.*]] = mortise.vendor "acme.swizzle"(%{{.*}}) {times = 1 : i64}
  // CHECK-NEXT: %[[B:.*]] = mortise.vendor "acme.swizzle"(%{{.*}}) {times = 2 : i64}
  // CHECK-NEXT: return %[[A]], %[[A]], %[[B]]
  %0 = mortise.vendor "acme.swizzle"(%x) {times = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = mortise.vendor "acme.swizzle"(%x) {times = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = mortise.vendor "acme.swizzle"(%x) {times = 2 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = mortise.vendor "acme.unread"(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
