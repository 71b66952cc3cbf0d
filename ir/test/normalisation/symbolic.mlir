// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?x?xf32, #mortise.dims<#symbols, [b, s, 4*b]>>
!row = tensor<?x?xf32, #mortise.dims<#symbols, [s, 4*b]>>
!targets = tensor<?x?xi64, #mortise.dims<#symbols, [b, s]>>
!losses = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
func.func @all(%x: !x, %scale: !row, %t: !targets) -> (!x, !x, !x, !losses, tensor<f32>) {
  %0 = mortise.softmax %x {axis = 1 : i64} : (!x) -> !x
  %1 = mortise.layer_norm %0 scale %scale {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!x, !row) -> !x
  %2 = mortise.swiglu %1, %x : (!x, !x) -> !x
  %3 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 0.0 : f64, reduction = "none"} : (!x, !targets) -> !losses
  %4 = mortise.cross_entropy %x, %t {ignore_index = -100 : i64, label_smoothing = 0.0 : f64, reduction = "sum"} : (!x, !targets) -> tensor<f32>
  return %0, %1, %2, %3, %4 : !x, !x, !x, !losses, tensor<f32>
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?x6xf32, #mortise.dims<#symbols, [b, s, 6]>>
func.func @groups(%x: !x) -> !x {
  %0 = mortise.group_norm %x {groups = 8 : i64, epsilon = 1.0e-5 : f64} : (!x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?x6xf32, #mortise.dims<#symbols, [b, 2*b, 6]>>
func.func @channels(%x: !x) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the channels (2*b) must be a multiple of groups (3) (group_norm_c2)}}
  %0 = mortise.group_norm %x {groups = 3 : i64, epsilon = 1.0e-5 : f64} : (!x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!s = tensor<?xf32, #mortise.dims<#symbols, [s - 1]>>
func.func @scale(%x: !x, %s: !s) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must have shape [s], found [s - 1] (rms_norm_c2)}}
  %0 = mortise.rms_norm %x, %s {axis = 1 : i64, epsilon = 1.0e-5 : f64} : (!x, !s) -> !x
  return %0 : !x
}
