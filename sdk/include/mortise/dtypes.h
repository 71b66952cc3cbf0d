/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The properties of every element type: one row for each enumerator of MortiseDType, in its order. C, C++
 * (mortise/graph.hpp) and, through tools/generate, Python read this table; nothing else lists the element types. C11,
 * header only.
 */
#ifndef MORTISE_DTYPES_H
#define MORTISE_DTYPES_H

#include <mortise/plugin.h>

/* A boolean is neither signed nor unsigned, and holds 0 or 1. */
typedef enum MortiseDTypeKind {
  MORTISE_KIND_FLOAT = 1,
  MORTISE_KIND_SIGNED = 2,
  MORTISE_KIND_UNSIGNED = 3,
  MORTISE_KIND_BOOL = 4
} MortiseDTypeKind;

/* X(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)
 *   NAME      MORTISE_NAME is its number.
 *   name      in the IR's text; written as MLIR's builtin types are.
 *   kind      MORTISE_KIND_kind.
 *   bits      bits that hold the value; 1 for a boolean. mortise_dtype_bits() gives the size in memory.
 *   exponent, mantissa  bits of a float in IEEE 754's arrangement, without the leading 1; 0 for others.
 *   max       the largest finite number of a float; 0 for others, whose `bits` determine it.
 *   storage   the C type of one element in memory; for I4, which is packed, the type of an unpacked element.
 *   torch     the attribute of Python's torch; "" when PyTorch has no such type.
 *   dlpack    DLPack's type code (with `bits` as its bits; 8 for a boolean); -1 when DLPack cannot hold it densely. */
/* clang-format off */
#define MORTISE_FOR_EACH_DTYPE(X) \
  X(F64,      f64,      FLOAT,    64, 11, 52, 0x1.fffffffffffffp1023, double,   "float64",       2) \
  X(F32,      f32,      FLOAT,    32,  8, 23, 0x1.fffffep127,         float,    "float32",       2) \
  X(F16,      f16,      FLOAT,    16,  5, 10, 65504.0,                uint16_t, "float16",       2) \
  X(BF16,     bf16,     FLOAT,    16,  8,  7, 0x1.fep127,             uint16_t, "bfloat16",      4) \
  X(F8E4M3FN, f8E4M3FN, FLOAT,     8,  4,  3, 448.0,                  uint8_t,  "float8_e4m3fn", 10) \
  X(F8E5M2,   f8E5M2,   FLOAT,     8,  5,  2, 57344.0,                uint8_t,  "float8_e5m2",   12) \
  X(I64,      i64,      SIGNED,   64,  0,  0, 0,                      int64_t,  "int64",         0) \
  X(I32,      i32,      SIGNED,   32,  0,  0, 0,                      int32_t,  "int32",         0) \
  X(I16,      i16,      SIGNED,   16,  0,  0, 0,                      int16_t,  "int16",         0) \
  X(I8,       i8,       SIGNED,    8,  0,  0, 0,                      int8_t,   "int8",          0) \
  X(I4,       i4,       SIGNED,    4,  0,  0, 0,                      int8_t,   "",              -1) \
  X(UI8,      ui8,      UNSIGNED,  8,  0,  0, 0,                      uint8_t,  "uint8",         1) \
  X(I1,       i1,       BOOL,      1,  0,  0, 0,                      uint8_t,  "bool",          6) \
  X(UI16,     ui16,     UNSIGNED, 16,  0,  0, 0,                      uint16_t, "uint16",        1)
/* clang-format on */

#ifdef __cplusplus
#define MORTISE_TABLE_FUNCTION inline
extern "C" {
#else
#define MORTISE_TABLE_FUNCTION static inline
#endif

typedef struct MortiseDTypeInfo {
  int32_t dtype;     /* MortiseDType */
  int32_t kind;      /* MortiseDTypeKind */
  uint32_t bits;
  uint32_t exponent_bits;
  uint32_t mantissa_bits;
  int32_t dlpack;    /* DLPack's type code, or -1 */
  double max_finite; /* of a float */
  const char *name;  /* "f32" */
  const char *torch; /* "float32", or "" */
} MortiseDTypeInfo;

/* Enumerators count from 1 without gaps. */
enum {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack) MORTISE_DTYPE_ROW_##NAME,
  MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  MORTISE_DTYPE_COUNT
};

/* NULL for a number that this header does not know. */
MORTISE_TABLE_FUNCTION const MortiseDTypeInfo *mortise_dtype_info(int32_t dtype) {
  static const MortiseDTypeInfo rows[] = {
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack) \
  {MORTISE_##NAME, MORTISE_KIND_##kind, bits, exponent, mantissa, dlpack, max, #name, torch},
      MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
  };
  return dtype >= 1 && dtype <= MORTISE_DTYPE_COUNT ? &rows[dtype - 1] : NULL;
}

/* Bits that one element occupies in memory; 0 for an unknown number. A boolean has a byte; I4 is packed. */
MORTISE_TABLE_FUNCTION size_t mortise_dtype_bits(int32_t dtype) {
  const MortiseDTypeInfo *info = mortise_dtype_info(dtype);
  return info ? (info->kind == MORTISE_KIND_BOOL ? 8 : info->bits) : 0;
}

#ifdef __cplusplus
}
#endif

/* Row n describes the enumerator n + 1. */
#ifdef __cplusplus
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack) \
  static_assert(static_cast<int>(MORTISE_##NAME) == static_cast<int>(MORTISE_DTYPE_ROW_##NAME) + 1, "rows stand in the order of MortiseDType");
#else
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack) \
  _Static_assert((int)MORTISE_##NAME == (int)MORTISE_DTYPE_ROW_##NAME + 1, "rows stand in the order of MortiseDType");
#endif
MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW

#endif
