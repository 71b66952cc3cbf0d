// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!q = tensor<?x8x?x16xf32, #mortise.dims<#symbols, [b, 8, s, 16]>>
!k = tensor<?x2x?x16xf32, #mortise.dims<#symbols, [b, 2, 2*s, 16]>>
!m = tensor<?x1x?x?xi1, #mortise.dims<#symbols, [b, 1, s, 2*s]>>
!angle = tensor<1x1x?x16xf32, #mortise.dims<#symbols, [1, 1, s, 16]>>
func.func @all(%q: !q, %k: !k, %m: !m, %c: !angle) -> (!q, !q) {
  %0 = mortise.attention %q, %k, %k, %m {scale = 0.25 : f64, causal = true} : (!q, !k, !k, !m) -> !q
  %1 = mortise.rope %q, %c, %c {interleaved = false} : (!q, !angle, !angle) -> !q
  return %0, %1 : !q, !q
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
func.func @even(%x: !x) -> !x {
  %0 = mortise.rope %x, %x, %x {interleaved = true} : (!x, !x, !x) -> !x
  return %0 : !x
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!q = tensor<?x?x4x16xf32, #mortise.dims<#symbols, [b, 2*b, 4, 16]>>
!k = tensor<?x3x4x16xf32, #mortise.dims<#symbols, [b, 3, 4, 16]>>
func.func @heads(%q: !q, %k: !k) -> !q {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the heads of q (2*b) must be a multiple of those of k (3) (attention_c4)}}
  %0 = mortise.attention %q, %k, %k {scale = 0.25 : f64, causal = true} : (!q, !k, !k) -> !q
  return %0 : !q
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [s, b]>>
func.func @odd(%x: !x) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have rank 1 or more and an even last extent, found [s, b] (rope_c1)}}
  %0 = mortise.rope %x, %x, %x {interleaved = true} : (!x, !x, !x) -> !x
  return %0 : !x
}
