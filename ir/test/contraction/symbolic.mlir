// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!q = tensor<?x?x16xf32, #mortise.dims<#symbols, [b, s, 16]>>
!k = tensor<?x?x16xf32, #mortise.dims<#symbols, [b, 2*s, 16]>>
!scores = tensor<?x?x?xf32, #mortise.dims<#symbols, [b, s, 2*s]>>
!rows = tensor<?x16xf32, #mortise.dims<#symbols, [b*s, 16]>>
!linear = tensor<?x?x32xf32, #mortise.dims<#symbols, [b, s, 32]>>
func.func @all(%q: !q, %k: !k, %w: tensor<32x16xf32>) -> (!scores, !linear) {
  %0 = mortise.dot %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (!q, !k) -> !scores
  %1 = mortise.linear %q, %w {weight_transposed = false} : (!q, tensor<32x16xf32>) -> !linear
  return %0, %1 : !scores, !linear
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!q = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
!k = tensor<?x?xf32, #mortise.dims<#symbols, [b, s + 1]>>
func.func @batch(%q: !q, %k: !k) -> tensor<?xf32, #mortise.dims<#symbols, [b]>> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{batch and contracting extents must agree, found lhs [b, s] and rhs [b, s + 1] (dot_c5)}}
  %0 = mortise.dot %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (!q, !k) -> tensor<?xf32, #mortise.dims<#symbols, [b]>>
  return %0 : tensor<?xf32, #mortise.dims<#symbols, [b]>>
}
