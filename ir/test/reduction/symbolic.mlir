// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8, z in [0, *]>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!i = tensor<?x?xi64, #mortise.dims<#symbols, [b, s]>>
!b = tensor<?xf32, #mortise.dims<#symbols, [b]>>
!bi = tensor<?xi64, #mortise.dims<#symbols, [b]>>
!k = tensor<?x8xf32, #mortise.dims<#symbols, [b, 8]>>
!ki = tensor<?x8xi64, #mortise.dims<#symbols, [b, 8]>>
!z = tensor<?x?xf32, #mortise.dims<#symbols, [b, z]>>
func.func @all(%x: !x, %z: !z) -> (tensor<f32>, !b, !bi, !x, !i, !k, !ki) {
  %0 = mortise.reduce_max %x {axes = array<i64: 0, 1>} : (!x) -> tensor<f32>
  %1 = mortise.reduce_sum %z {axes = array<i64: 1>} : (!z) -> !b
  %2 = mortise.mean %x {axes = array<i64: 1>} : (!x) -> !b
  %3 = mortise.argmax %x {axis = 1 : i64} : (!x) -> !bi
  %4 = mortise.cumsum %x {axis = 1 : i64} : (!x) -> !x
  %5, %6 = mortise.cummax %4 {axis = 0 : i64} : (!x) -> (!x, !i)
  %7, %8 = mortise.sort %5 {axis = 1 : i64, descending = true, stable = false} : (!x) -> (!x, !i)
  %9, %10 = mortise.top_k %x {k = 8 : i64, axis = 1 : i64, largest = true, sorted = true} : (!x) -> (!k, !ki)
  return %0, %2, %3, %7, %8, %9, %10 : tensor<f32>, !b, !bi, !x, !i, !k, !ki
}

// -----

#symbols = #mortise.symbols<b in [2, 64], z in [0, *]>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, z]>>
!bi = tensor<?xi64, #mortise.dims<#symbols, [b]>>
func.func @nothing(%x: !x) -> !bi {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along axis 1 is z, which may be 0, so there is no largest or smallest element: expected at least 1}}
  %0 = mortise.argmin %x {axis = 1 : i64} : (!x) -> !bi
  return %0 : !bi
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s]>>
func.func @few(%x: !x) -> (tensor<9xf32>, tensor<9xi64>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{k is 9: expected at least 0 and at most s, the extent along axis 0}}
  %0, %1 = mortise.top_k %x {k = 9 : i64, axis = 0 : i64, largest = true, sorted = true} : (!x) -> (tensor<9xf32>, tensor<9xi64>)
  return %0, %1 : tensor<9xf32>, tensor<9xi64>
}
