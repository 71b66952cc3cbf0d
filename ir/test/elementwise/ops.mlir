// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @reals
func.func @reals(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // CHECK: mortise.abs %{{.*}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = mortise.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.neg
  %1 = mortise.neg %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.sign
  %2 = mortise.sign %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.exp
  %3 = mortise.exp %2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.expm1
  %4 = mortise.expm1 %3 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.log
  %5 = mortise.log %4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.log1p
  %6 = mortise.log1p %5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.sqrt
  %7 = mortise.sqrt %6 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.rsqrt
  %8 = mortise.rsqrt %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.sin
  %9 = mortise.sin %8 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.cos
  %10 = mortise.cos %9 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.tanh
  %11 = mortise.tanh %10 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.erf
  %12 = mortise.erf %11 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.erfc
  %13 = mortise.erfc %12 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.logistic
  %14 = mortise.logistic %13 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.floor
  %15 = mortise.floor %14 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.ceil
  %16 = mortise.ceil %15 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.round
  %17 = mortise.round %16 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.add
  %18 = mortise.add %17, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.sub
  %19 = mortise.sub %18, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.mul
  %20 = mortise.mul %19, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.div
  %21 = mortise.div %20, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.rem
  %22 = mortise.rem %21, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.pow
  %23 = mortise.pow %22, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.max
  %24 = mortise.max %23, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.min
  %25 = mortise.min %24, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.atan2
  %26 = mortise.atan2 %25, %y : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK-NEXT: mortise.compare %{{.*}}, %{{.*}} {direction = "lt"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %27 = mortise.compare %26, %y {direction = "lt"} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  // CHECK-NEXT: mortise.select
  %28 = mortise.select %27, %x, %y : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %28 : tensor<2x3xf32>
}
