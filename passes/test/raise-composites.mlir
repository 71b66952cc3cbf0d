// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize %s | FileCheck %s

// CHECK-LABEL: func.func @silu
func.func @silu(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = mortise.silu %arg0
  // CHECK-NEXT: return %[[R]]
  %0 = mortise.logistic %x : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = mortise.mul %x, %0 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @not_silu
func.func @not_silu(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: silu
  %0 = mortise.logistic %x : (tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.mul %y, %0 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: func.func @relu
func.func @relu(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mortise.relu %arg0
  %c = mortise.constant dense<0.0> : tensor<8xf32>
  %0 = mortise.max %x, %c : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// GPT-2's gelu_new, as it writes it.
// CHECK-LABEL: func.func @gelu_tanh
func.func @gelu_tanh(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = mortise.gelu %arg0 {approximate = "tanh"}
  // CHECK-NEXT: return %[[R]]
  %half = mortise.constant dense<0.5> : tensor<2x8xf32>
  %three = mortise.constant dense<3.0> : tensor<2x8xf32>
  %a = mortise.constant dense<0.044715> : tensor<2x8xf32>
  %b = mortise.constant dense<0.7978845608028654> : tensor<2x8xf32>
  %one = mortise.constant dense<1.0> : tensor<2x8xf32>
  %0 = mortise.mul %x, %half : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %1 = mortise.pow %x, %three : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = mortise.mul %1, %a : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = mortise.add %x, %2 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.mul %3, %b : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %5 = mortise.tanh %4 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %6 = mortise.add %5, %one : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %7 = mortise.mul %0, %6 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// Another number in it is another function.
// CHECK-LABEL: func.func @not_gelu
func.func @not_gelu(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NOT: gelu
  %half = mortise.constant dense<0.5> : tensor<8xf32>
  %b = mortise.constant dense<0.75> : tensor<8xf32>
  %one = mortise.constant dense<1.0> : tensor<8xf32>
  %0 = mortise.mul %x, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.mul %x, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.erf %1 : (tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.add %2, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.mul %0, %3 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// CHECK-LABEL: func.func @gelu_erf
func.func @gelu_erf(%x: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: mortise.gelu %arg0 {approximate = "none"}
  %half = mortise.constant dense<0.5> : tensor<8xf32>
  %root = mortise.constant dense<1.41421356> : tensor<8xf32>
  %one = mortise.constant dense<1.0> : tensor<8xf32>
  %0 = mortise.div %x, %root : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %1 = mortise.erf %0 : (tensor<8xf32>) -> tensor<8xf32>
  %2 = mortise.add %1, %one : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.mul %x, %2 : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.mul %3, %half : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4 : tensor<8xf32>
}

// Llama's, as it writes it: keepdim mean, then a scale.
// CHECK-LABEL: func.func @rms_norm
func.func @rms_norm(%x: tensor<1x4x8xf32>, %w: tensor<8xf32>) -> tensor<1x4x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = mortise.rms_norm %arg0, %arg1 {axis = 2 : i64, epsilon = {{.*}}}
  // CHECK-NEXT: return %[[R]]
  %two = mortise.constant dense<2.0> : tensor<1x4x8xf32>
  %eps = mortise.constant dense<1.0e-6> : tensor<1x4x1xf32>
  %0 = mortise.pow %x, %two : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %1 = mortise.mean %0 {axes = array<i64: 2>} : (tensor<1x4x8xf32>) -> tensor<1x4xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[1, 4, 1]>} : (tensor<1x4xf32>) -> tensor<1x4x1xf32>
  %3 = mortise.add %2, %eps : (tensor<1x4x1xf32>, tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %4 = mortise.rsqrt %3 : (tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[1, 4, 8]>, axes = array<i64: 0, 1, 2>} : (tensor<1x4x1xf32>) -> tensor<1x4x8xf32>
  %6 = mortise.mul %x, %5 : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  %7 = mortise.broadcast %w {shape = #mortise.dims<[1, 4, 8]>, axes = array<i64: 2>} : (tensor<8xf32>) -> tensor<1x4x8xf32>
  %8 = mortise.mul %7, %6 : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
  return %8 : tensor<1x4x8xf32>
}

// A mean over the first axis of a square matrix has the same shapes, but is no norm of rows.
// CHECK-LABEL: func.func @not_rms_norm
func.func @not_rms_norm(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  // CHECK-NOT: rms_norm
  %eps = mortise.constant dense<1.0e-6> : tensor<8xf32>
  %0 = mortise.mul %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = mortise.mean %0 {axes = array<i64: 1>} : (tensor<8x8xf32>) -> tensor<8xf32>
  %2 = mortise.add %1, %eps : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %3 = mortise.rsqrt %2 : (tensor<8xf32>) -> tensor<8xf32>
  %4 = mortise.broadcast %3 {shape = #mortise.dims<[8, 8]>, axes = array<i64: 1>} : (tensor<8xf32>) -> tensor<8x8xf32>
  %5 = mortise.mul %x, %4 : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %5 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK-NEXT: mortise.softmax %arg0 {axis = 1 : i64}
  %0 = mortise.reduce_max %x {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %1 = mortise.broadcast %0 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0>} : (tensor<2xf32>) -> tensor<2x8xf32>
  %2 = mortise.sub %x, %1 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %3 = mortise.exp %2 : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = mortise.reduce_sum %3 {axes = array<i64: 1>} : (tensor<2x8xf32>) -> tensor<2xf32>
  %5 = mortise.reshape %4 {shape = #mortise.dims<[2, 1]>} : (tensor<2xf32>) -> tensor<2x1xf32>
  %6 = mortise.broadcast %5 {shape = #mortise.dims<[2, 8]>, axes = array<i64: 0, 1>} : (tensor<2x1xf32>) -> tensor<2x8xf32>
  %7 = mortise.div %3, %6 : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @linear
func.func @linear(%x: tensor<4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<4x16xf32> {
  // CHECK-NEXT: %[[R:.*]] = mortise.linear %arg0, %arg1, %arg2 {weight_transposed = false}
  // CHECK-NEXT: return %[[R]]
  %0 = mortise.transpose %w {permutation = array<i64: 1, 0>} : (tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = mortise.dot %x, %0 {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x8xf32>, tensor<8x16xf32>) -> tensor<4x16xf32>
  %2 = mortise.broadcast %b {shape = #mortise.dims<[4, 16]>, axes = array<i64: 1>} : (tensor<16xf32>) -> tensor<4x16xf32>
  %3 = mortise.add %1, %2 : (tensor<4x16xf32>, tensor<4x16xf32>) -> tensor<4x16xf32>
  return %3 : tensor<4x16xf32>
}

// Flattened for the product and restored after it.
// CHECK-LABEL: func.func @flattened
func.func @flattened(%x: tensor<2x4x8xf32>, %w: tensor<16x8xf32>, %b: tensor<16xf32>) -> tensor<2x4x16xf32> {
  // CHECK-NEXT: %[[R:.*]] = mortise.linear %arg0, %arg1, %arg2 {weight_transposed = false}
  // CHECK-NEXT: return %[[R]]
  %0 = mortise.reshape %x {shape = #mortise.dims<[8, 8]>} : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
  %1 = mortise.linear %0, %w, %b {weight_transposed = false} : (tensor<8x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<8x16xf32>
  %2 = mortise.reshape %1 {shape = #mortise.dims<[2, 4, 16]>} : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  return %2 : tensor<2x4x16xf32>
}

// Heads split the last dimension: the product stays as it is.
// CHECK-LABEL: func.func @heads
func.func @heads(%x: tensor<8x8xf32>, %w: tensor<16x8xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NEXT: mortise.linear
  // CHECK-NEXT: mortise.reshape
  %0 = mortise.linear %x, %w {weight_transposed = false} : (tensor<8x8xf32>, tensor<16x8xf32>) -> tensor<8x16xf32>
  %1 = mortise.reshape %0 {shape = #mortise.dims<[2, 4, 4, 4]>} : (tensor<8x16xf32>) -> tensor<2x4x4x4xf32>
  return %1 : tensor<2x4x4x4xf32>
}

// A product with batches is none.
// CHECK-LABEL: func.func @batched
func.func @batched(%x: tensor<2x4x8xf32>, %y: tensor<2x8x4xf32>) -> tensor<2x4x4xf32> {
  // CHECK-NEXT: mortise.dot
  %0 = mortise.dot %x, %y {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<2x4x8xf32>, tensor<2x8x4xf32>) -> tensor<2x4x4xf32>
  return %0 : tensor<2x4x4xf32>
}

// CHECK-LABEL: func.func @mask
func.func @mask(%q: tensor<2x3x4x8xf32>, %seen: tensor<2x1x1x4xi1>) -> tensor<2x3x4x8xf32> {
  // CHECK-NEXT: mortise.attention %arg0, %arg0, %arg0, %arg1 {
  %zero = mortise.constant dense<0.0> : tensor<2x1x4x4xf32>
  %hidden = mortise.constant dense<0xFF800000> : tensor<2x1x4x4xf32>
  %0 = mortise.broadcast %seen {shape = #mortise.dims<[2, 1, 4, 4]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<2x1x1x4xi1>) -> tensor<2x1x4x4xi1>
  %1 = mortise.select %0, %zero, %hidden : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %2 = mortise.attention %q, %q, %q, %1 {scale = 0.125 : f64, causal = false} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x1x4x4xf32>) -> tensor<2x3x4x8xf32>
  return %2 : tensor<2x3x4x8xf32>
}

// A finite penalty still lets a key be seen.
// CHECK-LABEL: func.func @penalty
func.func @penalty(%q: tensor<2x3x4x8xf32>, %seen: tensor<2x1x4x4xi1>) -> tensor<2x3x4x8xf32> {
  // CHECK: mortise.select
  %zero = mortise.constant dense<0.0> : tensor<2x1x4x4xf32>
  %penalty = mortise.constant dense<-1.0e4> : tensor<2x1x4x4xf32>
  %1 = mortise.select %seen, %zero, %penalty : (tensor<2x1x4x4xi1>, tensor<2x1x4x4xf32>, tensor<2x1x4x4xf32>) -> tensor<2x1x4x4xf32>
  %2 = mortise.attention %q, %q, %q, %1 {scale = 0.125 : f64, causal = false} : (tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x3x4x8xf32>, tensor<2x1x4x4xf32>) -> tensor<2x3x4x8xf32>
  return %2 : tensor<2x3x4x8xf32>
}
