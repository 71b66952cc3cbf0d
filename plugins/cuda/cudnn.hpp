// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the plugin uses of cuDNN's backend API, declared from its documentation (docs.nvidia.com/deeplearning/cudnn,
// "Backend API"), because the header comes only with libraries of several hundred megabytes. The numbers are those of
// the header of 9.28, where the documentation says "since 9.0.0" unless a comment names another version.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mortise::cuda::cudnn {

using Handle = void *;
using Descriptor = void *; // cudnnBackendDescriptor_t
using Stream = void *;     // cudaStream_t, which is the driver's CUstream

enum Status : int { // thousands are categories
  Success = 0,
  NotInitialized = 1001,
  SublibraryVersionMismatch = 1002,
  SublibraryLoadingFailed = 1008,
  BadParam = 2000,
  NotSupported = 3000,
  InternalError = 4000,
  DeviceAllocationFailed = 4004,
  ExecutionFailed = 5000
};
inline constexpr int categorySize = 1000;

enum DataType : int { Float = 0, Half = 2, BFloat16 = 9 };          // cudnnDataType_t
enum ConvolutionMode : int { CrossCorrelation = 1 };                // cudnnConvolutionMode_t
enum PointwiseMode : int { Add = 0, Multiply = 1, Relu = 100 };     // cudnnPointwiseMode_t
enum NanPropagation : int { PropagateNan = 1 };                     // cudnnNanPropagation_t
enum HeuristicMode : int { HeuristicFallback = 2, HeuristicA = 3 }; // cudnnBackendHeurMode_t

enum NumericalNote : int { // cudnnBackendNumericalNote_t
  NoteTensorCore = 0,
  NoteDownConvertInputs = 1,
  NoteReducedPrecisionReduction = 2,
  NoteFft = 3,
  NoteNondeterministic = 4,
  NoteWinograd = 5,
  NoteWinograd4x4 = 6,
  NoteWinograd6x6 = 7,
  NoteWinograd13x13 = 8,
  NoteStrictNan = 9
};
enum BehaviorNote : int { // cudnnBackendBehaviorNote_t
  NoteRuntimeCompilation = 0
};

enum AttributeType : int { // cudnnBackendAttributeType_t
  TypeHandle = 0,
  TypeDataType = 1,
  TypeBoolean = 2,
  TypeInt64 = 3,
  TypeFloat = 4,
  TypeVoidPointer = 6,
  TypeConvolutionMode = 7,
  TypeHeuristicMode = 8,
  TypeNanPropagation = 10,
  TypeNumericalNote = 11,
  TypePointwiseMode = 14,
  TypeDescriptor = 15,
  TypeBehaviorNote = 19
};

enum DescriptorType : int { // cudnnBackendDescriptorType_t
  PointwiseDescriptor = 0,
  ConvolutionDescriptor = 1,
  EngineDescriptor = 2,
  EngineConfigDescriptor = 3,
  HeuristicDescriptor = 4,
  ExecutionPlanDescriptor = 5,
  ConvolutionForwardDescriptor = 10,
  OperationPointwiseDescriptor = 13,
  OperationGraphDescriptor = 15,
  VariantPackDescriptor = 16,
  TensorDescriptor = 17
};

enum Attribute : int { // cudnnBackendAttributeName_t
  PointwiseModeKey = 0,
  PointwiseMathPrecision = 1,
  PointwiseNanPropagation = 2,
  ConvolutionComputeType = 100,
  ConvolutionModeKey = 101,
  ConvolutionDilations = 102,
  ConvolutionStrides = 103,
  ConvolutionPostPaddings = 104,
  ConvolutionPrePaddings = 105,
  ConvolutionSpatialDims = 106,
  HeuristicModeKey = 200,
  HeuristicGraph = 201,
  HeuristicResults = 202,
  ConfigEngine = 300,
  PlanHandle = 400,
  PlanConfig = 401,
  PlanWorkspaceBytes = 402,
  ForwardAlpha = 700,
  ForwardBeta = 701,
  ForwardConvolution = 702,
  ForwardWeight = 703,
  ForwardX = 704,
  ForwardResult = 705,
  PointwiseOperation = 750,
  PointwiseX = 751,
  PointwiseOther = 752,
  PointwiseResult = 753,
  GraphHandle = 800,
  GraphOperations = 801,
  TensorAlignment = 900,
  TensorDataType = 901,
  TensorDimensions = 902,
  TensorStrides = 903,
  TensorId = 906,
  TensorIsVirtual = 907,
  PackIds = 1000,
  PackPointers = 1001,
  PackWorkspace = 1003,
  EngineNumericalNotes = 1303,
  EngineBehaviorNotes = 1305
};

using CreateFn = Status (*)(Handle *);
using SetStreamFn = Status (*)(Handle, Stream);
using LastErrorFn = void (*)(char *message, size_t bytes);
using DescriptorCreateFn = Status (*)(DescriptorType, Descriptor *);
using DescriptorDestroyFn = Status (*)(Descriptor);
using FinalizeFn = Status (*)(Descriptor);
using SetAttributeFn = Status (*)(Descriptor, Attribute, AttributeType, int64_t count, const void *elements);
// `elements`: room for `wanted`; descriptors among them were made before, and are filled.
using GetAttributeFn = Status (*)(Descriptor, Attribute, AttributeType, int64_t wanted, int64_t *count, void *elements);
using ExecuteFn = Status (*)(Handle, Descriptor plan, Descriptor variantPack);

} // namespace mortise::cuda::cudnn
