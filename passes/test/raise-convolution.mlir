// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every function is also interpreted before and after raising, on random and hostile inputs (raise_test.cpp). Where a
// pattern says that hostile results differ, the function has mortise.differs.
// RUN: mortise-opt --canonicalize --cse --raise-composites --canonicalize --cse %s | FileCheck %s

// CHECK-LABEL: func.func @bias_relu(
func.func @bias_relu(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK: "relu"
  // CHECK-NOT: mortise.add
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.add %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.constant dense<0.0> : tensor<2x4x4x4xf32>
  %4 = mortise.max %2, %3 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %4 : tensor<2x4x4x4xf32>
}

// CHECK-LABEL: func.func @batch_norm_relu(
func.func @batch_norm_relu(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>, %arg4: tensor<4xf32>, %arg5: tensor<4xf32> {mortise.name = "positive"}) -> tensor<2x4x4x4xf32> {
  // Factor and shift are rounded once.
  // CHECK: [[F:%[0-9]+]] = mortise.rsqrt {{.*}} : (tensor<4xf64>)
  // CHECK: [[M:%[0-9]+]] = mortise.mul {{.*}}, [[F]] : (tensor<4xf64>
  // CHECK: mortise.convert [[M]] {dtype = "f32"}
  // CHECK: mortise.fused_convolution %arg0
  // CHECK: "relu"
  // CHECK-NOT: batch_norm
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.batch_norm %0 scale %arg2 bias %arg3 mean %arg4 variance %arg5 {epsilon = 1.0e-5 : f64} : (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.relu %1 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}

// Times a scale and plus a bias per channel, keepdim style, then silu.
// CHECK-LABEL: func.func @scale_silu(
func.func @scale_silu(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK: "silu"
  // CHECK-NOT: mortise.mul
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.reshape %arg2 {shape = #mortise.dims<[1, 4, 1, 1]>} : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %2 = mortise.broadcast %1 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.mul %0, %2 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %4 = mortise.reshape %arg3 {shape = #mortise.dims<[1, 4, 1, 1]>} : (tensor<4xf32>) -> tensor<1x4x1x1xf32>
  %5 = mortise.broadcast %4 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 0, 1, 2, 3>} : (tensor<1x4x1x1xf32>) -> tensor<2x4x4x4xf32>
  %6 = mortise.add %3, %5 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %7 = mortise.logistic %6 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %8 = mortise.mul %6, %7 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %8 : tensor<2x4x4x4xf32>
}

// A bias along a spatial dimension.
// CHECK-LABEL: func.func @not_channels(
func.func @not_channels(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NOT: fused_convolution
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 3>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.add %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}

// The convolution's result has another user.
// CHECK-LABEL: func.func @not_alone(
func.func @not_alone(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NOT: fused_convolution
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.add %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.mul %2, %0 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %3 : tensor<2x4x4x4xf32>
}

// Scaled after the bias: both become parameters.
// CHECK-LABEL: func.func @scaled_bias(
func.func @scaled_bias(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>) -> tensor<2x4x4x4xf32> attributes {mortise.differs} {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK-NOT: mortise.add
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.add %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %4 = mortise.mul %2, %3 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %4 : tensor<2x4x4x4xf32>
}

// ---- Other spellings

// A bias of the convolution moves the mean of the norm.
// CHECK-LABEL: func.func @bias_batch_norm_relu(
func.func @bias_batch_norm_relu(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32>, %arg4: tensor<4xf32>, %arg5: tensor<4xf32> {mortise.name = "positive"}, %arg6: tensor<4xf32>) -> tensor<2x4x4x4xf32> attributes {mortise.differs} {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK-SAME: "relu"
  // CHECK-NOT: batch_norm
  // CHECK-NOT: mortise.relu
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg6 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.add %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.batch_norm %2 scale %arg2 bias %arg3 mean %arg4 variance %arg5 {epsilon = 1.0e-5 : f64} : (tensor<2x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %4 = mortise.relu %3 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %4 : tensor<2x4x4x4xf32>
}

// bf16
// CHECK-LABEL: func.func @narrow_batch_norm(
func.func @narrow_batch_norm(%arg0: tensor<2x3x6x6xbf16>, %arg1: tensor<4x3x3x3xbf16>, %arg2: tensor<4xbf16>, %arg3: tensor<4xbf16>, %arg4: tensor<4xbf16>, %arg5: tensor<4xbf16> {mortise.name = "positive"}) -> tensor<2x4x4x4xbf16> {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK-SAME: "relu"
  // CHECK-NOT: batch_norm
  // CHECK-NOT: mortise.relu
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xbf16>, tensor<4x3x3x3xbf16>) -> tensor<2x4x4x4xbf16>
  %1 = mortise.batch_norm %0 scale %arg2 bias %arg3 mean %arg4 variance %arg5 {epsilon = 1.0e-5 : f64} : (tensor<2x4x4x4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4x4x4xbf16>
  %2 = mortise.relu %1 : (tensor<2x4x4x4xbf16>) -> tensor<2x4x4x4xbf16>
  return %2 : tensor<2x4x4x4xbf16>
}

// ((y - m) / s) * a + b
// CHECK-LABEL: func.func @batch_norm_by_hand(
func.func @batch_norm_by_hand(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>, %arg3: tensor<4xf32> {mortise.name = "positive"}, %arg4: tensor<4xf32>, %arg5: tensor<4xf32>) -> tensor<2x4x4x4xf32> attributes {mortise.differs} {
  // CHECK: mortise.fused_convolution %arg0
  // CHECK-SAME: "relu"
  // CHECK-NOT: mortise.relu
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.sub %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.broadcast %arg3 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %4 = mortise.div %2, %3 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %5 = mortise.broadcast %arg4 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %6 = mortise.mul %4, %5 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %7 = mortise.broadcast %arg5 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %8 = mortise.add %6, %7 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %9 = mortise.relu %8 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %9 : tensor<2x4x4x4xf32>
}

// b - y
// CHECK-LABEL: func.func @not_subtracted_from(
func.func @not_subtracted_from(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NOT: mortise.fused_convolution
  %0 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.sub %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}

// b / y
// CHECK-LABEL: func.func @not_divided_by(
func.func @not_divided_by(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK-NOT: mortise.fused_convolution
  %0 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.div %0, %1 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %2 : tensor<2x4x4x4xf32>
}

// relu(y) * a
// CHECK-LABEL: func.func @not_after_activation(
func.func @not_after_activation(%arg0: tensor<2x3x6x6xf32>, %arg1: tensor<4x3x3x3xf32>, %arg2: tensor<4xf32>) -> tensor<2x4x4x4xf32> {
  // CHECK: mortise.fused_convolution
  // CHECK: mortise.mul
  %0 = mortise.convolution %arg0, %arg1 {strides = array<i64: 1, 1>, low = array<i64: 0, 0>, high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : (tensor<2x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<2x4x4x4xf32>
  %1 = mortise.relu %0 : (tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  %2 = mortise.broadcast %arg2 {shape = #mortise.dims<[2, 4, 4, 4]>, axes = array<i64: 1>} : (tensor<4xf32>) -> tensor<2x4x4x4xf32>
  %3 = mortise.mul %1, %2 : (tensor<2x4x4x4xf32>, tensor<2x4x4x4xf32>) -> tensor<2x4x4x4xf32>
  return %3 : tensor<2x4x4x4xf32>
}
