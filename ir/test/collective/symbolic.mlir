// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!gathered = tensor<?x?xf32, #mortise.dims<#symbols, [b, 4*s]>>
!part = tensor<?x?xf32, #mortise.dims<#symbols, [b, floordiv(s, 4)]>>
!exchanged = tensor<?x?xf32, #mortise.dims<#symbols, [4*b, floordiv(s, 4)]>>
func.func @all(%x: !x) -> (!gathered, !part, !exchanged) {
  %0 = mortise.all_gather %x {axis = 1 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 4 : i64} : (!x) -> !gathered
  %1 = mortise.reduce_scatter %x {reduction = "sum", axis = 1 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 4 : i64} : (!x) -> !part
  %2 = mortise.all_to_all %x {split_axis = 1 : i64, concat_axis = 0 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 4 : i64} : (!x) -> !exchanged
  return %0, %1, %2 : !gathered, !part, !exchanged
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!part = tensor<?x?xf32, #mortise.dims<#symbols, [floordiv(b, 4), s]>>
func.func @unknown(%x: !x) -> !part {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along axis (b) must be a multiple of group_size, 4, for all values of symbols (reduce_scatter_c2)}}
  %0 = mortise.reduce_scatter %x {reduction = "sum", axis = 0 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 4 : i64} : (!x) -> !part
  return %0 : !part
}
