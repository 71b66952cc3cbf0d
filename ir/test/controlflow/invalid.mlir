// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @predicate(%p: tensor<1xi1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the predicate must be tensor<i1>, found tensor<1xi1> (if_c1)}}
  %0 = mortise.if %p, %x then {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } else {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } : (tensor<1xi1>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @arguments(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the second body must take arguments of types (tensor<3xf32>), found (tensor<4xf32>) (if_c2)}}
  %0 = mortise.if %p, %x then {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } else {
  ^bb0(%a: tensor<4xf32>):
    mortise.yield %a : tensor<4xf32>
  } : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @yields(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{both bodies must yield the same types, and at least one, found (tensor<3xf32>) and (tensor<3xi32>) (if_c3)}}
  %0 = mortise.if %p, %x then {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } else {
  ^bb0(%a: tensor<3xf32>):
    %i = mortise.convert %a {dtype = "i32"} : (tensor<3xf32>) -> tensor<3xi32>
    mortise.yield %i : tensor<3xi32>
  } : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @if_collective(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the first body must not hold collectives, found mortise.all_reduce (if_c4)}}
  %0 = mortise.if %p, %x then {
  ^bb0(%a: tensor<3xf32>):
    %r = mortise.all_reduce %a {reduction = "sum", groups = array<i64: 0, 1>, group_size = 2 : i64} : (tensor<3xf32>) -> tensor<3xf32>
    mortise.yield %r : tensor<3xf32>
  } else {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @no_state(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{expected at least one input (while_c1)}}
  %0 = mortise.while condition {
    %t = mortise.constant dense<false> : tensor<i1>
    mortise.yield %t : tensor<i1>
  } step {
    mortise.yield
  } : () -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @while_arguments(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{condition must take arguments of types (tensor<3xf32>), found (tensor<2xf32>) (while_c2)}}
  %0 = mortise.while %x condition {
  ^bb0(%a: tensor<2xf32>):
    %t = mortise.constant dense<false> : tensor<i1>
    mortise.yield %t : tensor<i1>
  } step {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @condition(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{condition must yield tensor<i1>, found (tensor<3xf32>) (while_c3)}}
  %0 = mortise.while %x condition {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } step {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @step(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{step must yield the types of the inputs (tensor<3xf32>), found (tensor<3xf32>, tensor<3xf32>) (while_c4)}}
  %0 = mortise.while %x condition {
  ^bb0(%a: tensor<3xf32>):
    %t = mortise.constant dense<false> : tensor<i1>
    mortise.yield %t : tensor<i1>
  } step {
  ^bb0(%a: tensor<3xf32>):
    mortise.yield %a, %a : tensor<3xf32>, tensor<3xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @while_collective(%x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{step must not hold collectives, found mortise.collective_permute (while_c5)}}
  %0 = mortise.while %x condition {
  ^bb0(%a: tensor<3xf32>):
    %t = mortise.constant dense<false> : tensor<i1>
    mortise.yield %t : tensor<i1>
  } step {
  ^bb0(%a: tensor<3xf32>):
    %r = mortise.collective_permute %a {pairs = array<i64: 0, 1>, rank_count = 2 : i64} : (tensor<3xf32>) -> tensor<3xf32>
    mortise.yield %r : tensor<3xf32>
  } : (tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @trips(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{trips [5, 5] must have one entry, at least 0 (scan_c1)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } {carried = 1 : i64, trips = #mortise.dims<[5, 5]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @carried(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{carried must be from 0 to the number of inputs, 2, found 3 (scan_c1)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } {carried = 3 : i64, trips = #mortise.dims<[5]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @stacked(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{a stacked input must have extent 4 along dimension 0, found [5, 3] (scan_c2)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    mortise.yield %a : tensor<3xf32>
  } {carried = 1 : i64, trips = #mortise.dims<[4]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @slices(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{step must take arguments of types (tensor<3xf32>, tensor<3xf32>), found (tensor<3xf32>, tensor<5x3xf32>) (scan_c3)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<5x3xf32>):
    mortise.yield %a : tensor<3xf32>
  } {carried = 1 : i64, trips = #mortise.dims<[5]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @state(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{step must yield the types of the state (tensor<3xf32>) first, and at least one, found () (scan_c4)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    mortise.yield
  } {carried = 1 : i64, trips = #mortise.dims<[5]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @scan_collective(%h: tensor<3xf32>, %x: tensor<5x3xf32>) -> tensor<3xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{step must not hold collectives, found mortise.rank (scan_c5)}}
  %0 = mortise.scan %h, %x step {
  ^bb0(%a: tensor<3xf32>, %b: tensor<3xf32>):
    %r = mortise.rank {rank_count = 2 : i64} : () -> tensor<i64>
    mortise.yield %a : tensor<3xf32>
  } {carried = 1 : i64, trips = #mortise.dims<[5]>} : (tensor<3xf32>, tensor<5x3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

func.func @outside(%p: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  // expected-note @+1 {{required by region isolation constraints}}
  %0 = mortise.if %p then {
    // expected-error @+1 {{'mortise.neg' op using value defined outside the region}}
    %n = mortise.neg %x : (tensor<3xf32>) -> tensor<3xf32>
    mortise.yield %n : tensor<3xf32>
  } else {
    %c = mortise.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
    mortise.yield %c : tensor<3xf32>
  } : (tensor<i1>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
