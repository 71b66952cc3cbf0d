// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// CHECK-LABEL: @relu
func.func @relu(%x: tensor<4xi32>) -> tensor<4xi32> {
  // CHECK: %[[Z:.*]] = mortise.constant dense<0> : tensor<i32>
  // CHECK: %[[B:.*]] = mortise.broadcast %[[Z]]
  // CHECK: mortise.max %arg0, %[[B]]
  %0 = mortise.relu %x : (tensor<4xi32>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

// CHECK-LABEL: @silu
func.func @silu(%x: tensor<4xf16>) -> tensor<4xf16> {
  // CHECK: %[[X:.*]] = mortise.convert %arg0 {dtype = "f32"}
  // CHECK: %[[L:.*]] = mortise.logistic %[[X]]
  // CHECK: %[[Y:.*]] = mortise.mul %[[X]], %[[L]]
  // CHECK: mortise.convert %[[Y]] {dtype = "f16"}
  %0 = mortise.silu %x : (tensor<4xf16>) -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// -----

// 1 + erf would cancel in the negative tail.
// CHECK-LABEL: @gelu
func.func @gelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK-NOT: mortise.erf %
  // CHECK: %[[E:.*]] = mortise.erfc
  // CHECK: mortise.mul %{{.*}}, %[[E]]
  %0 = mortise.gelu %x {approximate = "none"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @gelu_tanh
func.func @gelu_tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: mortise.constant dense<4.471500e-02>
  // CHECK: mortise.constant dense<1.59576917>
  // CHECK: %[[L:.*]] = mortise.logistic
  // CHECK: mortise.mul %arg0, %[[L]]
  %0 = mortise.gelu %x {approximate = "tanh"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// CHECK-LABEL: @softmax
func.func @softmax(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: %[[M:.*]] = mortise.reduce_max %arg0 {axes = array<i64: 1>}
  // CHECK: %[[MB:.*]] = mortise.broadcast %[[M]] {axes = array<i64: 0, 2>, shape = #mortise.dims<[2, 3, 4]>}
  // CHECK: %[[D:.*]] = mortise.sub %arg0, %[[MB]]
  // CHECK: %[[E:.*]] = mortise.exp %[[D]]
  // CHECK: %[[S:.*]] = mortise.reduce_sum %[[E]] {axes = array<i64: 1>}
  // CHECK: %[[SB:.*]] = mortise.broadcast %[[S]]
  // CHECK: mortise.div %[[E]], %[[SB]]
  %0 = mortise.softmax %x {axis = 1 : i64} : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: @log_softmax
func.func @log_softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: %[[D:.*]] = mortise.sub %arg0
  // CHECK: mortise.exp %[[D]]
  // CHECK: %[[L:.*]] = mortise.log
  // CHECK: %[[LB:.*]] = mortise.broadcast %[[L]]
  // CHECK: mortise.sub %[[D]], %[[LB]]
  %0 = mortise.log_softmax %x {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @layer_norm
func.func @layer_norm(%x: tensor<2x3x4xf32>, %s: tensor<3x4xf32>, %b: tensor<3x4xf32>) -> tensor<2x3x4xf32> {
  // CHECK: mortise.reduce_sum %arg0 {axes = array<i64: 1, 2>}
  // CHECK: %[[D:.*]] = mortise.sub %arg0
  // CHECK: %[[SQ:.*]] = mortise.mul %[[D]], %[[D]]
  // CHECK: mortise.reduce_sum %[[SQ]] {axes = array<i64: 1, 2>}
  // CHECK: mortise.rsqrt
  // CHECK: %[[N:.*]] = mortise.mul %[[D]]
  // CHECK: %[[S:.*]] = mortise.broadcast %arg1 {axes = array<i64: 1, 2>, shape = #mortise.dims<[2, 3, 4]>}
  // CHECK: %[[NS:.*]] = mortise.mul %[[N]], %[[S]]
  // CHECK: mortise.add %[[NS]]
  %0 = mortise.layer_norm %x scale %s bias %b {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// -----

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  // CHECK: mortise.mul %arg0, %arg0
  // CHECK: mortise.reduce_sum
  // CHECK: mortise.rsqrt
  // CHECK: %[[Y:.*]] = mortise.mul %arg0
  // CHECK-NEXT: return %[[Y]]
  %0 = mortise.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// -----

// CHECK-LABEL: @group_norm
func.func @group_norm(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>) -> tensor<2x4x3xf32> {
  // CHECK: mortise.reshape %arg0 {shape = #mortise.dims<[2, 2, 6]>}
  // CHECK: mortise.reduce_sum %{{.*}} {axes = array<i64: 2>}
  // CHECK: mortise.reshape %{{.*}} {shape = #mortise.dims<[2, 4, 3]>}
  // CHECK: mortise.broadcast %arg1 {axes = array<i64: 1>
  %0 = mortise.group_norm %x scale %s {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// -----

// Factor and shift are per channel and depend on parameters only.
// CHECK-LABEL: @batch_norm
func.func @batch_norm(%x: tensor<2x4x3xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>, %m: tensor<4xf32>, %v: tensor<4xf32>) -> tensor<2x4x3xf32> {
  // CHECK: %[[R:.*]] = mortise.rsqrt %{{.*}} : (tensor<4xf32>)
  // CHECK: %[[F:.*]] = mortise.mul %arg1, %[[R]]
  // CHECK: %[[MF:.*]] = mortise.mul %arg3, %[[F]]
  // CHECK: %[[T:.*]] = mortise.sub %arg2, %[[MF]]
  // CHECK: %[[FB:.*]] = mortise.broadcast %[[F]] {axes = array<i64: 1>
  // CHECK: %[[XF:.*]] = mortise.mul %arg0, %[[FB]]
  // CHECK: %[[TB:.*]] = mortise.broadcast %[[T]]
  // CHECK: mortise.add %[[XF]], %[[TB]]
  %0 = mortise.batch_norm %x scale %s bias %b mean %m variance %v {epsilon = 1.0e-5 : f64} : (tensor<2x4x3xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}
