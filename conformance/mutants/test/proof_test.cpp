// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What may be assumed of a kernel is written into it where it is true, and nowhere else.
#include "proof.hpp"

#include <gmock/gmock.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

using namespace mortise::mutants;
using testing::HasSubstr;
using testing::Not;

namespace {

// The function of the text after a change.
std::string changed(const std::string &text, void (*change)(llvm::Function &)) {
  llvm::LLVMContext context;
  llvm::SMDiagnostic wrong;
  const auto module = llvm::parseAssemblyString(text, wrong, context);
  EXPECT_TRUE(module) << wrong.getMessage().str();
  std::string printed;
  for (llvm::Function &function : *module)
    if (!function.isDeclaration()) {
      change(function);
      llvm::raw_string_ostream(printed) << function;
    }
  EXPECT_FALSE(llvm::verifyModule(*module, &llvm::errs()));
  return printed;
}

const char *const kernel = R"(
define void @kernel(ptr %inputs, ptr %outputs, ptr %scratch, ptr %symbols, i64 %begin, i64 %end) {
  %at = getelementptr i64, ptr %symbols, i64 1
  %symbol = load i64, ptr %at
  %other = load i64, ptr %scratch
  ret void
})";

TEST(Proof, SymbolsAndTasksOfKernels) {
  const std::string after = changed(kernel, assumeCalls);
  EXPECT_THAT(after, HasSubstr("icmp sge i64 %begin, 0"));
  EXPECT_THAT(after, HasSubstr("icmp slt i64 %begin, %end"));
  EXPECT_THAT(after, HasSubstr("load i64, ptr %at, align 4, !range"));
  EXPECT_THAT(after, Not(HasSubstr("load i64, ptr %scratch, align 4, !range")));
}

TEST(Proof, OtherFunctionsStayAsTheyAre) {
  const std::string after = changed("define void @other(i64 %begin, i64 %end) {\n  ret void\n}", assumeCalls);
  EXPECT_THAT(after, Not(HasSubstr("assume")));
}

// A load of which a sum of 1 is stored; with so much in between, and stored under this mask.
std::string stored(const std::string &between, const std::string &mask) {
  return R"(
declare <4 x i32> @llvm.masked.load.v4i32.p0(ptr, <4 x i1>, <4 x i32>)
declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, <4 x i1>)
define void @kernel(ptr %x, ptr %y, <4 x i1> %mask, <4 x i1> %other) {
  %four = call <4 x i32> @llvm.masked.load.v4i32.p0(ptr %x, <4 x i1> %mask, <4 x i32> splat (i32 7))
  )" + between +
         R"(
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %sum, ptr %y, <4 x i1> )" +
         mask + R"()
  ret void
})";
}

TEST(Proof, LanesThatNobodyStores) {
  const std::string add = "%sum = add <4 x i32> %four, splat (i32 1)";
  EXPECT_THAT(changed(stored(add, "%mask"), forgetUnseenLanes), HasSubstr("zeroinitializer"));
  const std::string guarded = "%none = icmp eq <4 x i32> %four, zeroinitializer\n"
                              "%safe = select <4 x i1> %none, <4 x i32> splat (i32 1), <4 x i32> %four\n"
                              "%sum = sdiv <4 x i32> %four, %safe";
  EXPECT_THAT(changed(stored(guarded, "%mask"), forgetUnseenLanes), HasSubstr("zeroinitializer"));
  for (const std::string &seen :
       {stored(add, "%other"), // under another mask
        stored("%sum = shufflevector <4 x i32> %four, <4 x i32> %four, <4 x i32> <i32 1, i32 2, i32 3, i32 0>",
               "%mask"),
        stored("%sum = sdiv <4 x i32> splat (i32 1), %four", "%mask"), // ends the process where the lane is 0
        stored(add + "\n  store <4 x i32> %sum, ptr %x", "%mask")})
    EXPECT_THAT(changed(seen, forgetUnseenLanes), HasSubstr("splat (i32 7)")) << seen;
}

// A column's sum: lanes of one turn are added to those of the next one, under one mask, or under a mask of each turn.
TEST(Proof, LanesOfALoop) {
  const auto sum = [](const std::string &load, const std::string &mask) {
    return R"(
declare <4 x i32> @llvm.masked.load.v4i32.p0(ptr, <4 x i1>, <4 x i32>)
declare void @llvm.masked.store.v4i32.p0(<4 x i32>, ptr, <4 x i1>)
define void @kernel(ptr %x, ptr %y, i64 %n, <4 x i1> %mask) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %sum = phi <4 x i32> [ zeroinitializer, %entry ], [ %more, %body ]
  %goes = icmp slt i64 %i, %n
  br i1 %goes, label %body, label %done
body:
  %own = load <4 x i1>, ptr %y
  %four = call <4 x i32> @llvm.masked.load.v4i32.p0(ptr %x, <4 x i1> )" +
           load + R"(, <4 x i32> splat (i32 7))
  %more = add <4 x i32> %sum, %four
  %next = add i64 %i, 1
  br label %head
done:
  call void @llvm.masked.store.v4i32.p0(<4 x i32> %sum, ptr %y, <4 x i1> )" +
           mask + R"()
  ret void
})";
  };
  const auto forgets = [&](const std::string &load, const std::string &mask) {
    return !testing::Matches(HasSubstr("splat (i32 7)"))(changed(sum(load, mask), forgetUnseenLanes));
  };
  EXPECT_TRUE(forgets("%mask", "%mask"));
  EXPECT_FALSE(forgets("%mask", "splat (i1 true)"));
  EXPECT_FALSE(forgets("%own", "%mask"));
}

// Whether both come to the same instructions.
bool areSimplifiedEqual(llvm::Module &one, llvm::Module &other) {
  std::string texts[2];
  for (llvm::Module *module : {&one, &other}) {
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager components;
    llvm::ModuleAnalysisManager modules;
    llvm::PassBuilder builder;
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(components);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, components, modules);
    llvm::ModulePassManager passes;
    EXPECT_FALSE(builder.parsePassPipeline(passes, "function(instcombine)"));
    passes.run(*module, modules);
    llvm::raw_string_ostream(texts[module == &other]) << *module->getFunction("kernel");
  }
  return texts[0] == texts[1];
}

// Of a choice by the comparison of %x, or of %w that is made of it, with 0: whether that decides alike for NaN, however
// it is ordered.
bool isNanUnseen(const std::string &chosen, const std::string &made = "") {
  llvm::LLVMContext context;
  llvm::SMDiagnostic wrong;
  const auto with = [&](const std::string &predicate) {
    auto module = llvm::parseAssemblyString(
        "declare <4 x float> @llvm.fabs.v4f32(<4 x float>)\n"
        "define void @kernel(ptr %p, ptr %q) {\n  %x = load <4 x float>, ptr %p\n  " +
            made + "\n  %less = fcmp " + predicate + " <4 x float> " + (made.empty() ? "%x" : "%w") +
            ", zeroinitializer\n" + chosen + "  store <4 x float> %y, ptr %q\n  ret void\n}",
        wrong, context);
    EXPECT_TRUE(module) << wrong.getMessage().str();
    return module;
  };
  return areEqualForNan(*with("olt"), *with("ult"), areSimplifiedEqual);
}

TEST(Proof, ComparisonsOfNan) {
  EXPECT_TRUE(isNanUnseen("  %a = fadd <4 x float> %x, splat (float 1.0)\n  %b = fmul <4 x float> %x, %x\n"
                          "  %y = select <4 x i1> %less, <4 x float> %a, <4 x float> %b\n"));
  EXPECT_FALSE(isNanUnseen("  %y = select <4 x i1> %less, <4 x float> splat (float 1.0), <4 x float> %x\n"));
  // What is compared was made of what else is used, and is NaN where that is; or not only there.
  const std::string used = "  %a = fadd <4 x float> %x, splat (float 1.0)\n"
                           "  %y = select <4 x i1> %less, <4 x float> %a, <4 x float> %x\n";
  EXPECT_TRUE(isNanUnseen(used, "%w = fmul <4 x float> %x, %x"));
  EXPECT_TRUE(isNanUnseen(used, "%w = call <4 x float> @llvm.fabs.v4f32(<4 x float> %x)"));
  EXPECT_FALSE(isNanUnseen(used, "%w = fsub <4 x float> %x, %x"));
  // A lane with NaN goes into others.
  EXPECT_FALSE(
      isNanUnseen("  %a = fadd <4 x float> %x, splat (float 1.0)\n"
                  "  %b = shufflevector <4 x float> %a, <4 x float> %a, <4 x i32> <i32 1, i32 2, i32 3, i32 0>\n"
                  "  %y = select <4 x i1> %less, <4 x float> %a, <4 x float> %b\n"));
  EXPECT_FALSE(isNanUnseen("  %y = fneg <4 x float> %x\n  %z = bitcast <4 x i1> %less to i4\n  store i4 %z, ptr %p\n"));
}

} // namespace
