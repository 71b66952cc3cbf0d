// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x64xf32, #mortise.dims<#symbols, [b*s, 64]>>
!scale = tensor<?x8xf32, #mortise.dims<#symbols, [b*s, 8]>>
!q = tensor<?x64xi8, #mortise.dims<#symbols, [b*s, 64]>>
!rows = tensor<?x1xf32, #mortise.dims<#symbols, [b*s, 1]>>
!y = tensor<?x?xf32, #mortise.dims<#symbols, [b*s, s]>>
!w = tensor<?x64xi4, #mortise.dims<#symbols, [s, 64]>>
!ws = tensor<?x2xf32, #mortise.dims<#symbols, [s, 2]>>
!wide = tensor<?xf32, #mortise.dims<#symbols, [4*s]>>
!each = tensor<?xf32, #mortise.dims<#symbols, [s]>>
!f8 = tensor<?xf8E5M2, #mortise.dims<#symbols, [4*s]>>
func.func @all(%x: !x, %scale: !scale, %w: !w, %ws: !ws, %v: !wide, %vs: !each) -> (!q, !x, !rows, !y, !f8) {
  %0 = mortise.quantize %x, %scale {dtype = "i8"} : (!x, !scale) -> !q
  %1 = mortise.dequantize %0, %scale {dtype = "f32"} : (!q, !scale) -> !x
  %2, %3 = mortise.dynamic_quantize %x {dtype = "i8"} : (!x) -> (!q, !rows)
  %4 = mortise.quantized_linear %x, %w scale %ws {weight_transposed = false} : (!x, !w, !ws) -> !y
  %5 = mortise.quantize %v, %vs {dtype = "f8E5M2"} : (!wide, !each) -> !f8
  return %0, %1, %3, %4, %5 : !q, !x, !rows, !y, !f8
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [s, b]>>
!scale = tensor<?x?xf32, #mortise.dims<#symbols, [s, floordiv(b, 2)]>>
!q = tensor<?x?xi8, #mortise.dims<#symbols, [s, b]>>
func.func @divides(%x: !x, %scale: !scale) -> !q {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale [s, floordiv(b, 2)] must have the rank of x [s, b], and each extent must divide its, for all values of symbols (quantize_c2)}}
  %0 = mortise.quantize %x, %scale {dtype = "i8"} : (!x, !scale) -> !q
  return %0 : !q
}
