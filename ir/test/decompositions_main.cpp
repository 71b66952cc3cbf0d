// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// mortise-decompositions [COMPOSITE...]: runs every case, element type and kind of values; prints JSON.
#include "decompositions.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

using namespace mortise::test;

namespace {

void print(const char *key, const std::map<std::string, Outcome> &groups) {
  std::printf("  \"%s\": {", key);
  const char *separator = "";
  for (const auto &[name, outcome] : groups) {
    std::printf("%s\n    \"%s\": {\"passed\": %d, \"failed\": %d, \"elements\": %ld, \"open\": %ld, \"differing\": "
                "%ld, \"tight\": %ld}",
                separator, name.c_str(), outcome.passed, outcome.failed, outcome.elements, outcome.open,
                outcome.differing, outcome.tight);
    separator = ",";
  }
  std::printf("\n  },\n");
}

} // namespace

int main(int count, char **arguments) {
  std::vector<std::string> wanted(arguments + 1, arguments + count), missing;
  Outcome total, symbolic;
  std::map<std::string, Outcome> byComposite, byElement;
  for (const std::string &name : composites())
    if (std::ranges::none_of(cases(), [&](const Case &test) { return test.composite == name; }))
      missing.push_back(name);
  for (const std::string &what : untried())
    missing.push_back(what);
  for (const Case &test : cases()) {
    if (!wanted.empty() && std::ranges::find(wanted, test.composite) == wanted.end())
      continue;
    for (const std::string &element : test.elements) {
      Outcome outcome = runCase(test, element, kinds(), 8), symbols = runSymbolic(test, element);
      byComposite[test.composite].add(outcome);
      byElement[element].add(outcome);
      total.add(outcome);
      symbolic.add(symbols);
    }
  }
  for (const std::vector<std::string> &failures : {total.failures, symbolic.failures})
    for (const std::string &failure : failures)
      std::fprintf(stderr, "%s\n", failure.c_str());
  std::printf("{\n");
  print("by_composite", byComposite);
  print("by_dtype", byElement);
  std::printf("  \"symbolic\": {\"passed\": %d, \"failed\": %d},\n  \"without_cases\": [", symbolic.passed,
              symbolic.failed);
  for (size_t i = 0; i < missing.size(); ++i)
    std::printf("%s\"%s\"", i ? ", " : "", missing[i].c_str());
  std::printf("],\n  \"composites\": %zu, \"elements\": %ld, \"open\": %ld, \"differing\": %ld,\n", byComposite.size(),
              total.elements, total.open, total.differing);
  std::printf("  \"passed\": %d, \"failed\": %d\n}\n", total.passed + symbolic.passed,
              total.failed + symbolic.failed + static_cast<int>(missing.size()));
  return total.failed + symbolic.failed + static_cast<int>(missing.size()) == 0 ? 0 : 1;
}
