// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of `mortise plugin check` beside the nodes of the language's tests: chains of ops that networks have and plugins
// fuse, states that are updated in place, and products without a batch. Where f32 stands, the other types are tried too.

#symbols = #mortise.symbols<b in [0, *]>
!x = tensor<?x8xf32, #mortise.dims<#symbols, [b, 8]>>
!y = tensor<?x12xf32, #mortise.dims<#symbols, [b, 12]>>
func.func @linear_gelu(%x: !x, %w: tensor<12x8xf32>, %c: tensor<12xf32>) -> !y {
  %0 = mortise.linear %x, %w, %c {weight_transposed = false} : (!x, tensor<12x8xf32>, tensor<12xf32>) -> !y
  %1 = mortise.gelu %0 {approximate = "none"} : (!y) -> !y
  return %1 : !y
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?x8xf32, #mortise.dims<#symbols, [b, s, 8]>>
!y = tensor<?x?x6xf32, #mortise.dims<#symbols, [b, s, 6]>>
func.func @linear_add(%x: !x, %w: tensor<8x6xf32>, %r: !y) -> !y {
  %0 = mortise.linear %x, %w {weight_transposed = true} : (!x, tensor<8x6xf32>) -> !y
  %1 = mortise.add %0, %r : (!y, !y) -> !y
  return %1 : !y
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?x16xf32, #mortise.dims<#symbols, [b, s, 16]>>
func.func @add_layer_norm(%x: !x, %r: !x, %g: tensor<16xf32>, %c: tensor<16xf32>) -> (!x, !x) {
  %0 = mortise.add %x, %r : (!x, !x) -> !x
  %1 = mortise.layer_norm %0 scale %g bias %c {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!x, tensor<16xf32>, tensor<16xf32>) -> !x
  return %0, %1 : !x, !x
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?x16xf32, #mortise.dims<#symbols, [b, s, 16]>>
func.func @rms_norm_mul(%x: !x, %g: tensor<16xf32>, %y: !x) -> !x {
  %0 = mortise.rms_norm %x, %g {axis = 2 : i64, epsilon = 1.0e-5 : f64} : (!x, tensor<16xf32>) -> !x
  %1 = mortise.mul %0, %y : (!x, !x) -> !x
  return %1 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?x?xf32, #mortise.dims<#symbols, [b, s, s]>>
func.func @scaled_masked_softmax(%x: !x, %c: !x, %m: !x) -> !x {
  %0 = mortise.mul %x, %c : (!x, !x) -> !x
  %1 = mortise.add %0, %m : (!x, !x) -> !x
  %2 = mortise.softmax %1 {axis = 2 : i64} : (!x) -> !x
  return %2 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?x4xf32, #mortise.dims<#symbols, [b, s, 4]>>
!p = tensor<?x?x?xf32, #mortise.dims<#symbols, [b, s, s]>>
func.func @scores(%q: !x, %k: !x, %v: !x) -> !x {
  %0 = mortise.dot %q, %k {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 2>} : (!x, !x) -> !p
  %1 = mortise.softmax %0 {axis = 2 : i64} : (!p) -> !p
  %2 = mortise.dot %1, %v {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (!p, !x) -> !x
  return %2 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *]>
!x = tensor<?x12xf32, #mortise.dims<#symbols, [b, 12]>>
func.func @silu_mul(%x: !x, %y: !x) -> !x {
  %0 = mortise.silu %x : (!x) -> !x
  %1 = mortise.mul %0, %y : (!x, !x) -> !x
  return %1 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
func.func @mul_add(%x: !x, %y: !x, %z: !x) -> !x {
  %0 = mortise.mul %x, %y : (!x, !x) -> !x
  %1 = mortise.add %0, %z : (!x, !x) -> !x
  return %1 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!x = tensor<?x?xf32, #mortise.dims<#symbols, [b, s]>>
func.func @add_twice_used(%x: !x, %y: !x) -> (!x, !x) {
  %0 = mortise.add %x, %y : (!x, !x) -> !x
  %1 = mortise.mul %0, %x : (!x, !x) -> !x
  return %0, %1 : !x, !x
}

// -----

#symbols = #mortise.symbols<b in [0, *]>
!x = tensor<?x8xf32, #mortise.dims<#symbols, [b, 8]>>
!q = tensor<?x8xi8, #mortise.dims<#symbols, [b, 8]>>
func.func @quantise_dequantise(%x: !x, %s: tensor<1x1xf32>, %z: tensor<1x1xi8>) -> !x {
  %0 = mortise.quantize %x, %s, %z {dtype = "i8"} : (!x, tensor<1x1xf32>, tensor<1x1xi8>) -> !q
  %1 = mortise.dequantize %0, %s, %z {dtype = "f32"} : (!q, tensor<1x1xf32>, tensor<1x1xi8>) -> !x
  return %1 : !x
}

// -----

#symbols = #mortise.symbols<b in [0, *]>
!x = tensor<?x8xf32, #mortise.dims<#symbols, [b, 8]>>
!q = tensor<?x8xi8, #mortise.dims<#symbols, [b, 8]>>
func.func @dequantise_add_quantise(%x: !q, %s: tensor<1x1xf32>, %z: tensor<1x1xi8>, %y: !x) -> !q {
  %0 = mortise.dequantize %x, %s, %z {dtype = "f32"} : (!q, tensor<1x1xf32>, tensor<1x1xi8>) -> !x
  %1 = mortise.add %0, %y : (!x, !x) -> !x
  %2 = mortise.quantize %1, %s, %z {dtype = "i8"} : (!x, tensor<1x1xf32>, tensor<1x1xi8>) -> !q
  return %2 : !q
}

// -----

#symbols = #mortise.symbols<b in [0, *]>
!a = tensor<?x8xi8, #mortise.dims<#symbols, [b, 8]>>
!wide = tensor<?x8xi32, #mortise.dims<#symbols, [b, 8]>>
!sums = tensor<?x5xi32, #mortise.dims<#symbols, [b, 5]>>
func.func @widened_dot(%a: !a, %w: tensor<8x5xi8>) -> !sums {
  %0 = mortise.convert %a {dtype = "i32"} : (!a) -> !wide
  %1 = mortise.convert %w {dtype = "i32"} : (tensor<8x5xi8>) -> tensor<8x5xi32>
  %2 = mortise.dot %0, %1 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (!wide, tensor<8x5xi32>) -> !sums
  return %2 : !sums
}

// -----

#symbols = #mortise.symbols<b in [0, *]>
!x = tensor<?x3x6x6xf32, #mortise.dims<#symbols, [b, 3, 6, 6]>>
!y = tensor<?x4x4x4xf32, #mortise.dims<#symbols, [b, 4, 4, 4]>>
func.func @convolution_relu(%x: !x, %w: tensor<4x3x3x3xf32>) -> !y {
  %0 = mortise.convolution %x, %w {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (!x, tensor<4x3x3x3xf32>) -> !y
  %1 = mortise.relu %0 : (!y) -> !y
  return %1 : !y
}

// -----

#symbols = #mortise.symbols<b in [0, *], s in [1, *]>
!i = tensor<?x?xi64, #mortise.dims<#symbols, [b, s]>>
!x = tensor<?x?x8xf32, #mortise.dims<#symbols, [b, s, 8]>>
func.func @embedding_add(%t: tensor<11x8xf32>, %i: !i, %p: !x) -> !x {
  %0 = mortise.embedding %t, %i : (tensor<11x8xf32>, !i) -> !x
  %1 = mortise.add %0, %p : (!x, !x) -> !x
  return %1 : !x
}

// -----

// A cache that is updated where it lies, and read.
func.func @cache(%cache: tensor<8x4xf32> {mortise.state}, %i: tensor<2xi64>, %new: tensor<2x4xf32>, %x: tensor<8x4xf32>)
    -> (tensor<8x4xf32> {mortise.alias = 0 : i64}, tensor<8x4xf32>) {
  %0 = mortise.put %cache, %i, %new {axis = 0 : i64, mode = "set"} : (tensor<8x4xf32>, tensor<2xi64>, tensor<2x4xf32>) -> tensor<8x4xf32>
  %1 = mortise.mul %0, %x : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}

// -----

// A sum that is kept.
func.func @accumulate(%sum: tensor<6x5xf32> {mortise.state}, %x: tensor<6x5xf32>) -> (tensor<6x5xf32> {mortise.alias = 0 : i64}) {
  %0 = mortise.add %sum, %x : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x5xf32>
  return %0 : tensor<6x5xf32>
}

// -----

func.func @matrices(%a: tensor<6x8xf32>, %b: tensor<8x5xf32>, %t: tensor<5x8xf32>, %v: tensor<8xf32>)
    -> (tensor<6x5xf32>, tensor<6x5xf32>, tensor<6xf32>) {
  %0 = mortise.dot %a, %b {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<6x8xf32>, tensor<8x5xf32>) -> tensor<6x5xf32>
  %1 = mortise.dot %a, %t {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<6x8xf32>, tensor<5x8xf32>) -> tensor<6x5xf32>
  %2 = mortise.dot %a, %v {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<6x8xf32>, tensor<8xf32>) -> tensor<6xf32>
  return %0, %1, %2 : tensor<6x5xf32>, tensor<6x5xf32>, tensor<6xf32>
}
