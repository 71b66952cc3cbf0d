// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// CHECK-LABEL: func.func @linear(
func.func @linear(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.linear %arg0, %arg1, %arg2 {weight_transposed = false}
  // CHECK-NOT: mortise.add
  %0 = mortise.transpose %arg1 {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = mortise.dot %arg0, %0 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %3 = mortise.add %1, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Flattened for the product and restored after it.
// CHECK-LABEL: func.func @flattened(
func.func @flattened(%arg0: tensor<2x4x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<16xf32>) -> tensor<2x4x16xf32> {
  // CHECK: mortise.linear %arg0, %arg1, %arg2
  // CHECK-NOT: mortise.reshape
  %0 = mortise.reshape %arg0 {shape = #mortise.dims<[8, 8]>} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %1 = mortise.linear %0, %arg1, %arg2 {weight_transposed = false} : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[2, 4, 16]>} : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  return %2 : tensor<2x4x16xf32>
}

// Heads split the last dimension: the product stays as it is.
// CHECK-LABEL: func.func @heads(
func.func @heads(%arg0: tensor<8x8xf32>, %arg1: tensor<16x8xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: mortise.linear
  // CHECK: mortise.reshape
  %0 = mortise.linear %arg0, %arg1 {weight_transposed = false} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[2, 4, 4, 4]>} : (tensor<8x16xf32>) -> tensor<2x4x4x4xf32>
  return %1 : tensor<2x4x4x4xf32>
}

// A product with batch dimensions is not a linear.
// CHECK-LABEL: func.func @batched(
func.func @batched(%arg0: tensor<2x4x8xf32>, %arg1: tensor<2x8x4xf32>) -> tensor<2x4x4xf32> {
  // CHECK-NOT: mortise.linear
  %0 = mortise.dot %arg0, %arg1 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}

// A scale for each output.
// CHECK-LABEL: func.func @weights_int8(
func.func @weights_int8(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0
  // CHECK-NOT: mortise.mul
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A zero point of floats, which the composite does not support.
// CHECK-LABEL: func.func @weights_zero(
func.func @weights_zero(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>, %arg4: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.linear
  // CHECK-NOT: quantized
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg3 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.sub %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %4 = mortise.mul %2, %3 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %5 = mortise.transpose %4 {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %6 = mortise.dot %arg0, %5 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %7 = mortise.broadcast %arg4 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %8 = mortise.add %6, %7 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %8 : tensor<4x16xf32>
}

// An integer zero point, converted and repeated.
// CHECK-LABEL: func.func @weights_zero_integer(
func.func @weights_zero_integer(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xi8>, %arg4: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0
  // CHECK: zero_point
  // CHECK-NOT: mortise.sub
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.convert %arg3 {dtype = "f32"} : (tensor<16xi8>) -> tensor<16xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %3 = mortise.sub %0, %2 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %4 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %5 = mortise.mul %3, %4 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %6 = mortise.transpose %5 {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %7 = mortise.dot %arg0, %6 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %8 = mortise.broadcast %arg4 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %9 = mortise.add %7, %8 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %9 : tensor<4x16xf32>
}

// A scale for each group of four along K.
// CHECK-LABEL: func.func @weights_groups(
func.func @weights_groups(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16x2xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0
  // CHECK-NOT: mortise.mul
  %0 = mortise.reshape %arg1 {shape = #mortise.dims<[16, 2, 4]>} : (tensor<16x8xi8>) -> tensor<16x2x4xi8>
  %1 = mortise.convert %0 {dtype = "f32"} : (tensor<16x2x4xi8>) -> tensor<16x2x4xf32>
  %2 = mortise.reshape %arg2 {shape = #mortise.dims<[16, 2, 1]>} : (tensor<16x2xf32>) -> tensor<16x2x1xf32>
  %3 = mortise.broadcast %2 {shape = #mortise.dims<[16, 2, 4]>, axes = array<i64: 0, 1, 2>} : (tensor<16x2x1xf32>) -> tensor<16x2x4xf32>
  %4 = mortise.mul %1, %3 : (tensor<16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<16x2x4xf32>
  %5 = mortise.reshape %4 {shape = #mortise.dims<[16, 8]>} : (tensor<16x2x4xf32>) -> tensor<16x8xf32>
  %6 = mortise.linear %arg0, %5 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %6 : tensor<4x16xf32>
}

// One scale for all.
// CHECK-LABEL: func.func @weights_one_scale(
func.func @weights_one_scale(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<f32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64>} : (tensor<f32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A scaled weight of floats is not quantised.
// CHECK-LABEL: func.func @not_quantised_floats(
func.func @not_quantised_floats(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xf32>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %1 = mortise.mul %arg1, %0 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %2 = mortise.linear %arg0, %1 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %2 : tensor<4x16xf32>
}

// A scale for each input.
// CHECK-LABEL: func.func @not_quantised_columns(
func.func @not_quantised_columns(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<8xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// ---- Other spellings

// i32 weights: the composite takes 8 bits at most.
// CHECK-LABEL: func.func @not_quantised_wide(
func.func @not_quantised_wide(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi32>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi32>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// i64 weights: the composite takes 8 bits at most.
// CHECK-LABEL: func.func @not_quantised_wider(
func.func @not_quantised_wider(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi64>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi64>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// i16 weights: the composite takes 8 bits at most.
// CHECK-LABEL: func.func @not_quantised_short(
func.func @not_quantised_short(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi16>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi16>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Converted first, then seen in groups.
// CHECK-LABEL: func.func @weights_groups_reshaped(
func.func @weights_groups_reshaped(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16x2xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[16, 2, 4]>} : (tensor<16x8xf32>) -> tensor<16x2x4xf32>
  %2 = mortise.reshape %arg2 {shape = #mortise.dims<[16, 2, 1]>} : (tensor<16x2xf32>) -> tensor<16x2x1xf32>
  %3 = mortise.broadcast %2 {shape = #mortise.dims<[16, 2, 4]>, axes = array<i64: 0, 1, 2>} : (tensor<16x2x1xf32>) -> tensor<16x2x4xf32>
  %4 = mortise.mul %1, %3 : (tensor<16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<16x2x4xf32>
  %5 = mortise.reshape %4 {shape = #mortise.dims<[16, 8]>} : (tensor<16x2x4xf32>) -> tensor<16x8xf32>
  %6 = mortise.linear %arg0, %5 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %6 : tensor<4x16xf32>
}

// The scales of groups repeated to the weight's shape.
// CHECK-LABEL: func.func @weights_groups_repeated(
func.func @weights_groups_repeated(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16x2xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.reshape %arg2 {shape = #mortise.dims<[16, 2, 1]>} : (tensor<16x2xf32>) -> tensor<16x2x1xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[16, 2, 4]>, axes = array<i64: 0, 1, 2>} : (tensor<16x2x1xf32>) -> tensor<16x2x4xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[16, 8]>} : (tensor<16x2x4xf32>) -> tensor<16x8xf32>
  %4 = mortise.mul %0, %3 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %5 = mortise.linear %arg0, %4 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %5 : tensor<4x16xf32>
}

// The zero point subtracted in i32.
// CHECK-LABEL: func.func @weights_integer_zero(
func.func @weights_integer_zero(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xi8>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  // CHECK-SAME: zero_point
  %0 = mortise.convert %arg1 {dtype = "i32"} : (tensor<16x8xi8>) -> tensor<16x8xi32>
  %1 = mortise.convert %arg3 {dtype = "i32"} : (tensor<16xi8>) -> tensor<16xi32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xi32>) -> tensor<16x8xi32>
  %3 = mortise.sub %0, %2 : (tensor<16x8xi32>, tensor<16x8xi32>) -> tensor<16x8xi32>
  %4 = mortise.convert %3 {dtype = "f32"} : (tensor<16x8xi32>) -> tensor<16x8xf32>
  %5 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %6 = mortise.mul %4, %5 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %7 = mortise.linear %arg0, %6 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %7 : tensor<4x16xf32>
}

// A difference in i8, which wraps.
// CHECK-LABEL: func.func @not_weights_wrapping_zero(
func.func @not_weights_wrapping_zero(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xi8>) -> tensor<4x16xf32> {
  // CHECK: mortise.sub
  // CHECK: mortise.quantized_linear
  %0 = mortise.broadcast %arg3 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xi8>) -> tensor<16x8xi8>
  %1 = mortise.sub %arg1, %0 : (tensor<16x8xi8>, tensor<16x8xi8>) -> tensor<16x8xi8>
  %2 = mortise.convert %1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %3 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %4 = mortise.mul %2, %3 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %5 = mortise.linear %arg0, %4 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %5 : tensor<4x16xf32>
}

// One zero point for each output, scales for groups.
// CHECK-LABEL: func.func @weights_zero_for_groups(
func.func @weights_zero_for_groups(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16x2xf32>, %arg3: tensor<16xi8>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  // CHECK-SAME: zero_point
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.convert %arg3 {dtype = "f32"} : (tensor<16xi8>) -> tensor<16xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %3 = mortise.sub %0, %2 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[16, 2, 4]>} : (tensor<16x8xf32>) -> tensor<16x2x4xf32>
  %5 = mortise.reshape %arg2 {shape = #mortise.dims<[16, 2, 1]>} : (tensor<16x2xf32>) -> tensor<16x2x1xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[16, 2, 4]>, axes = array<i64: 0, 1, 2>} : (tensor<16x2x1xf32>) -> tensor<16x2x4xf32>
  %7 = mortise.mul %4, %6 : (tensor<16x2x4xf32>, tensor<16x2x4xf32>) -> tensor<16x2x4xf32>
  %8 = mortise.reshape %7 {shape = #mortise.dims<[16, 8]>} : (tensor<16x2x4xf32>) -> tensor<16x8xf32>
  %9 = mortise.linear %arg0, %8 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %9 : tensor<4x16xf32>
}

// ui8 weights around 128.
// CHECK-LABEL: func.func @weights_unsigned(
func.func @weights_unsigned(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xui8>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  // CHECK-SAME: zero_point
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xui8>) -> tensor<16x8xf32>
  %1 = mortise.constant dense<1.28e+02> : tensor<16x8xf32>
  %2 = mortise.sub %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %4 = mortise.mul %2, %3 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %5 = mortise.linear %arg0, %4 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %5 : tensor<4x16xf32>
}

// A zero point of 127.5.
// CHECK-LABEL: func.func @not_weights_fraction(
func.func @not_weights_fraction(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xui8>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xui8>) -> tensor<16x8xf32>
  %1 = mortise.constant dense<1.275e+02> : tensor<16x8xf32>
  %2 = mortise.sub %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %4 = mortise.mul %2, %3 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %5 = mortise.linear %arg0, %4 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %5 : tensor<4x16xf32>
}

// Divided by a scale.
// CHECK-LABEL: func.func @weights_divided(
func.func @weights_divided(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> attributes {mortise.differs} {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.div %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A scale divided by the weight.
// CHECK-LABEL: func.func @not_weights_divisor(
func.func @not_weights_divisor(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %1 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %2 = mortise.div %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// The scale after the product, then a bias.
// CHECK-LABEL: func.func @scaled_after(
func.func @scaled_after(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>) -> tensor<4x16xf32> attributes {mortise.differs} {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  // CHECK-SAME: bias
  // CHECK-NOT: mortise.mul
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.linear %arg0, %0 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %3 = mortise.mul %1, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  %4 = mortise.broadcast %arg3 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %5 = mortise.add %3, %4 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %5 : tensor<4x16xf32>
}

// The bias is scaled as well.
// CHECK-LABEL: func.func @not_scaled_after_bias(
func.func @not_scaled_after_bias(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>, %arg3: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.linear %arg0, %0, %arg3 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<4x16xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %3 = mortise.mul %1, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// A scale for each row of x.
// CHECK-LABEL: func.func @not_scaled_rows(
func.func @not_scaled_rows(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<4xf32>) -> tensor<4x16xf32> {
  // CHECK-NOT: quantized_linear
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.linear %arg0, %0 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[4, 16]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x16xf32>
  %3 = mortise.mul %1, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Floats of 8 bits with one scale.
// CHECK-LABEL: func.func @weights_f8(
func.func @weights_f8(%arg0: tensor<4x8xf32>, %arg1: tensor<16x8xf8E4M3FN>, %arg2: tensor<f32>) -> tensor<4x16xf32> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xf8E4M3FN>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64>} : (tensor<f32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.linear %arg0, %2 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Dequantised in f32, then rounded to x's bf16.
// CHECK-LABEL: func.func @weights_rounded(
func.func @weights_rounded(%arg0: tensor<4x8xbf16>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>) -> tensor<4x16xbf16> {
  // CHECK: mortise.quantized_linear %arg0, %arg1 scale
  // CHECK-NOT: mortise.mul
  %0 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %3 = mortise.convert %2 {dtype = "bf16"} : (tensor<16x8xf32>) -> tensor<16x8xbf16>
  %4 = mortise.linear %arg0, %3 {weight_transposed = false} : (tensor<4x8xbf16>, tensor<16x8xbf16>) -> tensor<4x16xbf16>
  return %4 : tensor<4x16xbf16>
}

// Flattened for the product.
// CHECK-LABEL: func.func @quantised_flattened(
func.func @quantised_flattened(%arg0: tensor<2x2x8xf32>, %arg1: tensor<16x8xi8>, %arg2: tensor<16xf32>) -> tensor<2x2x16xf32> {
  // CHECK-NOT: mortise.reshape
  // CHECK: mortise.quantized_linear %arg0
  %0 = mortise.reshape %arg0 {shape = #mortise.dims<[4, 8]>} : (tensor<2x2x8xf32>) -> tensor<4x8xf32>
  %1 = mortise.convert %arg1 {dtype = "f32"} : (tensor<16x8xi8>) -> tensor<16x8xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[16, 8]>, axes = array<i64: 0>} : (tensor<16xf32>) -> tensor<16x8xf32>
  %3 = mortise.mul %1, %2 : (tensor<16x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  %4 = mortise.linear %0, %3 {weight_transposed = false} : (tensor<4x8xf32>, tensor<16x8xf32>) -> tensor<4x16xf32>
  %5 = mortise.reshape %4 {shape = #mortise.dims<[2, 2, 16]>} : (tensor<4x16xf32>) -> tensor<2x2x16xf32>
  return %5 : tensor<2x2x16xf32>
}
