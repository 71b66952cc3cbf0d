// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s --test-portable-round-trip --mlir-print-debuginfo | FileCheck %s

// A function's properties besides its ops.
// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<4x2xf32> {mortise.name = "cache", mortise.state}
// CHECK-SAME: tensor<2x2xf32> {mortise.constant, mortise.name = "weight"}
// CHECK-SAME: tensor<f32> {mortise.donated}
// CHECK-SAME: (tensor<4x2xf32> {mortise.alias = 0 : i64}, tensor<2x2xf32>)
func.func @step(%cache: tensor<4x2xf32> {mortise.name = "cache", mortise.state}, %i: tensor<2xi64>,
                %w: tensor<2x2xf32> {mortise.name = "weight", mortise.constant}, %d: tensor<f32> {mortise.donated})
    -> (tensor<4x2xf32> {mortise.alias = 0 : i64}, tensor<2x2xf32>) {
  // CHECK: mortise.put {{.*}} loc([[L:#.*]])
  %0 = mortise.put %cache, %i, %w {axis = 0 : i64, mode = "set"} : (tensor<4x2xf32>, tensor<2xi64>, tensor<2x2xf32>) -> tensor<4x2xf32> loc("model.py:7")
  return %0, %w : tensor<4x2xf32>, tensor<2x2xf32>
}
// CHECK: [[L]] = loc("model.py:7")
