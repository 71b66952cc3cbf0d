// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt --verify-stage %s | FileCheck %s
// RUN: not mortise-opt --allow-unregistered-dialect --verify-stage %S/Inputs/foreign.mlir 2>&1 | FileCheck %s --check-prefix=FOREIGN

// CHECK-LABEL: func.func @ours
func.func @ours(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = mortise.relu %x : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// FOREIGN: error: expected mortise ops only after the frontend, found other.op
