// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin uses of cuBLASLt, declared from its documentation (docs.nvidia.com/cuda/cublas, "Using the cuBLASLt
// API"), because the header comes only with libraries of several hundred megabytes. The numbers have been the same
// since version 11, and are those of the header of 13.10.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace mortise::cuda::cublaslt {

using Handle = void *;
using Description = void *; // cublasLtMatmulDesc_t
using Layout = void *;      // cublasLtMatrixLayout_t
using Preference = void *;  // cublasLtMatmulPreference_t
using Stream = void *;      // cudaStream_t, which is the driver's CUstream

enum Status : int {
  Success = 0,
  NotInitialized = 1,
  AllocFailed = 3,
  InvalidValue = 7,
  ArchMismatch = 8,
  MappingError = 11,
  ExecutionFailed = 13,
  InternalError = 14,
  NotSupported = 15,
  LicenseError = 16
};
enum DataType : int { R32F = 0, R64F = 1, R16F = 2, R16BF = 14 };                 // cudaDataType_t
enum Compute : int { Compute32F = 68, Compute64F = 70, Compute32FFastTf32 = 77 }; // cublasComputeType_t
enum Operation : int32_t { None = 0, Transpose = 1 };                             // cublasOperation_t
enum Epilogue : uint32_t { EpilogueDefault = 1, EpilogueBias = 4 };               // cublasLtEpilogue_t
enum DescriptionKey : int { TransA = 3, TransB = 4, EpilogueKind = 7, BiasPointer = 8 };
enum LayoutKey : int { BatchCount = 5, BatchStride = 6 }; // in elements
enum Reduction : uint32_t { ReduceInCompute = 2 };        // cublasLtReductionScheme_t
enum PreferenceKey : int {
  MaxWorkspace = 1,
  ReductionMask = 3,
  AlignmentA = 5,
  AlignmentB = 6,
  AlignmentC = 7,
  AlignmentD = 8
};

struct Algorithm { // opaque; may be copied
  uint64_t data[8];
  auto operator<=>(const Algorithm &) const = default;
};
struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  Status state;
  float waves;
  int reserved[4];
};
static_assert(sizeof(HeuristicResult) == 96);

// Matrices are stored column by column, and D = op(A) op(B) + beta C.
using CreateFn = Status (*)(Handle *);
using DescriptionCreateFn = Status (*)(Description *, Compute, DataType scale);
using DescriptionDestroyFn = Status (*)(Description);
using DescriptionSetFn = Status (*)(Description, DescriptionKey, const void *, size_t bytes);
using LayoutCreateFn = Status (*)(Layout *, DataType, uint64_t rows, uint64_t columns, int64_t stride);
using LayoutDestroyFn = Status (*)(Layout);
using LayoutSetFn = Status (*)(Layout, LayoutKey, const void *, size_t bytes);
using PreferenceCreateFn = Status (*)(Preference *);
using PreferenceDestroyFn = Status (*)(Preference);
using PreferenceSetFn = Status (*)(Preference, PreferenceKey, const void *, size_t bytes);
using HeuristicFn = Status (*)(Handle, Description, Layout a, Layout b, Layout c, Layout d, Preference, int wanted,
                               HeuristicResult *, int *found);
using MatmulFn = Status (*)(Handle, Description, const void *alpha, const void *a, Layout, const void *b, Layout,
                            const void *beta, const void *c, Layout, void *d, Layout, const Algorithm *,
                            void *workspace, size_t workspaceBytes, Stream);

} // namespace mortise::cuda::cublaslt
