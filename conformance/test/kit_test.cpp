// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the kit makes of verdicts, without a plugin.
#include <kit/report.hpp>

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

namespace mortise::conformance {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Verdict verdict(std::string id, Outcome outcome, std::string reason = "") {
  Verdict made{.id = std::move(id), .outcome = outcome};
  made.reason = std::move(reason);
  made.why = outcome == Outcome::Passed ? "" : "because <of> \"this\"";
  return made;
}

constexpr const char *add = "add/f32/prime/dense/random/#1", *sub = "sub/f32/prime/dense/random/#1",
                     *mul = "mul/f32/prime/dense/random/#1";

runtime::Manifest claiming(std::vector<std::string> ops) {
  runtime::Manifest manifest;
  manifest.name = "acme";
  manifest.claims.push_back({std::move(ops), {"f32"}, 8});
  return manifest;
}

class Judged : public testing::Test {
protected:
  Judgement judged(const Swept &swept, size_t expected, const runtime::Manifest &manifest = {},
                   const std::vector<Expectation> &expectations = {}) {
    return judge(options, swept, expected, manifest, expectations);
  }
  Options options{.cases = {"some"}};
};

TEST_F(Judged, AllPassedIsGood) {
  const Swept swept{{verdict(add, Outcome::Passed), verdict(sub, Outcome::Refused, "op")}, "", 0};
  EXPECT_EQ(judged(swept, 2, claiming({"mortise.add"})).exit, Exit::good);
}

TEST_F(Judged, EachBadOutcomeFails) {
  for (const Outcome outcome : {Outcome::Failed, Outcome::Crashed, Outcome::Hung}) {
    const Swept swept{{verdict(add, Outcome::Passed), verdict(sub, outcome)}, "", 0};
    const Judgement made = judged(swept, 2);
    EXPECT_EQ(made.exit, Exit::failed);
    EXPECT_EQ(made.failures.size(), 1u);
  }
}

TEST_F(Judged, NothingExecutedIsNoPass) {
  EXPECT_EQ(judged({{verdict(add, Outcome::Refused, "op")}, "", 0}, 1).exit, Exit::nothing);
  EXPECT_EQ(judged({}, 0).exit, Exit::nothing);
}

TEST_F(Judged, FewerCasesThanTheTableHasIsNoPass) {
  const Judgement made = judged({{verdict(add, Outcome::Passed)}, "", 0}, 2);
  EXPECT_EQ(made.exit, Exit::shrunken);
  EXPECT_THAT(made.shrunken, HasSubstr("expected 2 cases, found 1"));
}

TEST_F(Judged, AClaimThatIsRefusedIsUnproven) {
  const Swept swept{{verdict(add, Outcome::Passed), verdict(sub, Outcome::Refused, "op")}, "", 0};
  const Judgement made = judged(swept, 2, claiming({"mortise.*"}));
  EXPECT_EQ(made.exit, Exit::unproven);
  EXPECT_THAT(made.unproven, testing::ElementsAre(HasSubstr("mortise.sub in f32, shape prime: op: ")));
}

TEST_F(Judged, AClaimPromisesNothingAboutLayouts) {
  const Swept swept{
      {verdict(add, Outcome::Passed), verdict("sub/f32/prime/strided/random/#1", Outcome::Refused, "layout")}, "", 0};
  EXPECT_THAT(judged(swept, 2, claiming({"mortise.*"})).unproven, IsEmpty());
}

// What has not been tried is neither missing nor unproven then.
TEST_F(Judged, ARunThatStopsAtAFailureHasFailed) {
  options.stopsAtFailure = true;
  const Swept swept{{verdict(add, Outcome::Failed), verdict(sub, Outcome::Refused, "op")}, "", 0};
  const Judgement made = judged(swept, 3, claiming({"mortise.*"}));
  EXPECT_EQ(made.exit, Exit::failed);
  EXPECT_THAT(made.unproven, IsEmpty());
  const Swept good{{verdict(add, Outcome::Passed)}, "", 0};
  EXPECT_EQ(judged(good, 2).exit, Exit::shrunken);
}

TEST_F(Judged, AProbeProvesNoClaim) {
  const Swept swept{
      {verdict(std::string("abi/again/") + add, Outcome::Passed), verdict(add, Outcome::Refused, "op")}, "", 0};
  EXPECT_EQ(judged(swept, 2, claiming({"mortise.add"})).exit, Exit::unproven);
  EXPECT_EQ(judged(swept, 2).provenPairs, 0u);
}

TEST_F(Judged, ExpectedFailuresPass) {
  const Swept swept{{verdict(add, Outcome::Passed), verdict(sub, Outcome::Failed)}, "", 0};
  const Judgement made = judged(swept, 2, {}, {{false, false, {"sub/*"}, Outcome::Failed, "later"}});
  EXPECT_EQ(made.exit, Exit::good);
  EXPECT_EQ(made.excused.size(), 1u);
  EXPECT_EQ(judged(swept, 2, {}, {{false, false, {"sub/*"}, Outcome::Hung, "later"}}).exit, Exit::failed);
}

TEST_F(Judged, AnUnexpectedPassFails) {
  const Swept one{{verdict(add, Outcome::Passed), verdict("add/f32/tail/dense/random/#1", Outcome::Failed)}, "", 0};
  const Swept all{{verdict(add, Outcome::Passed), verdict("add/f32/tail/dense/random/#1", Outcome::Passed)}, "", 0};
  const auto exit = [&](const Swept &swept, bool never, bool partly) {
    return judged(swept, 2, {}, {{never, partly, {"add/*"}, Outcome::Failed, "why"}}).exit;
  };
  EXPECT_EQ(exit(one, false, false), Exit::unexpected);
  EXPECT_EQ(exit(one, false, true), Exit::good);
  EXPECT_EQ(exit(all, false, true), Exit::good); // of a part of the table, in which no case happens to fail
  EXPECT_EQ(exit(all, true, false), Exit::good);
  options.cases.clear();
  options.levels = {};
  EXPECT_EQ(exit(all, false, true), Exit::unexpected);
}

TEST_F(Judged, AnEntryThatFitsNoCaseFailsAWholeRun) {
  const std::vector<Expectation> entries = {{false, false, {"subtract/*"}, Outcome::Failed, "later"}};
  const Swept swept{{verdict(add, Outcome::Passed)}, "", 0};
  EXPECT_EQ(judged(swept, 1, {}, entries).exit, Exit::good); // of a part
  options.cases.clear();
  EXPECT_EQ(judged(swept, 1, {}, entries).exit, Exit::unexpected);
}

class ExpectationsFile : public testing::Test {
protected:
  ~ExpectationsFile() override { std::filesystem::remove(path); }
  Result<std::vector<Expectation>> read(const std::string &text) {
    std::ofstream(path) << text;
    return readExpectations(path);
  }
  const std::string path = testing::TempDir() + "expectations-" + std::to_string(getpid()) + ".toml";
};

TEST_F(ExpectationsFile, IsRead) {
  const auto entries =
      read("[[never]]\ncases = [\"sub/*\"]\nreason = \"r\"\n[[not-yet]]\ncases = [\"mul/*\", \"div/*\"]\n"
           "reason = \"s\"\npartly = true\noutcome = \"hung\"\n");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_TRUE((*entries)[0].never);
  EXPECT_EQ((*entries)[0].outcome, Outcome::Failed);
  EXPECT_FALSE((*entries)[1].never);
  EXPECT_THAT((*entries)[1].cases, testing::ElementsAre("mul/*", "div/*"));
  EXPECT_EQ((*entries)[1].outcome, Outcome::Hung);
  EXPECT_TRUE((*entries)[1].partly);
  EXPECT_FALSE((*entries)[0].partly);
}

TEST_F(ExpectationsFile, IsRefusedWithItsKey) {
  const std::pair<const char *, const char *> wrong[] = {
      {"[[never]]\ncases = [\"a\"]\n", "never.0: expected a reason"},
      {"[[never]]\nreason = \"r\"\n", "never.0: expected cases"},
      {"[[never]]\ncases = \"a\"\nreason = \"r\"\n", "never.0.cases"},
      {"[[sometimes]]\ncases = [\"a\"]\nreason = \"r\"\n", "sometimes.0"},
      {"[[never]]\ncases = [\"a\"]\nreason = \"r\"\noutcome = \"passed\"\n", "expected failed, refused"},
      {"[[never]]\ncase = [\"a\"]\nreason = \"r\"\n", "never.0.case:"}};
  for (const auto &[text, why] : wrong) {
    const auto entries = read(text);
    ASSERT_FALSE(entries) << text;
    EXPECT_THAT(entries.error().message, HasSubstr(why));
  }
}

Json reportOfSome() {
  const Options options{.cases = {"some"}, .seed = 5};
  const Swept swept{
      {verdict(add, Outcome::Passed), verdict(sub, Outcome::Failed), verdict(mul, Outcome::Refused, "op")}, "", 0};
  Subject subject{claiming({"mortise.*"}), "/a/libacme.so", "00", "11", "acme", "A&B", ""};
  return reportOf(options, subject, swept, judge(options, swept, 3, subject.manifest, {}), {}, 1);
}

TEST(ConformanceReports, FailuresCarryTheirCommand) {
  const Json report = reportOfSome();
  const std::string command =
      "mortise-conformance --plugin /a/libacme.so --device acme --seed 5 --case '" + std::string(sub) + "'";
  EXPECT_EQ(repeatOf(report, Json{{"case", sub}}), command);
  EXPECT_THAT(summaryOf(report), HasSubstr(command));
  EXPECT_THAT(pageOf(report), HasSubstr(sub));
}

TEST(ConformanceReports, TextsAreEscaped) {
  const Json report = reportOfSome();
  EXPECT_THAT(junitOf(report),
              testing::AllOf(HasSubstr("because &lt;of&gt; &quot;this&quot;"), testing::Not(HasSubstr("<of>"))));
  EXPECT_THAT(pageOf(report), testing::AllOf(HasSubstr("A&amp;B"), testing::Not(HasSubstr("<of>"))));
}

TEST(ConformanceReports, DifferencesNameCasesThatChanged) {
  const Json before = reportOfSome();
  Json after = before;
  bool worse = true;
  EXPECT_EQ(differenceOf(before, after, worse), "no case differs\n");
  EXPECT_FALSE(worse);
  after["cases"][0]["outcome"] = "failed";
  EXPECT_THAT(differenceOf(before, after, worse), HasSubstr(std::string(add) + ": passed -> failed"));
  EXPECT_TRUE(worse);
  EXPECT_THAT(differenceOf(after, before, worse), HasSubstr("failed -> passed"));
  EXPECT_FALSE(worse);
  after = before;
  after["cases"].erase(0);
  EXPECT_THAT(differenceOf(before, after, worse), HasSubstr("gone"));
  EXPECT_TRUE(worse);
}

TEST(ConformanceVerdicts, JsonKeepsThem) {
  Verdict made = verdict(add, Outcome::Failed);
  made.kind = "result";
  made.distances.worst = 3;
  made.distances.histogram[2] = 7;
  const Verdict read = Verdict::read(made.json());
  EXPECT_EQ(read.id, made.id);
  EXPECT_EQ(read.outcome, made.outcome);
  EXPECT_EQ(read.kind, made.kind);
  EXPECT_EQ(read.why, made.why);
  EXPECT_EQ(read.distances.worst, 3);
  EXPECT_EQ(read.distances.histogram, made.distances.histogram);
}

} // namespace
} // namespace mortise::conformance
