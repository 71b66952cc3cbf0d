// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// CHECK-LABEL: func.func @plain(
func.func @plain(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false, scale = 0.35355
  // CHECK-NOT: mortise.dot
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.softmax %2 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %4 : tensor<2x3x4x6xf32>
}

// The softmax written out, the scale a division, no broadcast of a mask.
// CHECK-LABEL: func.func @spelled_softmax(
func.func @spelled_softmax(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false, scale = 0.35355
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<2.828427125> : tensor<2x3x4x5xf32>
  %2 = mortise.div %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.reduce_max %2 {axes = array<i64: 3>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[2, 3, 4, 1]>} : (tensor<2x3x4xf32>) -> tensor<2x3x4x1xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x3x4x1xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.sub %2, %5 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.exp %6 : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.reduce_sum %7 {axes = array<i64: 3>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4xf32>
  %9 = mortise.reshape %8 {shape = #mortise.dims<[2, 3, 4, 1]>} : (tensor<2x3x4xf32>) -> tensor<2x3x4x1xf32>
  %10 = mortise.broadcast %9 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x3x4x1xf32>) -> tensor<2x3x4x5xf32>
  %11 = mortise.div %7, %10 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %12 = mortise.dot %11, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %12 : tensor<2x3x4x6xf32>
}

// Batches and heads in one dimension around both products, as bmm takes them.
// CHECK-LABEL: func.func @bmm(
func.func @bmm(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false
  // CHECK-NOT: mortise.reshape
  %0 = mortise.reshape %arg0 {shape = #mortise.dims<[6, 4, 8]>} : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
  %1 = mortise.reshape %arg1 {shape = #mortise.dims<[6, 5, 8]>} : (tensor<2x3x5x8xf32>) -> tensor<6x5x8xf32>
  %2 = mortise.reshape %arg2 {shape = #mortise.dims<[6, 5, 6]>} : (tensor<2x3x5x6xf32>) -> tensor<6x5x6xf32>
  %3 = mortise.dot %0, %1 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (tensor<6x4x8xf32>, tensor<6x5x8xf32>) -> tensor<6x4x5xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[2, 3, 4, 5]>} : (tensor<6x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %6 = mortise.mul %4, %5 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.softmax %6 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.reshape %7 {shape = #mortise.dims<[6, 4, 5]>} : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
  %9 = mortise.dot %8, %2 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
  %10 = mortise.reshape %9 {shape = #mortise.dims<[2, 3, 4, 6]>} : (tensor<6x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %10 : tensor<2x3x4x6xf32>
}

// One batch of heads only.
// CHECK-LABEL: func.func @rank_3(
func.func @rank_3(%arg0: tensor<6x4x8xf32>, %arg1: tensor<6x5x8xf32>, %arg2: tensor<6x5x6xf32>) -> tensor<6x4x6xf32> {
  // CHECK: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (tensor<6x4x8xf32>, tensor<6x5x8xf32>) -> tensor<6x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<6x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<6x4x5xf32>, tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %3 = mortise.softmax %2 {axis = 2 : i64} : (tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
  return %4 : tensor<6x4x6xf32>
}

// q times a transposed key; the scale on q before.
// CHECK-LABEL: func.func @transposed_key(
func.func @transposed_key(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false, scale = 0.35355
  // CHECK-NOT: mortise.transpose
  %0 = mortise.transpose %arg1 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x3x5x8xf32>) -> tensor<2x3x8x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %3 = mortise.dot %2, %0 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.softmax %3 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.dot %4, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %5 : tensor<2x3x4x6xf32>
}

// The same through bmm: transposed in rank 4, flattened.
// CHECK-LABEL: func.func @transposed_bmm(
func.func @transposed_bmm(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false
  // CHECK-NOT: mortise.transpose
  %0 = mortise.transpose %arg1 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<2x3x5x8xf32>) -> tensor<2x3x8x5xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[6, 8, 5]>} : (tensor<2x3x8x5xf32>) -> tensor<6x8x5xf32>
  %2 = mortise.reshape %arg0 {shape = #mortise.dims<[6, 4, 8]>} : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
  %3 = mortise.dot %2, %1 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x8xf32>, tensor<6x8x5xf32>) -> tensor<6x4x5xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[2, 3, 4, 5]>} : (tensor<6x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %6 = mortise.mul %4, %5 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.softmax %6 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.reshape %7 {shape = #mortise.dims<[6, 4, 5]>} : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
  %9 = mortise.reshape %arg2 {shape = #mortise.dims<[6, 5, 6]>} : (tensor<2x3x5x6xf32>) -> tensor<6x5x6xf32>
  %10 = mortise.dot %8, %9 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
  %11 = mortise.reshape %10 {shape = #mortise.dims<[2, 3, 4, 6]>} : (tensor<6x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %11 : tensor<2x3x4x6xf32>
}

// The root of the scale on q and on k.
// CHECK-LABEL: func.func @root_scales(
func.func @root_scales(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false, scale = 0.3535533
  %0 = mortise.constant dense<0.594603558> : tensor<2x3x4x8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %2 = mortise.constant dense<0.594603558> : tensor<2x3x5x8xf32>
  %3 = mortise.mul %arg1, %2 : (tensor<2x3x5x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x5x8xf32>
  %4 = mortise.dot %1, %3 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.softmax %4 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.dot %5, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %6 : tensor<2x3x4x6xf32>
}

// bqhd,bkhd->bhqk and bhqk,bkhd->bqhd.
// CHECK-LABEL: func.func @einsum(
func.func @einsum(%arg0: tensor<2x4x3x8xf32>, %arg1: tensor<2x5x3x8xf32>, %arg2: tensor<2x5x3x6xf32>) -> tensor<2x4x3x6xf32> {
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.dot
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 2>, rhs_batch = array<i64: 0, 2>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x4x3x8xf32>, tensor<2x5x3x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.softmax %2 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 2>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 1>} : (tensor<2x3x4x5xf32>, tensor<2x5x3x6xf32>) -> tensor<2x3x4x6xf32>
  %5 = mortise.transpose %4 {permutation = array<i64: 0, 2, 1, 3>} : (tensor<2x3x4x6xf32>) -> tensor<2x4x3x6xf32>
  return %5 : tensor<2x4x3x6xf32>
}

// Llama's repeat_kv: two query heads share a key head.
// CHECK-LABEL: func.func @grouped(
func.func @grouped(%arg0: tensor<2x4x4x8xf32>, %arg1: tensor<2x2x5x8xf32>, %arg2: tensor<2x2x5x6xf32>) -> tensor<2x4x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false
  // CHECK-NOT: mortise.broadcast
  %0 = mortise.reshape %arg1 {shape = #mortise.dims<[2, 2, 1, 5, 8]>} : (tensor<2x2x5x8xf32>) -> tensor<2x2x1x5x8xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[2, 2, 2, 5, 8]>, axes = array<i64: 0, 1, 2, 3, 4>} : (tensor<2x2x1x5x8xf32>) -> tensor<2x2x2x5x8xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[2, 4, 5, 8]>} : (tensor<2x2x2x5x8xf32>) -> tensor<2x4x5x8xf32>
  %3 = mortise.dot %arg0, %2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x4x4x8xf32>, tensor<2x4x5x8xf32>) -> tensor<2x4x4x5xf32>
  %4 = mortise.constant dense<0.353553391> : tensor<2x4x4x5xf32>
  %5 = mortise.mul %3, %4 : (tensor<2x4x4x5xf32>, tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x4x4x5xf32>) -> tensor<2x4x4x5xf32>
  %7 = mortise.reshape %arg2 {shape = #mortise.dims<[2, 2, 1, 5, 6]>} : (tensor<2x2x5x6xf32>) -> tensor<2x2x1x5x6xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[2, 2, 2, 5, 6]>, axes = array<i64: 0, 1, 2, 3, 4>} : (tensor<2x2x1x5x6xf32>) -> tensor<2x2x2x5x6xf32>
  %9 = mortise.reshape %8 {shape = #mortise.dims<[2, 4, 5, 6]>} : (tensor<2x2x2x5x6xf32>) -> tensor<2x4x5x6xf32>
  %10 = mortise.dot %6, %9 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x4x4x5xf32>, tensor<2x4x5x6xf32>) -> tensor<2x4x4x6xf32>
  return %10 : tensor<2x4x4x6xf32>
}

// The same through bmm, where the key is transposed and the value flattened at once.
// CHECK-LABEL: func.func @grouped_bmm(
func.func @grouped_bmm(%arg0: tensor<1x4x4x8xf32>, %arg1: tensor<1x2x5x8xf32>, %arg2: tensor<1x2x5x6xf32>) -> tensor<1x4x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false
  // CHECK-NOT: mortise.broadcast
  %0 = mortise.reshape %arg1 {shape = #mortise.dims<[1, 2, 1, 5, 8]>} : (tensor<1x2x5x8xf32>) -> tensor<1x2x1x5x8xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[1, 2, 2, 5, 8]>, axes = array<i64: 0, 1, 2, 3, 4>} : (tensor<1x2x1x5x8xf32>) -> tensor<1x2x2x5x8xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[1, 4, 5, 8]>} : (tensor<1x2x2x5x8xf32>) -> tensor<1x4x5x8xf32>
  %3 = mortise.transpose %2 {permutation = array<i64: 0, 1, 3, 2>} : (tensor<1x4x5x8xf32>) -> tensor<1x4x8x5xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[4, 8, 5]>} : (tensor<1x4x8x5xf32>) -> tensor<4x8x5xf32>
  %5 = mortise.reshape %arg0 {shape = #mortise.dims<[4, 4, 8]>} : (tensor<1x4x4x8xf32>) -> tensor<4x4x8xf32>
  %6 = mortise.dot %5, %4 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<4x4x8xf32>, tensor<4x8x5xf32>) -> tensor<4x4x5xf32>
  %7 = mortise.reshape %6 {shape = #mortise.dims<[1, 4, 4, 5]>} : (tensor<4x4x5xf32>) -> tensor<1x4x4x5xf32>
  %8 = mortise.constant dense<0.353553391> : tensor<1x4x4x5xf32>
  %9 = mortise.mul %7, %8 : (tensor<1x4x4x5xf32>, tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32>
  %10 = mortise.softmax %9 {axis = 3 : i64} : (tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32>
  %11 = mortise.reshape %10 {shape = #mortise.dims<[4, 4, 5]>} : (tensor<1x4x4x5xf32>) -> tensor<4x4x5xf32>
  %12 = mortise.reshape %arg2 {shape = #mortise.dims<[1, 2, 1, 5, 6]>} : (tensor<1x2x5x6xf32>) -> tensor<1x2x1x5x6xf32>
  %13 = mortise.broadcast %12 {shape = #mortise.dims<[1, 2, 2, 5, 6]>, axes = array<i64: 0, 1, 2, 3, 4>} : (tensor<1x2x1x5x6xf32>) -> tensor<1x2x2x5x6xf32>
  %14 = mortise.reshape %13 {shape = #mortise.dims<[4, 5, 6]>} : (tensor<1x2x2x5x6xf32>) -> tensor<4x5x6xf32>
  %15 = mortise.dot %11, %14 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<4x4x5xf32>, tensor<4x5x6xf32>) -> tensor<4x4x6xf32>
  %16 = mortise.reshape %15 {shape = #mortise.dims<[1, 4, 4, 6]>} : (tensor<4x4x6xf32>) -> tensor<1x4x4x6xf32>
  return %16 : tensor<1x4x4x6xf32>
}

// A mask that hides keys by the lowest number: every query sees a key.
// CHECK-LABEL: func.func @added_mask(
func.func @added_mask(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> {
  // CHECK: %[[M:.*]] = mortise.select
  // CHECK: mortise.attention %arg0, %arg1, %arg2, %[[M]] {causal = false
  // CHECK-NOT: mortise.select
  %0 = mortise.constant dense<0.0> : tensor<2x1x4x5xf32>
  %1 = mortise.constant dense<-3.40282347E+38> : tensor<2x1x4x5xf32>
  %2 = mortise.select %arg3, %0, %1 : (tensor<2x1x4x5xi1>, tensor<2x1x4x5xf32>, tensor<2x1x4x5xf32>) -> tensor<2x1x4x5xf32>
  %3 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %5 = mortise.mul %3, %4 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.broadcast %2 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.add %5, %6 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.softmax %7 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %9 = mortise.dot %8, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %9 : tensor<2x3x4x6xf32>
}

// A mask of unknown content: a query for which it hides all keys stays NaN.
// CHECK-LABEL: func.func @added_input(
func.func @added_input(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x4x5xf32> {mortise.name = "holes"}) -> tensor<2x3x4x6xf32> {
  // CHECK: %[[M:.*]] = mortise.select %{{.*}}, %{{.*}}, %arg3
  // CHECK: mortise.attention %arg0, %arg1, %arg2, %[[M]] {causal = false
  %0 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %2 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %3 = mortise.mul %1, %2 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %0, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.softmax %4 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.dot %5, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %6 : tensor<2x3x4x6xf32>
}

// A mask for the heads of one batch.
// CHECK-LABEL: func.func @added_rank_3(
func.func @added_rank_3(%arg0: tensor<6x4x8xf32>, %arg1: tensor<6x5x8xf32>, %arg2: tensor<6x5x6xf32>, %arg3: tensor<4x5xf32> {mortise.name = "holes"}) -> tensor<6x4x6xf32> {
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.dot
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (tensor<6x4x8xf32>, tensor<6x5x8xf32>) -> tensor<6x4x5xf32>
  %1 = mortise.broadcast %arg3 {shape = #mortise.dims<[6, 4, 5]>, axes = array<i64: 1, 2>} : (tensor<4x5xf32>) -> tensor<6x4x5xf32>
  %2 = mortise.add %0, %1 : (tensor<6x4x5xf32>, tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %3 = mortise.softmax %2 {axis = 2 : i64} : (tensor<6x4x5xf32>) -> tensor<6x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
  return %4 : tensor<6x4x6xf32>
}

// Scores replaced by -infinity where a key is hidden; a query that sees no key is NaN.
// CHECK-LABEL: func.func @boolean(
func.func @boolean(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x1x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2, %arg3 {causal = false
  // CHECK: mortise.select
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x5xi1>) -> tensor<2x3x4x5xi1>
  %4 = mortise.constant dense<0xFF800000> : tensor<2x3x4x5xf32>
  %5 = mortise.select %3, %2, %4 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.dot %6, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// masked_fill: true where a key is hidden.
// CHECK-LABEL: func.func @boolean_hidden(
func.func @boolean_hidden(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.not
  // CHECK: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 2, 3>} : (tensor<4x5xi1>) -> tensor<2x3x4x5xi1>
  %4 = mortise.constant dense<0xFF800000> : tensor<2x3x4x5xf32>
  %5 = mortise.select %3, %4, %2 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.dot %6, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// tril by comparing iotas.
// CHECK-LABEL: func.func @causal(
func.func @causal(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = true
  // CHECK-NOT: mortise.select
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 0 : i64} : () -> tensor<4x4xi64>
  %4 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 1 : i64} : () -> tensor<4x4xi64>
  %5 = mortise.compare %3, %4 {direction = "ge"} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x3x4x4xi1>
  %7 = mortise.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %8 = mortise.select %6, %2, %7 : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.softmax %8 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.dot %9, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %10 : tensor<2x3x4x6xf32>
}

// triu(1) from iotas of rank 1, true where a key is hidden.
// CHECK-LABEL: func.func @causal_hidden(
func.func @causal_hidden(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = true
  // CHECK-NOT: mortise.select
  %0 = mortise.iota {shape = #mortise.dims<[4]>, dtype = "i64", axis = 0 : i64} : () -> tensor<4xi64>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[1, 4]>} : (tensor<4xi64>) -> tensor<1x4xi64>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[4, 4]>, axes = array<i64: 0, 1>} : (tensor<1x4xi64>) -> tensor<4x4xi64>
  %3 = mortise.reshape %0 {shape = #mortise.dims<[4, 1]>} : (tensor<4xi64>) -> tensor<4x1xi64>
  %4 = mortise.broadcast %3 {shape = #mortise.dims<[4, 4]>, axes = array<i64: 0, 1>} : (tensor<4x1xi64>) -> tensor<4x4xi64>
  %5 = mortise.compare %2, %4 {direction = "gt"} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %6 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %7 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %8 = mortise.mul %6, %7 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.reshape %5 {shape = #mortise.dims<[1, 1, 4, 4]>} : (tensor<4x4xi1>) -> tensor<1x1x4x4xi1>
  %10 = mortise.broadcast %9 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x1x4x4xi1>) -> tensor<2x3x4x4xi1>
  %11 = mortise.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %12 = mortise.select %10, %11, %8 : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %13 = mortise.softmax %12 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %14 = mortise.dot %13, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %14 : tensor<2x3x4x6xf32>
}

// The mask as a literal.
// CHECK-LABEL: func.func @causal_literal(
func.func @causal_literal(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = true
  %0 = mortise.constant dense<[[true, false, false, false], [true, true, false, false], [true, true, true, false], [true, true, true, true]]> : tensor<4x4xi1>
  %1 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %3 = mortise.mul %1, %2 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %4 = mortise.broadcast %0 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x3x4x4xi1>
  %5 = mortise.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %6 = mortise.select %4, %3, %5 : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %7 = mortise.softmax %6 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %8 = mortise.dot %7, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %8 : tensor<2x3x4x6xf32>
}

// A finite fill; every query sees a key.
// CHECK-LABEL: func.func @causal_finite(
func.func @causal_finite(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = true
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 0 : i64} : () -> tensor<4x4xi64>
  %4 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 1 : i64} : () -> tensor<4x4xi64>
  %5 = mortise.compare %4, %3 {direction = "le"} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x3x4x4xi1>
  %7 = mortise.constant dense<-1.0e9> : tensor<2x3x4x4xf32>
  %8 = mortise.select %6, %2, %7 : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.softmax %8 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.dot %9, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %10 : tensor<2x3x4x6xf32>
}

// triu of -infinity, added.
// CHECK-LABEL: func.func @causal_added(
func.func @causal_added(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = true
  %0 = mortise.constant dense<0.0> : tensor<4x4xf32>
  %1 = mortise.constant dense<0xFF800000> : tensor<4x4xf32>
  %2 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 0 : i64} : () -> tensor<4x4xi64>
  %3 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 1 : i64} : () -> tensor<4x4xi64>
  %4 = mortise.compare %2, %3 {direction = "lt"} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %5 = mortise.select %4, %1, %0 : (tensor<4x4xi1>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %7 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %8 = mortise.mul %6, %7 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.add %8, %9 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %11 = mortise.softmax %10 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %12 = mortise.dot %11, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %12 : tensor<2x3x4x6xf32>
}

// bf16 with the softmax in f32.
// CHECK-LABEL: func.func @narrow(
func.func @narrow(%arg0: tensor<2x3x4x8xbf16>, %arg1: tensor<2x3x5x8xbf16>, %arg2: tensor<2x3x5x6xbf16>) -> tensor<2x3x4x6xbf16> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2 {causal = false
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xbf16>, tensor<2x3x5x8xbf16>) -> tensor<2x3x4x5xbf16>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xbf16>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xbf16>, tensor<2x3x4x5xbf16>) -> tensor<2x3x4x5xbf16>
  %3 = mortise.convert %2 {dtype = "f32"} : (tensor<2x3x4x5xbf16>) -> tensor<2x3x4x5xf32>
  %4 = mortise.softmax %3 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.convert %4 {dtype = "bf16"} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xbf16>
  %6 = mortise.dot %5, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xbf16>, tensor<2x3x5x6xbf16>) -> tensor<2x3x4x6xbf16>
  return %6 : tensor<2x3x4x6xbf16>
}

// A single query over a cache.
// CHECK-LABEL: func.func @symbolic_like(
func.func @symbolic_like(%arg0: tensor<2x3x1x8xf32>, %arg1: tensor<2x3x7x8xf32>, %arg2: tensor<2x3x7x6xf32>) -> tensor<2x3x1x6xf32> {
  // CHECK: mortise.attention %arg0, %arg1, %arg2
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x1x8xf32>, tensor<2x3x7x8xf32>) -> tensor<2x3x1x7xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x1x7xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x1x7xf32>, tensor<2x3x1x7xf32>) -> tensor<2x3x1x7xf32>
  %3 = mortise.softmax %2 {axis = 3 : i64} : (tensor<2x3x1x7xf32>) -> tensor<2x3x1x7xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x1x7xf32>, tensor<2x3x7x6xf32>) -> tensor<2x3x1x6xf32>
  return %4 : tensor<2x3x1x6xf32>
}

// The mask is scaled with the scores.
// CHECK-LABEL: func.func @scaled_mask(
func.func @scaled_mask(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x4x5xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.mul
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.softmax
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xf32>) -> tensor<2x3x4x5xf32>
  %2 = mortise.add %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %4 = mortise.mul %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.softmax %4 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.dot %5, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %6 : tensor<2x3x4x6xf32>
}

// Softmax over queries.
// CHECK-LABEL: func.func @not_rows(
func.func @not_rows(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.softmax %0 {axis = 2 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.dot %1, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %2 : tensor<2x3x4x6xf32>
}

// A finite fill value that is too close to possible scores.
// CHECK-LABEL: func.func @not_finite_boolean(
func.func @not_finite_boolean(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x1x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x5xi1>) -> tensor<2x3x4x5xi1>
  %4 = mortise.constant dense<-1.0e5> : tensor<2x3x4x5xf32>
  %5 = mortise.select %3, %2, %4 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.dot %6, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// Each query sees only keys before its own: the first sees none.
// CHECK-LABEL: func.func @not_causal_strict(
func.func @not_causal_strict(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: causal = false
  // CHECK-NOT: causal = true
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x4xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 0 : i64} : () -> tensor<4x4xi64>
  %4 = mortise.iota {shape = #mortise.dims<[4, 4]>, dtype = "i64", axis = 1 : i64} : () -> tensor<4x4xi64>
  %5 = mortise.compare %3, %4 {direction = "gt"} : (tensor<4x4xi64>, tensor<4x4xi64>) -> tensor<4x4xi1>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xi1>) -> tensor<2x3x4x4xi1>
  %7 = mortise.constant dense<0xFF800000> : tensor<2x3x4x4xf32>
  %8 = mortise.select %6, %2, %7 : (tensor<2x3x4x4xi1>, tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.softmax %8 {axis = 3 : i64} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.dot %9, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x4xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %10 : tensor<2x3x4x6xf32>
}

// Two masks, one after the other.
// CHECK-LABEL: func.func @two_masks(
func.func @two_masks(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<4x5xf32>, %arg4: tensor<4x5xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.add
  // CHECK-NOT: mortise.add
  // CHECK: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 2, 3>} : (tensor<4x5xf32>) -> tensor<2x3x4x5xf32>
  %2 = mortise.add %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 2, 3>} : (tensor<4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.softmax %4 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.dot %5, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %6 : tensor<2x3x4x6xf32>
}

// An i1 mask of attention itself.
// CHECK-LABEL: func.func @mask(
func.func @mask(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x1x1x4xi1> {mortise.name = "seen"}) -> tensor<2x3x4x8xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention %arg0, %arg0, %arg0, %arg1 {
  %0 = mortise.constant dense<0.0> : tensor<2x1x4x4xf32>
  %1 = mortise.constant dense<0xFF800000> : tensor<2x1x4x4xf32>
  %2 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 1, 4, 4]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x4xi1>) -> tensor<2x1x4x4xi1>
  %3 = mortise.select %2, %0, %1 : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %4 = mortise.attention %arg0, %arg0, %arg0, %3 {scale = 0.125 : f64, causal = false} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x1x4x4xf32>) -> tensor<2x3x4x8xf32>
  return %4 : tensor<2x3x4x8xf32>
}

// A finite penalty still lets a key be seen.
// CHECK-LABEL: func.func @penalty(
func.func @penalty(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x1x4x4xi1> {mortise.name = "seen"}) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.select
  %0 = mortise.constant dense<0.0> : tensor<2x1x4x4xf32>
  %1 = mortise.constant dense<-1.0e4> : tensor<2x1x4x4xf32>
  %2 = mortise.select %arg1, %0, %1 : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %3 = mortise.attention %arg0, %arg0, %arg0, %2 {scale = 0.125 : f64, causal = false} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x1x4x4xf32>) -> tensor<2x3x4x8xf32>
  return %3 : tensor<2x3x4x8xf32>
}

// ---- Other spellings

// GPT-2: where(mask, scores, lowest). A query that sees no key gives the mean of the values.
// CHECK-LABEL: func.func @lowest_boolean(
func.func @lowest_boolean(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention %arg0, %arg1, %arg2, %arg3
  // CHECK: mortise.mean %arg2
  // CHECK: mortise.select
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xi1>) -> tensor<2x3x4x5xi1>
  %4 = mortise.constant dense<-3.40282347E+38> : tensor<2x3x4x5xf32>
  %5 = mortise.select %3, %2, %4 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.dot %6, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// masked_fill(hidden, -1e9)
// CHECK-LABEL: func.func @billion_hidden(
func.func @billion_hidden(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention %arg0, %arg1, %arg2
  // CHECK: mortise.mean
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xi1>) -> tensor<2x3x4x5xi1>
  %4 = mortise.constant dense<-1.0e+09> : tensor<2x3x4x5xf32>
  %5 = mortise.select %3, %4, %2 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.softmax %5 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.dot %6, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// A bias for each head and a mask: their sum is added.
// CHECK-LABEL: func.func @bias_and_mask(
func.func @bias_and_mask(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<1x3x4x5xf32>, %arg4: tensor<2x1x1x5xf32> {mortise.name = "holes"}) -> tensor<2x3x4x6xf32> {
  // CHECK: mortise.add
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.softmax
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x5xf32>) -> tensor<2x3x4x5xf32>
  %6 = mortise.add %4, %5 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %7 = mortise.softmax %6 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.dot %7, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %8 : tensor<2x3x4x6xf32>
}

// ALiBi: a bias, then masked_fill(-inf).
// CHECK-LABEL: func.func @bias_and_choice(
func.func @bias_and_choice(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<1x3x4x5xf32>, %arg4: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.softmax
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xi1>) -> tensor<2x3x4x5xi1>
  %6 = mortise.constant dense<0xFF800000> : tensor<2x3x4x5xf32>
  %7 = mortise.select %5, %4, %6 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.softmax %7 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %9 = mortise.dot %8, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %9 : tensor<2x3x4x6xf32>
}

// A bias, then where(mask, scores, lowest).
// CHECK-LABEL: func.func @bias_and_lowest(
func.func @bias_and_lowest(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<1x3x4x5xf32>, %arg4: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> attributes {mortise.differs} {
  // CHECK: mortise.attention
  // CHECK-NOT: mortise.softmax
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xi1>) -> tensor<2x3x4x5xi1>
  %6 = mortise.constant dense<-3.40282347E+38> : tensor<2x3x4x5xf32>
  %7 = mortise.select %5, %4, %6 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.softmax %7 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %9 = mortise.dot %8, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %9 : tensor<2x3x4x6xf32>
}

// A bias, then a fill of -1e9, which a sum with a score would change.
// CHECK-LABEL: func.func @not_bias_and_billion(
func.func @not_bias_and_billion(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>, %arg3: tensor<1x3x4x5xf32>, %arg4: tensor<2x1x4x5xi1> {mortise.name = "seen"}) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.add %2, %3 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %5 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 3, 4, 5]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x5xi1>) -> tensor<2x3x4x5xi1>
  %6 = mortise.constant dense<-1.0e+09> : tensor<2x3x4x5xf32>
  %7 = mortise.select %5, %4, %6 : (tensor<2x3x4x5xi1>, tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.softmax %7 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %9 = mortise.dot %8, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  return %9 : tensor<2x3x4x6xf32>
}

// need_weights: the softmax has another user.
// CHECK-LABEL: func.func @not_wanted_weights(
func.func @not_wanted_weights(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.softmax %2 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  %5 = mortise.mean %3 {axes = array<i64: 3>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 6]>, axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x4x6xf32>
  %7 = mortise.add %4, %6 : (tensor<2x3x4x6xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// The scores have another user.
// CHECK-LABEL: func.func @not_wanted_scores(
func.func @not_wanted_scores(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.attention
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 3>} : (tensor<2x3x4x8xf32>, tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32>
  %1 = mortise.constant dense<0.353553391> : tensor<2x3x4x5xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x3x4x5xf32>, tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %3 = mortise.softmax %2 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %4 = mortise.dot %3, %arg2 {lhs_batch = array<i64: 0, 1>, rhs_batch = array<i64: 0, 1>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 2>} : (tensor<2x3x4x5xf32>, tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32>
  %5 = mortise.mean %2 {axes = array<i64: 3>} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 3, 4, 6]>, axes = array<i64: 0, 1, 2>} : (tensor<2x3x4xf32>) -> tensor<2x3x4x6xf32>
  %7 = mortise.add %4, %6 : (tensor<2x3x4x6xf32>, tensor<2x3x4x6xf32>) -> tensor<2x3x4x6xf32>
  return %7 : tensor<2x3x4x6xf32>
}

// torch.einsum moves dimensions of extent 1 around batched products.
// CHECK-LABEL: func.func @einsum_flattened(
func.func @einsum_flattened(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x5x8xf32>, %arg2: tensor<2x3x5x6xf32>) -> tensor<2x3x4x6xf32> {
  // CHECK-NOT: mortise.transpose
  // CHECK: mortise.attention %arg0, %arg1, %arg2
  // CHECK-NOT: mortise.transpose
  %0 = mortise.reshape %arg0 {shape = #mortise.dims<[6, 4, 8]>} : (tensor<2x3x4x8xf32>) -> tensor<6x4x8xf32>
  %1 = mortise.reshape %arg1 {shape = #mortise.dims<[2, 3, 5, 8, 1]>} : (tensor<2x3x5x8xf32>) -> tensor<2x3x5x8x1xf32>
  %2 = mortise.transpose %1 {permutation = array<i64: 0, 1, 3, 2, 4>} : (tensor<2x3x5x8x1xf32>) -> tensor<2x3x8x5x1xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[6, 8, 5]>} : (tensor<2x3x8x5x1xf32>) -> tensor<6x8x5xf32>
  %4 = mortise.dot %0, %3 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x8xf32>, tensor<6x8x5xf32>) -> tensor<6x4x5xf32>
  %5 = mortise.reshape %4 {shape = #mortise.dims<[2, 3, 4, 1, 5]>} : (tensor<6x4x5xf32>) -> tensor<2x3x4x1x5xf32>
  %6 = mortise.transpose %5 {permutation = array<i64: 0, 1, 2, 4, 3>} : (tensor<2x3x4x1x5xf32>) -> tensor<2x3x4x5x1xf32>
  %7 = mortise.reshape %6 {shape = #mortise.dims<[2, 3, 4, 5]>} : (tensor<2x3x4x5x1xf32>) -> tensor<2x3x4x5xf32>
  %8 = mortise.softmax %7 {axis = 3 : i64} : (tensor<2x3x4x5xf32>) -> tensor<2x3x4x5xf32>
  %9 = mortise.reshape %8 {shape = #mortise.dims<[6, 4, 5]>} : (tensor<2x3x4x5xf32>) -> tensor<6x4x5xf32>
  %10 = mortise.reshape %arg2 {shape = #mortise.dims<[6, 5, 6]>} : (tensor<2x3x5x6xf32>) -> tensor<6x5x6xf32>
  %11 = mortise.dot %9, %10 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<6x4x5xf32>, tensor<6x5x6xf32>) -> tensor<6x4x6xf32>
  %12 = mortise.reshape %11 {shape = #mortise.dims<[2, 3, 4, 1, 6]>} : (tensor<6x4x6xf32>) -> tensor<2x3x4x1x6xf32>
  %13 = mortise.transpose %12 {permutation = array<i64: 0, 1, 2, 4, 3>} : (tensor<2x3x4x1x6xf32>) -> tensor<2x3x4x6x1xf32>
  %14 = mortise.reshape %13 {shape = #mortise.dims<[2, 3, 4, 6]>} : (tensor<2x3x4x6x1xf32>) -> tensor<2x3x4x6xf32>
  return %14 : tensor<2x3x4x6xf32>
}
