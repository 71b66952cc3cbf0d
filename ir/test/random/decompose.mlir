// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-decompose -cse -split-input-file | FileCheck %s

// The top 24 bits, exactly.
// CHECK-LABEL: @uniform
func.func @uniform(%k: tensor<i64>, %o: tensor<i64>) -> tensor<4xf32> {
  // CHECK: %[[B:.*]] = mortise.random_bits %arg0, %arg1 {dtype = "i32", shape = #mortise.dims<[4]>}
  // CHECK: %[[E:.*]] = mortise.constant dense<8> : tensor<i32>
  // CHECK: %[[S:.*]] = mortise.shift_right %[[B]]
  // CHECK: mortise.constant dense<16777215> : tensor<i32>
  // CHECK: %[[M:.*]] = mortise.and %[[S]]
  // CHECK: %[[F:.*]] = mortise.convert %[[M]] {dtype = "f32"}
  // CHECK: mortise.constant dense<5.96046448E-8> : tensor<f32>
  // CHECK: mortise.mul %[[F]]
  %0 = mortise.uniform %k, %o {shape = #mortise.dims<[4]>, dtype = "f32"} : (tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

#symbols = #mortise.symbols<s in [8, *] step 8>
!x = tensor<?xf16, #mortise.dims<#symbols, [s]>>
// CHECK-LABEL: @normal
func.func @normal(%k: tensor<i64>, %o: tensor<i64>) -> !x {
  // CHECK: mortise.random_bits %arg0, %arg1 {dtype = "i32", shape = #_2_s}
  // CHECK: mortise.log
  // CHECK: mortise.sqrt
  // CHECK: mortise.cos
  // CHECK: mortise.convert %{{.*}} {dtype = "f16"}
  %0 = mortise.normal %k, %o {shape = #mortise.dims<#symbols, [s]>, dtype = "f16"} : (tensor<i64>, tensor<i64>) -> !x
  return %0 : !x
}

// -----

// CHECK-LABEL: @dropout
func.func @dropout(%k: tensor<i64>, %o: tensor<i64>, %x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  // CHECK: %[[K:.*]] = mortise.compare {{.*}} {direction = "ge"}
  // CHECK: %[[R:.*]] = mortise.select %[[K]]
  // CHECK: return %[[R]], %[[K]]
  %0, %1 = mortise.dropout %x, %k, %o {p = 0.25 : f64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0, %1 : tensor<4xf32>, tensor<4xi1>
}

// -----

// CHECK-LABEL: @permutation
func.func @permutation(%k: tensor<i64>, %o: tensor<i64>) -> tensor<9xi64> {
  // CHECK: %[[B:.*]] = mortise.random_bits %arg0, %arg1 {dtype = "i64", shape = #mortise.dims<[9]>}
  // CHECK: %{{.*}}, %[[I:.*]] = mortise.sort %[[B]] {axis = 0 : i64, descending = false, stable = true}
  // CHECK: return %[[I]]
  %0 = mortise.random_permutation %k, %o {shape = #mortise.dims<[9]>} : (tensor<i64>, tensor<i64>) -> tensor<9xi64>
  return %0 : tensor<9xi64>
}
