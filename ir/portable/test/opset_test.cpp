// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// opset/N.txt records opset N as released. Today's dialect and changes.cpp must agree with it, so nothing of a released
// opset is renamed, removed or changed unless changes.cpp lists it.
#include "../changes.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace mortise;
using namespace mortise::portable;

namespace {

std::vector<Op> record(uint32_t opset) {
  std::ifstream file(std::string(MORTISE_OPSET_DIRECTORY) + "/" + std::to_string(opset) + ".txt");
  return parseOps(std::string(std::istreambuf_iterator<char>(file), {}));
}
uint32_t newestRecord() {
  uint32_t newest = 0;
  while (std::filesystem::exists(std::string(MORTISE_OPSET_DIRECTORY) + "/" + std::to_string(newest + 1) + ".txt"))
    ++newest;
  return newest;
}
const Op *find(const std::vector<Op> &ops, const std::string &name) {
  for (const Op &op : ops)
    if (op.name == name)
      return &op;
  return nullptr;
}
bool isAdded(const Opset &now, const Op &op, const std::string &attribute, const std::string &value, uint32_t after) {
  for (const ValueAdded &added : now.valuesAdded)
    if (added.op == op.name && added.attribute == attribute && added.value == value && added.since > after)
      return true;
  return false;
}

// The differences between an op of `opset` and today's op that are not listed as changes.
std::vector<std::string> differences(const Op &then, const Op &today, const Opset &now, uint32_t opset) {
  std::vector<std::string> found;
  if (then.since != today.since)
    found.push_back("'since' was " + std::to_string(then.since) + " and is " + std::to_string(today.since));
  if (then.operands != today.operands)
    found.push_back("the operands were (" + then.operands + ") and are (" + today.operands + "): make it a new op");
  for (const OpAttribute &old : then.attributes) {
    const OpAttribute *attribute = today.find(old.name);
    if (!attribute) {
      found.push_back("attribute '" + old.name + "' is gone: retire the op");
      continue;
    }
    if (attribute->kind != old.kind)
      found.push_back("attribute '" + old.name + "' changed its kind");
    for (const std::string &value : old.values)
      if (std::ranges::find(attribute->values, value) == attribute->values.end())
        found.push_back("the value '" + value + "' of '" + old.name + "' is gone");
    for (const std::string &value : attribute->values)
      if (std::ranges::find(old.values, value) == old.values.end() && !isAdded(now, today, old.name, value, opset))
        found.push_back("the value '" + value + "' of '" + old.name + "' is new: list it in changes.cpp (valuesAdded)");
  }
  for (const OpAttribute &attribute : today.attributes) {
    const AttributeAdded *added = now.added(today.name, attribute.name);
    if (!then.find(attribute.name) && (!added || added->since <= opset))
      found.push_back("attribute '" + attribute.name + "' is new: list it in changes.cpp (attributesAdded)");
  }
  return found;
}

} // namespace

TEST(Opset, EveryReleasedSetIsStillThere) {
  const Opset &now = opset();
  ASSERT_GE(newestRecord(), 1u);
  ASSERT_LE(newestRecord(), now.newest);
  for (uint32_t version = 1; version <= newestRecord(); ++version) {
    const std::vector<Op> ops = record(version);
    ASSERT_FALSE(ops.empty());
    for (const Op &then : ops) {
      const Op *today = now.find(then.name);
      const OpRetired *retired = now.findRetired(then.name);
      EXPECT_TRUE(today || retired) << then.name << " of opset " << version
                                    << " is gone: list it in changes.cpp (opsRetired) with what replaces it";
      for (const std::string &difference : differences(then,
                                                       today     ? *today
                                                       : retired ? retired->op
                                                                 : then,
                                                       now, version))
        ADD_FAILURE() << then.name << " of opset " << version << ": " << difference;
    }
    for (const Op &today : now.ops)
      EXPECT_TRUE(today.since > version || find(ops, today.name))
          << today.name << " is new: say `let since = " << newestRecord() + 1 << ";` in its .td";
  }
}

TEST(Opset, TheTableIsSortedAndOfThisBuild) {
  const Opset &now = opset();
  EXPECT_EQ(now.newest, uint32_t(MORTISE_OPSET));
  EXPECT_TRUE(std::ranges::is_sorted(now.ops, {}, &Op::name));
  for (const Op &op : now.ops) {
    EXPECT_GE(op.since, 1u) << op.name;
    EXPECT_LE(op.since, now.newest) << op.name;
    for (const OpAttribute &attribute : op.attributes)
      EXPECT_NE(attribute.kind, 0) << op.name << " " << attribute.name;
  }
  const Op *put = now.find("mortise.put");
  ASSERT_TRUE(put);
  EXPECT_EQ(put->operands, "operand,indices,updates,");
  ASSERT_TRUE(put->find("axis") && put->find("mode"));
  EXPECT_EQ(put->find("axis")->kind, MORTISE_ATTRIBUTE_I64);
  EXPECT_FALSE(put->find("mode")->values.empty());
}

TEST(Opset, ChangesAreOfOpsThatThereAre) {
  const Opset &now = opset();
  for (const AttributeAdded &added : now.attributesAdded) {
    const Op *op = now.find(added.op);
    ASSERT_TRUE(op && op->find(added.attribute)) << added.op << " " << added.attribute;
    EXPECT_EQ(op->find(added.attribute)->kind, added.implied.kind) << added.op << " " << added.attribute;
    EXPECT_GT(added.since, op->since);
    EXPECT_LE(added.since, now.newest);
  }
  for (const ValueAdded &added : now.valuesAdded) {
    const Op *op = now.find(added.op);
    ASSERT_TRUE(op && op->find(added.attribute)) << added.op << " " << added.attribute;
    EXPECT_NE(std::ranges::find(op->find(added.attribute)->values, added.value),
              op->find(added.attribute)->values.end());
  }
  for (const OpRetired &retired : now.opsRetired) {
    EXPECT_FALSE(now.find(retired.op.name)) << retired.op.name << " is retired and in the dialect";
    EXPECT_LE(retired.retired, now.newest);
  }
}
