// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// CHECK-LABEL: func.func @silu(
func.func @silu(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: mortise.silu %arg0
  %0 = mortise.logistic %arg0 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// x * (1 / (1 + exp(-x)))
// CHECK-LABEL: func.func @silu_by_hand(
func.func @silu_by_hand(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.silu %arg0
  // CHECK-NOT: mortise.exp
  %0 = mortise.neg %arg0 : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.exp %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<1.0> : tensor<8xf32>
  %3 = mortise.constant dense<1.0> : tensor<8xf32>
  %4 = mortise.add %1, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.div %2, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = mortise.mul %5, %arg0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %6 : tensor<8xf32>
}

// x / (1 + exp(-x))
// CHECK-LABEL: func.func @silu_quotient(
func.func @silu_quotient(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.silu %arg0
  %0 = mortise.neg %arg0 : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.exp %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<1.0> : tensor<8xf32>
  %3 = mortise.add %2, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.div %arg0, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// The logistic of another value.
// CHECK-LABEL: func.func @not_silu(
func.func @not_silu(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: silu
  %0 = mortise.logistic %arg0 : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.mul %arg1, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// x * logistic(1.702 x) is a function of its own.
// CHECK-LABEL: func.func @quick_gelu(
func.func @quick_gelu(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: mortise.gelu
  // CHECK-NOT: mortise.silu
  %0 = mortise.constant dense<1.702> : tensor<8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.logistic %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.mul %arg0, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// CHECK-LABEL: func.func @relu(
func.func @relu(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.relu %arg0
  %0 = mortise.constant dense<0.0> : tensor<8xf32>
  %1 = mortise.max %arg0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// A comparison turns NaN into 0; the maximum keeps it.
// CHECK-LABEL: func.func @not_relu(
func.func @not_relu(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: relu
  %0 = mortise.constant dense<0.0> : tensor<8xf32>
  %1 = mortise.compare %arg0, %0 {direction = "gt"} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
  %2 = mortise.select %1, %arg0, %0 : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %2 : tensor<8xf32>
}

// CHECK-LABEL: func.func @swiglu(
func.func @swiglu(%arg0: tensor<4x8xf32>, %arg1: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // CHECK: mortise.swiglu %arg0, %arg1
  %0 = mortise.logistic %arg0 : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %2 = mortise.mul %1, %arg1 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// CHECK-LABEL: func.func @swiglu_up_first(
func.func @swiglu_up_first(%arg0: tensor<4x8xbf16>, %arg1: tensor<4x8xbf16>) -> tensor<4x8xbf16> {
  // CHECK: mortise.swiglu %arg0, %arg1
  %0 = mortise.silu %arg0 : (tensor<4x8xbf16>) -> tensor<4x8xbf16>
  %1 = mortise.mul %arg1, %0 : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}

// silu has another user.
// CHECK-LABEL: func.func @not_swiglu(
func.func @not_swiglu(%arg0: tensor<8xf32>, %arg1: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.silu
  // CHECK-NOT: swiglu
  %0 = mortise.logistic %arg0 : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.mul %1, %arg1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.add %2, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %3 : tensor<8xf32>
}

// GPT-2's gelu_new.
// CHECK-LABEL: func.func @gelu_tanh(
func.func @gelu_tanh(%arg0: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NOT: mortise.tanh
  %0 = mortise.constant dense<0.5> : tensor<2x8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = mortise.constant dense<3.0> : tensor<2x8xf32>
  %3 = mortise.pow %arg0, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.constant dense<0.044715> : tensor<2x8xf32>
  %5 = mortise.mul %3, %4 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = mortise.add %arg0, %5 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %7 = mortise.constant dense<0.7978845608028654> : tensor<2x8xf32>
  %8 = mortise.mul %6, %7 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %9 = mortise.tanh %8 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %10 = mortise.constant dense<1.0> : tensor<2x8xf32>
  %11 = mortise.add %9, %10 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %12 = mortise.mul %1, %11 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// 0.5 * (x * factor), x * x * x.
// CHECK-LABEL: func.func @gelu_tanh_products(
func.func @gelu_tanh_products(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  %0 = mortise.mul %arg0, %arg0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.mul %0, %arg0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<0.5> : tensor<8xf32>
  %3 = mortise.constant dense<0.044715> : tensor<8xf32>
  %4 = mortise.mul %1, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.add %arg0, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = mortise.constant dense<0.7978845608028654> : tensor<8xf32>
  %7 = mortise.mul %5, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = mortise.tanh %7 : (tensor<8xf32>) -> tensor<8xf32>
  %9 = mortise.constant dense<1.0> : tensor<8xf32>
  %10 = mortise.add %8, %9 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %11 = mortise.mul %arg0, %10 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %12 = mortise.mul %2, %11 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %12 : tensor<8xf32>
}

// x * (1 + 0.044715 x^2), halved last by a division.
// CHECK-LABEL: func.func @gelu_tanh_factored(
func.func @gelu_tanh_factored(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  %0 = mortise.constant dense<1.0> : tensor<8xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.constant dense<0.044715> : tensor<8xf32>
  %3 = mortise.mul %1, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.add %0, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.mul %arg0, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = mortise.constant dense<2.0> : tensor<8xf32>
  %7 = mortise.div %arg0, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = mortise.constant dense<0.7978845608028654> : tensor<8xf32>
  %9 = mortise.mul %5, %8 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %10 = mortise.tanh %9 : (tensor<8xf32>) -> tensor<8xf32>
  %11 = mortise.constant dense<1.0> : tensor<8xf32>
  %12 = mortise.add %10, %11 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %13 = mortise.mul %7, %12 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %13 : tensor<8xf32>
}

// CHECK-LABEL: func.func @gelu_erf(
func.func @gelu_erf(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "none"}
  %0 = mortise.constant dense<1.41421356> : tensor<8xf32>
  %1 = mortise.div %arg0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.erf %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.constant dense<1.0> : tensor<8xf32>
  %4 = mortise.add %2, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.mul %arg0, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = mortise.constant dense<0.5> : tensor<8xf32>
  %7 = mortise.mul %5, %6 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// CHECK-LABEL: func.func @gelu_erf_product(
func.func @gelu_erf_product(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "none"}
  %0 = mortise.constant dense<1.0> : tensor<8xf32>
  %1 = mortise.constant dense<0.70710678118654752> : tensor<8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.erf %2 : (tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.add %0, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.constant dense<0.5> : tensor<8xf32>
  %6 = mortise.mul %5, %arg0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = mortise.mul %6, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// Another constant: a different function.
// CHECK-LABEL: func.func @not_gelu(
func.func @not_gelu(%arg0: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: gelu
  %0 = mortise.constant dense<0.75> : tensor<8xf32>
  %1 = mortise.mul %arg0, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.erf %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.constant dense<1.0> : tensor<8xf32>
  %4 = mortise.add %2, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = mortise.constant dense<0.5> : tensor<8xf32>
  %6 = mortise.mul %arg0, %5 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = mortise.mul %6, %4 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %7 : tensor<8xf32>
}

// ---- Other spellings

// tanh(k x (1 + 0.044715 x x)), products from the left
// CHECK-LABEL: func.func @gelu_fast(
func.func @gelu_fast(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NOT: mortise.tanh
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7978845608> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.constant dense<0.044715> : tensor<3x8xf32>
  %4 = mortise.mul %3, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %4, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %7 = mortise.add %6, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.mul %2, %7 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = mortise.tanh %8 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %10 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %11 = mortise.add %10, %9 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %12 = mortise.mul %0, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %13 = mortise.mul %12, %11 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %13 : tensor<3x8xf32>
}

// 0.044715 x x x from the left
// CHECK-LABEL: func.func @gelu_cube_from_left(
func.func @gelu_cube_from_left(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NOT: mortise.tanh
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7978845608> : tensor<3x8xf32>
  %2 = mortise.constant dense<0.044715> : tensor<3x8xf32>
  %3 = mortise.mul %2, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mul %3, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %4, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.add %arg0, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %1, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.tanh %7 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %10 = mortise.add %9, %8 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %11 = mortise.mul %arg0, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %12 = mortise.mul %11, %10 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %12 : tensor<3x8xf32>
}

// The constants multiplied out.
// CHECK-LABEL: func.func @gelu_distributed(
func.func @gelu_distributed(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NOT: mortise.tanh
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7978845608> : tensor<3x8xf32>
  %2 = mortise.mul %1, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.constant dense<0.035677408136300125> : tensor<3x8xf32>
  %4 = mortise.mul %3, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %4, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.mul %5, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.add %2, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.tanh %7 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %10 = mortise.add %9, %8 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %11 = mortise.mul %arg0, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %12 = mortise.mul %11, %10 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %12 : tensor<3x8xf32>
}

// (1 + tanh(z)) / 2 is logistic(2 z).
// CHECK-LABEL: func.func @gelu_logistic(
func.func @gelu_logistic(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NOT: mortise.logistic
  %0 = mortise.constant dense<0.044715> : tensor<3x8xf32>
  %1 = mortise.mul %arg0, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.mul %1, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.mul %2, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.add %arg0, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.constant dense<1.5957691216> : tensor<3x8xf32>
  %6 = mortise.mul %4, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.logistic %6 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.mul %arg0, %7 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// x / 2 * erfc(-x / sqrt 2)
// CHECK-LABEL: func.func @gelu_erfc(
func.func @gelu_erfc(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "none"}
  // CHECK-NOT: mortise.erf
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.neg %arg0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.constant dense<1.4142135623730951> : tensor<3x8xf32>
  %3 = mortise.div %1, %2 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.erfc %3 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %arg0, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.mul %5, %4 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %6 : tensor<3x8xf32>
}

// x (erf / 2 + 1 / 2)
// CHECK-LABEL: func.func @gelu_half_inside(
func.func @gelu_half_inside(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "none"}
  // CHECK-NOT: mortise.erf
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mul %0, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %6 = mortise.add %4, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %arg0, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// x (1 - erf(-x / sqrt 2)) / 2
// CHECK-LABEL: func.func @gelu_odd(
func.func @gelu_odd(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0 {approximate = "none"}
  // CHECK-NOT: mortise.erf
  %0 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %1 = mortise.constant dense<-0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.sub %0, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %arg0, %4 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.constant dense<2.0> : tensor<3x8xf32>
  %7 = mortise.div %5, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// u x (1 + erf(x / sqrt 2)) / 2 from the left: gelu(x) u
// CHECK-LABEL: func.func @gelu_gated(
func.func @gelu_gated(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.gelu %arg0
  // CHECK: mortise.mul
  // CHECK-NOT: mortise.mul
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %5 = mortise.add %4, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.mul %arg1, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %6, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.mul %7, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %8 : tensor<3x8xf32>
}

// Another cubic coefficient.
// CHECK-LABEL: func.func @not_gelu_cubic(
func.func @not_gelu_cubic(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.gelu
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7978845608> : tensor<3x8xf32>
  %2 = mortise.constant dense<0.05> : tensor<3x8xf32>
  %3 = mortise.mul %2, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mul %3, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.mul %4, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.add %arg0, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %1, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %8 = mortise.tanh %7 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %9 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %10 = mortise.add %9, %8 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %11 = mortise.mul %arg0, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %12 = mortise.mul %11, %10 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %12 : tensor<3x8xf32>
}

// erf of -x.
// CHECK-LABEL: func.func @not_gelu_sign(
func.func @not_gelu_sign(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.gelu
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<-0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mul %0, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %6 = mortise.add %4, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %arg0, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// erf / 2 + 0.4
// CHECK-LABEL: func.func @not_gelu_offset(
func.func @not_gelu_offset(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.gelu
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.mul %0, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %5 = mortise.constant dense<0.4> : tensor<3x8xf32>
  %6 = mortise.add %4, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %arg0, %6 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// The curve of another value.
// CHECK-LABEL: func.func @not_gelu_other(
func.func @not_gelu_other(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.gelu
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.7071067811865476> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.erf %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %5 = mortise.add %4, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.mul %arg1, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %6, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// u g logistic(g) from the left
// CHECK-LABEL: func.func @swiglu_from_left(
func.func @swiglu_from_left(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xf32>) -> tensor<3x8xf32> attributes {mortise.differs} {
  // CHECK: mortise.swiglu %arg0, %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.logistic %arg0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = mortise.mul %arg1, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.mul %1, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// logistic(g) (g u)
// CHECK-LABEL: func.func @swiglu_gate_last(
func.func @swiglu_gate_last(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xf32>) -> tensor<3x8xf32> attributes {mortise.differs} {
  // CHECK: mortise.swiglu %arg0, %arg1
  // CHECK-NOT: mortise.mul
  %0 = mortise.logistic %arg0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = mortise.mul %arg0, %arg1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}

// x (1 + tanh(x / 2)) / 2
// CHECK-LABEL: func.func @silu_tanh(
func.func @silu_tanh(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK: mortise.silu %arg0
  // CHECK-NOT: mortise.tanh
  %0 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %1 = mortise.constant dense<0.5> : tensor<3x8xf32>
  %2 = mortise.mul %arg0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.tanh %2 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %4 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %5 = mortise.add %4, %3 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %6 = mortise.mul %arg0, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %7 = mortise.mul %6, %5 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %7 : tensor<3x8xf32>
}

// The product has another user.
// CHECK-LABEL: func.func @not_swiglu_shared(
func.func @not_swiglu_shared(%arg0: tensor<3x8xf32>, %arg1: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.swiglu
  %0 = mortise.mul %arg1, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %1 = mortise.logistic %arg0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.mul %0, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.add %2, %0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// logistic(x + 1)
// CHECK-LABEL: func.func @not_silu_shifted(
func.func @not_silu_shifted(%arg0: tensor<3x8xf32>) -> tensor<3x8xf32> {
  // CHECK-NOT: mortise.silu
  %0 = mortise.constant dense<1.0> : tensor<3x8xf32>
  %1 = mortise.add %0, %arg0 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.logistic %1 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %3 = mortise.mul %arg0, %2 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %3 : tensor<3x8xf32>
}

// A narrow activation computed in f32.
// CHECK-LABEL: func.func @silu_widened(
func.func @silu_widened(%arg0: tensor<3x8xbf16>, %arg1: tensor<3x8xbf16>) -> tensor<3x8xbf16> {
  // CHECK: mortise.swiglu %arg0, %arg1
  // CHECK-NOT: mortise.convert
  %0 = mortise.convert %arg0 {dtype = "f32"} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = mortise.silu %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.convert %1 {dtype = "bf16"} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %3 = mortise.mul %2, %arg1 : (tensor<3x8xbf16>, tensor<3x8xbf16>) -> tensor<3x8xbf16>
  return %3 : tensor<3x8xbf16>
}

// The f32 result is used.
// CHECK-LABEL: func.func @not_silu_widened(
func.func @not_silu_widened(%arg0: tensor<3x8xbf16>) -> tensor<3x8xf32> {
  // CHECK: mortise.convert
  // CHECK: mortise.silu
  %0 = mortise.convert %arg0 {dtype = "f32"} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %1 = mortise.silu %0 : (tensor<3x8xf32>) -> tensor<3x8xf32>
  %2 = mortise.convert %1 {dtype = "bf16"} : (tensor<3x8xf32>) -> tensor<3x8xbf16>
  %3 = mortise.convert %2 {dtype = "f32"} : (tensor<3x8xbf16>) -> tensor<3x8xf32>
  %4 = mortise.add %3, %1 : (tensor<3x8xf32>, tensor<3x8xf32>) -> tensor<3x8xf32>
  return %4 : tensor<3x8xf32>
}
