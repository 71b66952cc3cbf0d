// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables of ops and element types as plugins read them.
#include <mortise/graph.hpp>
#include <mortise/ops.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

namespace mortise {
namespace {

TEST(OpTable, EveryNameIsFoundUnderItsNumber) {
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op) {
    const MortiseOpInfo *info = mortise_op_info(op);
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->op, op);
    EXPECT_EQ(mortise_op_find(info->name), op) << info->name;
  }
}

TEST(OpTable, WhatIsNoOpOfOursIsUnknown) {
  for (const char *name : {"", "mortise", "mortise.", "mortise.ad", "mortise.addd", "mortise.Add", "add", "acme.add",
                           "mortise.zzz", "mortise.\xff"})
    EXPECT_EQ(mortise_op_find(name), MORTISE_OP_UNKNOWN) << name;
  EXPECT_EQ(mortise_op_find(nullptr), MORTISE_OP_UNKNOWN);
  for (int32_t number : {0, -1, int32_t(MORTISE_OP_COUNT), std::numeric_limits<int32_t>::max()})
    EXPECT_EQ(mortise_op_info(number), nullptr);
}

// Ops of a later opset come after all others, so that released ops keep their numbers.
TEST(OpTable, NumbersFollowTheOpsets) {
  for (int32_t op = 2; op < MORTISE_OP_COUNT; ++op) {
    const MortiseOpInfo &before = *mortise_op_info(op - 1), &info = *mortise_op_info(op);
    EXPECT_LE(before.since, info.since);
    EXPECT_LE(info.since, uint32_t(MORTISE_OPSET)) << info.name;
    if (before.since == info.since)
      EXPECT_LT(std::string(before.name), info.name);
  }
}

TEST(OpTable, SignaturesAreWhole) {
  const uint32_t every = ((uint32_t(1) << MORTISE_DTYPE_COUNT) - 1) << 1;
  for (int32_t op = 1; op < MORTISE_OP_COUNT; ++op) {
    const MortiseOpInfo &info = *mortise_op_info(op);
    ASSERT_GT(info.result_count, 0U) << info.name;
    for (std::span slots : {std::span(info.operands, info.operand_count), std::span(info.results, info.result_count)})
      for (const MortiseSlotInfo &slot : slots)
        EXPECT_TRUE(slot.dtypes != 0 && (slot.dtypes & ~every) == 0) << info.name << " " << slot.name;
    for (size_t i = 0; i < info.attribute_count; ++i) {
      const MortiseAttributeInfo &attribute = info.attributes[i];
      EXPECT_TRUE(attribute.kind >= MORTISE_ATTRIBUTE_BOOL && attribute.kind <= MORTISE_ATTRIBUTE_TENSOR);
      EXPECT_TRUE(attribute.value_count == 0 || attribute.kind == MORTISE_ATTRIBUTE_STRING) << attribute.name;
      if (i > 0)
        EXPECT_LT(std::string(info.attributes[i - 1].name), attribute.name) << info.name;
    }
  }
}

TEST(OpTable, SaysWhatTheDialectSays) {
  const MortiseOpInfo &norm = *infoOf(Op::LayerNorm);
  ASSERT_EQ(norm.operand_count, 3U);
  EXPECT_STREQ(norm.operands[0].name, "x");
  EXPECT_EQ(norm.operands[0].arity, MORTISE_ARITY_ONE);
  EXPECT_EQ(norm.operands[2].arity, MORTISE_ARITY_OPTIONAL);
  const uint32_t floats = 1U << MORTISE_F64 | 1U << MORTISE_F32 | 1U << MORTISE_F16 | 1U << MORTISE_BF16 |
                          1U << MORTISE_F8E4M3FN | 1U << MORTISE_F8E5M2;
  EXPECT_EQ(norm.operands[1].dtypes, floats);
  EXPECT_EQ(infoOf(Op::Concatenate)->operands[0].arity, MORTISE_ARITY_VARIADIC);
  EXPECT_EQ(infoOf(Op::Argmax)->results[0].dtypes, 1U << MORTISE_I64);
  const MortiseAttributeInfo &mode = infoOf(Op::ScatterNd)->attributes[0];
  ASSERT_EQ(mode.value_count, 5U);
  EXPECT_STREQ(mode.values[2], "mul");
  EXPECT_EQ(infoOf(Op::Reshape)->attributes[0].symbolic, 1);
  EXPECT_EQ(infoOf(Op::Transpose)->attributes[0].symbolic, 0);
}

TEST(OpTable, TraitsTellKindsApart) {
  EXPECT_TRUE(has(Op::Add, Trait::Elementwise));
  EXPECT_FALSE(has(Op::ReduceSum, Trait::Elementwise));
  EXPECT_TRUE(has(Op::ReduceSum, Trait::Elementwise, Trait::Reduction));
  EXPECT_TRUE(has(Op::Gelu, Trait::Composite));
  EXPECT_FALSE(has(Op::Reverse, Trait::View));
  EXPECT_FALSE(has(Op::Unknown, Trait::Elementwise));
  MortiseNode node{};
  node.op = "mortise.put";
  EXPECT_EQ(opOf(node), Op::Put);
  EXPECT_TRUE(isOp(node, Op::Take, Op::Put));
  EXPECT_FALSE(isOp(node, Op::Take));
  node.op = "acme.put";
  EXPECT_EQ(opOf(node), Op::Unknown);
  EXPECT_FALSE(isOp(node, Op::Unknown));
}

template <typename Storage> void expectStorage(const MortiseDTypeInfo &info) {
  EXPECT_EQ(sizeof(Storage) * 8, info.bits == 4 ? 8 : mortise_dtype_bits(info.dtype)) << info.name;
  const bool isSignedStorage = std::numeric_limits<Storage>::is_signed && std::numeric_limits<Storage>::is_integer;
  EXPECT_EQ(isSignedStorage, info.kind == MORTISE_KIND_SIGNED) << info.name;
}

TEST(DTypeTable, RowsAgreeWithThemselves) {
  std::set<std::string> names;
  for (int32_t dtype = 1; dtype <= MORTISE_DTYPE_COUNT; ++dtype) {
    const MortiseDTypeInfo &info = *mortise_dtype_info(dtype);
    EXPECT_EQ(info.dtype, dtype);
    EXPECT_TRUE(names.insert(info.name).second);
    EXPECT_EQ(dtypeFromName(info.name), dtype);
    EXPECT_EQ(isFloat(dtype) + isSigned(dtype) + isUnsigned(dtype) + isBool(dtype), 1) << info.name;
    if (isFloat(dtype))
      EXPECT_EQ(1 + info.exponent_bits + info.mantissa_bits, info.bits) << info.name;
    EXPECT_EQ(info.max_finite > 0, isFloat(dtype)) << info.name;
  }
#define MORTISE_DTYPE_ROW(NAME, name, kind, bits, exponent, mantissa, max, storage, torch, dlpack)                     \
  expectStorage<storage>(*mortise_dtype_info(MORTISE_##NAME));
  MORTISE_FOR_EACH_DTYPE(MORTISE_DTYPE_ROW)
#undef MORTISE_DTYPE_ROW
}

TEST(DTypeTable, UnknownNumbersHaveNothing) {
  for (int32_t dtype : {0, -1, int32_t(MORTISE_DTYPE_COUNT) + 1, int32_t(MORTISE_DTYPE_FORCE_INT32)}) {
    EXPECT_EQ(mortise_dtype_info(dtype), nullptr);
    EXPECT_EQ(dtypeBits(dtype), 0U);
    EXPECT_STREQ(dtypeName(dtype), "?");
    EXPECT_FALSE(isFloat(dtype) || isInteger(dtype) || isBool(dtype));
  }
  EXPECT_EQ(dtypeFromName("?"), 0);
}

} // namespace
} // namespace mortise
