// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiler::create's transform: it sees each function once, and what it makes is what runs.
#include "test_graph.hpp"

#include <gtest/gtest.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/Module.h>

#include <atomic>

using namespace mortise;
using namespace mortise::codegen;
using namespace mortise::codegen::test;

namespace {

struct Sum {
  Sum() {
    V x = graph.input(MORTISE_F32, {37}), y = graph.input(MORTISE_F32, {37});
    graph.output(graph.op("add", {x, y}, MORTISE_F32, {37}));
  }
  Result<std::vector<Function>> compile(Compiler &compiler) {
    const MortiseGraph &view = graph.view();
    groups = fuse({&view, {}, {}, {}}, testTarget(2))->groups;
    return compiler.compile(view, groups);
  }
  // 5 + 3, or what it became.
  float run(const Function &function) {
    const MortiseGraph &view = graph.view();
    Memory memory(view);
    for (int64_t i = 0; i < 37; ++i) {
      memory.as<float>(view.inputs[0])[i] = 5;
      memory.as<float>(view.inputs[1])[i] = 3;
    }
    runGroup(groups.at(0), function, memory);
    return memory.as<float>(view.outputs[0])[36];
  }
  TestGraph graph;
  std::vector<Group> groups;
};

Result<void> subtract(llvm::Module &module) {
  for (llvm::Function &function : module)
    for (llvm::Instruction &in : llvm::make_early_inc_range(llvm::instructions(function)))
      if (in.getOpcode() == llvm::Instruction::FAdd) {
        auto *made = llvm::BinaryOperator::CreateFSub(in.getOperand(0), in.getOperand(1), "", in.getIterator());
        in.replaceAllUsesWith(made);
        in.eraseFromParent();
      }
  return {};
}

std::vector<std::byte> saved(Compiler &compiler, const std::vector<Function> &functions) {
  const Function::Entry entry = functions.at(0).entry;
  auto bytes = compiler.save({&entry, 1});
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? *bytes : std::vector<std::byte>();
}

TEST(Transform, ItsCodeRuns) {
  Sum sum;
  auto plain = std::move(*Compiler::create(testTarget(2)));
  auto other = std::move(*Compiler::create(testTarget(2), {"subtract", subtract}));
  auto functions = sum.compile(*plain), changed = sum.compile(*other);
  ASSERT_TRUE(functions && changed);
  EXPECT_EQ(sum.run(functions->at(0)), 8);
  EXPECT_EQ(sum.run(changed->at(0)), 2);
}

TEST(Transform, SeesEachFunctionOnce) {
  Sum sum;
  std::atomic<int> count = 0;
  auto compiler = std::move(*Compiler::create(testTarget(2), {"count", [&](llvm::Module &module) -> Result<void> {
                                                                count += !module.getFunctionList().empty();
                                                                return {};
                                                              }}));
  ASSERT_TRUE(sum.compile(*compiler));
  ASSERT_TRUE(sum.compile(*compiler));
  EXPECT_EQ(count, 1);
}

TEST(Transform, ItsErrorEndsTheCompilation) {
  Sum sum;
  auto compiler = std::move(*Compiler::create(testTarget(2), {"refuse", [](llvm::Module &) -> Result<void> {
                                                                return Error{MORTISE_UNSUPPORTED, "not this one"};
                                                              }}));
  auto functions = sum.compile(*compiler);
  ASSERT_FALSE(functions);
  EXPECT_EQ(functions.error().code, MORTISE_UNSUPPORTED);
  EXPECT_NE(functions.error().message.find("not this one"), std::string::npos);
}

TEST(Transform, ThatChangesNothingLeavesTheMachineCode) {
  Sum sum;
  auto plain = std::move(*Compiler::create(testTarget(2)));
  auto same = std::move(*Compiler::create(testTarget(2), {"", [](llvm::Module &) -> Result<void> { return {}; }}));
  auto functions = sum.compile(*plain), again = sum.compile(*same);
  ASSERT_TRUE(functions && again);
  EXPECT_EQ(saved(*plain, *functions), saved(*same, *again));
}

// A kernel cache keeps saved bytes beyond the process.
TEST(Transform, CodeOfAnotherIsNotLoaded) {
  Sum sum;
  auto other = std::move(*Compiler::create(testTarget(2), {"subtract", subtract}));
  auto changed = sum.compile(*other);
  ASSERT_TRUE(changed);
  auto plain = std::move(*Compiler::create(testTarget(2)));
  ASSERT_TRUE(plain->load(saved(*other, *changed)));
  auto functions = sum.compile(*plain);
  ASSERT_TRUE(functions);
  EXPECT_EQ(plain->statistics().loaded, 0u);
  EXPECT_EQ(sum.run(functions->at(0)), 8);
}

} // namespace
