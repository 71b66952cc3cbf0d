// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"
#include <mortise/runtime/elf.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <elf.h>
#include <fcntl.h>
#include <fstream>
#include <random>
#include <sstream>
#include <unistd.h>

namespace mortise::runtime::test {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string contents(const std::string &path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

Result<ElfLibrary> readFile(const std::string &path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  auto answer = readElf(descriptor);
  close(descriptor);
  return answer;
}

TEST(Elf, ListsWhatALibraryNeeds) {
  auto library = readFile(FIXTURES "/libneeds_llvm.so");
  ASSERT_TRUE(library) << library.error().message;
  EXPECT_THAT(library->needed, Contains("libLLVM-fixture.so"));
  auto checked = checkNeeded(*library);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message, HasSubstr("libLLVM-fixture.so"));
  auto good = readFile(FIXTURES "/libgood.so");
  ASSERT_TRUE(good);
  EXPECT_TRUE(checkNeeded(*good));
}

TEST(Elf, ListsWhatALibraryExports) {
  const auto one = readExports(FIXTURES "/libgood.so");
  ASSERT_TRUE(one) << one.error().message;
  EXPECT_THAT(*one, Contains("mortise_plugin"));
  const auto none = readExports(FIXTURES "/libunrelated.so");
  ASSERT_TRUE(none) << none.error().message;
  EXPECT_THAT(*none, testing::Not(Contains("mortise_plugin")));
  EXPECT_FALSE(readExports(FIXTURES "/libgone.so"));
  EXPECT_FALSE(readExports(__FILE__));
}

TEST(Elf, ReadsTheBuildId) {
  EXPECT_EQ(readFile(FIXTURES "/libwith_build_id.so")->buildId, "0123456789abcdef");
  EXPECT_EQ(readFile(FIXTURES "/libwithout_build_id.so")->buildId, "");
}

TEST(Elf, RefusesOtherMachinesAndPrograms) {
  Folder folder;
  std::string bytes = contents(FIXTURES "/libgood.so");
  bytes[offsetof(Elf64_Ehdr, e_machine)] = 2;
  auto foreign = readFile(folder.write("foreign.so", bytes));
  ASSERT_FALSE(foreign);
  EXPECT_EQ(foreign.error().code, MORTISE_VERSION_MISMATCH);
  bytes = contents(FIXTURES "/libgood.so");
  bytes[offsetof(Elf64_Ehdr, e_type)] = ET_REL;
  EXPECT_THAT(readFile(folder.write("object.so", bytes)).error().message,
              HasSubstr("expected a shared library, found ELF type 1"));
}

TEST(Elf, EveryPrefixIsTruncated) {
  Folder folder;
  const std::string whole = contents(FIXTURES "/libgood.so");
  for (size_t size = 0; size < whole.size(); size += 61)
    ASSERT_FALSE(readFile(folder.write("prefix.so", whole.substr(0, size)))) << size;
}

TEST(Elf, SurvivesDamage) {
  Folder folder;
  const std::string whole = contents(FIXTURES "/libgood.so");
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    std::string bytes = whole;
    for (int i = 0; i < 8; ++i)
      bytes[random() % 2048] = static_cast<char>(random());
    (void)readFile(folder.write("damaged.so", bytes)); // any answer, no crash
  }
}

} // namespace
} // namespace mortise::runtime::test
