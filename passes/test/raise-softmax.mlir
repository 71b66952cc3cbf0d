// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// CHECK-LABEL: func.func @softmax(
func.func @softmax(%arg0: tensor<2x8xf32> {mortise.name = "holes"}) -> tensor<2x8xf32> {
  // CHECK: mortise.softmax %arg0 {axis = 1 : i64}
  %0 = mortise.reduce_max %arg0 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = mortise.exp %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.reduce_sum %3 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %6 = mortise.div %3, %5 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}

// Along the middle.
// CHECK-LABEL: func.func @softmax_keepdim(
func.func @softmax_keepdim(%arg0: tensor<2x8x3xf32>) -> tensor<2x8x3xf32> {
  // CHECK: mortise.softmax %arg0 {axis = 1 : i64}
  %0 = mortise.reduce_max %arg0 {axes = array<i64: 1>} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[2, 1, 3]>} : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 8, 3]>, axes = array<i64: 0, 1, 2>} : (tensor<2x1x3xf32>) -> tensor<2x8x3xf32>
  %3 = mortise.sub %arg0, %2 : (tensor<2x8x3xf32>, tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
  %4 = mortise.exp %3 : (tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
  %5 = mortise.reduce_sum %4 {axes = array<i64: 1>} : (tensor<2x8x3xf32>) -> tensor<2x3xf32>
  %6 = mortise.reshape %5 {shape = #mortise.dims<[2, 1, 3]>} : (tensor<2x3xf32>) -> tensor<2x1x3xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[2, 8, 3]>, axes = array<i64: 0, 1, 2>} : (tensor<2x1x3xf32>) -> tensor<2x8x3xf32>
  %8 = mortise.div %4, %7 : (tensor<2x8x3xf32>, tensor<2x8x3xf32>) -> tensor<2x8x3xf32>
  return %8 : tensor<2x8x3xf32>
}

// Times the reciprocal of the sum.
// CHECK-LABEL: func.func @softmax_product(
func.func @softmax_product(%arg0: tensor<2x8xf32> {mortise.name = "holes"}) -> tensor<2x8xf32> {
  // CHECK: mortise.softmax %arg0 {axis = 1 : i64}
  %0 = mortise.reduce_max %arg0 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[2, 1]>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %3 = mortise.sub %arg0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.exp %3 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = mortise.reduce_sum %4 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %6 = mortise.constant dense<1.0> : tensor<2xf32>
  %7 = mortise.div %6, %5 : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %8 = mortise.reshape %7 {shape = #mortise.dims<[2, 1]>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %9 = mortise.broadcast %8 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %10 = mortise.mul %4, %9 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %10 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @log_softmax(
func.func @log_softmax(%arg0: tensor<2x8xf32> {mortise.name = "holes"}) -> tensor<2x8xf32> {
  // CHECK: mortise.log_softmax %arg0 {axis = 1 : i64}
  %0 = mortise.reduce_max %arg0 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = mortise.exp %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.reduce_sum %3 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %5 = mortise.log %4 : (tensor<2xf32>) -> tensor<2xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %7 = mortise.sub %2, %6 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// Without the maximum it overflows earlier.
// CHECK-LABEL: func.func @not_softmax(
func.func @not_softmax(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NOT: softmax
  %0 = mortise.exp %arg0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = mortise.reduce_sum %0 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %3 = mortise.div %0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}

// The maximum of columns, the sum of rows.
// CHECK-LABEL: func.func @not_softmax_axes(
func.func @not_softmax_axes(%arg0: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // CHECK-NOT: softmax
  %0 = mortise.reduce_max %arg0 {axes = array<i64: 0>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = mortise.exp %2 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = mortise.reduce_sum %3 {axes = array<i64: 1>} : (tensor<4x4xf32>) -> tensor<4xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[4, 4]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x4xf32>
  %6 = mortise.div %3, %5 : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %6 : tensor<4x4xf32>
}
