// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s -split-input-file --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @choose
func.func @choose(%p: tensor<i1>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi64>) {
  // CHECK: %{{.*}}:2 = mortise.if %{{.*}}, %{{.*}}, %{{.*}} then {
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<3xf32>, %[[B:.*]]: tensor<3xf32>):
  // CHECK-NEXT: %[[S:.*]] = mortise.add %[[A]], %[[B]] : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  // CHECK: mortise.yield %[[S]], %{{.*}} : tensor<3xf32>, tensor<3xi64>
  // CHECK-NEXT: } else {
  %0:2 = mortise.if %p, %x, %y then {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %s = mortise.add %a, %b : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %i = mortise.iota {shape = #mortise.dims<[3]>, dtype = "i64", axis = 0 : i64} : () -> tensor<3xi64>
    mortise.yield %s, %i : tensor<3xf32>, tensor<3xi64>
  } else {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %i = mortise.convert %b {dtype = "i64"} : (tensor<3xf32>) -> tensor<3xi64>
    mortise.yield %a, %i : tensor<3xf32>, tensor<3xi64>
  // CHECK: } : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi64>)
  } : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xi64>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xi64>
}

// -----

// CHECK-LABEL: func.func @repeat
func.func @repeat(%n: tensor<i64>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: mortise.while %{{.*}}, %{{.*}} condition {
  %0:2 = mortise.while %n, %x condition {
  ^bb0(%i: tensor<i64>, %v: tensor<2xf32>):
    %zero = mortise.constant dense<0> : tensor<i64>
    %more = mortise.compare %i, %zero {direction = "gt"} : (tensor<i64>, tensor<i64>) -> tensor<i1>
    // CHECK: mortise.yield %{{.*}} : tensor<i1>
    mortise.yield %more : tensor<i1>
  // CHECK-NEXT: } step {
  } step {
  ^bb0(%i: tensor<i64>, %v: tensor<2xf32>):
    %one = mortise.constant dense<1> : tensor<i64>
    %less = mortise.sub %i, %one : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %twice = mortise.add %v, %v : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    mortise.yield %less, %twice : tensor<i64>, tensor<2xf32>
  // CHECK: } : (tensor<i64>, tensor<2xf32>) -> (tensor<i64>, tensor<2xf32>)
  } : (tensor<i64>, tensor<2xf32>) -> (tensor<i64>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}

// -----

// CHECK-LABEL: func.func @scan
func.func @scan(%h: tensor<4xf32>, %x: tensor<6x4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>) {
  // CHECK: mortise.scan %{{.*}}, %{{.*}} step {
  %0:2 = mortise.scan %h, %x step {
  ^bb0(%s: tensor<4xf32>, %v: tensor<4xf32>):
    %n = mortise.add %s, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mortise.yield %n, %n : tensor<4xf32>, tensor<4xf32>
  // CHECK: } {carried = 1 : i64, trips = #mortise.dims<[6]>} : (tensor<4xf32>, tensor<6x4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>)
  } {carried = 1 : i64, trips = #mortise.dims<[6]>} : (tensor<4xf32>, tensor<6x4xf32>) -> (tensor<4xf32>, tensor<6x4xf32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<6x4xf32>
}

// -----

// CHECK-LABEL: func.func @nested
func.func @nested(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: mortise.if
  // CHECK: mortise.if
  %0 = mortise.if %p, %p, %x then {
  ^bb0(%q: tensor<i1>, %a: tensor<2xf32>):
    %1 = mortise.if %q, %a then {
    ^bb0(%b: tensor<2xf32>):
      mortise.yield %b : tensor<2xf32>
    } else {
    ^bb0(%b: tensor<2xf32>):
      %m = mortise.neg %b : (tensor<2xf32>) -> tensor<2xf32>
      mortise.yield %m : tensor<2xf32>
    } : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
    mortise.yield %1 : tensor<2xf32>
  } else {
  ^bb0(%q: tensor<i1>, %a: tensor<2xf32>):
    mortise.yield %a : tensor<2xf32>
  } : (tensor<i1>, tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
