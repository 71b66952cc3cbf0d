// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// CHECK-LABEL: @mean
func.func @mean(%x: tensor<2x4xf32>) -> tensor<2xf32> {
  // CHECK-DAG: %[[S:.*]] = mortise.reduce_sum %arg0 {axes = array<i64: 1>}
  // CHECK-DAG: %[[C:.*]] = mortise.constant dense<2.500000e-01> : tensor<f32>
  // CHECK-DAG: %[[B:.*]] = mortise.broadcast %[[C]]
  // CHECK: mortise.mul %[[S]], %[[B]]
  %0 = mortise.mean %x {axes = array<i64: 1>} : (tensor<2x4xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// The mean of nothing is 0 * inf.
// CHECK-LABEL: @nothing
func.func @nothing(%x: tensor<2x0xf32>) -> tensor<2xf32> {
  // CHECK: mortise.constant dense<0x7F800000> : tensor<f32>
  %0 = mortise.mean %x {axes = array<i64: 1>} : (tensor<2x0xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// CHECK-LABEL: @top_k
func.func @top_k(%x: tensor<3x8xf16>) -> (tensor<3x2xf16>, tensor<3x2xi64>) {
  // CHECK-NEXT: %[[V:.*]], %[[I:.*]] = mortise.sort %arg0 {axis = 1 : i64, descending = true, stable = true}
  // CHECK-NEXT: %[[TV:.*]] = mortise.slice %[[V]] {limits = #mortise.dims<[3, 2]>, starts = #mortise.dims<[0, 0]>, strides = array<i64: 1, 1>}
  // CHECK-NEXT: %[[TI:.*]] = mortise.slice %[[I]]
  // CHECK-NEXT: return %[[TV]], %[[TI]]
  %0, %1 = mortise.top_k %x {k = 2 : i64, axis = 1 : i64, largest = true, sorted = true} : (tensor<3x8xf16>) -> (tensor<3x2xf16>, tensor<3x2xi64>)
  return %0, %1 : tensor<3x2xf16>, tensor<3x2xi64>
}

// -----

// The number of elements is known when the function runs.
#symbols = #mortise.symbols<s in [1, *]>
// CHECK-LABEL: @symbolic
func.func @symbolic(%x: tensor<?xf32, #mortise.dims<#symbols, [s]>>) -> tensor<f32> {
  // CHECK: mortise.reduce_sum
  // CHECK: mortise.extents {shape = #s} : () -> tensor<1xi64>
  // CHECK: mortise.div
  %0 = mortise.mean %x {axes = array<i64: 0>} : (tensor<?xf32, #mortise.dims<#symbols, [s]>>) -> tensor<f32>
  return %0 : tensor<f32>
}
