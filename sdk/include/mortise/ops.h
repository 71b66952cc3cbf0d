/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * Every op of the dialect: its number, traits, operands, results and attributes. Made from the .td files in ir/families by
 * ./dev docs; do not edit. C11; no library behind it. mortise/ops.hpp is the same for C++20.
 *
 * Numbers belong to one version of the SDK: they never cross the ABI and never stand in a file, where an op has its name.
 * They are ordered by opset, so that an op of a later opset comes after all others.
 */
#ifndef MORTISE_OPS_H
#define MORTISE_OPS_H

#include <mortise/dtypes.h>

#include <string.h>

/* X(NAME, Name, name): MORTISE_OP_NAME, mortise::Op::Name, "mortise.name". */
#define MORTISE_FOR_EACH_OP(X) \
  X(ABS, Abs, abs) \
  X(ADD, Add, add) \
  X(AND, And, and) \
  X(ARGMAX, Argmax, argmax) \
  X(ATAN2, Atan2, atan2) \
  X(ATTENTION, Attention, attention) \
  X(BATCH_NORM, BatchNorm, batch_norm) \
  X(BROADCAST, Broadcast, broadcast) \
  X(CEIL, Ceil, ceil) \
  X(COMPARE, Compare, compare) \
  X(CONCATENATE, Concatenate, concatenate) \
  X(CONSTANT, Constant, constant) \
  X(CONVERT, Convert, convert) \
  X(CONVOLUTION, Convolution, convolution) \
  X(COS, Cos, cos) \
  X(CUMSUM, Cumsum, cumsum) \
  X(DIV, Div, div) \
  X(DOT, Dot, dot) \
  X(EMBEDDING, Embedding, embedding) \
  X(ERF, Erf, erf) \
  X(ERFC, Erfc, erfc) \
  X(EXP, Exp, exp) \
  X(EXPM1, Expm1, expm1) \
  X(FLOOR, Floor, floor) \
  X(GELU, Gelu, gelu) \
  X(GROUP_NORM, GroupNorm, group_norm) \
  X(IOTA, Iota, iota) \
  X(LAYER_NORM, LayerNorm, layer_norm) \
  X(LINEAR, Linear, linear) \
  X(LOG, Log, log) \
  X(LOG1P, Log1p, log1p) \
  X(LOG_SOFTMAX, LogSoftmax, log_softmax) \
  X(LOGISTIC, Logistic, logistic) \
  X(MAX, Max, max) \
  X(MAX_POOL, MaxPool, max_pool) \
  X(MEAN, Mean, mean) \
  X(MIN, Min, min) \
  X(MUL, Mul, mul) \
  X(NEG, Neg, neg) \
  X(NOT, Not, not) \
  X(OR, Or, or) \
  X(PAD, Pad, pad) \
  X(POW, Pow, pow) \
  X(PUT, Put, put) \
  X(REDUCE_MAX, ReduceMax, reduce_max) \
  X(REDUCE_MIN, ReduceMin, reduce_min) \
  X(REDUCE_PROD, ReduceProd, reduce_prod) \
  X(REDUCE_SUM, ReduceSum, reduce_sum) \
  X(RELU, Relu, relu) \
  X(REM, Rem, rem) \
  X(RESHAPE, Reshape, reshape) \
  X(REVERSE, Reverse, reverse) \
  X(RMS_NORM, RmsNorm, rms_norm) \
  X(ROUND, Round, round) \
  X(RSQRT, Rsqrt, rsqrt) \
  X(SELECT, Select, select) \
  X(SIGN, Sign, sign) \
  X(SILU, Silu, silu) \
  X(SIN, Sin, sin) \
  X(SLICE, Slice, slice) \
  X(SOFTMAX, Softmax, softmax) \
  X(SQRT, Sqrt, sqrt) \
  X(SUB, Sub, sub) \
  X(SUM_POOL, SumPool, sum_pool) \
  X(TAKE, Take, take) \
  X(TAKE_ALONG, TakeAlong, take_along) \
  X(TAKE_ND, TakeNd, take_nd) \
  X(TANH, Tanh, tanh) \
  X(TRANSPOSE, Transpose, transpose) \
  X(XOR, Xor, xor) \
  X(ACOS, Acos, acos) \
  X(ACOSH, Acosh, acosh) \
  X(ALL_GATHER, AllGather, all_gather) \
  X(ALL_REDUCE, AllReduce, all_reduce) \
  X(ALL_TO_ALL, AllToAll, all_to_all) \
  X(ARGMIN, Argmin, argmin) \
  X(ASIN, Asin, asin) \
  X(ASINH, Asinh, asinh) \
  X(ATAN, Atan, atan) \
  X(ATANH, Atanh, atanh) \
  X(BERNOULLI, Bernoulli, bernoulli) \
  X(COLLECTIVE_BROADCAST, CollectiveBroadcast, collective_broadcast) \
  X(COLLECTIVE_PERMUTE, CollectivePermute, collective_permute) \
  X(COSH, Cosh, cosh) \
  X(CROSS_ENTROPY, CrossEntropy, cross_entropy) \
  X(CUMLOGSUMEXP, Cumlogsumexp, cumlogsumexp) \
  X(CUMMAX, Cummax, cummax) \
  X(CUMMIN, Cummin, cummin) \
  X(CUMPROD, Cumprod, cumprod) \
  X(DEQUANTIZE, Dequantize, dequantize) \
  X(DROPOUT, Dropout, dropout) \
  X(DYNAMIC_QUANTIZE, DynamicQuantize, dynamic_quantize) \
  X(EXP2, Exp2, exp2) \
  X(EXTENTS, Extents, extents) \
  X(FUSED_CONVOLUTION, FusedConvolution, fused_convolution) \
  X(IF, If, if) \
  X(LOG10, Log10, log10) \
  X(LOG2, Log2, log2) \
  X(NORMAL, Normal, normal) \
  X(QUANTIZE, Quantize, quantize) \
  X(QUANTIZED_LINEAR, QuantizedLinear, quantized_linear) \
  X(RAGGED_ATTENTION, RaggedAttention, ragged_attention) \
  X(RANDOM_BITS, RandomBits, random_bits) \
  X(RANDOM_PERMUTATION, RandomPermutation, random_permutation) \
  X(RANK, Rank, rank) \
  X(REDUCE_SCATTER, ReduceScatter, reduce_scatter) \
  X(ROPE, Rope, rope) \
  X(SCAN, Scan, scan) \
  X(SCATTER_ALONG, ScatterAlong, scatter_along) \
  X(SCATTER_ND, ScatterNd, scatter_nd) \
  X(SEARCHSORTED, Searchsorted, searchsorted) \
  X(SHIFT_LEFT, ShiftLeft, shift_left) \
  X(SHIFT_RIGHT, ShiftRight, shift_right) \
  X(SINH, Sinh, sinh) \
  X(SORT, Sort, sort) \
  X(SWIGLU, Swiglu, swiglu) \
  X(TAN, Tan, tan) \
  X(TOP_K, TopK, top_k) \
  X(UNIFORM, Uniform, uniform) \
  X(WHILE, While, while) \
  X(ATTENTION_FORWARD, AttentionForward, attention_forward) \
  X(ATTENTION_GRADIENT, AttentionGradient, attention_gradient) \
  X(COPYSIGN, Copysign, copysign)

/* X(NAME, Name): MORTISE_TRAIT_NAME, mortise::Trait::Name. */
#define MORTISE_FOR_EACH_TRAIT(X) \
  X(COMPOSITE, Composite) \
  X(ELEMENTWISE, Elementwise) \
  X(CREATION, Creation) \
  X(MOVEMENT, Movement) \
  X(VIEW, View) \
  X(INDEXING, Indexing) \
  X(CONTRACTION, Contraction) \
  X(WINDOW, Window) \
  X(REDUCTION, Reduction) \
  X(RUNNING, Running) \
  X(SORT, Sort) \
  X(NORMALISATION, Normalisation) \
  X(RANDOM, Random) \
  X(QUANTISATION, Quantisation) \
  X(CONTROL_FLOW, ControlFlow) \
  X(COLLECTIVE, Collective)

#ifdef __cplusplus
extern "C" {
#endif

typedef enum MortiseOp {
  MORTISE_OP_UNKNOWN = 0,
  MORTISE_OP_ABS = 1,
  MORTISE_OP_ADD = 2,
  MORTISE_OP_AND = 3,
  MORTISE_OP_ARGMAX = 4,
  MORTISE_OP_ATAN2 = 5,
  MORTISE_OP_ATTENTION = 6,
  MORTISE_OP_BATCH_NORM = 7,
  MORTISE_OP_BROADCAST = 8,
  MORTISE_OP_CEIL = 9,
  MORTISE_OP_COMPARE = 10,
  MORTISE_OP_CONCATENATE = 11,
  MORTISE_OP_CONSTANT = 12,
  MORTISE_OP_CONVERT = 13,
  MORTISE_OP_CONVOLUTION = 14,
  MORTISE_OP_COS = 15,
  MORTISE_OP_CUMSUM = 16,
  MORTISE_OP_DIV = 17,
  MORTISE_OP_DOT = 18,
  MORTISE_OP_EMBEDDING = 19,
  MORTISE_OP_ERF = 20,
  MORTISE_OP_ERFC = 21,
  MORTISE_OP_EXP = 22,
  MORTISE_OP_EXPM1 = 23,
  MORTISE_OP_FLOOR = 24,
  MORTISE_OP_GELU = 25,
  MORTISE_OP_GROUP_NORM = 26,
  MORTISE_OP_IOTA = 27,
  MORTISE_OP_LAYER_NORM = 28,
  MORTISE_OP_LINEAR = 29,
  MORTISE_OP_LOG = 30,
  MORTISE_OP_LOG1P = 31,
  MORTISE_OP_LOG_SOFTMAX = 32,
  MORTISE_OP_LOGISTIC = 33,
  MORTISE_OP_MAX = 34,
  MORTISE_OP_MAX_POOL = 35,
  MORTISE_OP_MEAN = 36,
  MORTISE_OP_MIN = 37,
  MORTISE_OP_MUL = 38,
  MORTISE_OP_NEG = 39,
  MORTISE_OP_NOT = 40,
  MORTISE_OP_OR = 41,
  MORTISE_OP_PAD = 42,
  MORTISE_OP_POW = 43,
  MORTISE_OP_PUT = 44,
  MORTISE_OP_REDUCE_MAX = 45,
  MORTISE_OP_REDUCE_MIN = 46,
  MORTISE_OP_REDUCE_PROD = 47,
  MORTISE_OP_REDUCE_SUM = 48,
  MORTISE_OP_RELU = 49,
  MORTISE_OP_REM = 50,
  MORTISE_OP_RESHAPE = 51,
  MORTISE_OP_REVERSE = 52,
  MORTISE_OP_RMS_NORM = 53,
  MORTISE_OP_ROUND = 54,
  MORTISE_OP_RSQRT = 55,
  MORTISE_OP_SELECT = 56,
  MORTISE_OP_SIGN = 57,
  MORTISE_OP_SILU = 58,
  MORTISE_OP_SIN = 59,
  MORTISE_OP_SLICE = 60,
  MORTISE_OP_SOFTMAX = 61,
  MORTISE_OP_SQRT = 62,
  MORTISE_OP_SUB = 63,
  MORTISE_OP_SUM_POOL = 64,
  MORTISE_OP_TAKE = 65,
  MORTISE_OP_TAKE_ALONG = 66,
  MORTISE_OP_TAKE_ND = 67,
  MORTISE_OP_TANH = 68,
  MORTISE_OP_TRANSPOSE = 69,
  MORTISE_OP_XOR = 70,
  MORTISE_OP_ACOS = 71,
  MORTISE_OP_ACOSH = 72,
  MORTISE_OP_ALL_GATHER = 73,
  MORTISE_OP_ALL_REDUCE = 74,
  MORTISE_OP_ALL_TO_ALL = 75,
  MORTISE_OP_ARGMIN = 76,
  MORTISE_OP_ASIN = 77,
  MORTISE_OP_ASINH = 78,
  MORTISE_OP_ATAN = 79,
  MORTISE_OP_ATANH = 80,
  MORTISE_OP_BERNOULLI = 81,
  MORTISE_OP_COLLECTIVE_BROADCAST = 82,
  MORTISE_OP_COLLECTIVE_PERMUTE = 83,
  MORTISE_OP_COSH = 84,
  MORTISE_OP_CROSS_ENTROPY = 85,
  MORTISE_OP_CUMLOGSUMEXP = 86,
  MORTISE_OP_CUMMAX = 87,
  MORTISE_OP_CUMMIN = 88,
  MORTISE_OP_CUMPROD = 89,
  MORTISE_OP_DEQUANTIZE = 90,
  MORTISE_OP_DROPOUT = 91,
  MORTISE_OP_DYNAMIC_QUANTIZE = 92,
  MORTISE_OP_EXP2 = 93,
  MORTISE_OP_EXTENTS = 94,
  MORTISE_OP_FUSED_CONVOLUTION = 95,
  MORTISE_OP_IF = 96,
  MORTISE_OP_LOG10 = 97,
  MORTISE_OP_LOG2 = 98,
  MORTISE_OP_NORMAL = 99,
  MORTISE_OP_QUANTIZE = 100,
  MORTISE_OP_QUANTIZED_LINEAR = 101,
  MORTISE_OP_RAGGED_ATTENTION = 102,
  MORTISE_OP_RANDOM_BITS = 103,
  MORTISE_OP_RANDOM_PERMUTATION = 104,
  MORTISE_OP_RANK = 105,
  MORTISE_OP_REDUCE_SCATTER = 106,
  MORTISE_OP_ROPE = 107,
  MORTISE_OP_SCAN = 108,
  MORTISE_OP_SCATTER_ALONG = 109,
  MORTISE_OP_SCATTER_ND = 110,
  MORTISE_OP_SEARCHSORTED = 111,
  MORTISE_OP_SHIFT_LEFT = 112,
  MORTISE_OP_SHIFT_RIGHT = 113,
  MORTISE_OP_SINH = 114,
  MORTISE_OP_SORT = 115,
  MORTISE_OP_SWIGLU = 116,
  MORTISE_OP_TAN = 117,
  MORTISE_OP_TOP_K = 118,
  MORTISE_OP_UNIFORM = 119,
  MORTISE_OP_WHILE = 120,
  MORTISE_OP_ATTENTION_FORWARD = 121,
  MORTISE_OP_ATTENTION_GRADIENT = 122,
  MORTISE_OP_COPYSIGN = 123,
  MORTISE_OP_COUNT = 124 /* numbers are below it */
} MortiseOp;

typedef enum MortiseTrait {
  MORTISE_TRAIT_COMPOSITE = 1 << 0, /* has a decomposition into other ops */
  MORTISE_TRAIT_ELEMENTWISE = 1 << 1, /* each result element depends on the operands' elements at its own position only */
  MORTISE_TRAIT_CREATION = 1 << 2, /* has no operands: attributes alone say what the result holds */
  MORTISE_TRAIT_MOVEMENT = 1 << 3, /* moves or repeats elements; positions follow from attributes and shapes */
  MORTISE_TRAIT_VIEW = 1 << 4, /* where strides allow it, the result is the operand's memory under other extents, strides and offset */
  MORTISE_TRAIT_INDEXING = 1 << 5, /* reads or writes at positions that an operand holds, or finds such positions */
  MORTISE_TRAIT_CONTRACTION = 1 << 6, /* sums products of two operands' elements: matrix products, convolutions, attention */
  MORTISE_TRAIT_WINDOW = 1 << 7, /* slides a window over the spatial dimensions */
  MORTISE_TRAIT_REDUCTION = 1 << 8, /* many elements become one; their axes disappear */
  MORTISE_TRAIT_RUNNING = 1 << 9, /* a result element depends on all elements up to its own position along one axis */
  MORTISE_TRAIT_SORT = 1 << 10, /* orders the elements along one axis */
  MORTISE_TRAIT_NORMALISATION = 1 << 11, /* reduces rows or groups, and computes each result element from its own row or group */
  MORTISE_TRAIT_RANDOM = 1 << 12, /* a function of a key and an offset that looks random */
  MORTISE_TRAIT_QUANTISATION = 1 << 13, /* converts between numbers and their quantised form, or computes on the latter */
  MORTISE_TRAIT_CONTROL_FLOW = 1 << 14, /* runs its bodies: graphs of their own */
  MORTISE_TRAIT_COLLECTIVE = 1 << 15, /* exchanges data between ranks, or depends on the rank */
} MortiseTrait;

typedef enum MortiseArity { MORTISE_ARITY_ONE = 0, MORTISE_ARITY_OPTIONAL = 1, MORTISE_ARITY_VARIADIC = 2 } MortiseArity;

/* An operand or a result. */
typedef struct MortiseSlotInfo {
  const char *name;
  uint32_t dtypes; /* bit n: the element type may be the MortiseDType n */
  int32_t arity;   /* MortiseArity */
} MortiseSlotInfo;

typedef struct MortiseAttributeInfo {
  const char *name;
  int32_t kind;              /* MortiseAttributeKind */
  int32_t symbolic;          /* 1: entries may be expressions over symbols */
  const char *const *values; /* the strings that it may be; NULL: any */
  size_t value_count;
  const char *implied;       /* what a missing one means, as text; NULL: it has to be there */
} MortiseAttributeInfo;

typedef struct MortiseOpInfo {
  int32_t op;       /* MortiseOp */
  uint32_t since;   /* the opset that introduced it */
  uint32_t traits;  /* bits of MortiseTrait */
  int32_t bodies;   /* how many graphs it runs; -1: any number */
  const char *name; /* "mortise.add" */
  const MortiseSlotInfo *operands;
  size_t operand_count;
  const MortiseSlotInfo *results;
  size_t result_count;
  const MortiseAttributeInfo *attributes; /* sorted by name */
  size_t attribute_count;
} MortiseOpInfo;

/* NULL for a number that is none. */
MORTISE_TABLE_FUNCTION const MortiseOpInfo *mortise_op_info(int32_t op) {
  static const char *const values[] = {
      "eq",
      "ne",
      "lt",
      "le",
      "gt",
      "ge",
      "none",
      "tanh",
      "set",
      "add",
      "sum",
      "prod",
      "max",
      "min",
      "none",
      "mean",
      "sum",
      "none",
      "relu",
      "silu",
      "gelu",
      "gelu_tanh",
      "set",
      "add",
      "mul",
      "max",
      "min",
  };
  static const MortiseSlotInfo slots[] = {
      {"operand", 0x5ffe, MORTISE_ARITY_ONE},
      {"result", 0x5ffe, MORTISE_ARITY_ONE},
      {"lhs", 0x7ffe, MORTISE_ARITY_ONE},
      {"rhs", 0x7ffe, MORTISE_ARITY_ONE},
      {"result", 0x7ffe, MORTISE_ARITY_ONE},
      {"lhs", 0x7f80, MORTISE_ARITY_ONE},
      {"rhs", 0x7f80, MORTISE_ARITY_ONE},
      {"result", 0x7f80, MORTISE_ARITY_ONE},
      {"result", 0x80, MORTISE_ARITY_ONE},
      {"lhs", 0x7e, MORTISE_ARITY_ONE},
      {"rhs", 0x7e, MORTISE_ARITY_ONE},
      {"result", 0x7e, MORTISE_ARITY_ONE},
      {"q", 0x7e, MORTISE_ARITY_ONE},
      {"k", 0x7e, MORTISE_ARITY_ONE},
      {"v", 0x7e, MORTISE_ARITY_ONE},
      {"mask", 0x7ffe, MORTISE_ARITY_OPTIONAL},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"scale", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"bias", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"mean", 0x7e, MORTISE_ARITY_ONE},
      {"variance", 0x7e, MORTISE_ARITY_ONE},
      {"operand", 0x7ffe, MORTISE_ARITY_ONE},
      {"operand", 0x7e, MORTISE_ARITY_ONE},
      {"result", 0x2000, MORTISE_ARITY_ONE},
      {"operands", 0x7ffe, MORTISE_ARITY_VARIADIC},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"weight", 0x7e, MORTISE_ARITY_ONE},
      {"lhs", 0x5ffe, MORTISE_ARITY_ONE},
      {"rhs", 0x5ffe, MORTISE_ARITY_ONE},
      {"table", 0x7ffe, MORTISE_ARITY_ONE},
      {"indices", 0x180, MORTISE_ARITY_ONE},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"weight", 0x7e, MORTISE_ARITY_ONE},
      {"bias", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"x", 0x5ffe, MORTISE_ARITY_ONE},
      {"operand", 0x7f80, MORTISE_ARITY_ONE},
      {"operand", 0x7ffe, MORTISE_ARITY_ONE},
      {"value", 0x7ffe, MORTISE_ARITY_ONE},
      {"operand", 0x7ffe, MORTISE_ARITY_ONE},
      {"indices", 0x180, MORTISE_ARITY_ONE},
      {"updates", 0x7ffe, MORTISE_ARITY_ONE},
      {"predicate", 0x2000, MORTISE_ARITY_ONE},
      {"on_true", 0x7ffe, MORTISE_ARITY_ONE},
      {"on_false", 0x7ffe, MORTISE_ARITY_ONE},
      {"x", 0x7ffe, MORTISE_ARITY_ONE},
      {"p", 0x7e, MORTISE_ARITY_ONE},
      {"key", 0x80, MORTISE_ARITY_ONE},
      {"offset", 0x80, MORTISE_ARITY_ONE},
      {"logits", 0x7e, MORTISE_ARITY_ONE},
      {"targets", 0x180, MORTISE_ARITY_ONE},
      {"values", 0x7ffe, MORTISE_ARITY_ONE},
      {"indices", 0x80, MORTISE_ARITY_ONE},
      {"q", 0x1c60, MORTISE_ARITY_ONE},
      {"scale", 0x7e, MORTISE_ARITY_ONE},
      {"zero_point", 0x1d00, MORTISE_ARITY_OPTIONAL},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"key", 0x80, MORTISE_ARITY_ONE},
      {"offset", 0x80, MORTISE_ARITY_ONE},
      {"result", 0x7e, MORTISE_ARITY_ONE},
      {"kept", 0x2000, MORTISE_ARITY_ONE},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"weight", 0x7e, MORTISE_ARITY_ONE},
      {"scale", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"bias", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"predicate", 0x2000, MORTISE_ARITY_ONE},
      {"inputs", 0x7ffe, MORTISE_ARITY_VARIADIC},
      {"outputs", 0x7ffe, MORTISE_ARITY_VARIADIC},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"scale", 0x7e, MORTISE_ARITY_ONE},
      {"zero_point", 0x1d00, MORTISE_ARITY_OPTIONAL},
      {"result", 0x1c60, MORTISE_ARITY_ONE},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"weight", 0x1c60, MORTISE_ARITY_ONE},
      {"scale", 0x7e, MORTISE_ARITY_ONE},
      {"zero_point", 0x1d00, MORTISE_ARITY_OPTIONAL},
      {"bias", 0x7e, MORTISE_ARITY_OPTIONAL},
      {"q", 0x7e, MORTISE_ARITY_ONE},
      {"k", 0x7e, MORTISE_ARITY_ONE},
      {"v", 0x7e, MORTISE_ARITY_ONE},
      {"q_offsets", 0x80, MORTISE_ARITY_ONE},
      {"k_offsets", 0x80, MORTISE_ARITY_ONE},
      {"result", 0x1780, MORTISE_ARITY_ONE},
      {"x", 0x7e, MORTISE_ARITY_ONE},
      {"cos", 0x7e, MORTISE_ARITY_ONE},
      {"sin", 0x7e, MORTISE_ARITY_ONE},
      {"sequence", 0x5ffe, MORTISE_ARITY_ONE},
      {"values", 0x5ffe, MORTISE_ARITY_ONE},
      {"gate", 0x7e, MORTISE_ARITY_ONE},
      {"up", 0x7e, MORTISE_ARITY_ONE},
      {"result", 0x7e, MORTISE_ARITY_ONE},
      {"log_sums", 0x7e, MORTISE_ARITY_ONE},
      {"q", 0x7e, MORTISE_ARITY_ONE},
      {"k", 0x7e, MORTISE_ARITY_ONE},
      {"v", 0x7e, MORTISE_ARITY_ONE},
      {"result", 0x7e, MORTISE_ARITY_ONE},
      {"log_sums", 0x7e, MORTISE_ARITY_ONE},
      {"gradient", 0x7e, MORTISE_ARITY_ONE},
      {"mask", 0x7ffe, MORTISE_ARITY_OPTIONAL},
      {"q_gradient", 0x7e, MORTISE_ARITY_ONE},
      {"k_gradient", 0x7e, MORTISE_ARITY_ONE},
      {"v_gradient", 0x7e, MORTISE_ARITY_ONE},
  };
  static const MortiseAttributeInfo attributes[] = {
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"causal", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"scale", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"epsilon", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"axes", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"shape", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"direction", MORTISE_ATTRIBUTE_STRING, 0, &values[0], 6, NULL},
      {"value", MORTISE_ATTRIBUTE_TENSOR, 0, NULL, 0, NULL},
      {"dtype", MORTISE_ATTRIBUTE_STRING, 0, NULL, 0, NULL},
      {"dilations", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"high", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"low", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"strides", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"lhs_batch", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"lhs_contract", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"rhs_batch", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"rhs_contract", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"approximate", MORTISE_ATTRIBUTE_STRING, 0, &values[6], 2, NULL},
      {"epsilon", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"dtype", MORTISE_ATTRIBUTE_STRING, 0, NULL, 0, NULL},
      {"shape", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"epsilon", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"weight_transposed", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"dilations", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"high", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"low", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"strides", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"window", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"high", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"interior", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"low", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"mode", MORTISE_ATTRIBUTE_STRING, 0, &values[8], 2, NULL},
      {"limits", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"starts", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"strides", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"permutation", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"group_size", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"group_size", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"reduction", MORTISE_ATTRIBUTE_STRING, 0, &values[10], 4, NULL},
      {"concat_axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"group_size", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"split_axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"pairs", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"rank_count", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"ignore_index", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"label_smoothing", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"reduction", MORTISE_ATTRIBUTE_STRING, 0, &values[14], 3, NULL},
      {"p", MORTISE_ATTRIBUTE_F64, 0, NULL, 0, NULL},
      {"activation", MORTISE_ATTRIBUTE_STRING, 0, &values[17], 5, NULL},
      {"dilations", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"high", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"low", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"strides", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"group_size", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"groups", MORTISE_ATTRIBUTE_I64_ARRAY, 0, NULL, 0, NULL},
      {"reduction", MORTISE_ATTRIBUTE_STRING, 0, &values[10], 4, NULL},
      {"interleaved", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"carried", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"trips", MORTISE_ATTRIBUTE_I64_ARRAY, 1, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"mode", MORTISE_ATTRIBUTE_STRING, 0, &values[22], 5, NULL},
      {"right", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"descending", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"stable", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"axis", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"k", MORTISE_ATTRIBUTE_I64, 0, NULL, 0, NULL},
      {"largest", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
      {"sorted", MORTISE_ATTRIBUTE_BOOL, 0, NULL, 0, NULL},
  };
  static const MortiseOpInfo rows[] = {
      {MORTISE_OP_ABS, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.abs", &slots[0], 1, &slots[1], 1, NULL, 0},
      {MORTISE_OP_ADD, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.add", &slots[2], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_AND, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.and", &slots[5], 2, &slots[7], 1, NULL, 0},
      {MORTISE_OP_ARGMAX, 1, MORTISE_TRAIT_REDUCTION, 0, "mortise.argmax", &slots[0], 1, &slots[8], 1, &attributes[0], 1},
      {MORTISE_OP_ATAN2, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.atan2", &slots[9], 2, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ATTENTION, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION, 0, "mortise.attention", &slots[12], 4, &slots[11], 1, &attributes[1], 2},
      {MORTISE_OP_BATCH_NORM, 1, MORTISE_TRAIT_COMPOSITE, 0, "mortise.batch_norm", &slots[16], 5, &slots[11], 1, &attributes[3], 1},
      {MORTISE_OP_BROADCAST, 1, MORTISE_TRAIT_MOVEMENT | MORTISE_TRAIT_VIEW, 0, "mortise.broadcast", &slots[21], 1, &slots[4], 1, &attributes[4], 2},
      {MORTISE_OP_CEIL, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.ceil", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_COMPARE, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.compare", &slots[2], 2, &slots[23], 1, &attributes[6], 1},
      {MORTISE_OP_CONCATENATE, 1, MORTISE_TRAIT_MOVEMENT, 0, "mortise.concatenate", &slots[24], 1, &slots[4], 1, &attributes[0], 1},
      {MORTISE_OP_CONSTANT, 1, MORTISE_TRAIT_CREATION, 0, "mortise.constant", NULL, 0, &slots[4], 1, &attributes[7], 1},
      {MORTISE_OP_CONVERT, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.convert", &slots[21], 1, &slots[4], 1, &attributes[8], 1},
      {MORTISE_OP_CONVOLUTION, 1, MORTISE_TRAIT_CONTRACTION | MORTISE_TRAIT_WINDOW, 0, "mortise.convolution", &slots[25], 2, &slots[11], 1, &attributes[9], 5},
      {MORTISE_OP_COS, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.cos", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_CUMSUM, 1, MORTISE_TRAIT_RUNNING, 0, "mortise.cumsum", &slots[0], 1, &slots[1], 1, &attributes[0], 1},
      {MORTISE_OP_DIV, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.div", &slots[27], 2, &slots[1], 1, NULL, 0},
      {MORTISE_OP_DOT, 1, MORTISE_TRAIT_CONTRACTION, 0, "mortise.dot", &slots[27], 2, &slots[1], 1, &attributes[14], 4},
      {MORTISE_OP_EMBEDDING, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_INDEXING, 0, "mortise.embedding", &slots[29], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_ERF, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.erf", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ERFC, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.erfc", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_EXP, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.exp", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_EXPM1, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.expm1", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_FLOOR, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.floor", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_GELU, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.gelu", &slots[22], 1, &slots[11], 1, &attributes[18], 1},
      {MORTISE_OP_GROUP_NORM, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_NORMALISATION, 0, "mortise.group_norm", &slots[16], 3, &slots[11], 1, &attributes[19], 2},
      {MORTISE_OP_IOTA, 1, MORTISE_TRAIT_CREATION, 0, "mortise.iota", NULL, 0, &slots[1], 1, &attributes[21], 3},
      {MORTISE_OP_LAYER_NORM, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_NORMALISATION, 0, "mortise.layer_norm", &slots[16], 3, &slots[11], 1, &attributes[24], 2},
      {MORTISE_OP_LINEAR, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION, 0, "mortise.linear", &slots[31], 3, &slots[11], 1, &attributes[26], 1},
      {MORTISE_OP_LOG, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.log", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_LOG1P, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.log1p", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_LOG_SOFTMAX, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_NORMALISATION, 0, "mortise.log_softmax", &slots[22], 1, &slots[11], 1, &attributes[0], 1},
      {MORTISE_OP_LOGISTIC, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.logistic", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_MAX, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.max", &slots[2], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_MAX_POOL, 1, MORTISE_TRAIT_WINDOW, 0, "mortise.max_pool", &slots[34], 1, &slots[1], 1, &attributes[27], 5},
      {MORTISE_OP_MEAN, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_REDUCTION, 0, "mortise.mean", &slots[22], 1, &slots[11], 1, &attributes[4], 1},
      {MORTISE_OP_MIN, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.min", &slots[2], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_MUL, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.mul", &slots[2], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_NEG, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.neg", &slots[0], 1, &slots[1], 1, NULL, 0},
      {MORTISE_OP_NOT, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.not", &slots[35], 1, &slots[7], 1, NULL, 0},
      {MORTISE_OP_OR, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.or", &slots[5], 2, &slots[7], 1, NULL, 0},
      {MORTISE_OP_PAD, 1, MORTISE_TRAIT_MOVEMENT, 0, "mortise.pad", &slots[36], 2, &slots[4], 1, &attributes[32], 3},
      {MORTISE_OP_POW, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.pow", &slots[27], 2, &slots[1], 1, NULL, 0},
      {MORTISE_OP_PUT, 1, MORTISE_TRAIT_INDEXING, 0, "mortise.put", &slots[38], 3, &slots[4], 1, &attributes[35], 2},
      {MORTISE_OP_REDUCE_MAX, 1, MORTISE_TRAIT_REDUCTION, 0, "mortise.reduce_max", &slots[21], 1, &slots[4], 1, &attributes[4], 1},
      {MORTISE_OP_REDUCE_MIN, 1, MORTISE_TRAIT_REDUCTION, 0, "mortise.reduce_min", &slots[21], 1, &slots[4], 1, &attributes[4], 1},
      {MORTISE_OP_REDUCE_PROD, 1, MORTISE_TRAIT_REDUCTION, 0, "mortise.reduce_prod", &slots[0], 1, &slots[1], 1, &attributes[4], 1},
      {MORTISE_OP_REDUCE_SUM, 1, MORTISE_TRAIT_REDUCTION, 0, "mortise.reduce_sum", &slots[0], 1, &slots[1], 1, &attributes[4], 1},
      {MORTISE_OP_RELU, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.relu", &slots[0], 1, &slots[1], 1, NULL, 0},
      {MORTISE_OP_REM, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.rem", &slots[27], 2, &slots[1], 1, NULL, 0},
      {MORTISE_OP_RESHAPE, 1, MORTISE_TRAIT_MOVEMENT | MORTISE_TRAIT_VIEW, 0, "mortise.reshape", &slots[21], 1, &slots[4], 1, &attributes[5], 1},
      {MORTISE_OP_REVERSE, 1, MORTISE_TRAIT_MOVEMENT, 0, "mortise.reverse", &slots[21], 1, &slots[4], 1, &attributes[4], 1},
      {MORTISE_OP_RMS_NORM, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_NORMALISATION, 0, "mortise.rms_norm", &slots[16], 2, &slots[11], 1, &attributes[24], 2},
      {MORTISE_OP_ROUND, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.round", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_RSQRT, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.rsqrt", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_SELECT, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.select", &slots[41], 3, &slots[4], 1, NULL, 0},
      {MORTISE_OP_SIGN, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.sign", &slots[0], 1, &slots[1], 1, NULL, 0},
      {MORTISE_OP_SILU, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.silu", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_SIN, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.sin", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_SLICE, 1, MORTISE_TRAIT_MOVEMENT | MORTISE_TRAIT_VIEW, 0, "mortise.slice", &slots[21], 1, &slots[4], 1, &attributes[37], 3},
      {MORTISE_OP_SOFTMAX, 1, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_NORMALISATION, 0, "mortise.softmax", &slots[22], 1, &slots[11], 1, &attributes[0], 1},
      {MORTISE_OP_SQRT, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.sqrt", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_SUB, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.sub", &slots[27], 2, &slots[1], 1, NULL, 0},
      {MORTISE_OP_SUM_POOL, 1, MORTISE_TRAIT_WINDOW, 0, "mortise.sum_pool", &slots[34], 1, &slots[1], 1, &attributes[27], 5},
      {MORTISE_OP_TAKE, 1, MORTISE_TRAIT_INDEXING, 0, "mortise.take", &slots[38], 2, &slots[4], 1, &attributes[0], 1},
      {MORTISE_OP_TAKE_ALONG, 1, MORTISE_TRAIT_INDEXING, 0, "mortise.take_along", &slots[38], 2, &slots[4], 1, &attributes[0], 1},
      {MORTISE_OP_TAKE_ND, 1, MORTISE_TRAIT_INDEXING, 0, "mortise.take_nd", &slots[38], 2, &slots[4], 1, NULL, 0},
      {MORTISE_OP_TANH, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.tanh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_TRANSPOSE, 1, MORTISE_TRAIT_MOVEMENT | MORTISE_TRAIT_VIEW, 0, "mortise.transpose", &slots[21], 1, &slots[4], 1, &attributes[40], 1},
      {MORTISE_OP_XOR, 1, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.xor", &slots[5], 2, &slots[7], 1, NULL, 0},
      {MORTISE_OP_ACOS, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.acos", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ACOSH, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.acosh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ALL_GATHER, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.all_gather", &slots[44], 1, &slots[4], 1, &attributes[41], 3},
      {MORTISE_OP_ALL_REDUCE, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.all_reduce", &slots[34], 1, &slots[1], 1, &attributes[44], 3},
      {MORTISE_OP_ALL_TO_ALL, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.all_to_all", &slots[44], 1, &slots[4], 1, &attributes[47], 4},
      {MORTISE_OP_ARGMIN, 2, MORTISE_TRAIT_REDUCTION, 0, "mortise.argmin", &slots[0], 1, &slots[8], 1, &attributes[0], 1},
      {MORTISE_OP_ASIN, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.asin", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ASINH, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.asinh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ATAN, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.atan", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_ATANH, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.atanh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_BERNOULLI, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_RANDOM, 0, "mortise.bernoulli", &slots[45], 3, &slots[23], 1, NULL, 0},
      {MORTISE_OP_COLLECTIVE_BROADCAST, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.collective_broadcast", &slots[44], 1, &slots[4], 1, &attributes[42], 2},
      {MORTISE_OP_COLLECTIVE_PERMUTE, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.collective_permute", &slots[44], 1, &slots[4], 1, &attributes[51], 2},
      {MORTISE_OP_COSH, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.cosh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_CROSS_ENTROPY, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_REDUCTION, 0, "mortise.cross_entropy", &slots[48], 2, &slots[11], 1, &attributes[53], 3},
      {MORTISE_OP_CUMLOGSUMEXP, 2, MORTISE_TRAIT_RUNNING, 0, "mortise.cumlogsumexp", &slots[22], 1, &slots[11], 1, &attributes[0], 1},
      {MORTISE_OP_CUMMAX, 2, MORTISE_TRAIT_RUNNING, 0, "mortise.cummax", &slots[21], 1, &slots[50], 2, &attributes[0], 1},
      {MORTISE_OP_CUMMIN, 2, MORTISE_TRAIT_RUNNING, 0, "mortise.cummin", &slots[21], 1, &slots[50], 2, &attributes[0], 1},
      {MORTISE_OP_CUMPROD, 2, MORTISE_TRAIT_RUNNING, 0, "mortise.cumprod", &slots[0], 1, &slots[1], 1, &attributes[0], 1},
      {MORTISE_OP_DEQUANTIZE, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_QUANTISATION, 0, "mortise.dequantize", &slots[52], 3, &slots[11], 1, &attributes[8], 1},
      {MORTISE_OP_DROPOUT, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_RANDOM, 0, "mortise.dropout", &slots[55], 3, &slots[58], 2, &attributes[56], 1},
      {MORTISE_OP_DYNAMIC_QUANTIZE, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_QUANTISATION, 0, "mortise.dynamic_quantize", &slots[16], 1, &slots[52], 2, &attributes[8], 1},
      {MORTISE_OP_EXP2, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.exp2", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_EXTENTS, 2, MORTISE_TRAIT_CREATION, 0, "mortise.extents", NULL, 0, &slots[8], 1, &attributes[5], 1},
      {MORTISE_OP_FUSED_CONVOLUTION, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION | MORTISE_TRAIT_WINDOW, 0, "mortise.fused_convolution", &slots[60], 4, &slots[11], 1, &attributes[57], 6},
      {MORTISE_OP_IF, 2, MORTISE_TRAIT_CONTROL_FLOW, 2, "mortise.if", &slots[64], 2, &slots[66], 1, NULL, 0},
      {MORTISE_OP_LOG10, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.log10", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_LOG2, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.log2", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_NORMAL, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_RANDOM, 0, "mortise.normal", &slots[46], 2, &slots[11], 1, &attributes[22], 2},
      {MORTISE_OP_QUANTIZE, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_QUANTISATION, 0, "mortise.quantize", &slots[67], 3, &slots[70], 1, &attributes[8], 1},
      {MORTISE_OP_QUANTIZED_LINEAR, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION | MORTISE_TRAIT_QUANTISATION, 0, "mortise.quantized_linear", &slots[71], 5, &slots[11], 1, &attributes[26], 1},
      {MORTISE_OP_RAGGED_ATTENTION, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION, 0, "mortise.ragged_attention", &slots[76], 5, &slots[11], 1, &attributes[1], 2},
      {MORTISE_OP_RANDOM_BITS, 2, MORTISE_TRAIT_RANDOM, 0, "mortise.random_bits", &slots[46], 2, &slots[81], 1, &attributes[22], 2},
      {MORTISE_OP_RANDOM_PERMUTATION, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_RANDOM, 0, "mortise.random_permutation", &slots[46], 2, &slots[8], 1, &attributes[5], 1},
      {MORTISE_OP_RANK, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.rank", NULL, 0, &slots[8], 1, &attributes[52], 1},
      {MORTISE_OP_REDUCE_SCATTER, 2, MORTISE_TRAIT_COLLECTIVE, 0, "mortise.reduce_scatter", &slots[34], 1, &slots[1], 1, &attributes[63], 4},
      {MORTISE_OP_ROPE, 2, MORTISE_TRAIT_COMPOSITE, 0, "mortise.rope", &slots[82], 3, &slots[11], 1, &attributes[67], 1},
      {MORTISE_OP_SCAN, 2, MORTISE_TRAIT_CONTROL_FLOW, 1, "mortise.scan", &slots[65], 1, &slots[66], 1, &attributes[68], 2},
      {MORTISE_OP_SCATTER_ALONG, 2, MORTISE_TRAIT_INDEXING, 0, "mortise.scatter_along", &slots[38], 3, &slots[4], 1, &attributes[70], 2},
      {MORTISE_OP_SCATTER_ND, 2, MORTISE_TRAIT_INDEXING, 0, "mortise.scatter_nd", &slots[38], 3, &slots[4], 1, &attributes[71], 1},
      {MORTISE_OP_SEARCHSORTED, 2, MORTISE_TRAIT_INDEXING, 0, "mortise.searchsorted", &slots[85], 2, &slots[8], 1, &attributes[72], 1},
      {MORTISE_OP_SHIFT_LEFT, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.shift_left", &slots[5], 2, &slots[7], 1, NULL, 0},
      {MORTISE_OP_SHIFT_RIGHT, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.shift_right", &slots[5], 2, &slots[7], 1, NULL, 0},
      {MORTISE_OP_SINH, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.sinh", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_SORT, 2, MORTISE_TRAIT_SORT, 0, "mortise.sort", &slots[21], 1, &slots[50], 2, &attributes[73], 3},
      {MORTISE_OP_SWIGLU, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.swiglu", &slots[87], 2, &slots[11], 1, NULL, 0},
      {MORTISE_OP_TAN, 2, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.tan", &slots[22], 1, &slots[11], 1, NULL, 0},
      {MORTISE_OP_TOP_K, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_SORT, 0, "mortise.top_k", &slots[21], 1, &slots[50], 2, &attributes[76], 4},
      {MORTISE_OP_UNIFORM, 2, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_RANDOM, 0, "mortise.uniform", &slots[46], 2, &slots[11], 1, &attributes[22], 2},
      {MORTISE_OP_WHILE, 2, MORTISE_TRAIT_CONTROL_FLOW, 2, "mortise.while", &slots[65], 1, &slots[66], 1, NULL, 0},
      {MORTISE_OP_ATTENTION_FORWARD, 3, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION, 0, "mortise.attention_forward", &slots[12], 4, &slots[89], 2, &attributes[1], 2},
      {MORTISE_OP_ATTENTION_GRADIENT, 3, MORTISE_TRAIT_COMPOSITE | MORTISE_TRAIT_CONTRACTION, 0, "mortise.attention_gradient", &slots[91], 7, &slots[98], 3, &attributes[1], 2},
      {MORTISE_OP_COPYSIGN, 3, MORTISE_TRAIT_ELEMENTWISE, 0, "mortise.copysign", &slots[9], 2, &slots[11], 1, NULL, 0},
  };
  return op > 0 && op < MORTISE_OP_COUNT ? &rows[op - 1] : NULL;
}

/* The number of the op of this name ("mortise.add"); MORTISE_OP_UNKNOWN for a vendor's op, a newer one or NULL. */
MORTISE_TABLE_FUNCTION int32_t mortise_op_find(const char *name) {
  static const uint16_t by_name[] = {1, 71, 72, 2, 73, 74, 75, 3, 4, 76, 77, 78, 79, 5, 80, 6, 121, 122, 7, 81, 8, 9, 82, 83, 10, 11, 12, 13, 14, 123, 15, 84, 85, 86, 87, 88, 89, 16, 90, 17, 18, 91, 92, 19, 20, 21, 22, 93, 23, 94, 24, 95, 25, 26, 96, 27, 28, 29, 30, 97, 31, 98, 32, 33, 34, 35, 36, 37, 38, 39, 99, 40, 41, 42, 43, 44, 100, 101, 102, 103, 104, 105, 45, 46, 47, 106, 48, 49, 50, 51, 52, 53, 107, 54, 55, 108, 109, 110, 111, 56, 112, 113, 57, 58, 59, 114, 60, 61, 115, 62, 63, 64, 116, 65, 66, 67, 117, 68, 118, 69, 119, 120, 70};
  size_t low = 0, high = sizeof(by_name) / sizeof(by_name[0]);
  if (!name || strncmp(name, "mortise.", 8) != 0)
    return MORTISE_OP_UNKNOWN;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    const int order = strcmp(name + 8, mortise_op_info(by_name[middle])->name + 8);
    if (order == 0)
      return by_name[middle];
    if (order < 0)
      high = middle;
    else
      low = middle + 1;
  }
  return MORTISE_OP_UNKNOWN;
}

#ifdef __cplusplus
}
#endif

#endif
