// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose=once -split-input-file | FileCheck %s

// A scale for each group of three: the extent is split into groups and group members.
// CHECK-LABEL: func.func @quantize
func.func @quantize(%x: tensor<4x6xf16>, %s: tensor<4x2xf16>, %z: tensor<4x2xi8>) -> tensor<4x6xi8> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.convert %arg1 {dtype = "f32"} : {{.*}} -> tensor<4x2xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.broadcast %[[V0]] {axes = array<i64: 0, 1>, shape = #mortise.dims<[4, 2, 3]>} : {{.*}} -> tensor<4x2x3xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.reshape %[[V1]] {shape = #mortise.dims<[4, 6]>} : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.convert %arg0 {dtype = "f32"} : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.div %[[V3]], %[[V2]] : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.round %[[V4]] : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V6:.*]] = mortise.convert %arg2 {dtype = "f32"} : {{.*}} -> tensor<4x2xf32>
  // CHECK-NEXT: %[[V7:.*]] = mortise.broadcast %[[V6]] {axes = array<i64: 0, 1>, shape = #mortise.dims<[4, 2, 3]>} : {{.*}} -> tensor<4x2x3xf32>
  // CHECK-NEXT: %[[V8:.*]] = mortise.reshape %[[V7]] {shape = #mortise.dims<[4, 6]>} : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V9:.*]] = mortise.add %[[V5]], %[[V8]] : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V10:.*]] = mortise.convert %[[V9]] {dtype = "i8"} : {{.*}} -> tensor<4x6xi8>
  // CHECK-NEXT: return %[[V10]]
  %0 = mortise.quantize %x, %s, %z {dtype = "i8"} : (tensor<4x6xf16>, tensor<4x2xf16>, tensor<4x2xi8>) -> tensor<4x6xi8>
  return %0 : tensor<4x6xi8>
}

// -----

// CHECK-LABEL: func.func @dequantize
func.func @dequantize(%q: tensor<4x6xi4>, %s: tensor<4x1xf32>) -> tensor<4x6xf32> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.convert %arg0 {dtype = "f32"} : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.broadcast %arg1 {axes = array<i64: 0, 1>, shape = #mortise.dims<[4, 6]>} : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.mul %[[V0]], %[[V1]] : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: return %[[V2]]
  %0 = mortise.dequantize %q, %s {dtype = "f32"} : (tensor<4x6xi4>, tensor<4x1xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

// A row of zeros has scale 1.
// CHECK-LABEL: func.func @dynamic
func.func @dynamic(%x: tensor<4x6xf32>) -> (tensor<4x6xi8>, tensor<4x1xf32>) {
  // CHECK-NEXT: %[[V0:.*]] = mortise.abs %arg0 : {{.*}} -> tensor<4x6xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.reduce_max %[[V0]] {axes = array<i64: 1>} : {{.*}} -> tensor<4xf32>
  // CHECK-NEXT: %[[V2:.*]] = mortise.reshape %[[V1]] {shape = #mortise.dims<[4, 1]>} : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.broadcast %[[V3]] {axes = array<i64>, shape = #mortise.dims<[4, 1]>} : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.max %[[V2]], %[[V4]] : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V6:.*]] = mortise.constant dense<0.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[V7:.*]] = mortise.broadcast %[[V6]] {axes = array<i64>, shape = #mortise.dims<[4, 1]>} : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V8:.*]] = mortise.compare %[[V5]], %[[V7]] {direction = "eq"} : {{.*}} -> tensor<4x1xi1>
  // CHECK-NEXT: %[[V9:.*]] = mortise.constant dense<1.270000e+02> : tensor<f32>
  // CHECK-NEXT: %[[V10:.*]] = mortise.broadcast %[[V9]] {axes = array<i64>, shape = #mortise.dims<[4, 1]>} : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V11:.*]] = mortise.div %[[V5]], %[[V10]] : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V12:.*]] = mortise.constant dense<1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %[[V13:.*]] = mortise.broadcast %[[V12]] {axes = array<i64>, shape = #mortise.dims<[4, 1]>} : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V14:.*]] = mortise.select %[[V8]], %[[V13]], %[[V11]] : {{.*}} -> tensor<4x1xf32>
  // CHECK-NEXT: %[[V15:.*]] = mortise.quantize %arg0, %[[V14]] {dtype = "i8"} : {{.*}} -> tensor<4x6xi8>
  // CHECK-NEXT: return %[[V15]], %[[V14]]
  %0, %1 = mortise.dynamic_quantize %x {dtype = "i8"} : (tensor<4x6xf32>) -> (tensor<4x6xi8>, tensor<4x1xf32>)
  return %0, %1 : tensor<4x6xi8>, tensor<4x1xf32>
}

// -----

// One level gives a linear, which plugins take.
// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<2x8xbf16>, %w: tensor<5x8xi8>, %s: tensor<5xbf16>, %b: tensor<5xbf16>) -> tensor<2x5xbf16> {
  // CHECK-NEXT: %[[V0:.*]] = mortise.convert %arg0 {dtype = "f32"} : {{.*}} -> tensor<2x8xf32>
  // CHECK-NEXT: %[[V1:.*]] = mortise.reshape %arg2 {shape = #mortise.dims<[5, 1]>} : {{.*}} -> tensor<5x1xbf16>
  // CHECK-NEXT: %[[V2:.*]] = mortise.dequantize %arg1, %[[V1]] {dtype = "f32"} : {{.*}} -> tensor<5x8xf32>
  // CHECK-NEXT: %[[V3:.*]] = mortise.convert %arg3 {dtype = "f32"} : {{.*}} -> tensor<5xf32>
  // CHECK-NEXT: %[[V4:.*]] = mortise.linear %[[V0]], %[[V2]], %[[V3]] {weight_transposed = false} : {{.*}} -> tensor<2x5xf32>
  // CHECK-NEXT: %[[V5:.*]] = mortise.convert %[[V4]] {dtype = "bf16"} : {{.*}} -> tensor<2x5xbf16>
  // CHECK-NEXT: return %[[V5]]
  %0 = mortise.quantized_linear %x, %w scale %s bias %b {weight_transposed = false} : (tensor<2x8xbf16>, tensor<5x8xi8>, tensor<5xbf16>, tensor<5xbf16>) -> tensor<2x5xbf16>
  return %0 : tensor<2x5xbf16>
}
