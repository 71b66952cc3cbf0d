// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s -split-input-file --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @quantise
func.func @quantise(%x: tensor<4x6xf32>, %s: tensor<4x2xf32>, %z: tensor<4x2xi8>, %zi: tensor<4x2xi32>, %one: tensor<1x1xf16>)
    -> (tensor<4x6xi8>, tensor<4x6xi4>, tensor<4x6xf8E4M3FN>, tensor<4x6xf32>, tensor<4x6xi8>, tensor<4x1xf32>) {
  // CHECK: %[[Q:.*]] = mortise.quantize %{{.*}}, %{{.*}}, %{{.*}} {dtype = "i8"} : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi8>) -> tensor<4x6xi8>
  %0 = mortise.quantize %x, %s, %z {dtype = "i8"} : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi8>) -> tensor<4x6xi8>
  // CHECK: mortise.quantize %{{.*}}, %{{.*}}, %{{.*}} {dtype = "i4"} : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<4x6xi4>
  %1 = mortise.quantize %x, %s, %zi {dtype = "i4"} : (tensor<4x6xf32>, tensor<4x2xf32>, tensor<4x2xi32>) -> tensor<4x6xi4>
  // CHECK: mortise.quantize %{{.*}}, %{{.*}} {dtype = "f8E4M3FN"} : (tensor<4x6xf32>, tensor<1x1xf16>) -> tensor<4x6xf8E4M3FN>
  %2 = mortise.quantize %x, %one {dtype = "f8E4M3FN"} : (tensor<4x6xf32>, tensor<1x1xf16>) -> tensor<4x6xf8E4M3FN>
  // CHECK: mortise.dequantize %[[Q]], %{{.*}}, %{{.*}} {dtype = "f32"} : (tensor<4x6xi8>, tensor<4x2xf32>, tensor<4x2xi8>) -> tensor<4x6xf32>
  %3 = mortise.dequantize %0, %s, %z {dtype = "f32"} : (tensor<4x6xi8>, tensor<4x2xf32>, tensor<4x2xi8>) -> tensor<4x6xf32>
  // CHECK: mortise.dynamic_quantize %{{.*}} {dtype = "i8"} : (tensor<4x6xf32>) -> (tensor<4x6xi8>, tensor<4x1xf32>)
  %4, %5 = mortise.dynamic_quantize %x {dtype = "i8"} : (tensor<4x6xf32>) -> (tensor<4x6xi8>, tensor<4x1xf32>)
  return %0, %1, %2, %3, %4, %5 : tensor<4x6xi8>, tensor<4x6xi4>, tensor<4x6xf8E4M3FN>, tensor<4x6xf32>, tensor<4x6xi8>, tensor<4x1xf32>
}

// -----

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<2x3x8xf16>, %w: tensor<5x8xi4>, %s: tensor<5x2xf16>, %z: tensor<5x2xi4>, %b: tensor<5xf16>,
                  %t: tensor<8x5xi8>, %all: tensor<f32>) -> (tensor<2x3x5xf16>, tensor<2x3x5xf16>) {
  // CHECK: mortise.quantized_linear %{{.*}}, %{{.*}} scale %{{.*}} zero_point %{{.*}} bias %{{.*}} {weight_transposed = false} : (tensor<2x3x8xf16>, tensor<5x8xi4>, tensor<5x2xf16>, tensor<5x2xi4>, tensor<5xf16>) -> tensor<2x3x5xf16>
  %0 = mortise.quantized_linear %x, %w scale %s zero_point %z bias %b {weight_transposed = false}
    : (tensor<2x3x8xf16>, tensor<5x8xi4>, tensor<5x2xf16>, tensor<5x2xi4>, tensor<5xf16>) -> tensor<2x3x5xf16>
  // CHECK: mortise.quantized_linear %{{.*}}, %{{.*}} scale %{{.*}} {weight_transposed = true} : (tensor<2x3x8xf16>, tensor<8x5xi8>, tensor<f32>) -> tensor<2x3x5xf16>
  %1 = mortise.quantized_linear %x, %t scale %all {weight_transposed = true} : (tensor<2x3x8xf16>, tensor<8x5xi8>, tensor<f32>) -> tensor<2x3x5xf16>
  return %0, %1 : tensor<2x3x5xf16>, tensor<2x3x5xf16>
}
