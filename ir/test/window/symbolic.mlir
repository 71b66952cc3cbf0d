// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics
//
// The verifier compares the declared result types with those that inference gives.

#symbols = #mortise.symbols<b in [2, 64], c in [4, *] step 4, s in [8, *] step 8>
!x = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, s]>>
!same = tensor<?x8x?xf32, #mortise.dims<#symbols, [b, 8, s]>>
!strided = tensor<?x8x?xf32, #mortise.dims<#symbols, [b, 8, floordiv(s, 2)]>>
!pooled = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, floordiv(s - 2, 3) + 1]>>
!channels = tensor<?x?x9xf32, #mortise.dims<#symbols, [b, c, 9]>>
!w = tensor<4x?x2xf32, #mortise.dims<#symbols, [4, floordiv(c, 4), 2]>>
func.func @all(%x: !x, %w: tensor<8x6x3xf32>, %v: tensor<8x6x2xf32>, %y: !channels, %u: !w) -> (!same, !strided, !pooled, tensor<?x4x8xf32, #mortise.dims<#symbols, [b, 4, 8]>>) {
  %0 = mortise.convolution %x, %w {strides = array<i64: 1>, low = array<i64: 1>, high = array<i64: 1>, dilations = array<i64: 1>, groups = 1 : i64} : (!x, tensor<8x6x3xf32>) -> !same
  %1 = mortise.convolution %x, %v {strides = array<i64: 2>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (!x, tensor<8x6x2xf32>) -> !strided
  %2 = mortise.max_pool %x {window = array<i64: 2>, strides = array<i64: 3>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>} : (!x) -> !pooled
  %3 = mortise.convolution %y, %u {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 4 : i64} : (!channels, !w) -> tensor<?x4x8xf32, #mortise.dims<#symbols, [b, 4, 8]>>
  return %0, %1, %2, %3 : !same, !strided, !pooled, tensor<?x4x8xf32, #mortise.dims<#symbols, [b, 4, 8]>>
}

// -----

// Strides one after the other: one quotient.
#symbols = #mortise.symbols<b in [2, 64], h in [32, *]>
!x = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, h]>>
!stem = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, floordiv(h + 1, 2)]>>
!pooled = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, floordiv(h + 3, 4)]>>
!stage = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, floordiv(h + 7, 8)]>>
func.func @chain(%x: !x, %seven: tensor<6x6x7xf32>, %three: tensor<6x6x3xf32>, %one: tensor<6x6x1xf32>) -> !stage {
  %0 = mortise.convolution %x, %seven {strides = array<i64: 2>, low = array<i64: 3>, high = array<i64: 3>, dilations = array<i64: 1>, groups = 1 : i64} : (!x, tensor<6x6x7xf32>) -> !stem
  %1 = mortise.max_pool %0 {window = array<i64: 3>, strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 1>, dilations = array<i64: 1>} : (!stem) -> !pooled
  %2 = mortise.convolution %1, %three {strides = array<i64: 2>, low = array<i64: 1>, high = array<i64: 1>, dilations = array<i64: 1>, groups = 1 : i64} : (!pooled, tensor<6x6x3xf32>) -> !stage
  %3 = mortise.convolution %1, %one {strides = array<i64: 2>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (!pooled, tensor<6x6x1xf32>) -> !stage
  %4 = mortise.add %2, %3 : (!stage, !stage) -> !stage
  return %4 : !stage
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, s]>>
!y = tensor<?x6x?xf32, #mortise.dims<#symbols, [b, 6, s - 8]>>
func.func @large(%x: !x) -> !y {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the window [5] with dilations [2] is larger than the padded spatial extents [s] (window_c4)}}
  %0 = mortise.sum_pool %x {window = array<i64: 5>, strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 2>} : (!x) -> !y
  return %0 : !y
}

// -----

#symbols = #mortise.symbols<b in [2, 64], s in [8, *] step 8>
!x = tensor<2x?x9xf32, #mortise.dims<#symbols, [2, s, 9]>>
!w = tensor<3x?x2xf32, #mortise.dims<#symbols, [3, floordiv(s, 3), 2]>>
func.func @groups(%x: !x, %w: !w) -> tensor<2x3x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{input channels (s) and output channels (3) must be multiples of groups (3) (convolution_c2)}}
  %0 = mortise.convolution %x, %w {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 3 : i64} : (!x, !w) -> tensor<2x3x8xf32>
  return %0 : tensor<2x3x8xf32>
}

// -----

#symbols = #mortise.symbols<b in [2, 64], k in [1, 3]>
!w = tensor<3x6x?xf32, #mortise.dims<#symbols, [3, 6, k]>>
func.func @window(%x: tensor<2x6x9xf32>, %w: !w) -> tensor<2x3x8xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the window of weight must be numbers, found the symbolic extent k (convolution_c4)}}
  %0 = mortise.convolution %x, %w {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64} : (tensor<2x6x9xf32>, !w) -> tensor<2x3x8xf32>
  return %0 : tensor<2x3x8xf32>
}
