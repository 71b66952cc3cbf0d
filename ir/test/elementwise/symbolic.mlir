// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, 2*s + 1]>>
!p = tensor<?x?xi1, #mortise.dims<#symbols, [b, 2*s + 1]>>
!h = tensor<?x?xf16, #mortise.dims<#symbols, [b, 2*s + 1]>>
func.func @all(%x: !x) -> (!h, !x) {
  %0 = mortise.exp %x : (!x) -> !x
  %1 = mortise.add %x, %0 : (!x, !x) -> !x
  %2 = mortise.compare %x, %1 {direction = "lt"} : (!x, !x) -> !p
  %3 = mortise.select %2, %x, %1 : (!p, !x, !x) -> !x
  %4 = mortise.convert %3 {dtype = "f16"} : (!x) -> !h
  return %4, %3 : !h, !x
}

// -----

// Both may be 8, but they need not.
#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!b = tensor<?xf32, #mortise.dims<#symbols, [b]>>
!s = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @different(%x: !b, %y: !s) -> !b {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{operands must have one type, found f32 [b] and f32 [s]; broadcast or convert first}}
  %0 = mortise.add %x, %y : (!b, !s) -> !b
  return %0 : !b
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s]>>
!p = tensor<?xi1, #mortise.dims<#symbols, [s + 1]>>
func.func @predicate(%p: !p, %x: !x) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{predicate must have shape [s], found [s + 1]}}
  %0 = mortise.select %p, %x, %x : (!p, !x, !x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
#others = #mortise.symbols<b in [2, 65]>
!x = tensor<?xf32, #mortise.dims<#symbols, [b]>>
!y = tensor<?xf32, #mortise.dims<#others, [b]>>
func.func @tables(%x: !x, %y: !y) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{has extents over two tables of symbols; a function has one}}
  %0 = mortise.add %x, %y : (!x, !y) -> !x
  return %0 : !x
}

// -----

func.func @unknown(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{operand #0 must be tensor of known extents of float values, but got 'tensor<?xf32>'}}
  %0 = mortise.exp %x : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
