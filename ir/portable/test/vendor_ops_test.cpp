// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/portable/vendor_ops.hpp>

#include <gtest/gtest.h>

namespace mortise::portable {
namespace {

MortiseAttribute attribute(const char *name, int32_t kind) {
  MortiseAttribute made{};
  made.struct_size = sizeof made;
  made.name = name;
  made.kind = kind;
  made.string = "near";
  return made;
}

// acme.swizzle(x, y?) {axes: list of integers = [0, 1], mode: string, by: float = 2}
struct Swizzle {
  const int64_t axes[2] = {0, 1};
  MortiseAttribute axesValue = attribute("axes", MORTISE_ATTRIBUTE_I64_ARRAY);
  MortiseAttribute byValue = attribute("by", MORTISE_ATTRIBUTE_F64);
  MortiseAttributeDeclaration declared[3] = {
      {sizeof(MortiseAttributeDeclaration), nullptr, "axes", MORTISE_ATTRIBUTE_I64_ARRAY, 0, &axesValue},
      {sizeof(MortiseAttributeDeclaration), nullptr, "by", MORTISE_ATTRIBUTE_F64, 0, &byValue},
      {sizeof(MortiseAttributeDeclaration), nullptr, "mode", MORTISE_ATTRIBUTE_STRING, 0, nullptr}};
  const MortiseAttributeDeclaration *list[3] = {&declared[0], &declared[1], &declared[2]};
  MortiseOpDeclaration op{sizeof(MortiseOpDeclaration), nullptr, "acme.swizzle", "", 1, 2, list, 3};

  Swizzle() {
    axesValue.i64s = axes;
    axesValue.count = 2;
    byValue.f64 = 2;
  }
  Swizzle(const Swizzle &) = delete;
  Swizzle &operator=(const Swizzle &) = delete;

  std::string wrong(size_t operands, const std::vector<MortiseAttribute> &given) const {
    std::vector<const MortiseAttribute *> pointers;
    for (const MortiseAttribute &each : given)
      pointers.push_back(&each);
    const auto completed = completeAttributes(op, operands, pointers);
    return completed ? "" : completed.error().message;
  }
};

TEST(VendorOps, Names) {
  for (const char *name : {"acme.swizzle", "acme_npu.lookup", "a1.b2", "mortise2.add"})
    EXPECT_TRUE(isVendorOp(name)) << name;
  for (const char *name : {"", ".", "acme", "acme.", ".swizzle", "Acme.swizzle", "acme.Swizzle", "acme.a.b", "1acme.a",
                           "acme.1", "_a.b", "acme-npu.lookup", "acme.s p", "mortise.add", "mortise.anything"})
    EXPECT_FALSE(isVendorOp(name)) << name;
}

TEST(VendorOps, FallbacksStandForWhatIsLeftOut) {
  const Swizzle swizzle;
  MortiseAttribute mode = attribute("mode", MORTISE_ATTRIBUTE_STRING), by = attribute("by", MORTISE_ATTRIBUTE_F64);
  const MortiseAttribute *given[] = {&mode, &by}; // in any order
  const auto all = completeAttributes(swizzle.op, 1, given);
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(*all, (std::vector<const MortiseAttribute *>{&swizzle.axesValue, &by, &mode}));
}

TEST(VendorOps, WhatIsNotAsDeclared) {
  const Swizzle swizzle;
  const MortiseAttribute mode = attribute("mode", MORTISE_ATTRIBUTE_STRING);
  EXPECT_EQ(swizzle.wrong(1, {mode}), "");
  EXPECT_EQ(swizzle.wrong(2, {mode}), "");
  EXPECT_EQ(swizzle.wrong(0, {mode}), "acme.swizzle: expected 1 to 2 operands, as its plugin declares, found 0");
  EXPECT_EQ(swizzle.wrong(3, {mode}), "acme.swizzle: expected 1 to 2 operands, as its plugin declares, found 3");
  EXPECT_EQ(swizzle.wrong(1, {}), "acme.swizzle: attribute 'mode' is missing; it is a string");
  EXPECT_EQ(swizzle.wrong(1, {mode, attribute(nullptr, MORTISE_ATTRIBUTE_F64)}),
            "acme.swizzle: an attribute is NULL or has no name");
  EXPECT_EQ(swizzle.wrong(1, {mode, mode}), "acme.swizzle: attribute 'mode' is given twice");
  EXPECT_EQ(swizzle.wrong(1, {mode, attribute("by", MORTISE_ATTRIBUTE_I64)}),
            "acme.swizzle: expected attribute 'by' to be a float, found an integer");
  EXPECT_EQ(swizzle.wrong(1, {mode, attribute("mood", MORTISE_ATTRIBUTE_STRING)}),
            "acme.swizzle: its plugin declares no attribute 'mood'; the nearest known is 'mode'");
}

TEST(VendorOps, Differences) {
  const Swizzle one;
  Swizzle other;
  other.op.summary = "in other words";
  EXPECT_EQ(difference(one.op, other.op), "");
  const int64_t axes[2] = {0, 2};
  other.axesValue.i64s = axes;
  EXPECT_EQ(difference(one.op, other.op), "attribute 'axes'");
  other.axesValue.i64s = other.axes;
  other.byValue.f64 = 3;
  EXPECT_EQ(difference(one.op, other.op), "attribute 'by'");
  other.byValue.f64 = 2;
  other.declared[1].fallback = nullptr;
  EXPECT_EQ(difference(one.op, other.op), "attribute 'by'");
  other.declared[1].fallback = &other.byValue;
  other.declared[2].kind = MORTISE_ATTRIBUTE_BOOL;
  EXPECT_EQ(difference(one.op, other.op), "attribute 'mode'");
  other.declared[2].kind = MORTISE_ATTRIBUTE_STRING;
  other.op.attribute_count = 2;
  EXPECT_EQ(difference(one.op, other.op), "attribute 'mode'");
  EXPECT_EQ(difference(other.op, one.op), "attribute 'mode'");
  other.op.attribute_count = 3;
  other.op.operands_max = UINT32_MAX;
  EXPECT_EQ(difference(one.op, other.op), "1 to 2 operands and 1 or more operands");
}

} // namespace
} // namespace mortise::portable
