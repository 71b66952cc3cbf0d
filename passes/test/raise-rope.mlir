// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// Llama, with tables for all heads.
// CHECK-LABEL: func.func @rotate_half(
func.func @rotate_half(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x1x4x8xf32>, %arg2: tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0, %arg1, %arg2 {interleaved = false}
  // CHECK-NOT: mortise.concatenate
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.concatenate %2, %0 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %arg0, %4 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32>
  %7 = mortise.mul %3, %6 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %8 = mortise.add %5, %7 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %8 : tensor<2x3x4x8xf32>
}

// Tables of rank 2, the sum the other way round.
// CHECK-LABEL: func.func @rotate_half_tables(
func.func @rotate_half_tables(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0
  // CHECK-NOT: mortise.concatenate
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.concatenate %2, %0 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 2, 3>} : (tensor<4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %4, %3 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 2, 3>} : (tensor<4x8xf32>) -> tensor<2x3x4x8xf32>
  %7 = mortise.mul %6, %arg0 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %8 = mortise.add %5, %7 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %8 : tensor<2x3x4x8xf32>
}

// a cos - b sin, b cos + a sin with tables of half the size.
// CHECK-LABEL: func.func @pairs_of_halves(
func.func @pairs_of_halves(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0
  // CHECK-NOT: mortise.sub
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3x4x4xf32>
  %4 = mortise.mul %0, %2 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %5 = mortise.mul %1, %3 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %6 = mortise.sub %4, %5 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %7 = mortise.mul %1, %2 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %8 = mortise.mul %0, %3 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.add %7, %8 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.concatenate %6, %9 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  return %10 : tensor<2x3x4x8xf32>
}

// rotate_every_two: strided slices, stacked and flattened.
// CHECK-LABEL: func.func @interleaved_stride(
func.func @interleaved_stride(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<4x8xf32>, %arg2: tensor<4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0
  // CHECK: interleaved = true
  // CHECK-NOT: mortise.neg
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 1]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 2>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 3, 4, 4, 1]>} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4x1xf32>
  %4 = mortise.reshape %0 {shape = #mortise.dims<[2, 3, 4, 4, 1]>} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4x1xf32>
  %5 = mortise.concatenate %3, %4 {axis = 4 : i64} : (tensor<2x3x4x4x1xf32>, tensor<2x3x4x4x1xf32>) -> tensor<2x3x4x4x2xf32>
  %6 = mortise.reshape %5 {shape = #mortise.dims<[2, 3, 4, 8]>} : (tensor<2x3x4x4x2xf32>) -> tensor<2x3x4x8xf32>
  %7 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 2, 3>} : (tensor<4x8xf32>) -> tensor<2x3x4x8xf32>
  %8 = mortise.mul %arg0, %7 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %9 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 3, 4, 8]>, axes = array<i64: 2, 3>} : (tensor<4x8xf32>) -> tensor<2x3x4x8xf32>
  %10 = mortise.mul %6, %9 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %11 = mortise.add %8, %10 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %11 : tensor<2x3x4x8xf32>
}

// Pairs by a reshape to [..., 2], their columns recombined.
// CHECK-LABEL: func.func @interleaved_reshape(
func.func @interleaved_reshape(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<4x4xf32>, %arg2: tensor<4x4xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0
  // CHECK: interleaved = true
  // CHECK-NOT: mortise.sub
  %0 = mortise.reshape %arg0 {shape = #mortise.dims<[2, 3, 4, 4, 2]>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4x2xf32>
  %1 = mortise.slice %0 {starts = #mortise.dims<[0, 0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4, 1]>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x3x4x4x2xf32>) -> tensor<2x3x4x4x1xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[2, 3, 4, 4]>} : (tensor<2x3x4x4x1xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.slice %0 {starts = #mortise.dims<[0, 0, 0, 0, 1]>, limits = #mortise.dims<[2, 3, 4, 4, 2]>, strides = array<i64: 1, 1, 1, 1, 1>} : (tensor<2x3x4x4x2xf32>) -> tensor<2x3x4x4x1xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[2, 3, 4, 4]>} : (tensor<2x3x4x4x1xf32>) -> tensor<2x3x4x4xf32>
  %5 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3x4x4xf32>
  %6 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 3, 4, 4]>, axes = array<i64: 2, 3>} : (tensor<4x4xf32>) -> tensor<2x3x4x4xf32>
  %7 = mortise.mul %2, %5 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %8 = mortise.mul %4, %6 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %9 = mortise.sub %7, %8 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %10 = mortise.mul %2, %6 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %11 = mortise.mul %4, %5 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %12 = mortise.add %10, %11 : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %13 = mortise.reshape %9 {shape = #mortise.dims<[2, 3, 4, 4, 1]>} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4x1xf32>
  %14 = mortise.reshape %12 {shape = #mortise.dims<[2, 3, 4, 4, 1]>} : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4x1xf32>
  %15 = mortise.concatenate %13, %14 {axis = 4 : i64} : (tensor<2x3x4x4x1xf32>, tensor<2x3x4x4x1xf32>) -> tensor<2x3x4x4x2xf32>
  %16 = mortise.reshape %15 {shape = #mortise.dims<[2, 3, 4, 8]>} : (tensor<2x3x4x4x2xf32>) -> tensor<2x3x4x8xf32>
  return %16 : tensor<2x3x4x8xf32>
}

// The halves in the wrong order.
// CHECK-LABEL: func.func @not_turned(
func.func @not_turned(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.concatenate %0, %2 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %3, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.add %4, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// A reflection: nothing is negated.
// CHECK-LABEL: func.func @not_negated(
func.func @not_negated(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.concatenate %1, %0 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %3 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.mul %2, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.add %3, %4 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %5 : tensor<2x3x4x8xf32>
}

// The turned value is not x.
// CHECK-LABEL: func.func @not_same(
func.func @not_same(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>, %arg3: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.slice %arg1 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg1 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.concatenate %2, %0 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.mul %arg0, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %3, %arg3 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.add %4, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// A third and two thirds.
// CHECK-LABEL: func.func @not_halves(
func.func @not_halves(%arg0: tensor<4x6xf32>, %arg1: tensor<4x6xf32>, %arg2: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0]>, limits = #mortise.dims<[4, 2]>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x2xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 2]>, limits = #mortise.dims<[4, 6]>, strides = array<i64: 1, 1>} : (tensor<4x6xf32>) -> tensor<4x4xf32>
  %2 = mortise.neg %1 : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = mortise.concatenate %2, %0 {axis = 1 : i64} : (tensor<4x4xf32>, tensor<4x2xf32>) -> tensor<4x6xf32>
  %4 = mortise.mul %arg0, %arg1 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %5 = mortise.mul %3, %arg2 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  %6 = mortise.add %4, %5 : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>
  return %6 : tensor<4x6xf32>
}

// ---- Other spellings

// x cos - (b, -a) sin
// CHECK-LABEL: func.func @minus(
func.func @minus(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.rope %arg0, %arg1, %arg2 {interleaved = false}
  // CHECK-NOT: mortise.sub
  %0 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.neg %2 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %4 = mortise.concatenate %1, %3 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %4, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.sub %0, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// x cos - (-b, a) sin turns the other way.
// CHECK-LABEL: func.func @not_minus(
func.func @not_minus(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %4 = mortise.concatenate %2, %3 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %4, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.sub %0, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// (b, -a) sin - x cos
// CHECK-LABEL: func.func @not_minus_reversed(
func.func @not_minus_reversed(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.neg %1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.concatenate %0, %2 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %4 = mortise.mul %3, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.sub %4, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}

// x cos + (b, -a) sin turns the other way.
// CHECK-LABEL: func.func @not_plus_back(
func.func @not_plus_back(%arg0: tensor<2x3x4x8xf32>, %arg1: tensor<2x3x4x8xf32>, %arg2: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  // CHECK-NOT: mortise.rope
  %0 = mortise.mul %arg0, %arg1 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %1 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 4]>, limits = #mortise.dims<[2, 3, 4, 8]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %2 = mortise.slice %arg0 {starts = #mortise.dims<[0, 0, 0, 0]>, limits = #mortise.dims<[2, 3, 4, 4]>, strides = array<i64: 1, 1, 1, 1>} : (tensor<2x3x4x8xf32>) -> tensor<2x3x4x4xf32>
  %3 = mortise.neg %2 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  %4 = mortise.concatenate %1, %3 {axis = 3 : i64} : (tensor<2x3x4x4xf32>, tensor<2x3x4x4xf32>) -> tensor<2x3x4x8xf32>
  %5 = mortise.mul %4, %arg2 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  %6 = mortise.add %0, %5 : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %6 : tensor<2x3x4x8xf32>
}
