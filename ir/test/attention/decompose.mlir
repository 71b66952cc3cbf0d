// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose=once -cse -split-input-file | FileCheck %s

// Heads that share keys become rows. Queries without visible keys are found from the mask, which here has one row for all queries.
// CHECK-LABEL: @grouped
func.func @grouped(%q: tensor<2x8x5x16xf32>, %k: tensor<2x2x7x16xf32>, %v: tensor<2x2x7x32xf32>, %m: tensor<2x1x1x7xi1>)
    -> tensor<2x8x5x32xf32> {
  // CHECK: %[[Q:.*]] = mortise.reshape %arg0 {shape = #mortise.dims<[2, 2, 20, 16]>}
  // CHECK: %[[S:.*]] = mortise.dot %[[Q]], %arg1 {lhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_batch = array<i64: 0, 1>, rhs_contract = array<i64: 3>} : (tensor<2x2x20x16xf32>, tensor<2x2x7x16xf32>) -> tensor<2x2x20x7xf32>
  // CHECK: %[[S4:.*]] = mortise.reshape %[[S]] {shape = #mortise.dims<[2, 8, 5, 7]>}
  // CHECK: %[[SCALED:.*]] = mortise.mul %[[S4]]
  // CHECK: %[[M:.*]] = mortise.broadcast %arg3
  // CHECK: %[[MASKED:.*]] = mortise.select %[[M]], %[[SCALED]]
  // CHECK: %[[P:.*]] = mortise.softmax %[[MASKED]] {axis = 3 : i64}
  // CHECK: %[[SEEN:.*]] = mortise.reduce_max %arg3 {axes = array<i64: 3>} : (tensor<2x1x1x7xi1>) -> tensor<2x1x1xi1>
  // CHECK: %[[ROWS:.*]] = mortise.broadcast %[[SEEN]]
  // CHECK: %[[W:.*]] = mortise.select %[[ROWS]], %[[P]]
  // CHECK: %[[W4:.*]] = mortise.reshape %[[W]] {shape = #mortise.dims<[2, 2, 20, 7]>}
  // CHECK: %[[O:.*]] = mortise.dot %[[W4]], %arg2
  // CHECK: mortise.reshape %[[O]] {shape = #mortise.dims<[2, 8, 5, 32]>}
  %0 = mortise.attention %q, %k, %v, %m {scale = 0.25 : f64, causal = false}
    : (tensor<2x8x5x16xf32>, tensor<2x2x7x16xf32>, tensor<2x2x7x32xf32>, tensor<2x1x1x7xi1>) -> tensor<2x8x5x32xf32>
  return %0 : tensor<2x8x5x32xf32>
}

// -----

// Every query sees key 0, so no weights are zeroed. A scale of 1 adds no op.
// CHECK-LABEL: @causal
func.func @causal(%q: tensor<1x2x5x4xf32>, %k: tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32> {
  // CHECK-NOT: mortise.mul
  // CHECK: %[[I:.*]] = mortise.iota {axis = 0 : i64, dtype = "i64", shape = #mortise.dims<[5, 5]>}
  // CHECK: %[[J:.*]] = mortise.iota {axis = 1 : i64, dtype = "i64", shape = #mortise.dims<[5, 5]>}
  // CHECK: mortise.compare %[[I]], %[[J]] {direction = "ge"}
  // CHECK: mortise.select
  // CHECK: mortise.softmax
  // CHECK-NOT: mortise.reduce_max
  // CHECK-NOT: mortise.select
  %0 = mortise.attention %q, %k, %k {scale = 1.0 : f64, causal = true} : (tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x5x4xf32>
  return %0 : tensor<1x2x5x4xf32>
}

// -----

// Narrow floats compute in f32 and round once.
// CHECK-LABEL: @narrow
func.func @narrow(%q: tensor<1x2x5x4xbf16>, %m: tensor<1x1x5x5xbf16>) -> tensor<1x2x5x4xbf16> {
  // CHECK: mortise.dot {{.*}} -> tensor<1x2x5x5xf32>
  // CHECK: %[[M:.*]] = mortise.convert %arg1 {dtype = "f32"}
  // CHECK: mortise.select %{{.*}}, %[[M]]
  // CHECK: mortise.add {{.*}} tensor<1x2x5x5xf32>
  // CHECK: mortise.softmax
  // CHECK: mortise.compare {{.*}} {direction = "ne"}
  // CHECK: mortise.select
  // CHECK: mortise.dot
  // CHECK: %[[R:.*]] = mortise.convert %{{.*}} {dtype = "bf16"}
  // CHECK-NEXT: return %[[R]]
  %0 = mortise.attention %q, %q, %q, %m {scale = 1.0 : f64, causal = true} : (tensor<1x2x5x4xbf16>, tensor<1x2x5x4xbf16>, tensor<1x2x5x4xbf16>, tensor<1x1x5x5xbf16>) -> tensor<1x2x5x4xbf16>
  return %0 : tensor<1x2x5x4xbf16>
}
