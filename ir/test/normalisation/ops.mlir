// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s -split-input-file --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x4x6xf32>, %s: tensor<6xf32>, %c: tensor<4xf32>) -> tensor<2x4x6xf32> {
  // CHECK: mortise.relu
  %0 = mortise.relu %x : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.silu
  %1 = mortise.silu %0 : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.gelu %{{.*}} {approximate = "tanh"}
  %2 = mortise.gelu %1 {approximate = "tanh"} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.softmax %{{.*}} {axis = 2 : i64}
  %3 = mortise.softmax %2 {axis = 2 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.log_softmax
  %4 = mortise.log_softmax %3 {axis = 0 : i64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.layer_norm %{{.*}} scale %{{.*}} bias %{{.*}} {axis = 2 : i64, epsilon = 1.000000e-05 : f64}
  %5 = mortise.layer_norm %4 scale %s bias %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.layer_norm %{{[^ ]*}} bias %{{[^ ]*}} {
  %6 = mortise.layer_norm %5 bias %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.layer_norm %{{[^ ]*}} {
  %7 = mortise.layer_norm %6 {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.rms_norm %{{.*}}, %{{.*}} {
  %8 = mortise.rms_norm %7, %s {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.rms_norm %{{[^ ]*}} {
  %9 = mortise.rms_norm %8 {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.group_norm %{{.*}} scale %{{.*}} bias %{{.*}} {epsilon = 1.000000e-05 : f64, groups = 2 : i64}
  %10 = mortise.group_norm %9 scale %c bias %c {groups = 2 : i64, epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.batch_norm %{{.*}} scale %{{.*}} bias %{{.*}} mean %{{.*}} variance %{{.*}} {
  %11 = mortise.batch_norm %10 scale %c bias %c mean %c variance %c {epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x6xf32>
  // CHECK-NEXT: mortise.batch_norm %{{[^ ]*}} bias %{{[^ ]*}} mean %{{.*}} variance %{{.*}} {
  %12 = mortise.batch_norm %11 bias %c mean %c variance %c {epsilon = 1.0e-5 : f64} : (tensor<2x4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x6xf32>
  return %12 : tensor<2x4x6xf32>
}

// -----

// CHECK-LABEL: func.func @opset2
func.func @opset2(%x: tensor<3x7xf16>, %t: tensor<3xi32>) -> (tensor<3x7xf16>, tensor<3xf16>, tensor<f16>) {
  // CHECK: mortise.swiglu %{{.*}}, %{{.*}} : (tensor<3x7xf16>, tensor<3x7xf16>) -> tensor<3x7xf16>
  %0 = mortise.swiglu %x, %x : (tensor<3x7xf16>, tensor<3x7xf16>) -> tensor<3x7xf16>
  // CHECK: mortise.cross_entropy %{{.*}}, %{{.*}} {ignore_index = -100 : i64, label_smoothing = 0.000000e+00 : f64, reduction = "none"} : (tensor<3x7xf16>, tensor<3xi32>) -> tensor<3xf16>
  %1 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 0.0 : f64, reduction = "none"} : (tensor<3x7xf16>, tensor<3xi32>) -> tensor<3xf16>
  // CHECK: mortise.cross_entropy %{{.*}}, %{{.*}} {ignore_index = 0 : i64, label_smoothing = 1.000000e-01 : f64, reduction = "mean"} : (tensor<3x7xf16>, tensor<3xi32>) -> tensor<f16>
  %2 = mortise.cross_entropy %x, %t {ignore_index = 0 : i64, label_smoothing = 0.1 : f64, reduction = "mean"} : (tensor<3x7xf16>, tensor<3xi32>) -> tensor<f16>
  return %0, %1, %2 : tensor<3x7xf16>, tensor<3xf16>, tensor<f16>
}
