// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<n in [1, *], t in [0, 32], z in [0, *]>
!x = tensor<?x6xf32, #mortise.dims<#symbols, [n, 6]>>
!i = tensor<?x3xi64, #mortise.dims<#symbols, [t, 3]>>
!taken = tensor<?x3x6xf32, #mortise.dims<#symbols, [t, 3, 6]>>
!j = tensor<?x6xi64, #mortise.dims<#symbols, [t, 6]>>
!along = tensor<?x6xf32, #mortise.dims<#symbols, [t, 6]>>
!k = tensor<?x1xi64, #mortise.dims<#symbols, [t, 1]>>
!one = tensor<?xi64, #mortise.dims<#symbols, [t]>>
!f = tensor<?xf32, #mortise.dims<#symbols, [t]>>
!s = tensor<?xf32, #mortise.dims<#symbols, [n]>>
func.func @all(%x: !x, %i: !i, %j: !j, %k: !k, %one: !one, %u: !along, %s: !s, %f: !f) -> (!taken, !along, !along, !x, !x, !one) {
  %0 = mortise.take %x, %i {axis = 0 : i64} : (!x, !i) -> !taken
  %1 = mortise.take_along %x, %j {axis = 0 : i64} : (!x, !j) -> !along
  %2 = mortise.take_nd %x, %k : (!x, !k) -> !along
  %3 = mortise.put %x, %one, %u {axis = 0 : i64, mode = "add"} : (!x, !one, !along) -> !x
  %4 = mortise.scatter_along %3, %j, %u {axis = 0 : i64, mode = "max"} : (!x, !j, !along) -> !x
  %5 = mortise.scatter_nd %4, %k, %u {mode = "mul"} : (!x, !k, !along) -> !x
  %6 = mortise.embedding %x, %i : (!x, !i) -> !taken
  %7 = mortise.searchsorted %s, %f {right = true} : (!s, !f) -> !one
  return %6, %1, %2, %3, %5, %7 : !taken, !along, !along, !x, !x, !one
}

// -----

#symbols = #mortise.symbols<n in [1, *], z in [0, *]>
!x = tensor<?xf32, #mortise.dims<#symbols, [z]>>
func.func @empty(%x: !x, %i: tensor<3xi64>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{cannot take from a dimension of extent z, which may be 0: expected at least 1}}
  %0 = mortise.take %x, %i {axis = 0 : i64} : (!x, tensor<3xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

#symbols = #mortise.symbols<n in [1, *], t in [0, 32]>
!x = tensor<?x6xf32, #mortise.dims<#symbols, [n, 6]>>
!i = tensor<?x6xi64, #mortise.dims<#symbols, [t, 6]>>
func.func @along(%x: !x, %i: !i, %u: !x) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{off the axis, extents of indices [t, 6] must be at most those of operand [n, 6]}}
  %0 = mortise.scatter_along %x, %i, %u {axis = 1 : i64, mode = "set"} : (!x, !i, !x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<n in [1, *], t in [0, 32]>
!x = tensor<?x6xf32, #mortise.dims<#symbols, [n, 6]>>
!i = tensor<?xi64, #mortise.dims<#symbols, [t]>>
func.func @updates(%x: !x, %i: !i) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{updates must have shape [t, 6], found [n, 6]}}
  %0 = mortise.put %x, %i, %x {axis = 0 : i64, mode = "set"} : (!x, !i, !x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<n in [1, *], t in [0, 2]>
!i = tensor<3x?xi64, #mortise.dims<#symbols, [3, t]>>
func.func @depth(%x: tensor<5x6xf32>, %i: !i) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the last extent of indices [3, t] must be a number, at most the rank of operand [5, 6]}}
  %0 = mortise.take_nd %x, %i : (tensor<5x6xf32>, !i) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
