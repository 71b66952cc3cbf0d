// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// Llama: keepdim mean, then a scale.
// CHECK-LABEL: func.func @rms_norm(
func.func @rms_norm(%arg0: tensor<1x4x8xf32>, %arg1: tensor<8xf32>) -> tensor<1x4x8xf32> {
  // CHECK: mortise.rms_norm %arg0, %arg1 {axis = 2 : i64
  // CHECK-NOT: mortise.mul
  %0 = mortise.constant dense<2.0> : tensor<1x4x8xf32>
  %1 = mortise.pow %arg0, %0 : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %2 = mortise.mean %1 {axes = array<i64: 2>} : (tensor<1x4x8xf32>) -> tensor<1x4xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[1, 4, 1]>} : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
  %4 = mortise.constant dense<1.0e-6> : tensor<1x4x1xf32>
  %5 = mortise.add %3, %4 : (tensor<1x4x1xf32>, tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %6 = mortise.rsqrt %5 : (tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[1, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
  %8 = mortise.mul %arg0, %7 : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %9 = mortise.broadcast %arg1 {shape = #mortise.dims<[1, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<1x4x8xf32>
  %10 = mortise.mul %9, %8 : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %10 : tensor<1x4x8xf32>
}

// As models of narrow numbers have it: the norm in f32, the scale in bf16.
// CHECK-LABEL: func.func @rms_norm_widened(
func.func @rms_norm_widened(%arg0: tensor<4x8xbf16>, %arg1: tensor<8xbf16>) -> tensor<4x8xbf16> {
  // CHECK: mortise.rms_norm %arg0, %arg1 {axis = 1 : i64
  // CHECK-NOT: mortise.convert
  %0 = mortise.convert %arg0 {dtype = "f32"} : (tensor<4x8xbf16>) -> tensor<4x8xf32>
  %1 = mortise.mul %0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mortise.mean %1 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %3 = mortise.constant dense<1.0e-6> : tensor<4xf32>
  %4 = mortise.add %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = mortise.rsqrt %4 : (tensor<4xf32>) -> tensor<4xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %7 = mortise.mul %0, %6 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %8 = mortise.convert %7 {dtype = "bf16"} : (tensor<4x8xf32>) -> tensor<4x8xbf16>
  %9 = mortise.broadcast %arg1 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 1>} : (tensor<8xbf16>) -> tensor<4x8xbf16>
  %10 = mortise.mul %9, %8 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %10 : tensor<4x8xbf16>
}

// Divided by the root of a sum times 1/n; no scale.
// CHECK-LABEL: func.func @rms_norm_quotient(
func.func @rms_norm_quotient(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: mortise.rms_norm %arg0 {axis = 1 : i64
  // CHECK-NOT: mortise.div
  %0 = mortise.mul %arg0, %arg0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mortise.reduce_sum %0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = mortise.constant dense<0.125> : tensor<4xf32>
  %3 = mortise.mul %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = mortise.constant dense<1.0e-5> : tensor<4xf32>
  %5 = mortise.add %4, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = mortise.sqrt %5 : (tensor<4xf32>) -> tensor<4xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %8 = mortise.div %arg0, %7 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// A power of -1/2, over two dimensions, with 1 + w as scale.
// CHECK-LABEL: func.func @rms_norm_power(
func.func @rms_norm_power(%arg0: tensor<3x4x2xf32>, %arg1: tensor<4x2xf32>) -> tensor<3x4x2xf32> {
  // CHECK: mortise.rms_norm %arg0, %{{.*}} {axis = 1 : i64
  %0 = mortise.mul %arg0, %arg0 : (tensor<3x4x2xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %1 = mortise.reduce_sum %0 {axes = array<i64: 1, 2>} : (tensor<3x4x2xf32>) -> tensor<3xf32>
  %2 = mortise.constant dense<8.0> : tensor<3xf32>
  %3 = mortise.div %1, %2 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %4 = mortise.constant dense<1.0e-5> : tensor<3xf32>
  %5 = mortise.add %3, %4 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %6 = mortise.constant dense<-0.5> : tensor<3xf32>
  %7 = mortise.pow %5, %6 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %8 = mortise.reshape %7 {shape = #mortise.dims<[3, 1, 1]>} : (tensor<3xf32>) -> tensor<3x1x1xf32>
  %9 = mortise.broadcast %8 {shape = #mortise.dims<[3, 4, 2]>, axes = array<i64: 0, 1, 2>} : (tensor<3x1x1xf32>) -> tensor<3x4x2xf32>
  %10 = mortise.mul %9, %arg0 : (tensor<3x4x2xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %11 = mortise.constant dense<1.0> : tensor<4x2xf32>
  %12 = mortise.add %arg1, %11 : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
  %13 = mortise.broadcast %12 {shape = #mortise.dims<[3, 4, 2]>, axes = array<i64: 1, 2>} : (tensor<4x2xf32>) -> tensor<3x4x2xf32>
  %14 = mortise.mul %10, %13 : (tensor<3x4x2xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  return %14 : tensor<3x4x2xf32>
}

// A mean over the first axis of a square matrix has the same shapes, but is no norm of rows.
// CHECK-LABEL: func.func @not_rms_norm(
func.func @not_rms_norm(%arg0: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK-NOT: rms_norm
  %0 = mortise.mul %arg0, %arg0 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mortise.mean %0 {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<1.0e-6> : tensor<8xf32>
  %3 = mortise.add %1, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.rsqrt %3 : (tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[8, 8]>, axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %6 = mortise.mul %arg0, %5 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %6 : tensor<8x8xf32>
}

// The sum is divided by another number.
// CHECK-LABEL: func.func @not_rms_norm_count(
func.func @not_rms_norm_count(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: rms_norm
  %0 = mortise.mul %arg0, %arg0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mortise.reduce_sum %0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %2 = mortise.constant dense<7.0> : tensor<4xf32>
  %3 = mortise.div %1, %2 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = mortise.constant dense<1.0e-6> : tensor<4xf32>
  %5 = mortise.add %3, %4 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %6 = mortise.rsqrt %5 : (tensor<4xf32>) -> tensor<4xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %8 = mortise.mul %arg0, %7 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %8 : tensor<4x8xf32>
}

// Over leading dimensions.
// CHECK-LABEL: func.func @not_rms_norm_leading(
func.func @not_rms_norm_leading(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: rms_norm
  %0 = mortise.mul %arg0, %arg0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mortise.mean %0 {axes = array<i64: 0>} : (tensor<4x8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<1.0e-6> : tensor<8xf32>
  %3 = mortise.add %1, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.rsqrt %3 : (tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<4x8xf32>
  %6 = mortise.mul %arg0, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %6 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @layer_norm_0(
func.func @layer_norm_0(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: mortise.layer_norm %arg0
  // CHECK-NOT: mortise.{{mul|div|rsqrt|sqrt|mean|reduce_sum|add}}
  %0 = mortise.mean %arg0 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %3 = mortise.mul %2, %2 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %4 = mortise.mean %3 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %5 = mortise.constant dense<1.0e-5> : tensor<2x4xf32>
  %6 = mortise.add %4, %5 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %7 = mortise.rsqrt %6 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1>} : (tensor<2x4xf32>) -> tensor<2x4x8xf32>
  %9 = mortise.mul %2, %8 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %10 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %11 = mortise.mul %9, %10 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %12 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %13 = mortise.add %11, %12 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %13 : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @layer_norm_1(
func.func @layer_norm_1(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: mortise.layer_norm %arg0
  // CHECK-NOT: mortise.{{mul|div|rsqrt|sqrt|mean|reduce_sum|add}}
  %0 = mortise.reduce_sum %arg0 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %1 = mortise.constant dense<8.0> : tensor<2x4xf32>
  %2 = mortise.div %0, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 4, 1]>} : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %4 = mortise.broadcast %3 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %5 = mortise.sub %arg0, %4 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %6 = mortise.constant dense<2.0> : tensor<2x4x8xf32>
  %7 = mortise.pow %5, %6 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %8 = mortise.reduce_sum %7 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %9 = mortise.constant dense<8.0> : tensor<2x4xf32>
  %10 = mortise.div %8, %9 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %11 = mortise.constant dense<1.0e-5> : tensor<2x4xf32>
  %12 = mortise.add %10, %11 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = mortise.sqrt %12 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %14 = mortise.reshape %13 {shape = #mortise.dims<[2, 4, 1]>} : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %15 = mortise.broadcast %14 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %16 = mortise.div %5, %15 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %17 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %18 = mortise.mul %16, %17 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %19 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %20 = mortise.add %18, %19 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %20 : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @layer_norm_2(
func.func @layer_norm_2(%arg0: tensor<2x4x8xf32>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<2x4x8xf32> {
  // CHECK: mortise.layer_norm %arg0
  // CHECK-NOT: mortise.{{mul|div|rsqrt|sqrt|mean|reduce_sum|add}}
  %0 = mortise.reduce_sum %arg0 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %1 = mortise.constant dense<0.125> : tensor<2x4xf32>
  %2 = mortise.mul %0, %1 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 4, 1]>} : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %4 = mortise.broadcast %3 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %5 = mortise.sub %arg0, %4 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %6 = mortise.mul %5, %5 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %7 = mortise.reduce_sum %6 {axes = array<i64: 2>} : (tensor<2x4x8xf32>) -> tensor<2x4xf32>
  %8 = mortise.constant dense<0.125> : tensor<2x4xf32>
  %9 = mortise.mul %7, %8 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %10 = mortise.constant dense<1.0e-5> : tensor<2x4xf32>
  %11 = mortise.add %9, %10 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %12 = mortise.sqrt %11 : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %13 = mortise.constant dense<1.0> : tensor<2x4xf32>
  %14 = mortise.div %13, %12 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  %15 = mortise.reshape %14 {shape = #mortise.dims<[2, 4, 1]>} : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
  %16 = mortise.broadcast %15 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
  %17 = mortise.mul %16, %5 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %18 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %19 = mortise.mul %17, %18 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  %20 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<2x4x8xf32>
  %21 = mortise.add %19, %20 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
  return %21 : tensor<2x4x8xf32>
}

// Without parameters, over two dimensions.
// CHECK-LABEL: func.func @layer_norm_plain(
func.func @layer_norm_plain(%arg0: tensor<3x2x4xf32>) -> tensor<3x2x4xf32> {
  // CHECK: mortise.layer_norm %arg0
  // CHECK: return
  %0 = mortise.mean %arg0 {axes = array<i64: 1, 2>} : (tensor<3x2x4xf32>) -> tensor<3xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[3, 2, 4]>, axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x2x4xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %3 = mortise.mul %2, %2 : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  %4 = mortise.mean %3 {axes = array<i64: 1, 2>} : (tensor<3x2x4xf32>) -> tensor<3xf32>
  %5 = mortise.constant dense<1.0e-5> : tensor<3xf32>
  %6 = mortise.add %4, %5 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %7 = mortise.rsqrt %6 : (tensor<3xf32>) -> tensor<3xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[3, 2, 4]>, axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x2x4xf32>
  %9 = mortise.mul %2, %8 : (tensor<3x2x4xf32>, tensor<3x2x4xf32>) -> tensor<3x2x4xf32>
  return %9 : tensor<3x2x4xf32>
}

// A bias alone.
// CHECK-LABEL: func.func @layer_norm_bias(
func.func @layer_norm_bias(%arg0: tensor<3x8xf32>, %arg1: tensor<8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.layer_norm %arg0
  // CHECK-NOT: mortise.add
  %0 = mortise.mean %arg0 {axes = array<i64: 1>} : (tensor<3x8xf32>) -> tensor<3xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[3, 8]>, axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.mul %2, %2 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mean %3 {axes = array<i64: 1>} : (tensor<3x8xf32>) -> tensor<3xf32>
  %5 = mortise.constant dense<1.0e-5> : tensor<3xf32>
  %6 = mortise.add %4, %5 : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  %7 = mortise.rsqrt %6 : (tensor<3xf32>) -> tensor<3xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[3, 8]>, axes = array<i64: 0>} : (tensor<3xf32>) -> tensor<3x8xf32>
  %9 = mortise.mul %2, %8 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %10 = mortise.broadcast %arg1 {shape = #mortise.dims<[3, 8]>, axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<3x8xf32>
  %11 = mortise.add %9, %10 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %11 : tensor<3x8xf32>
}

// A variance over n - 1.
// CHECK-LABEL: func.func @not_layer_norm_unbiased(
func.func @not_layer_norm_unbiased(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: _norm
  %0 = mortise.mean %arg0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mortise.mul %2, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mortise.reduce_sum %3 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %5 = mortise.constant dense<7.0> : tensor<4xf32>
  %6 = mortise.div %4, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = mortise.constant dense<1.0e-5> : tensor<4xf32>
  %8 = mortise.add %6, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = mortise.rsqrt %8 : (tensor<4xf32>) -> tensor<4xf32>
  %10 = mortise.broadcast %9 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %11 = mortise.mul %2, %10 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %11 : tensor<4x8xf32>
}

// mean(x^2) - mean(x)^2 cancels.
// CHECK-LABEL: func.func @not_layer_norm_moments(
func.func @not_layer_norm_moments(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: _norm
  %0 = mortise.mean %arg0 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mortise.mean %1 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %3 = mortise.mul %0, %0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %4 = mortise.sub %2, %3 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %5 = mortise.broadcast %0 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %6 = mortise.sub %arg0, %5 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %7 = mortise.constant dense<1.0e-5> : tensor<4xf32>
  %8 = mortise.add %4, %7 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %9 = mortise.rsqrt %8 : (tensor<4xf32>) -> tensor<4xf32>
  %10 = mortise.broadcast %9 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %11 = mortise.mul %6, %10 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %11 : tensor<4x8xf32>
}

// The mean of another value.
// CHECK-LABEL: func.func @not_layer_norm_other(
func.func @not_layer_norm_other(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK-NOT: layer_norm
  // CHECK: rms_norm
  // CHECK-NOT: layer_norm
  %0 = mortise.mean %arg1 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %2 = mortise.sub %arg0, %1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = mortise.mul %2, %2 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %4 = mortise.mean %3 {axes = array<i64: 1>} : (tensor<4x8xf32>) -> tensor<4xf32>
  %5 = mortise.constant dense<1.0e-5> : tensor<4xf32>
  %6 = mortise.add %4, %5 : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %7 = mortise.rsqrt %6 : (tensor<4xf32>) -> tensor<4xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[4, 8]>, axes = array<i64: 0>} : (tensor<4xf32>) -> tensor<4x8xf32>
  %9 = mortise.mul %2, %8 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}

// ---- Other spellings

// (x w) / rms(x)
// CHECK-LABEL: func.func @rms_norm_scaled_first(
func.func @rms_norm_scaled_first(%arg0: tensor<2x6x16xf32>, %arg1: tensor<16xf32>) -> tensor<2x6x16xf32> {
  // CHECK: mortise.rms_norm %arg0, %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %2 = mortise.mean %1 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %4 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %5 = mortise.add %3, %4 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %6 = mortise.rsqrt %5 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %8 = mortise.mul %arg0, %0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %9 = mortise.mul %8, %7 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %9 : tensor<2x6x16xf32>
}

// x (w / rms(x))
// CHECK-LABEL: func.func @rms_norm_weights_first(
func.func @rms_norm_weights_first(%arg0: tensor<2x6x16xf32>, %arg1: tensor<16xf32>) -> tensor<2x6x16xf32> {
  // CHECK: mortise.rms_norm %arg0, %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %2 = mortise.mean %1 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %4 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %5 = mortise.add %3, %4 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %6 = mortise.rsqrt %5 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %8 = mortise.mul %0, %7 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %9 = mortise.mul %arg0, %8 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %9 : tensor<2x6x16xf32>
}

// (w x) / sqrt(..)
// CHECK-LABEL: func.func @rms_norm_scaled_quotient(
func.func @rms_norm_scaled_quotient(%arg0: tensor<2x6x16xf32>, %arg1: tensor<16xf32>) -> tensor<2x6x16xf32> {
  // CHECK: mortise.rms_norm %arg0, %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %1 = mortise.mul %0, %arg0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %2 = mortise.mul %arg0, %arg0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %3 = mortise.mean %2 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %4 = mortise.reshape %3 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %5 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %6 = mortise.add %4, %5 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %7 = mortise.sqrt %6 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %8 = mortise.broadcast %7 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %9 = mortise.div %1, %8 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %9 : tensor<2x6x16xf32>
}

// (x - mean) w / spread
// CHECK-LABEL: func.func @layer_norm_scaled_first(
func.func @layer_norm_scaled_first(%arg0: tensor<2x6x16xf32>, %arg1: tensor<16xf32>) -> tensor<2x6x16xf32> {
  // CHECK: mortise.layer_norm %arg0 scale %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.mean %arg0 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %3 = mortise.sub %arg0, %2 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %4 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %5 = mortise.mul %3, %3 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %6 = mortise.mean %5 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %7 = mortise.reshape %6 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %8 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %9 = mortise.add %7, %8 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %10 = mortise.rsqrt %9 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %11 = mortise.broadcast %10 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %12 = mortise.mul %3, %4 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %13 = mortise.mul %12, %11 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %13 : tensor<2x6x16xf32>
}

// x w over the spread of another value
// CHECK-LABEL: func.func @not_rms_norm_of_scaled(
func.func @not_rms_norm_of_scaled(%arg0: tensor<2x6x16xf32>, %arg1: tensor<16xf32>) -> tensor<2x6x16xf32> {
  // CHECK-NOT: mortise.rms_norm
  %0 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %2 = mortise.broadcast %arg1 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 2>} : (tensor<16xf32>) -> tensor<2x6x16xf32>
  %3 = mortise.add %1, %1 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %4 = mortise.mul %3, %3 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %5 = mortise.mean %4 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %6 = mortise.reshape %5 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %7 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %8 = mortise.add %6, %7 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %9 = mortise.rsqrt %8 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %10 = mortise.broadcast %9 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %11 = mortise.mul %arg0, %2 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %12 = mortise.mul %11, %10 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %12 : tensor<2x6x16xf32>
}

// Times a number, which the composite does not support.
// CHECK-LABEL: func.func @not_rms_norm_number(
func.func @not_rms_norm_number(%arg0: tensor<2x6x16xf32>) -> tensor<2x6x16xf32> {
  // CHECK-NOT: mortise.rms_norm
  %0 = mortise.constant dense<2.0> : tensor<2x6x16xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %2 = mortise.mean %1 {axes = array<i64: 2>} : (tensor<2x6x16xf32>) -> tensor<2x6xf32>
  %3 = mortise.reshape %2 {shape = #mortise.dims<[2, 6, 1]>} : (tensor<2x6xf32>) -> tensor<2x6x1xf32>
  %4 = mortise.constant dense<1.0e-05> : tensor<2x6x1xf32>
  %5 = mortise.add %3, %4 : (tensor<2x6x1xf32>, tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %6 = mortise.rsqrt %5 : (tensor<2x6x1xf32>) -> tensor<2x6x1xf32>
  %7 = mortise.broadcast %6 {shape = #mortise.dims<[2, 6, 16]>, axes = array<i64: 0, 1, 2>} : (tensor<2x6x1xf32>) -> tensor<2x6x16xf32>
  %8 = mortise.mul %arg0, %0 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  %9 = mortise.mul %8, %7 : (tensor<2x6x16xf32>, tensor<2x6x16xf32>) -> tensor<2x6x16xf32>
  return %9 : tensor<2x6x16xf32>
}
