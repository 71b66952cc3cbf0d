// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @dtype(%x: tensor<4x6xf32>, %s: tensor<4x2xf32>) -> tensor<4x6xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype must be i8, ui8, i4, f8E4M3FN or f8E5M2, found "i32" (quantize_c1)}}
  %0 = mortise.quantize %x, %s {dtype = "i32"} : (tensor<4x6xf32>, tensor<4x2xf32>) -> tensor<4x6xi8>
  return %0 : tensor<4x6xi8>
}

// -----

func.func @granularity(%x: tensor<4x6xf32>, %s: tensor<4x4xf32>) -> tensor<4x6xi8> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale [4, 4] must have the rank of x [4, 6], and each extent must divide its, for all values of symbols (quantize_c2)}}
  %0 = mortise.quantize %x, %s {dtype = "i8"} : (tensor<4x6xf32>, tensor<4x4xf32>) -> tensor<4x6xi8>
  return %0 : tensor<4x6xi8>
}

// -----

func.func @zero_point(%x: tensor<4x6xf32>, %s: tensor<4x1xf32>, %z: tensor<4x1xui8>) -> tensor<4x6xi8> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{zero_point must have element type i8 or i32, found ui8 (quantize_c3)}}
  %0 = mortise.quantize %x, %s, %z {dtype = "i8"} : (tensor<4x6xf32>, tensor<4x1xf32>, tensor<4x1xui8>) -> tensor<4x6xi8>
  return %0 : tensor<4x6xi8>
}

// -----

func.func @dequantize_dtype(%q: tensor<4xi8>, %s: tensor<1xf32>) -> tensor<4xi8> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype must be a float type, found "i8" (dequantize_c1)}}
  %0 = mortise.dequantize %q, %s {dtype = "i8"} : (tensor<4xi8>, tensor<1xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @dequantize_scale(%q: tensor<4xi8>, %s: tensor<f32>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale [] must have the rank of q [4], and each extent must divide its, for all values of symbols (dequantize_c2)}}
  %0 = mortise.dequantize %q, %s {dtype = "f32"} : (tensor<4xi8>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @dequantize_float(%q: tensor<4xf8E5M2>, %s: tensor<1xf32>, %z: tensor<1xi8>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a float type has no zero_point, found one for f8E5M2 (dequantize_c3)}}
  %0 = mortise.dequantize %q, %s, %z {dtype = "f32"} : (tensor<4xf8E5M2>, tensor<1xf32>, tensor<1xi8>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @dynamic_dtype(%x: tensor<4xf32>) -> tensor<4xui8> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype must be i8, i4, f8E4M3FN or f8E5M2, found "ui8" (dynamic_quantize_c1)}}
  %0, %1 = mortise.dynamic_quantize %x {dtype = "ui8"} : (tensor<4xf32>) -> (tensor<4xui8>, tensor<1xf32>)
  return %0 : tensor<4xui8>
}

// -----

func.func @dynamic_rank(%x: tensor<f32>) -> tensor<i8> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must have rank 1 or more, found rank 0 (dynamic_quantize_c2)}}
  %0, %1 = mortise.dynamic_quantize %x {dtype = "i8"} : (tensor<f32>) -> (tensor<i8>, tensor<f32>)
  return %0 : tensor<i8>
}

// -----

func.func @linear_k(%x: tensor<2x7xf32>, %w: tensor<5x8xi8>, %s: tensor<5xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{x must be [..., K] and weight [N, K], found [2, 7] and [5, 8] (quantized_linear_c1)}}
  %0 = mortise.quantized_linear %x, %w scale %s {weight_transposed = false} : (tensor<2x7xf32>, tensor<5x8xi8>, tensor<5xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @linear_scale(%x: tensor<2x8xf32>, %w: tensor<5x8xi8>, %s: tensor<5x3xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{scale must be [], [N] or of rank 2 with N and a divisor of K, found [5, 3] for weight [5, 8] (quantized_linear_c2)}}
  %0 = mortise.quantized_linear %x, %w scale %s {weight_transposed = false} : (tensor<2x8xf32>, tensor<5x8xi8>, tensor<5x3xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @linear_zero_point(%x: tensor<2x8xf32>, %w: tensor<5x8xi8>, %s: tensor<5xf32>, %z: tensor<1xi8>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{zero_point must have shape [5], found [1] (quantized_linear_c3)}}
  %0 = mortise.quantized_linear %x, %w scale %s zero_point %z {weight_transposed = false} : (tensor<2x8xf32>, tensor<5x8xi8>, tensor<5xf32>, tensor<1xi8>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// -----

func.func @linear_bias(%x: tensor<2x8xf32>, %w: tensor<5x8xi8>, %s: tensor<5xf32>, %b: tensor<8xf32>) -> tensor<2x5xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{bias must have shape [5], found [8] (quantized_linear_c4)}}
  %0 = mortise.quantized_linear %x, %w scale %s bias %b {weight_transposed = false} : (tensor<2x8xf32>, tensor<5x8xi8>, tensor<5xf32>, tensor<8xf32>) -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}
