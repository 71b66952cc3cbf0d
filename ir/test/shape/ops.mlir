// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @shapes
func.func @shapes(%x: tensor<2x3xf32> {mortise.name = "x"}, %v: tensor<f32>) -> (tensor<7x4xf32>, tensor<2x3xi32>) {
  // CHECK: mortise.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  %0 = mortise.constant dense<[1.0, 2.0]> : tensor<2xf32>
  // CHECK-NEXT: mortise.broadcast %{{.*}} {axes = array<i64: 1>, shape = #mortise.dims<[3, 2]>} : (tensor<2xf32>) -> tensor<3x2xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[3, 2]>, axes = array<i64: 1>} : (tensor<2xf32>) -> tensor<3x2xf32>
  // CHECK-NEXT: mortise.transpose %{{.*}} {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %2 = mortise.transpose %1 {permutation = array<i64: 1, 0>} : (tensor<3x2xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.concatenate %{{.*}}, %{{.*}}, %{{.*}} {axis = 0 : i64}
  %3 = mortise.concatenate %x, %2, %x {axis = 0 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  // CHECK-NEXT: mortise.slice
  %4 = mortise.slice %3 {starts = #mortise.dims<[1, 0]>, limits = #mortise.dims<[6, 3]>, strides = array<i64: 2, 1>} : (tensor<6x3xf32>) -> tensor<3x3xf32>
  // CHECK-NEXT: mortise.reverse
  %5 = mortise.reverse %4 {axes = array<i64: 0>} : (tensor<3x3xf32>) -> tensor<3x3xf32>
  // CHECK-NEXT: mortise.pad
  %6 = mortise.pad %5, %v {low = #mortise.dims<[1, -1]>, high = #mortise.dims<[1, 0]>, interior = array<i64: 1, 2>} : (tensor<3x3xf32>, tensor<f32>) -> tensor<7x6xf32>
  // CHECK-NEXT: mortise.slice
  %7 = mortise.slice %6 {starts = #mortise.dims<[0, 0]>, limits = #mortise.dims<[7, 4]>, strides = array<i64: 1, 1>} : (tensor<7x6xf32>) -> tensor<7x4xf32>
  // CHECK-NEXT: mortise.iota {axis = 0 : i64, dtype = "i32", shape = #mortise.dims<[6]>} : () -> tensor<6xi32>
  %8 = mortise.iota {shape = #mortise.dims<[6]>, dtype = "i32", axis = 0 : i64} : () -> tensor<6xi32>
  // CHECK-NEXT: mortise.reshape %{{.*}} {shape = #mortise.dims<[2, 3]>}
  %9 = mortise.reshape %8 {shape = #mortise.dims<[2, 3]>} : (tensor<6xi32>) -> tensor<2x3xi32>
  return %7, %9 : tensor<7x4xf32>, tensor<2x3xi32>
}
