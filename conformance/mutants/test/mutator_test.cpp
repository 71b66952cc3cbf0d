// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each operator changes the instruction that it says, and nothing else.
#include "mutator.hpp"

#include <gmock/gmock.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>

#include <algorithm>

using namespace mortise::mutants;
using testing::HasSubstr;

namespace {

struct Code {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module;
  llvm::Function *function = nullptr;
  explicit Code(const std::string &text) {
    llvm::SMDiagnostic wrong;
    module = llvm::parseAssemblyString(text, wrong, context);
    EXPECT_TRUE(module) << wrong.getMessage().str();
    for (llvm::Function &candidate : *module)
      if (!candidate.isDeclaration())
        function = &candidate;
  }
  std::string text() const {
    std::string printed;
    llvm::raw_string_ostream(printed) << *function;
    return printed;
  }
};

// A sum over n elements, in which most operators have a site.
const char *const loop = R"(
declare <4 x float> @llvm.masked.load.v4f32.p0(ptr, <4 x i1>, <4 x float>)
declare float @llvm.fma.f32(float, float, float)
declare float @llvm.floor.f32(float)
declare float @llvm.maximum.f32(float, float)
define void @kernel(ptr %x, ptr %y, i64 %n, <4 x i1> %mask) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %sum = phi float [ 0.0, %entry ], [ %more, %body ]
  %goes = icmp slt i64 %i, %n
  br i1 %goes, label %body, label %done
body:
  %at = getelementptr float, ptr %x, i64 %i
  %four = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %at, <4 x i1> %mask, <4 x float> zeroinitializer)
  %one = extractelement <4 x float> %four, i32 2
  %less = fcmp olt float %one, 3.0
  %chosen = select i1 %less, float %one, float %sum
  %down = call float @llvm.floor.f32(float %chosen)
  %difference = fsub float %down, %sum
  %product = call float @llvm.fma.f32(float %difference, float 2.5, float %sum)
  %more = call float @llvm.maximum.f32(float %product, float %sum)
  %next = add i64 %i, 1
  br label %head
done:
  %narrow = fptrunc float %sum to half
  %number = sitofp i64 %n to float
  store float %number, ptr %y
  store half %narrow, ptr %x
  ret void
}
)";

// The operator's change of the instruction with this number.
std::string after(const std::string &site) {
  Code code(loop);
  const auto parsed = siteOf(site);
  EXPECT_TRUE(parsed) << site;
  EXPECT_TRUE(mutate(*code.function, *parsed)) << site;
  EXPECT_FALSE(llvm::verifyModule(*code.module, &llvm::errs())) << site;
  return code.text();
}

TEST(Mutator, MakesTheChangeThatItSays) {
  EXPECT_THAT(after("8.0/boundary"), HasSubstr("%less = fcmp ole float %one, 3.000000e+00"));
  EXPECT_THAT(after("8.0/opposite"), HasSubstr("fcmp uge float %one, 3.000000e+00"));
  EXPECT_THAT(after("8.0/unordered"), HasSubstr("fcmp ult float %one, 3.000000e+00"));
  EXPECT_THAT(after("8.1/plus-one"), HasSubstr("fcmp olt float %one, 4.000000e+00"));
  EXPECT_THAT(after("8.1/negated"), HasSubstr("fcmp olt float %one, -3.000000e+00"));
  EXPECT_THAT(after("8.1/digit"), HasSubstr("fcmp olt float %one, 0x4008060000000000"));
  EXPECT_THAT(after("9.0/arms"), HasSubstr("select i1 %less, float %sum, float %one"));
  EXPECT_THAT(after("10.0/rounding"), HasSubstr("call float @llvm.ceil.f32(float %chosen)"));
  EXPECT_THAT(after("10.0/dropped"), HasSubstr("%difference = fsub float %chosen, %sum"));
  EXPECT_THAT(after("11.0/operands"), HasSubstr("fsub float %sum, %down"));
  EXPECT_THAT(after("11.0/arithmetic"), HasSubstr("fadd float %down, %sum"));
  EXPECT_THAT(after("11.0/precision"), HasSubstr("-65536"));
  EXPECT_THAT(after("12.0/arithmetic"), HasSubstr("fneg float %sum"));
  EXPECT_THAT(after("12.0/dropped"), HasSubstr("%more = call float @llvm.maximum.f32(float %sum, float %sum)"));
  EXPECT_THAT(after("13.0/arithmetic"), HasSubstr("call float @llvm.minimum.f32"));
  EXPECT_THAT(after("5.1/index-above"), HasSubstr("add i64 %i, 1"));
  EXPECT_THAT(after("5.1/index-below"), HasSubstr("add i64 %i, -1"));
  EXPECT_THAT(after("6.1/all-lanes"), HasSubstr("splat (i1 true)"));
  EXPECT_THAT(after("7.0/lanes"), HasSubstr("extractelement <4 x float> %four, i32 3"));
  EXPECT_THAT(after("3.1/bound-above"), HasSubstr("add i64 %n, 1"));
  EXPECT_THAT(after("3.1/bound-below"), HasSubstr("add i64 %n, -1"));
  EXPECT_THAT(after("1.0/start"), HasSubstr("%i = phi i64 [ 1, %entry ]"));
  EXPECT_THAT(after("2.0/plus-one"), HasSubstr("%sum = phi float [ 1.000000e+00, %entry ]"));
  EXPECT_THAT(after("14.1/step"), HasSubstr("%next = add i64 %i, 2"));
  EXPECT_THAT(after("16.0/toward-zero"), HasSubstr("-8192"));
  EXPECT_THAT(after("17.0/extension"), HasSubstr("uitofp i64 %n to float"));
}

// The sites of a kernel with this body, with spaces around each.
std::string sitesIn(llvm::Function &function) {
  std::string text = " ";
  for (const Site &site : sitesOf(function))
    text += textOf(site) + " ";
  return text;
}

std::string sitesIn(const std::string &body) {
  Code code("declare float @llvm.fma.f32(float, float, float)\n"
            "declare float @llvm.copysign.f32(float, float)\n"
            "define void @kernel(ptr %x, ptr %y, ptr %z, ptr %symbols, i64 %n) {\n" +
            body + "  ret void\n}");
  return sitesIn(*code.function);
}

// The sign rule of what comes from tensors, and not of counts; boundaries, but where it is chosen between what is
// compared.
TEST(Mutator, ComparisonsThatMayBeWrong) {
  const auto sites = [](const std::string &compared, const std::string &other) {
    Code code("define void @kernel(ptr %x, ptr %y, ptr %z, ptr %symbols, i64 %n) {\n"
              "  %number = load i32, ptr %x\n  %symbol = load i32, ptr %symbols\n"
              "  %less = icmp slt i32 %" +
              compared + ", 7\n  %chosen = select i1 %less, i32 %" + compared + ", i32 " + other +
              "\n  store i32 %chosen, ptr %y\n  ret void\n}");
    return sitesIn(*code.function);
  };
  EXPECT_THAT(sites("number", "3"), testing::AllOf(HasSubstr("2.0/signedness"), HasSubstr("2.0/boundary")));
  EXPECT_THAT(sites("symbol", "3"), testing::Not(HasSubstr("signedness")));
  EXPECT_THAT(sites("number", "7"), testing::Not(HasSubstr("boundary")));
  const auto real = [](const std::string &with) {
    return sitesIn("  %a = load float, ptr %x\n  %less = fcmp olt float %a, " + with +
                   "\n  %chosen = select i1 %less, float 1.0, float 2.0\n  store float %chosen, ptr %y\n");
  };
  EXPECT_THAT(real("88.0"), HasSubstr("1.0/boundary"));
  EXPECT_THAT(real("0.5"), testing::Not(HasSubstr("boundary")));
}

// Where both are the same number, or the comparison only decides ties of others, the choice is the same.
TEST(Mutator, BoundariesOfChoices) {
  const auto chosen = [](const std::string &other) {
    return sitesIn("  %a = load <4 x float>, ptr %x\n  %one = load float, ptr %y\n"
                   "  %i = insertelement <4 x float> poison, float %one, i32 0\n"
                   "  %b = shufflevector <4 x float> %i, <4 x float> poison, <4 x i32> zeroinitializer\n"
                   "  %j = insertelement <4 x float> poison, float %one, i32 0\n"
                   "  %again = shufflevector <4 x float> %j, <4 x float> poison, <4 x i32> zeroinitializer\n"
                   "  %m = fcmp ogt <4 x float> %a, %b\n  %s = select <4 x i1> %m, <4 x float> %a, <4 x float> " +
                   other + "\n  store <4 x float> %s, ptr %z\n");
  };
  EXPECT_THAT(chosen("%b"), testing::Not(HasSubstr("boundary")));
  EXPECT_THAT(chosen("%again"), testing::Not(HasSubstr("boundary")));
  EXPECT_THAT(chosen("zeroinitializer"), HasSubstr("boundary"));
  const auto tie = [](const std::string &with) {
    return sitesIn("  %a = load i32, ptr %x\n  %b = load i32, ptr %y\n  %first = icmp slt i32 %a, %b\n"
                   "  %c = load float, ptr %z\n  %equal = fcmp oeq float %c, 1.0\n  %t = and i1 %equal, %first\n"
                   "  %less = fcmp une float %c, 2.0\n  %wins = or i1 %less, " +
                   with + "\n  %s = select i1 %wins, i32 %a, i32 %b\n  store i32 %s, ptr %x\n");
  };
  EXPECT_THAT(tie("%t"), testing::Not(HasSubstr(" 2.0/boundary")));
  EXPECT_THAT(tie("%first"), HasSubstr(" 2.0/boundary"));
}

// What was widened from a type, and only chosen or given another sign since, has nothing to round.
TEST(Mutator, NumbersOfTheNarrowerTypeAreNotRounded) {
  const auto half = [](const std::string &between) {
    return sitesIn("  %h = load half, ptr %x\n  %w = fpext half %h to float\n" + between +
                   "  %narrow = fptrunc float %last to half\n  store half %narrow, ptr %y\n");
  };
  for (const char *exact : {"  %last = fneg float %w\n", "  %last = fadd float %w, 0.0\n",
                            "  %less = fcmp olt float %w, 2.0\n  %last = select i1 %less, float 2.0, float %w\n",
                            "  %one = insertelement <4 x float> poison, float %w, i32 0\n"
                            "  %all = shufflevector <4 x float> %one, <4 x float> poison, <4 x i32> zeroinitializer\n"
                            "  %last = extractelement <4 x float> %all, i32 0\n",
                            "  %bits = bitcast float %w to i32\n  %size = and i32 %bits, 2147483647\n"
                            "  %last = bitcast i32 %size to float\n"}) {
    EXPECT_THAT(half(exact), testing::Not(HasSubstr("toward-zero"))) << exact;
  }
  for (const char *rounded :
       {"  %last = fadd float %w, 1.0\n", "  %last = fmul float %w, %w\n",
        "  %less = fcmp olt float %w, 2.0\n  %last = select i1 %less, float 0x3FB99999A0000000, float %w\n"})
    EXPECT_THAT(half(rounded), HasSubstr("toward-zero")) << rounded;
  const auto bfloat = [](const std::string &last) {
    return sitesIn("  %b = load i16, ptr %x\n  %wide = zext i16 %b to i32\n  %bits = shl i32 %wide, 16\n"
                   "  %w = bitcast i32 %bits to float\n  %last = " +
                   last + "\n  store float %last, ptr %y\n");
  };
  EXPECT_THAT(bfloat("fadd float %w, 0.0"), testing::Not(HasSubstr("precision")));
  EXPECT_THAT(bfloat("fadd float %w, 1.0"), HasSubstr("precision"));
}

TEST(Mutator, SignsThatAnotherOneReplaces) {
  const auto chosen = [](const std::string &last) {
    return sitesIn("  %a = load float, ptr %x\n  %b = load float, ptr %y\n  %less = fcmp olt float %a, %b\n"
                   "  %c = select i1 %less, float 2.0, float %a\n  %s = " +
                   last + "\n  store float %s, ptr %z\n");
  };
  EXPECT_THAT(chosen("call float @llvm.copysign.f32(float %c, float %a)"), testing::Not(HasSubstr("3.1/negated")));
  EXPECT_THAT(chosen("call float @llvm.copysign.f32(float %a, float %c)"), HasSubstr("3.1/negated"));
  EXPECT_THAT(chosen("fadd float %c, %a"), HasSubstr("3.1/negated"));
}

// Without the sign of a zero, x + 0 is x.
TEST(Mutator, SumsWithZero) {
  const auto sum = [](const std::string &with) {
    return sitesIn("  %a = load float, ptr %x\n  %s = fadd float %a, " + with + "\n  store float %s, ptr %y\n");
  };
  EXPECT_THAT(sum("0.0"), testing::Not(HasSubstr(" 1.0/arithmetic")));
  EXPECT_THAT(sum("0.0"), testing::Not(HasSubstr(" 1.0/dropped")));
  EXPECT_THAT(sum("1.0"), HasSubstr(" 1.0/dropped"));
  EXPECT_THAT(sum("1.0"), HasSubstr(" 1.0/arithmetic"));
}

// As a remainder's, whose last step is to take the dividend's sign.
TEST(Mutator, SignsThatAnotherOneReplacesAfterRounding) {
  const auto difference = [](const std::string &last) {
    return sitesIn("  %a = load double, ptr %x\n  %b = load double, ptr %y\n  %d = fsub double %a, %b\n"
                   "  %short = fptrunc double %d to float\n  %less = fcmp olt double %a, %b\n"
                   "  %c = select i1 %less, float %short, float 2.0\n  %s = " +
                   last + "\n  store float %s, ptr %z\n");
  };
  EXPECT_THAT(difference("call float @llvm.copysign.f32(float %c, float %short)"), HasSubstr(" 2.0/operands"));
  EXPECT_THAT(difference("call float @llvm.copysign.f32(float %c, float 1.0)"),
              testing::Not(HasSubstr(" 2.0/operands")));
}

TEST(Mutator, WhetherANumberIsWhole) {
  const std::string whole = "  %a = load float, ptr %x\n  %d = call float @llvm.floor.f32(float %a)\n"
                            "  %w = fcmp oeq float %d, %a\n  store i1 %w, ptr %y\n";
  EXPECT_THAT(sitesIn(whole), testing::Not(HasSubstr(" 1.0/rounding")));
  EXPECT_THAT(sitesIn(whole + "  store float %d, ptr %z\n"), HasSubstr(" 1.0/rounding"));
}

TEST(Mutator, PatternsOfBits) {
  const auto sum = [](const std::string &with) {
    return sitesIn("  %a = load i64, ptr %x\n  %s = xor i64 %a, " + with + "\n  store i64 %s, ptr %y\n");
  };
  EXPECT_THAT(sum("683565275"), HasSubstr("minus-one"));
  EXPECT_THAT(sum("2935890503282001226"), testing::Not(HasSubstr("minus-one")));
}

TEST(Mutator, ConstantsOfMoreThan64Bits) {
  Code code("define void @kernel(ptr %x, i128 %a) {\n  %s = add i128 %a, 5\n  store i128 %s, ptr %x\n  ret void\n}");
  EXPECT_TRUE(mutate(*code.function, *siteOf("0.1/minus-one")));
  EXPECT_THAT(code.text(), HasSubstr("add i128 %a, 4"));
}

TEST(Mutator, LanesBesideAMask) {
  const std::string load =
      "  %l = call <4 x float> @llvm.masked.load.v4f32.p0(ptr %x, <4 x i1> <i1 1, i1 1, i1 0, i1 0>, "
      "<4 x float> zeroinitializer)\n  store <4 x float> %l, ptr %y\n";
  EXPECT_THAT(sitesIn(load), testing::Not(HasSubstr("plus-one")));
  EXPECT_THAT(sitesIn(load), HasSubstr("all-lanes"));
}

TEST(Mutator, ATurnWithoutLanes) {
  const auto loopTo = [](const std::string &left) {
    return sitesIn("  br label %head\nhead:\n  %i = phi i64 [ 0, %0 ], [ %next, %body ]\n"
                   "  %goes = icmp slt i64 %i, 37\n  br i1 %goes, label %body, label %done\nbody:\n  %left = sub i64 " +
                   left + ", %i\n  store i64 %left, ptr %x\n  %next = add i64 %i, 16\n  br label %head\ndone:\n");
  };
  EXPECT_THAT(loopTo("37"), testing::Not(HasSubstr("bound-above")));
  EXPECT_THAT(loopTo("37"), HasSubstr("bound-below"));
  EXPECT_THAT(loopTo("38"), HasSubstr("bound-above"));
}

TEST(Mutator, TwoVersionsOfAKernel) {
  const auto branched = [](const std::string &other) {
    Code code("define void @kernel(ptr %inputs, ptr %outputs, ptr %scratch, ptr %symbols, i64 %begin, i64 %end) {\n"
              "  %n = load i64, ptr %symbols\n  %short = icmp slt i64 %n, 128\n"
              "  br i1 %short, label %one, label %two\none:\n  %a = icmp slt i64 %begin, %end\n"
              "  store i1 %a, ptr %outputs\n  ret void\ntwo:\n" +
              other + "  ret void\n}");
    return sitesIn(*code.function);
  };
  EXPECT_THAT(
      branched("  %b = icmp slt i64 %begin, %end\n  store i1 %b, ptr %outputs\n"),
      testing::Not(testing::AnyOf(HasSubstr(" 2.0/branch"), HasSubstr(" 1.0/boundary"), HasSubstr(" 1.1/plus-one"))));
  EXPECT_THAT(branched("  store i1 true, ptr %outputs\n"),
              testing::AllOf(HasSubstr(" 2.0/branch"), HasSubstr(" 1.0/boundary"), HasSubstr(" 1.1/plus-one")));
}

TEST(Mutator, SignsOfWhatIsOnlySquared) {
  const std::string difference = "  %a = load float, ptr %x\n  %b = load float, ptr %y\n  %d = fsub float %a, %b\n"
                                 "  %s = call float @llvm.fma.f32(float %d, float %d, float %a)\n"
                                 "  store float %s, ptr %z\n";
  EXPECT_THAT(sitesIn(difference), testing::Not(HasSubstr(" 2.0/operands")));
  EXPECT_THAT(sitesIn(difference + "  store float %d, ptr %z\n"), HasSubstr(" 2.0/operands"));
}

// Of a number that is never negative the sign rule does not matter.
TEST(Mutator, ExtensionsOfCounts) {
  const auto extended = [](const std::string &number) {
    return sitesIn("  %data = load i32, ptr %x\n  %less = icmp slt i32 %data, 0\n"
                   "  %number = select i1 %less, i32 7, i32 " +
                   number + "\n  %wide = sext i32 %number to i64\n  store i64 %wide, ptr %y\n");
  };
  EXPECT_THAT(extended("3"), testing::Not(HasSubstr("3.0/extension")));
  EXPECT_THAT(extended("-3"), HasSubstr("3.0/extension"));
  EXPECT_THAT(extended("%data"), HasSubstr("3.0/extension"));
  // A clamped index, up to the last one of an extent.
  const auto clamped = [](const std::string &extent) {
    return sitesIn("  %data = load i32, ptr %x\n  %extent = load i64, ptr " + extent +
                   "\n  %last = add i64 %extent, -1\n  %narrow = trunc i64 %last to i32\n"
                   "  %low = call i32 @llvm.smax.i32(i32 %data, i32 0)\n"
                   "  %index = call i32 @llvm.smin.i32(i32 %low, i32 %narrow)\n"
                   "  %wide = sext i32 %index to i64\n  store i64 %wide, ptr %y\n");
  };
  EXPECT_THAT(clamped("%symbols"), testing::Not(HasSubstr("6.0/extension")));
  EXPECT_THAT(clamped("%y"), HasSubstr("6.0/extension"));
}

// A bound that was one element less would leave a vector's last turn as it is.
TEST(Mutator, ALoopLosesATurn) {
  Code code(R"(
define void @kernel(ptr %x, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %goes = icmp slt i64 %i, %n
  br i1 %goes, label %body, label %done
body:
  %at = getelementptr float, ptr %x, i64 %i
  store <16 x float> zeroinitializer, ptr %at
  %next = add i64 %i, 16
  br label %head
done:
  ret void
}
)");
  EXPECT_TRUE(mutate(*code.function, *siteOf("2.1/bound-below")));
  EXPECT_THAT(code.text(), HasSubstr("add i64 %n, -16"));
}

// What a mean is divided by is an extent.
TEST(Mutator, APatternHasNoCounts) {
  const auto divided = [](const std::string &by) {
    Code code("define void @kernel(ptr %x, float %a) {\n  %q = fdiv float %a, " + by +
              "\n  store float %q, ptr %x\n  ret void\n}");
    return patternOf(*llvm::inst_begin(code.function));
  };
  EXPECT_EQ(divided("61.0"), divided("7.0"));
  EXPECT_NE(divided("61.0"), divided("%a"));
}

TEST(Mutator, RefusesOtherSites) {
  Code code(loop);
  const std::string before = code.text();
  // A loop's counter keeps its step, masked accesses their alignment; there is no instruction 99.
  for (const char *site :
       {"14.0/dropped", "14.0/arithmetic", "14.1/minus-one", "99.0/arms", "8.0/arms", "5.0/index-above"})
    EXPECT_FALSE(mutate(*code.function, *siteOf(site))) << site;
  EXPECT_EQ(code.text(), before);
  for (const char *text : {"", "9", "9.0", "9.0/", "8.0/nothing", "x.0/arms", "9.x/arms", "9/arms"})
    EXPECT_FALSE(siteOf(text)) << text;
}

TEST(Mutator, EverySiteChangesTheCodeAndIsTheSameAgain) {
  Code code(loop);
  const std::string before = code.text();
  const std::vector<Site> sites = sitesOf(*code.function);
  EXPECT_EQ(code.text(), before);
  EXPECT_GT(sites.size(), 30U);
  std::vector<bool> used(256);
  for (const Site &site : sites) {
    const std::string text = textOf(site);
    EXPECT_EQ(siteOf(text), site);
    const std::string changed = after(text);
    EXPECT_NE(changed, before) << text;
    EXPECT_EQ(changed, after(text)) << text;
    used[static_cast<size_t>(site.change)] = true;
  }
  EXPECT_GE(std::count(used.begin(), used.end(), true), 22) << "operators with a site here";
}

std::string replaced(std::string text, const std::string &from, const std::string &to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Mutator, AKindIsTheSameForOtherExtentsAlone) {
  const uint64_t kind = kindOf(*Code(loop).function);
  EXPECT_EQ(kind, kindOf(*Code(loop).function));
  EXPECT_EQ(kind, kindOf(*Code(replaced(loop, "@kernel", "@other")).function));
  EXPECT_EQ(kind, kindOf(*Code(replaced(loop, "%next = add i64 %i, 1", "%next = add i64 %i, 16")).function));
  EXPECT_NE(kind, kindOf(*Code(replaced(loop, "fcmp olt", "fcmp ole")).function));
  EXPECT_NE(kind, kindOf(*Code(replaced(loop, "float 2.5", "float 3.5")).function));
  EXPECT_NE(kind, kindOf(*Code(replaced(loop, "fsub float %down, %sum", "fsub float %sum, %down")).function));
  EXPECT_NE(kind, kindOf(*Code(replaced(loop, "getelementptr float", "getelementptr half")).function));
}

// The same change in two places, which a generator's unrolled loop has, and in a kernel with other lanes.
TEST(Mutator, APatternIsChangedWhereverItStands) {
  const std::string twice = R"(
define void @kernel(ptr %x, LANES %a, LANES %b, i64 %n) {
  %p = fmul LANES %a, %b
  %q = fsub LANES %p, %a
  store LANES %q, ptr %x
  %at = getelementptr float, ptr %x, i64 NUMBER
  %r = fmul LANES %b, %b
  %s = fsub LANES %r, %b
  store LANES %s, ptr %at
  %t = fsub LANES %s, %q
  store LANES %t, ptr %x
  ret void
}
)";
  const auto with = [&](const std::string &lanes, const std::string &number) {
    std::string text = twice;
    for (const auto &[from, to] : {std::pair<std::string, std::string>("LANES", lanes), {"NUMBER", number}})
      for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
  };
  Code narrow(with("float", "7")), wide(with("<16 x float>", "8")), other(with("double", "7"));
  const auto second = [](const Code &code) { return patternOf(*std::next(llvm::inst_begin(code.function))); };
  EXPECT_EQ(second(narrow), second(wide));
  EXPECT_NE(second(narrow), second(other));
  const Site site = *siteOf("*.0/operands");
  EXPECT_EQ(textOf(site), "*.0/operands");
  EXPECT_THAT(mutateEverywhere(*other.function, second(narrow), site), testing::IsEmpty());
  const auto sites = patternSitesOf(*narrow.function);
  EXPECT_EQ(std::ranges::count(sites, std::pair(second(narrow), site)), 1);
  // The last subtraction has other operands, and is left alone.
  EXPECT_THAT(mutateEverywhere(*wide.function, second(narrow), site), testing::SizeIs(2));
  EXPECT_THAT(wide.text(), HasSubstr("fsub <16 x float> %a, %p"));
  EXPECT_THAT(wide.text(), HasSubstr("fsub <16 x float> %b, %r"));
  EXPECT_THAT(wide.text(), HasSubstr("fsub <16 x float> %s, %q"));
  EXPECT_FALSE(llvm::verifyModule(*wide.module, &llvm::errs()));
}

} // namespace
