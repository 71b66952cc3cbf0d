// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!row = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @all(%p: tensor<i1>, %x: !x, %h: !row) -> (!x, !x, !row, !x) {
  %0 = mortise.if %p, %x then {
  ^bb0(%a: !x):
    %n = mortise.neg %a : (!x) -> !x
    mortise.yield %n : !x
  } else {
  ^bb0(%a: !x):
    mortise.yield %a : !x
  } : (tensor<i1>, !x) -> !x
  %1:2 = mortise.while %p, %0 condition {
  ^bb0(%q: tensor<i1>, %a: !x):
    mortise.yield %q : tensor<i1>
  } step {
  ^bb0(%q: tensor<i1>, %a: !x):
    %no = mortise.constant dense<false> : tensor<i1>
    mortise.yield %no, %a : tensor<i1>, !x
  } : (tensor<i1>, !x) -> (tensor<i1>, !x)
  %2:2 = mortise.scan %h, %x step {
  ^bb0(%s: !row, %v: !row):
    %n = mortise.add %s, %v : (!row, !row) -> !row
    mortise.yield %n, %n : !row, !row
  } {carried = 1 : i64, trips = #mortise.dims<#symbols, [b]>} : (!row, !x) -> (!row, !x)
  return %0, %1#1, %2#0, %2#1 : !x, !x, !row, !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!row = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @trips(%h: !row, %x: !x) -> !row {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a stacked input must have extent s along dimension 0, found [b, s] (scan_c2)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%s: !row, %v: !row):
    mortise.yield %s : !row
  } {carried = 1 : i64, trips = #mortise.dims<#symbols, [s]>} : (!row, !x) -> !row
  return %0 : !row
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [b]>>
!y = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @shapes(%p: tensor<i1>, %x: !x, %y: !y) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{(if_c3)}}
  %0 = mortise.if %p, %x, %y then {
  ^bb0(%a: !x, %c: !y):
    mortise.yield %a : !x
  } else {
  ^bb0(%a: !x, %c: !y):
    mortise.yield %c : !y
  } : (tensor<i1>, !x, !y) -> !x
  return %0 : !x
}
