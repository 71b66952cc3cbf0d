// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?xf32, #mortise.dims<#symbols, [s - b]>>
func.func @negative(%k: tensor<i64>, %o: tensor<i64>) -> !x {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [-b + s] must be at least 0 in every entry (random_c3)}}
  %0 = mortise.normal %k, %o {shape = #mortise.dims<#symbols, [s - b]>, dtype = "f32"} : (tensor<i64>, tensor<i64>) -> !x
  return %0 : !x
}
