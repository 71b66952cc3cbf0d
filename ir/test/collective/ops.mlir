// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s

// CHECK-LABEL: func.func @collectives
func.func @collectives(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x12xf32>, tensor<2x6xf32>, tensor<2x12xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<i64>) {
  // CHECK: mortise.all_reduce %{{.*}} {group_size = 2 : i64, groups = array<i64: 0, 1, 2, 3>, reduction = "sum"} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %0 = mortise.all_reduce %x {reduction = "sum", groups = array<i64: 0, 1, 2, 3>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: mortise.all_gather %{{.*}} {axis = 1 : i64, group_size = 2 : i64, groups = array<i64: 0, 2, 1, 3>} : (tensor<4x6xf32>) -> tensor<4x12xf32>
  %1 = mortise.all_gather %x {axis = 1 : i64, groups = array<i64: 0, 2, 1, 3>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<4x12xf32>
  // CHECK: mortise.reduce_scatter %{{.*}} {axis = 0 : i64, group_size = 2 : i64, groups = array<i64: 0, 1, 2, 3>, reduction = "max"} : (tensor<4x6xf32>) -> tensor<2x6xf32>
  %2 = mortise.reduce_scatter %x {reduction = "max", axis = 0 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<2x6xf32>
  // CHECK: mortise.all_to_all %{{.*}} {concat_axis = 1 : i64, group_size = 2 : i64, groups = array<i64: 0, 1, 2, 3>, split_axis = 0 : i64} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  %3 = mortise.all_to_all %x {split_axis = 0 : i64, concat_axis = 1 : i64, groups = array<i64: 0, 1, 2, 3>, group_size = 2 : i64} : (tensor<4x6xf32>) -> tensor<2x12xf32>
  // CHECK: mortise.collective_broadcast %{{.*}} {group_size = 4 : i64, groups = array<i64: 2, 0, 1, 3>} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %4 = mortise.collective_broadcast %x {groups = array<i64: 2, 0, 1, 3>, group_size = 4 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: mortise.collective_permute %{{.*}} {pairs = array<i64: 0, 1, 1, 2>, rank_count = 4 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %5 = mortise.collective_permute %x {pairs = array<i64: 0, 1, 1, 2>, rank_count = 4 : i64} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  // CHECK: mortise.rank {rank_count = 4 : i64} : () -> tensor<i64>
  %6 = mortise.rank {rank_count = 4 : i64} : () -> tensor<i64>
  return %0, %1, %2, %3, %4, %5, %6 : tensor<4x6xf32>, tensor<4x12xf32>, tensor<2x6xf32>, tensor<2x12xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<i64>
}
