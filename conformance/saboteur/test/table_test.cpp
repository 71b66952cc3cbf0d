// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "host.hpp"

#include <gmock/gmock.h>

#include <fstream>

namespace mortise::test {
namespace {

struct Row {
  std::string name, what, shows;
};
const std::vector<Row> rows = {
#define X(Identifier, name, group, what, shows) {name, what, shows},
#include "../faults.def"
#undef X
};

TEST(Table, HasSixtyFaultsAndMoreOfDifferentNames) {
  std::set<std::string> names;
  for (const Row &row : rows) {
    names.insert(row.name);
    EXPECT_NE(row.what, "") << row.name;
    EXPECT_NE(row.shows, "") << row.name;
  }
  EXPECT_EQ(names.size(), rows.size());
  EXPECT_GE(names.size(), 60u);
}

TEST(Table, EveryFaultIsShownByATest) {
  std::set<std::string> names;
  for (const Row &row : rows)
    names.insert(row.name);
  EXPECT_EQ(shown(), names);
}

TEST(Table, TheManifestListsTheFaults) {
  std::string path = MORTISE_PLUGIN_FILE;
  std::ifstream file(path.replace(path.size() - 3, 3, ".toml"));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  for (const Row &row : rows)
    EXPECT_THAT(text, testing::HasSubstr('"' + row.name + '"'));
}

TEST(Table, AnUnknownFaultIsAnError) {
  EXPECT_THAT(
      tryToPlant("max-swallows-none"),
      testing::HasSubstr("expected none or a name of conformance/saboteur/faults.def, found 'max-swallows-none'"));
}

} // namespace
} // namespace mortise::test
