// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: mortise-opt %s | FileCheck %s
// RUN: mortise-opt %s | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --mlir-print-op-generic | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --emit-bytecode | mortise-opt | FileCheck %s
// RUN: mortise-opt %s --test-portable-round-trip | FileCheck %s
// RUN: mortise-opt %s --test-decompose=once -cse | FileCheck %s --check-prefix=PARTS

#symbols = #mortise.symbols<t in [1, *], s in [1, *], n in [1, 64]>
!q = tensor<?x8x16xbf16, #mortise.dims<#symbols, [t, 8, 16]>>
!k = tensor<?x2x16xbf16, #mortise.dims<#symbols, [s, 2, 16]>>
!v = tensor<?x2x32xbf16, #mortise.dims<#symbols, [s, 2, 32]>>
!o = tensor<?xi64, #mortise.dims<#symbols, [n + 1]>>
!r = tensor<?x8x32xbf16, #mortise.dims<#symbols, [t, 8, 32]>>

// CHECK-LABEL: func.func @ragged
// PARTS-LABEL: func.func @ragged
func.func @ragged(%q: !q, %k: !k, %v: !v, %qo: !o, %ko: !o) -> !r {
  // CHECK: mortise.ragged_attention %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {causal = true, scale = 2.500000e-01 : f64}
  // Each row's sequence is the number of offsets at most the row.
  // PARTS: %[[BEGUN:.*]] = mortise.compare %{{.*}}, %{{.*}} {direction = "le"} : {{.*}}#t_np1>
  // PARTS: mortise.reduce_sum
  // PARTS: mortise.take %arg3
  // PARTS: mortise.compare {{.*}} {direction = "lt"}
  // PARTS: mortise.take %arg4
  // PARTS: mortise.compare {{.*}} {direction = "eq"} : {{.*}}#t_s>
  // PARTS: mortise.compare {{.*}} {direction = "ge"} : {{.*}}#t_s>
  // PARTS: %[[M:.*]] = mortise.reshape {{.*}}#_1_1_t_s>
  // PARTS: mortise.attention %{{.*}}, %{{.*}}, %{{.*}}, %[[M]] {causal = false, scale = 2.500000e-01 : f64} : {{.*}}#_1_8_t_16>
  // PARTS: mortise.transpose {{.*}} {permutation = array<i64: 1, 0, 2>} : {{.*}}#_8_t_32>
  %0 = mortise.ragged_attention %q, %k, %v, %qo, %ko {scale = 0.25 : f64, causal = true} : (!q, !k, !v, !o, !o) -> !r
  return %0 : !r
}
