// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @ours(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a name such as "acme.swizzle", of a-z, 0-9 and '_', found "mortise.add" (vendor_c1)}}
  %0 = mortise.vendor "mortise.add"(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @no_vendor(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{found "swizzle" (vendor_c1)}}
  %0 = mortise.vendor "swizzle"(%x) {} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{attribute 'times' has no form in the portable format (vendor_c2)}}
  %0 = mortise.vendor "acme.swizzle"(%x) {times = 3 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @nothing(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected at least one result, found none (vendor_c3)}}
  mortise.vendor "acme.swizzle"(%x) {} : (tensor<4xf32>) -> ()
  return
}
