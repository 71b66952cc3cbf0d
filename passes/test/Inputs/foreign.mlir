// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
func.func @foreign(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "other.op"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
