// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s -split-input-file --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @attention
func.func @attention(%q: tensor<2x8x5x16xf32>, %k: tensor<2x2x7x16xf32>, %v: tensor<2x2x7x32xf32>, %m: tensor<2x1x1x7xi1>)
    -> (tensor<2x8x5x32xf32>, tensor<2x8x5x32xf32>) {
  // CHECK: mortise.attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = false, scale = 2.500000e-01 : f64} : (tensor<2x8x5x16xf32>, tensor<2x2x7x16xf32>, tensor<2x2x7x32xf32>, tensor<2x1x1x7xi1>) -> tensor<2x8x5x32xf32>
  %0 = mortise.attention %q, %k, %v, %m {scale = 0.25 : f64, causal = false}
    : (tensor<2x8x5x16xf32>, tensor<2x2x7x16xf32>, tensor<2x2x7x32xf32>, tensor<2x1x1x7xi1>) -> tensor<2x8x5x32xf32>
  // CHECK: mortise.attention %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = 2.500000e-01 : f64}
  %1 = mortise.attention %q, %k, %v {scale = 0.25 : f64, causal = true}
    : (tensor<2x8x5x16xf32>, tensor<2x2x7x16xf32>, tensor<2x2x7x32xf32>) -> tensor<2x8x5x32xf32>
  return %0, %1 : tensor<2x8x5x32xf32>, tensor<2x8x5x32xf32>
}

// -----

// CHECK-LABEL: func.func @rope
func.func @rope(%x: tensor<2x4x5x8xf32>, %c: tensor<1x1x5x8xf32>) -> (tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) {
  // CHECK: mortise.rope %{{.*}}, %{{.*}}, %{{.*}} {interleaved = false} : (tensor<2x4x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<2x4x5x8xf32>
  %0 = mortise.rope %x, %c, %c {interleaved = false} : (tensor<2x4x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<2x4x5x8xf32>
  // CHECK: mortise.rope %{{.*}}, %{{.*}}, %{{.*}} {interleaved = true}
  %1 = mortise.rope %x, %c, %c {interleaved = true} : (tensor<2x4x5x8xf32>, tensor<1x1x5x8xf32>, tensor<1x1x5x8xf32>) -> tensor<2x4x5x8xf32>
  return %0, %1 : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>
}

// -----

// CHECK-LABEL: func.func @training
func.func @training(%q: tensor<2x8x5x16xf16>, %k: tensor<2x2x7x16xf16>, %v: tensor<2x2x7x32xf16>, %m: tensor<2x1x1x7xi1>)
    -> (tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>) {
  // CHECK: mortise.attention_forward %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = false, scale = 2.500000e-01 : f64} : (tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>, tensor<2x1x1x7xi1>) -> (tensor<2x8x5x32xf16>, tensor<2x8x5xf32>)
  %0:2 = mortise.attention_forward %q, %k, %v, %m {scale = 0.25 : f64, causal = false}
    : (tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>, tensor<2x1x1x7xi1>) -> (tensor<2x8x5x32xf16>, tensor<2x8x5xf32>)
  // CHECK: mortise.attention_gradient %{{.*}}, %{{.*}}, %{{.*}}, %result, %log_sums, %result, %{{.*}} {causal = false, scale = 2.500000e-01 : f64}
  %1:3 = mortise.attention_gradient %q, %k, %v, %0#0, %0#1, %0#0, %m {scale = 0.25 : f64, causal = false}
    : (tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>, tensor<2x8x5x32xf16>, tensor<2x8x5xf32>, tensor<2x8x5x32xf16>, tensor<2x1x1x7xi1>)
    -> (tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>)
  return %1#0, %1#1, %1#2 : tensor<2x8x5x16xf16>, tensor<2x2x7x16xf16>, tensor<2x2x7x32xf16>
}
