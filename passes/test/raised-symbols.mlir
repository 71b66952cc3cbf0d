// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Extents are compared as expressions, so symbolic shapes are raised like static ones.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

#symbols = #mortise.symbols<b in [1, 64], s in [2, 128]>
!hidden = tensor<?x?x8xf32, #mortise.dims<#symbols, [b, s, 8]>>
!rows = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!heads = tensor<?x2x?x8xf32, #mortise.dims<#symbols, [b, 2, s, 8]>>
!flat = tensor<?x?x8xf32, #mortise.dims<#symbols, [2*b, s, 8]>>
!flatScores = tensor<?x?x?xf32, #mortise.dims<#symbols, [2*b, s, s]>>
!scores = tensor<?x2x?x?xf32, #mortise.dims<#symbols, [b, 2, s, s]>>
!mask = tensor<?x1x1x?xf32, #mortise.dims<#symbols, [b, 1, 1, s]>>

// CHECK-LABEL: func.func @layer_norm
func.func @layer_norm(%x: !hidden, %w: tensor<8xf32>, %c: tensor<8xf32>) -> !hidden {
  // CHECK: mortise.layer_norm %arg0
  // CHECK-NOT: mortise.mul
  %eps = mortise.constant dense<1.0e-5> : tensor<f32>
  %m = mortise.mean %x {axes = array<i64: 2>} : (!hidden) -> !rows
  %mb = mortise.broadcast %m {shape = #mortise.dims<#symbols, [b, s, 8]>, axes = array<i64: 0, 1>} : (!rows) -> !hidden
  %d = mortise.sub %x, %mb : (!hidden, !hidden) -> !hidden
  %q = mortise.mul %d, %d : (!hidden, !hidden) -> !hidden
  %v = mortise.mean %q {axes = array<i64: 2>} : (!hidden) -> !rows
  %e = mortise.broadcast %eps {shape = #mortise.dims<#symbols, [b, s]>, axes = array<i64>} : (tensor<f32>) -> !rows
  %a = mortise.add %v, %e : (!rows, !rows) -> !rows
  %r = mortise.rsqrt %a : (!rows) -> !rows
  %rb = mortise.broadcast %r {shape = #mortise.dims<#symbols, [b, s, 8]>, axes = array<i64: 0, 1>} : (!rows) -> !hidden
  %n = mortise.mul %d, %rb : (!hidden, !hidden) -> !hidden
  %wb = mortise.broadcast %w {shape = #mortise.dims<#symbols, [b, s, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> !hidden
  %y = mortise.mul %n, %wb : (!hidden, !hidden) -> !hidden
  %cb = mortise.broadcast %c {shape = #mortise.dims<#symbols, [b, s, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> !hidden
  %z = mortise.add %y, %cb : (!hidden, !hidden) -> !hidden
  return %z : !hidden
}

// CHECK-LABEL: func.func @linear
func.func @linear(%x: !hidden, %w: tensor<4x8xf32>) -> tensor<?x?x4xf32, #mortise.dims<#symbols, [b, s, 4]>> {
  // CHECK-NEXT: mortise.linear %arg0, %arg1
  // CHECK-NEXT: return
  %f = mortise.reshape %x {shape = #mortise.dims<#symbols, [b*s, 8]>} : (!hidden) -> tensor<?x8xf32, #mortise.dims<#symbols, [b*s, 8]>>
  %d = mortise.dot %f, %w {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<?x8xf32, #mortise.dims<#symbols, [b*s, 8]>>, tensor<4x8xf32>) -> tensor<?x4xf32, #mortise.dims<#symbols, [b*s, 4]>>
  %y = mortise.reshape %d {shape = #mortise.dims<#symbols, [b, s, 4]>} : (tensor<?x4xf32, #mortise.dims<#symbols, [b*s, 4]>>) -> tensor<?x?x4xf32, #mortise.dims<#symbols, [b, s, 4]>>
  return %y : tensor<?x?x4xf32, #mortise.dims<#symbols, [b, s, 4]>>
}

// Through bmm, with a mask of unknown content.
// CHECK-LABEL: func.func @attention
func.func @attention(%q: !heads, %k: !heads, %v: !heads, %m: !mask) -> !heads {
  // CHECK: mortise.attention %arg0, %arg1, %arg2, %{{.*}} {causal = false
  // CHECK-NOT: mortise.dot
  %q3 = mortise.reshape %q {shape = #mortise.dims<#symbols, [2*b, s, 8]>} : (!heads) -> !flat
  %k3 = mortise.reshape %k {shape = #mortise.dims<#symbols, [2*b, s, 8]>} : (!heads) -> !flat
  %v3 = mortise.reshape %v {shape = #mortise.dims<#symbols, [2*b, s, 8]>} : (!heads) -> !flat
  %s3 = mortise.dot %q3, %k3 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (!flat, !flat) -> !flatScores
  %s = mortise.reshape %s3 {shape = #mortise.dims<#symbols, [b, 2, s, s]>} : (!flatScores) -> !scores
  %mb = mortise.broadcast %m {shape = #mortise.dims<#symbols, [b, 2, s, s]>, axes = array<i64: 0, 1, 2, 3>} : (!mask) -> !scores
  %t = mortise.add %s, %mb : (!scores, !scores) -> !scores
  %p = mortise.softmax %t {axis = 3 : i64} : (!scores) -> !scores
  %p3 = mortise.reshape %p {shape = #mortise.dims<#symbols, [2*b, s, s]>} : (!scores) -> !flatScores
  %o3 = mortise.dot %p3, %v3 {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (!flatScores, !flat) -> !flat
  %o = mortise.reshape %o3 {shape = #mortise.dims<#symbols, [b, 2, s, 8]>} : (!flat) -> !heads
  return %o : !heads
}
