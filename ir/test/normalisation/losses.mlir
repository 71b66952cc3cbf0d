// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose=once -split-input-file | FileCheck %s

// Narrow floats compute in f32 and round once; silu stays, since plugins fuse it.
// CHECK-LABEL: func.func @swiglu
func.func @swiglu(%g: tensor<4xbf16>, %u: tensor<4xbf16>) -> tensor<4xbf16> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.convert %arg0 {dtype = "f32"} : {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.silu %[[V0]] : {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.convert %arg1 {dtype = "f32"} : {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.mul %[[V1]], %[[V2]] : {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.convert %[[V3]] {dtype = "bf16"} : {{.*}} -> tensor<4xbf16>
  // CHECK-NEXT: return %[[V4]]
  %0 = mortise.swiglu %g, %u : (tensor<4xbf16>, tensor<4xbf16>) -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// -----

// A select of the target's number, so infinities of other classes have no effect; NaN for a target out of range.
// CHECK-LABEL: func.func @entropy
func.func @entropy(%x: tensor<3x7xf32>, %t: tensor<3xi64>) -> tensor<f32> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.constant dense<-100> : tensor<i64>
  // CHECK-NEXT: %[[V1:.*]] = mortise.broadcast %[[V0]] {axes = array<i64>, shape = #mortise.dims<[3]>} : {{.*}} -> tensor<3xi64>
  // CHECK-NEXT: %[[V2:.*]] = mortise.compare %arg1, %[[V1]] {direction = "eq"} : {{.*}} -> tensor<3xi1>
  // CHECK-NEXT: %[[V3:.*]] = mortise.log_softmax %arg0 {axis = 1 : {{.*}} -> tensor<3x7xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.iota {axis = 1 : {{.*}} -> tensor<3x7xi64>
  // CHECK-NEXT: %[[V5:.*]] = mortise.broadcast %arg1 {axes = array<i64: 0>, shape = #mortise.dims<[3, 7]>} : {{.*}} -> tensor<3x7xi64>
  // CHECK-NEXT: %[[V6:.*]] = mortise.compare %[[V4]], %[[V5]] {direction = "eq"} : {{.*}} -> tensor<3x7xi1>
  // CHECK-NEXT: %[[V7:.*]] = mortise.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[V8:.*]] = mortise.broadcast %[[V7]] {axes = array<i64>, shape = #mortise.dims<[3, 7]>} : {{.*}} -> tensor<3x7xf32>
  // CHECK-NEXT: %[[V9:.*]] = mortise.select %[[V6]], %[[V3]], %[[V8]] : {{.*}} -> tensor<3x7xf32>
  // CHECK-NEXT: %[[V10:.*]] = mortise.reduce_sum %[[V9]] {axes = array<i64: 1>} : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V11:.*]] = mortise.neg %[[V10]] : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V12:.*]] = mortise.reduce_max %[[V6]] {axes = array<i64: 1>} : {{.*}} -> tensor<3xi1>
  // CHECK-NEXT: %[[V13:.*]] = mortise.constant dense<0x7FC00000> : tensor<f32>
  // CHECK-NEXT: %[[V14:.*]] = mortise.broadcast %[[V13]] {axes = array<i64>, shape = #mortise.dims<[3]>} : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V15:.*]] = mortise.select %[[V12]], %[[V11]], %[[V14]] : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V16:.*]] = mortise.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[V17:.*]] = mortise.broadcast %[[V16]] {axes = array<i64>, shape = #mortise.dims<[3]>} : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V18:.*]] = mortise.select %[[V2]], %[[V17]], %[[V15]] : {{.*}} -> tensor<3xf32>
  // CHECK-NEXT: %[[V19:.*]] = mortise.reduce_sum %[[V18]] {axes = array<i64: 0>} : {{.*}} -> tensor<f32>
  // CHECK-NEXT: %[[V20:.*]] = mortise.not %[[V2]] : {{.*}} -> tensor<3xi1>
  // CHECK-NEXT: %[[V21:.*]] = mortise.convert %[[V20]] {dtype = "i64"} : {{.*}} -> tensor<3xi64>
  // CHECK-NEXT: %[[V22:.*]] = mortise.reduce_sum %[[V21]] {axes = array<i64: 0>} : {{.*}} -> tensor<i64>
  // CHECK-NEXT: %[[V23:.*]] = mortise.convert %[[V22]] {dtype = "f32"} : {{.*}} -> tensor<f32>
  // CHECK-NEXT: %[[V24:.*]] = mortise.div %[[V19]], %[[V23]] : {{.*}} -> tensor<f32>
  // CHECK-NEXT: return %[[V24]]
  %0 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 0.0 : f64, reduction = "mean"} : (tensor<3x7xf32>, tensor<3xi64>) -> tensor<f32>
  return %0 : tensor<f32>
}
