// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s -split-input-file -verify-diagnostics

func.func @names(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{groups [0, 2] must name each rank from 0 to 1 once (collective_c1)}}
  %0 = mortise.all_reduce %x {reduction = "sum", groups = array<i64: 0, 2>, group_size = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @twice(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{groups [0, 0] must name each rank from 0 to 1 once (collective_c1)}}
  %0 = mortise.all_reduce %x {reduction = "sum", groups = array<i64: 0, 0>, group_size = 1 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @size(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{group_size 2 must divide the number of ranks, 3 (collective_c2)}}
  %0 = mortise.collective_broadcast %x {groups = array<i64: 0, 1, 2>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @gather_axis(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 2 is not a dimension of rank 2: expected 0 <= axis < 2 (all_gather_c1)}}
  %0 = mortise.all_gather %x {axis = 2 : i64, groups = array<i64: 0, 1>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @scatter_axis(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis -1 is not a dimension of rank 2: expected 0 <= axis < 2 (reduce_scatter_c1)}}
  %0 = mortise.reduce_scatter %x {reduction = "sum", axis = -1 : i64, groups = array<i64: 0, 1>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @scatter(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along axis (4) must be a multiple of group_size, 3, for all values of symbols (reduce_scatter_c2)}}
  %0 = mortise.reduce_scatter %x {reduction = "sum", axis = 0 : i64, groups = array<i64: 0, 1, 2>, group_size = 3 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @all_to_all_axis(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{axis 3 is not a dimension of rank 2: expected 0 <= axis < 2 (all_to_all_c1)}}
  %0 = mortise.all_to_all %x {split_axis = 0 : i64, concat_axis = 3 : i64, groups = array<i64: 0, 1>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @all_to_all(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{the extent along split_axis (4) must be a multiple of group_size, 3, for all values of symbols (all_to_all_c2)}}
  %0 = mortise.all_to_all %x {split_axis = 0 : i64, concat_axis = 1 : i64, groups = array<i64: 0, 1, 2>, group_size = 3 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @permute(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{pairs [0, 1, 2, 1] must be sources and targets in turn, each from 0 to 2, none twice as source or twice as target (collective_permute_c1)}}
  %0 = mortise.collective_permute %x {pairs = array<i64: 0, 1, 2, 1>, rank_count = 3 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @reduction(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @+1 {{attribute 'reduction' failed to satisfy constraint: string attribute that is one of: sum, prod, max, min}}
  %0 = mortise.all_reduce %x {reduction = "mean", groups = array<i64: 0, 1>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

func.func @rank() -> tensor<i64> {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{rank_count must be at least 1, found 0 (rank_c1)}}
  %0 = mortise.rank {rank_count = 0 : i64} : () -> tensor<i64>
  return %0 : tensor<i64>
}
