// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s -split-input-file --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @windows
func.func @windows(%x: tensor<1x4x9x9xf32>, %w: tensor<6x2x3x3xf32>) -> (tensor<1x6x5x9xf32>, tensor<1x4x4x4xf32>, tensor<1x4x7x7xf32>) {
  // CHECK: mortise.convolution %{{.*}}, %{{.*}} {dilations = array<i64: 1, 2>, groups = 2 : i64, high = array<i64: 1, 2>, low = array<i64: 1, 2>, strides = array<i64: 2, 1>}
  %0 = mortise.convolution %x, %w {strides = array<i64: 2, 1>, low = array<i64: 1, 2>, high = array<i64: 1, 2>, dilations = array<i64: 1, 2>, groups = 2 : i64}
    : (tensor<1x4x9x9xf32>, tensor<6x2x3x3xf32>) -> tensor<1x6x5x9xf32>
  // CHECK-NEXT: mortise.max_pool
  %1 = mortise.max_pool %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x4x9x9xf32>) -> tensor<1x4x4x4xf32>
  // CHECK-NEXT: mortise.sum_pool
  %2 = mortise.sum_pool %x {window = array<i64: 3, 3>, strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>}
    : (tensor<1x4x9x9xf32>) -> tensor<1x4x7x7xf32>
  return %0, %1, %2 : tensor<1x6x5x9xf32>, tensor<1x4x4x4xf32>, tensor<1x4x7x7xf32>
}

// -----

// CHECK-LABEL: func.func @fused
func.func @fused(%x: tensor<1x2x5xf32>, %w: tensor<4x2x3xf32>, %s: tensor<4xf32>) -> (tensor<1x4x3xf32>, tensor<1x4x3xf32>) {
  // CHECK: mortise.fused_convolution %{{.*}}, %{{.*}} scale %{{.*}} bias %{{.*}} {activation = "relu", dilations = array<i64: 1>, groups = 1 : i64, high = array<i64: 0>, low = array<i64: 0>, strides = array<i64: 1>} : (tensor<1x2x5xf32>, tensor<4x2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x3xf32>
  %0 = mortise.fused_convolution %x, %w scale %s bias %s {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, activation = "relu"} : (tensor<1x2x5xf32>, tensor<4x2x3xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x3xf32>
  // CHECK: mortise.fused_convolution %{{.*}}, %{{.*}} bias %{{.*}} {activation = "none"
  %1 = mortise.fused_convolution %x, %w bias %s {strides = array<i64: 1>, low = array<i64: 0>, high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, activation = "none"} : (tensor<1x2x5xf32>, tensor<4x2x3xf32>, tensor<4xf32>) -> tensor<1x4x3xf32>
  return %0, %1 : tensor<1x4x3xf32>, tensor<1x4x3xf32>
}
