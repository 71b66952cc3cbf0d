// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report as JUnit's XML, for CI: a suite for each op.
#include "report.hpp"

namespace mortise::conformance {
namespace {

std::string escaped(const std::string &text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
    case '&':
      made += "&amp;";
      break;
    case '<':
      made += "&lt;";
      break;
    case '>':
      made += "&gt;";
      break;
    case '"':
      made += "&quot;";
      break;
    default:
      made += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return made;
}

std::string numberOf(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.6f", value);
  return text;
}

struct Suite {
  std::string cases;
  size_t tests = 0, failures = 0, errors = 0, skipped = 0;
  double seconds = 0;
};

void add(Suite &suite, const std::string &op, const Json &line, const Json &report) {
  const std::string id = line["case"], outcome = line["outcome"], why = line.value("why", "");
  const double seconds = line.value("seconds", 0.0);
  ++suite.tests;
  suite.seconds += seconds;
  suite.cases +=
      "    <testcase classname=\"" + escaped(op) + "\" name=\"" + escaped(id) + "\" time=\"" + numberOf(seconds) + "\"";
  if (outcome == "passed") {
    suite.cases += "/>\n";
  } else if (outcome == "refused" || line.value("expected", false)) {
    ++suite.skipped;
    suite.cases +=
        "><skipped message=\"" + escaped(outcome + ": " + line.value("reason", "") + " " + why) + "\"/></testcase>\n";
  } else {
    const bool failed = outcome == "failed"; // the others are errors
    ++(failed ? suite.failures : suite.errors);
    const std::string kind = failed ? "failure" : "error";
    suite.cases += "><" + kind + " type=\"" + escaped(failed ? line.value("kind", "") : outcome) + "\" message=\"" +
                   escaped(why) + "\">" + escaped(repeatOf(report, line)) + "</" + kind + "></testcase>\n";
  }
}

std::string counts(const Suite &suite) {
  return " tests=\"" + std::to_string(suite.tests) + "\" failures=\"" + std::to_string(suite.failures) +
         "\" errors=\"" + std::to_string(suite.errors) + "\" skipped=\"" + std::to_string(suite.skipped) +
         "\" time=\"" + numberOf(suite.seconds) + "\"";
}

} // namespace

std::string junitOf(const Json &report) {
  std::map<std::string, Suite> suites;
  for (const Json &line : report["cases"]) {
    const auto point = pointOf(line["case"].get<std::string>());
    const std::string op = point ? subjectOf(*point) : "unknown";
    add(suites[op], op, line, report);
  }
  // What is wrong with the run as a whole.
  Suite &whole = suites["run"];
  const auto add = [&](const std::string &name, const std::string &why) {
    ++whole.tests;
    ++whole.failures;
    whole.cases += "    <testcase classname=\"run\" name=\"" + escaped(name) + "\"><failure message=\"" + escaped(why) +
                   "\"/></testcase>\n";
  };
  for (const char *key : {"unproven", "unexpected"})
    for (const Json &why : report[key])
      add(key, why);
  for (const char *key : {"shrunken", "broken"})
    if (const std::string why = report[key]; !why.empty())
      add(key, why);
  if (report["result"] == "nothing executed")
    add("nothing", "no case was executed");
  Suite all;
  std::string text;
  for (const auto &[name, suite] : suites) {
    text += "  <testsuite name=\"" + escaped(name) + "\"" + counts(suite) + ">\n" + suite.cases + "  </testsuite>\n";
    all.tests += suite.tests;
    all.failures += suite.failures;
    all.errors += suite.errors;
    all.skipped += suite.skipped;
    all.seconds += suite.seconds;
  }
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"mortise-conformance\"" + counts(all) + ">\n" +
         text + "</testsuites>\n";
}

} // namespace mortise::conformance
