// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"
#include <mortise/runtime/manifest.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mortise::runtime::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<Manifest> read(const std::string &text) {
  Folder folder;
  return readManifest(folder.write("libx.toml", text));
}

TEST(Manifest, ReadsEverythingThatItMayHold) {
  auto manifest = read(Folder::manifestFor("acme", "\"acme\", \"acme-mini\"") +
                       "[options.threads]\ndefault = 0\ndescription = \"how many\"\n"
                       "[[claims]]\nops = [\"mortise.*\"]\ndtypes = [\"f32\", \"bf16\"]\nmax_rank = 8\n"
                       "[[claims]]\nops = [\"mortise.add\"]\ndtypes = [\"i4\"]\nmax_rank = 2\n"
                       "[future]\nkey = [[1, 2], [3]]\n");
  ASSERT_TRUE(manifest) << manifest.error().message;
  EXPECT_EQ(manifest->name, "acme");
  EXPECT_EQ(manifest->abiNewest, 3u);
  EXPECT_THAT(manifest->devices, ElementsAre("acme", "acme-mini"));
  ASSERT_EQ(manifest->options.size(), 2u);
  EXPECT_THAT(manifest->options[0].values, ElementsAre("slow", "fast"));
  EXPECT_EQ(manifest->options[1].fallback, "0");
  ASSERT_EQ(manifest->claims.size(), 2u);
  EXPECT_THAT(manifest->claims[0].dtypes, ElementsAre("f32", "bf16"));
  EXPECT_EQ(manifest->claims[1].maxRank, 2u);
}

TEST(Manifest, SaysWhatIsWrong) {
  const std::string good = Folder::manifestFor("acme");
  for (const auto &[text, reason] : {std::pair{good + "[[claims]]\nops = \"mortise.add\"\n", "expected ops = [...]"},
                                     {good + "[[claims]]\ndtypes = [\"float\"]\n", "found 'float'"},
                                     {good + "[options.x]\nfallback = 1\n", "found 'fallback'"},
                                     {Folder::manifestFor("Acme"), "expected a name of lower case letters"},
                                     {Folder::manifestFor("acme", "\"auto\""), "other than 'auto'"},
                                     {Folder::manifestFor("acme", " "), "expected devices = "}}) {
    auto manifest = read(text);
    ASSERT_FALSE(manifest) << text;
    EXPECT_THAT(manifest.error().message, HasSubstr(reason));
  }
}

TEST(Manifest, HostileOnesAreRefused) {
  const std::string good = Folder::manifestFor("acme");
  const auto repeated = [](const std::string &text, size_t count) {
    std::string all;
    for (size_t i = 0; i < count; ++i)
      all += text;
    return all;
  };
  std::string keys;
  for (int i = 0; i < 200'000; ++i)
    keys += "key" + std::to_string(i) + " = 1\n";
  for (const auto &[text, reason] :
       {std::pair{good + "[claims.4294967295]\nops = []\n", std::string("found [claims.4294967295]")},
        {good + "[claims.300000000]\nops = []\n", "found [claims.300000000]"},
        {good + "[claims.0]\nops = []\n[claims.2]\nops = []\n", "found [claims.2]"},
        {good + keys, "expected at most 1048576 bytes"},
        {good + "[" + repeated("a.", 100'000) + "a]\n", "expected keys of a few parts"},
        {good + repeated("a.", 100'000) + "a = 1\n", "expected keys of a few parts"},
        {good + "\"\\\"\".a." + repeated("a.", 100'000) + "a = 1\n", "expected keys of a few parts"},
        {good + "x = {b = \"\"\"\n'\"\"\"\"\", a." + repeated("a.", 100'000) + "a = 1}\n",
         "expected keys of a few parts"},
        {good + "[" + repeated("k", 2000) + "]\na = 1\n", "keys of at most 1024 bytes"},
        {good + "deep = " + repeated("[", 100'000) + repeated("]", 100'000) + "\n", "not valid TOML"},
        {good + "deep = " + repeated("{a = ", 100'000) + "1" + repeated("}", 100'000) + "\n", "not valid TOML"}}) {
    auto manifest = read(text);
    ASSERT_FALSE(manifest) << text.substr(0, 300);
    EXPECT_THAT(manifest.error().message, HasSubstr(reason));
  }
  EXPECT_TRUE(read(good + "# " + repeated("a.", 100) + "\n[notes]\nsource = \"\"\"\n# a\\\n\"\"\"\nlist = [" +
                   repeated("1.5, ", 100) + "]\n"));
  EXPECT_TRUE(read(good + "[notes]\nsource = \"" + repeated("a.", 100) + "\"\n"));
}

TEST(Manifest, NearestCountsEdits) {
  EXPECT_EQ(nearest("devise", {"mode", "device", "verify"}), "device");
  EXPECT_EQ(nearest("x", {}), "");
}

TEST(Manifest, PluginsAreFoundOnceAndInOrder) {
  Folder folder;
  folder.write("libb.so", "");
  folder.write("liba.toml", "");
  folder.write("notes.txt", "");
  auto found = findPlugins(folder.path() + ":" + folder.path() + "/libb.so:" + folder.path() + "/gone.so");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].library, folder.path() + "/liba.so");
  EXPECT_EQ(found[0].manifest, folder.path() + "/liba.toml");
  EXPECT_EQ(found[1].library, folder.path() + "/libb.so");
  EXPECT_EQ(found[2].library, folder.path() + "/gone.so");
}

TEST(Manifest, InstalledPluginsBelongToTheDefault) {
  Folder folder, package;
  folder.write("liba.so", "");
  package.write("libb.so", "");
  EXPECT_EQ(findPlugins(folder.path(), package.path()).size(), 1u) << "a path without an empty entry leaves them out";
  const auto found = findPlugins(folder.path() + ":", package.path());
  ASSERT_GE(found.size(), 2u);
  EXPECT_EQ(found.front().library, folder.path() + "/liba.so");
  EXPECT_EQ(found.back().library, package.path() + "/libb.so") << "behind those beside the runtime";
}

} // namespace
} // namespace mortise::runtime::test
