// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!flat = tensor<?xf32, #mortise.dims<#symbols, [b*s]>>
!split = tensor<?x?x8xf32, #mortise.dims<#symbols, [b, floordiv(s, 8), 8]>>
!turned = tensor<?x?xf32, #mortise.dims<#symbols, [s, b]>>
!wide = tensor<?x?x?xf32, #mortise.dims<#symbols, [b, s, 3*s]>>
!half = tensor<?x?xf32, #mortise.dims<#symbols, [b, floordiv(s, 2) - 1]>>
!head = tensor<?x?xf32, #mortise.dims<#symbols, [b, min(b, s)]>>
!both = tensor<?x?xf32, #mortise.dims<#symbols, [b, 2*s + min(b, s)]>>
!cut = tensor<?x?xf32, #mortise.dims<#symbols, [b, s - 8]>>
!spaced = tensor<?x?xf32, #mortise.dims<#symbols, [b, 3*s - 2]>>
!count = tensor<?xi64, #mortise.dims<#symbols, [b*s]>>
func.func @all(%x: !x, %v: tensor<f32>) -> (!turned, !wide, !half, !both, !cut, !spaced, !count) {
  %0 = mortise.reshape %x {shape = #mortise.dims<#symbols, [b*s]>} : (!x) -> !flat
  %1 = mortise.reshape %0 {shape = #mortise.dims<#symbols, [b, s]>} : (!flat) -> !x
  %2 = mortise.transpose %1 {permutation = array<i64: 1, 0>} : (!x) -> !turned
  %3 = mortise.broadcast %x {shape = #mortise.dims<#symbols, [b, s, 3*s]>, axes = array<i64: 0, 1>} : (!x) -> !wide
  %4 = mortise.slice %x {starts = #mortise.dims<[0, 2]>, limits = #mortise.dims<#symbols, [b, s]>, strides = array<i64: 1, 2>} : (!x) -> !half
  %5 = mortise.slice %x {starts = #mortise.dims<[0, 0]>, limits = #mortise.dims<#symbols, [b, min(b, s)]>, strides = array<i64: 1, 1>} : (!x) -> !head
  %6 = mortise.concatenate %x, %5, %x {axis = 1 : i64} : (!x, !head, !x) -> !both
  %7 = mortise.pad %x, %v {low = #mortise.dims<[0, -9]>, high = #mortise.dims<[0, 1]>, interior = array<i64: 0, 0>} : (!x, tensor<f32>) -> !cut
  %8 = mortise.pad %x, %v {low = #mortise.dims<[0, 0]>, high = #mortise.dims<[0, 0]>, interior = array<i64: 0, 2>} : (!x, tensor<f32>) -> !spaced
  %9 = mortise.iota {shape = #mortise.dims<#symbols, [b*s]>, dtype = "i64", axis = 0 : i64} : () -> !count
  %10 = mortise.reverse %8 {axes = array<i64: 1>} : (!spaced) -> !spaced
  %11 = mortise.extents {shape = #mortise.dims<#symbols, [b, 4*s + 1]>} : () -> tensor<2xi64>
  %12 = mortise.reshape %x {shape = #mortise.dims<#symbols, [b, floordiv(s, 8), 8]>} : (!x) -> !split
  %13 = mortise.reshape %12 {shape = #mortise.dims<#symbols, [b, 8*floordiv(s, 8)]>} : (!split) -> !x
  return %2, %3, %4, %6, %7, %10, %9 : !turned, !wide, !half, !both, !cut, !spaced, !count
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [b*b]>>
func.func @count(%x: !x) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [b*b] must have as many elements as operand [b, s]}}
  %0 = mortise.reshape %x {shape = #mortise.dims<#symbols, [b*b]>} : (!x) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [b]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @broadcast(%x: !x) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{extent b of operand dimension 0 must be 1 or s, the extent of result dimension 0}}
  %0 = mortise.broadcast %x {shape = #mortise.dims<#symbols, [s]>, axes = array<i64: 0>} : (!x) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [b]>>
func.func @limit(%x: !x) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dimension 0: expected 0 <= start <= limit <= s, found 0 and b}}
  %0 = mortise.slice %x {starts = #mortise.dims<[0]>, limits = #mortise.dims<#symbols, [b]>, strides = array<i64: 1>} : (!x) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [s - 9]>>
func.func @start(%x: !x) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dimension 0: expected 0 <= start <= limit <= s, found 9 and s}}
  %0 = mortise.slice %x {starts = #mortise.dims<[9]>, limits = #mortise.dims<#symbols, [s]>, strides = array<i64: 1>} : (!x) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x4xf32, #mortise.dims<#symbols, [s, 4]>>
!y = tensor<?x?xf32, #mortise.dims<#symbols, [s, b]>>
func.func @neighbours(%x: !x, %y: !y) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{operand 1, f32 [s, b], must agree with operand 0, f32 [s, 4], but for dimension 0}}
  %0 = mortise.concatenate %x, %y {axis = 0 : i64} : (!x, !y) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [s - 9]>>
func.func @pad(%x: !x, %v: tensor<f32>) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dimension 0: extent s cannot be padded by -10 and 1}}
  %0 = mortise.pad %x, %v {low = #mortise.dims<[-10]>, high = #mortise.dims<[1]>, interior = array<i64: 0>} : (!x, tensor<f32>) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!y = tensor<?xi64, #mortise.dims<#symbols, [s - b]>>
func.func @negative() -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [-b + s] must be at least 0 in every entry}}
  %0 = mortise.iota {shape = #mortise.dims<#symbols, [s - b]>, dtype = "i64", axis = 0 : i64} : () -> !y
  return %0 : !y
}
