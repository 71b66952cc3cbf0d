// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @shapes(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{operands must have one type, found tensor<2xf32> and tensor<3xf32>; broadcast or convert first (same_type_c1)}}
  %0 = mortise.add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @result(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<2xf32>' are incompatible with return type(s) of operation 'tensor<3xf32>'}}
  %0 = mortise.exp %x : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @kind(%x: tensor<2xi32>) -> tensor<2xi32> {
  // expected-error @+1 {{operand #0 must be tensor of known extents of float values, but got 'tensor<2xi32>'}}
  %0 = mortise.exp %x : (tensor<2xi32>) -> tensor<2xi32>
  return %0 : tensor<2xi32>
}

// -----

func.func @symbolic(%x: tensor<?xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{operand #0 must be tensor of known extents of float values, but got 'tensor<?xf32>'}}
  %0 = mortise.exp %x : (tensor<?xf32>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// -----

func.func @direction(%x: tensor<2xf32>) -> tensor<2xi1> {
  // expected-error @+1 {{attribute 'direction' failed to satisfy constraint: string attribute that is one of: eq, ne, lt, le, gt, ge}}
  %0 = mortise.compare %x, %x {direction = "less"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// -----

func.func @missing(%x: tensor<2xf32>) -> tensor<2xi1> {
  // expected-error @+1 {{requires attribute 'direction'}}
  %0 = mortise.compare %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// -----

func.func @predicate(%p: tensor<3xi1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{predicate must have shape [2], found [3] (select_c1)}}
  %0 = mortise.select %p, %x, %x : (tensor<3xi1>, tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @dtype(%x: tensor<2xf32>) -> tensor<2xf64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error-re @+1 {{dtype "double" is unknown: expected one of f64, {{.*}} (convert_c1)}}
  %0 = mortise.convert %x {dtype = "double"} : (tensor<2xf32>) -> tensor<2xf64>
  return %0 : tensor<2xf64>
}

// -----

func.func @compared(%x: tensor<2xf32>, %y: tensor<2xf64>) -> tensor<2xi1> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{found tensor<2xf32> and tensor<2xf64>; broadcast or convert first (same_type_c1)}}
  %0 = mortise.compare %x, %y {direction = "lt"} : (tensor<2xf32>, tensor<2xf64>) -> tensor<2xi1>
  return %0 : tensor<2xi1>
}

// -----

func.func @chosen(%p: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{found tensor<2xf32> and tensor<3xf32>; broadcast or convert first (same_type_c1)}}
  %0 = mortise.select %p, %x, %y : (tensor<2xi1>, tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
