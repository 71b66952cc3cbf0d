// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @key(%k: tensor<1xi64>, %o: tensor<i64>) -> tensor<4xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{key must have shape [], found [1] (random_c1)}}
  %0 = mortise.random_bits %k, %o {shape = #mortise.dims<[4]>, dtype = "i32"} : (tensor<1xi64>, tensor<i64>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @bits(%k: tensor<i64>, %o: tensor<i64>) -> tensor<4xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype "f32" must be one of i64, i32, i16, i8, ui8 (random_c2)}}
  %0 = mortise.random_bits %k, %o {shape = #mortise.dims<[4]>, dtype = "f32"} : (tensor<i64>, tensor<i64>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @negative(%k: tensor<i64>, %o: tensor<i64>) -> tensor<4xi32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape [-4] must be at least 0 in every entry (random_c3)}}
  %0 = mortise.random_bits %k, %o {shape = #mortise.dims<[-4]>, dtype = "i32"} : (tensor<i64>, tensor<i64>) -> tensor<4xi32>
  return %0 : tensor<4xi32>
}

// -----

func.func @uniform(%k: tensor<i64>, %o: tensor<i64>) -> tensor<4xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype "i32" must be one of f64, f32, f16, bf16 (random_c2)}}
  %0 = mortise.uniform %k, %o {shape = #mortise.dims<[4]>, dtype = "i32"} : (tensor<i64>, tensor<i64>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @normal(%k: tensor<i64>, %o: tensor<i64>) -> tensor<4xf8E5M2> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{dtype "f8E5M2" must be one of f64, f32, f16, bf16 (random_c2)}}
  %0 = mortise.normal %k, %o {shape = #mortise.dims<[4]>, dtype = "f8E5M2"} : (tensor<i64>, tensor<i64>) -> tensor<4xf8E5M2>
  return %0 : tensor<4xf8E5M2>
}

// -----

func.func @bernoulli(%p: tensor<4xf32>, %k: tensor<i64>, %o: tensor<2xi64>) -> tensor<4xi1> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{offset must have shape [], found [2] (random_c1)}}
  %0 = mortise.bernoulli %p, %k, %o : (tensor<4xf32>, tensor<i64>, tensor<2xi64>) -> tensor<4xi1>
  return %0 : tensor<4xi1>
}

// -----

func.func @dropout(%x: tensor<4xf32>, %k: tensor<i64>, %o: tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{p is 1.500000: expected 0 to 1 (dropout_c1)}}
  %0, %1 = mortise.dropout %x, %k, %o {p = 1.5 : f64} : (tensor<4xf32>, tensor<i64>, tensor<i64>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0, %1 : tensor<4xf32>, tensor<4xi1>
}

// -----

func.func @permutation(%k: tensor<i64>, %o: tensor<i64>) -> tensor<2x2xi64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{shape must be [n], found [2, 2] (random_permutation_c1)}}
  %0 = mortise.random_permutation %k, %o {shape = #mortise.dims<[2, 2]>} : (tensor<i64>, tensor<i64>) -> tensor<2x2xi64>
  return %0 : tensor<2x2xi64>
}
