// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -canonicalize -split-input-file | FileCheck %s

// CHECK-LABEL: @identities
// CHECK-SAME: (%[[X:.*]]: tensor<2xf32>, %[[I:.*]]: tensor<2xi32>)
func.func @identities(%x: tensor<2xf32>, %i: tensor<2xi32>) -> (tensor<2xf32>, tensor<2xi32>) {
  // CHECK-NEXT: return %[[X]], %[[I]]
  %one = mortise.constant dense<1.0> : tensor<f32>
  %zero = mortise.constant dense<0> : tensor<2xi32>
  %true = mortise.constant dense<true> : tensor<2xi1>
  %ones = mortise.broadcast %one {shape = #mortise.dims<[2]>, axes = array<i64>} : (tensor<f32>) -> tensor<2xf32>
  %0 = mortise.mul %x, %ones : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = mortise.div %0, %ones : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %2 = mortise.convert %1 {dtype = "f32"} : (tensor<2xf32>) -> tensor<2xf32>
  %3 = mortise.select %true, %2, %ones : (tensor<2xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %4 = mortise.add %zero, %i : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  return %3, %4 : tensor<2xf32>, tensor<2xi32>
}

// -----

// Adding 0.0 turns -0.0 into 0.0, adding -0.0 changes nothing.
// CHECK-LABEL: @signed_zero
func.func @signed_zero(%x: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: %[[SUM:.*]] = mortise.add
  // CHECK-NEXT: return %[[SUM]], %arg0
  %plus = mortise.constant dense<0.0> : tensor<f32>
  %minus = mortise.constant dense<-0.0> : tensor<f32>
  %0 = mortise.add %x, %plus : (tensor<f32>, tensor<f32>) -> tensor<f32>
  %1 = mortise.add %x, %minus : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// -----

// CHECK-LABEL: @constants
func.func @constants() -> (tensor<4xi32>, tensor<3xi1>, tensor<1000x1000xf32>) {
  // CHECK-DAG: %[[SCALAR:.*]] = mortise.constant dense<6.000000e+00> : tensor<f32>
  // CHECK-DAG: %[[QUOTIENTS:.*]] = mortise.constant dense<[-1, -2, 2, -2147483648]> : tensor<4xi32>
  // CHECK-DAG: %[[FALSE:.*]] = mortise.constant dense<[true, false, false]> : tensor<3xi1>
  // CHECK-DAG: %[[SPLAT:.*]] = mortise.broadcast %[[SCALAR]]
  // CHECK: return %[[QUOTIENTS]], %[[FALSE]], %[[SPLAT]]
  %a = mortise.constant dense<[7, -7, 5, -2147483648]> : tensor<4xi32>
  %b = mortise.constant dense<[0, 3, 2, -1]> : tensor<4xi32>
  %0 = mortise.div %a, %b : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  %c = mortise.constant dense<[1.0, 2.0, 0x7FC00000]> : tensor<3xf32>
  %d = mortise.constant dense<[1.0, 1.5, 0.0]> : tensor<3xf32>
  %1 = mortise.compare %c, %d {direction = "eq"} : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
  %two = mortise.constant dense<2.0> : tensor<1000x1000xf32>
  %three = mortise.constant dense<3.0> : tensor<1000x1000xf32>
  %2 = mortise.mul %two, %three : (tensor<1000x1000xf32>, tensor<1000x1000xf32>) -> tensor<1000x1000xf32>
  return %0, %1, %2 : tensor<4xi32>, tensor<3xi1>, tensor<1000x1000xf32>
}

// -----

// CHECK-LABEL: @conversions
func.func @conversions() -> (tensor<4xi8>, tensor<2xf8E4M3FN>, tensor<3xui8>) {
  // CHECK-DAG: %[[I:.*]] = mortise.constant dense<[127, -128, 0, -1]> : tensor<4xi8>
  // CHECK-DAG: %[[F:.*]] = mortise.constant dense<[4.480000e+02, 0x7F]> : tensor<2xf8E4M3FN>
  // CHECK-DAG: %[[U:.*]] = mortise.constant dense<[255, 0, 44]> : tensor<3xui8>
  // CHECK: return %[[I]], %[[F]], %[[U]]
  %a = mortise.constant dense<[1.0e9, -1.0e9, 0x7FC00000, -1.75]> : tensor<4xf32>
  %0 = mortise.convert %a {dtype = "i8"} : (tensor<4xf32>) -> tensor<4xi8>
  %b = mortise.constant dense<[448.0, 1.0e9]> : tensor<2xf32>
  %1 = mortise.convert %b {dtype = "f8E4M3FN"} : (tensor<2xf32>) -> tensor<2xf8E4M3FN>
  %c = mortise.constant dense<[-1, 256, 300]> : tensor<3xi32>
  %2 = mortise.convert %c {dtype = "ui8"} : (tensor<3xi32>) -> tensor<3xui8>
  return %0, %1, %2 : tensor<4xi8>, tensor<2xf8E4M3FN>, tensor<3xui8>
}
