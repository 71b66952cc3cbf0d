// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include <mortise/runtime/kernel_cache.hpp>

#include <mortise/runtime/config.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <barrier>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace mortise::runtime {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

std::vector<std::byte> bytesOf(const std::string &text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "mortise-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top = name;
    folder = top / "kernels";
  }
  void TearDown() override { fs::remove_all(top); }

  OpenedKernelCache tryToOpen(uint64_t limit = 1 << 20) const {
    const std::string bytes = std::to_string(limit), path = folder.string();
    const MortiseOption options[] = {{"kernel_cache", path.c_str()}, {"kernel_cache_bytes", bytes.c_str()}};
    auto config = Config::read(options);
    if (!config)
      return config.error();
    return KernelCache::open(*config);
  }
  std::unique_ptr<const KernelCache> open(uint64_t limit = 1 << 20) const {
    auto cache = tryToOpen(limit);
    if (!cache) {
      ADD_FAILURE() << cache.error().message;
      std::abort();
    }
    return std::move(*cache);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto &entry : fs::directory_iterator(folder))
      found.push_back(entry.path());
    return found;
  }

  fs::path top, folder;
};

void expectFound(const KernelCache &cache, const std::string &key, const std::string &text) {
  const auto found = cache.find(key);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(*found, bytesOf(text)) << key;
}
void expectMissing(const KernelCache &cache, const std::string &key, MortiseCode code, const std::string &why) {
  const auto found = cache.find(key);
  ASSERT_FALSE(found) << key;
  EXPECT_EQ(found.error().code, code) << found.error().message;
  EXPECT_THAT(found.error().message, HasSubstr(why));
}

TEST_F(KernelCacheTest, WhatIsStoredIsFoundByAnotherProcess) {
  {
    const auto cache = open();
    expectMissing(*cache, "key", MORTISE_NOT_FOUND, "no entry");
    ASSERT_TRUE(cache->store("key", bytesOf("first")));
    ASSERT_TRUE(cache->store("key", bytesOf("second")));
    ASSERT_TRUE(cache->store("empty", {}));
  }
  const auto cache = open();
  expectFound(*cache, "key", "second");
  expectFound(*cache, "empty", "");
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
  EXPECT_THAT(files(), SizeIs(2)) << "something unfinished was left";
}

TEST_F(KernelCacheTest, TheKeyInTheFileDecides) {
  const auto cache = open();
  ASSERT_TRUE(cache->store("a", bytesOf("of a")));
  const fs::path ofA = files().front();
  ASSERT_TRUE(cache->store("b", bytesOf("of b")));
  for (const fs::path &file : files())
    if (file != ofA)
      fs::copy_file(ofA, file, fs::copy_options::overwrite_existing);
  expectMissing(*cache, "b", MORTISE_NOT_FOUND, "another kernel");
}

TEST_F(KernelCacheTest, DamageIsSetAside) {
  const auto cache = open();
  const std::string payload(100, 'x');
  const auto damagedBy = [&](const std::string &what, const auto &damage) {
    SCOPED_TRACE(what);
    ASSERT_TRUE(cache->store("key", bytesOf(payload)));
    std::vector<fs::path> all = files();
    std::erase_if(all, [](const fs::path &file) { return file.extension() != ".kernel"; });
    ASSERT_THAT(all, SizeIs(1));
    std::ifstream in(all[0], std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(in), {}};
    damage(bytes);
    std::ofstream(all[0], std::ios::binary) << bytes;
    expectMissing(*cache, "key", MORTISE_CORRUPT, "damaged");
    expectMissing(*cache, "key", MORTISE_NOT_FOUND, "no entry");
  };
  const size_t size = 24 + 8 + 3 + payload.size();
  for (size_t at = 0; at < size; ++at)
    damagedBy("byte " + std::to_string(at), [&](std::string &bytes) { bytes[at] = static_cast<char>(bytes[at] ^ 8); });
  for (size_t length = 0; length < size; length += 5)
    damagedBy("cut to " + std::to_string(length), [&](std::string &bytes) { bytes.resize(length); });
  damagedBy("longer", [](std::string &bytes) { bytes += "x"; });
  ASSERT_TRUE(cache->store("key", bytesOf(payload)));
  expectFound(*cache, "key", payload);
  std::vector<std::string> kinds;
  for (const KernelCache::Entry &entry : cache->entries())
    kinds.push_back(fs::path(entry.file).extension().string());
  EXPECT_THAT(kinds, testing::UnorderedElementsAre(".kernel", ".damaged"));
}

TEST_F(KernelCacheTest, AnEntryThatCannotBeOpenedNowStays) {
  const auto cache = open();
  ASSERT_TRUE(cache->store("key", bytesOf("kept")));
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    setrlimit(RLIMIT_NOFILE, &none);
    const auto found = cache->find("key");
    _exit(!found && found.error().code == MORTISE_NOT_FOUND ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expectFound(*cache, "key", "kept");
}

// In containers that share a folder, processes may have equal numbers.
TEST_F(KernelCacheTest, AnotherWritersFileIsLeftAlone) {
  const auto cache = open();
  ASSERT_TRUE(cache->store("key", bytesOf("old")));
  const std::string entry = files().front().string(), process = "." + std::to_string(getpid()) + ".";
  for (int serial = 0; serial < 2000; ++serial) // of which the next one is among
    std::ofstream(entry + process + std::to_string(serial) + ".tmp") << "another's";
  ASSERT_TRUE(cache->store("key", bytesOf("new")));
  expectFound(*cache, "key", "new");
  EXPECT_THAT(files(), SizeIs(2001));
}

TEST_F(KernelCacheTest, TheLeastRecentlyUsedGoBeyondTheLimit) {
  const auto cache = open(4096);
  const auto setUsed = [&](const std::string &key, int hoursAgo) {
    const std::vector<fs::path> before = files();
    ASSERT_TRUE(cache->store(key, std::vector<std::byte>(1000)));
    for (const fs::path &file : files())
      if (std::ranges::find(before, file) == before.end())
        fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(hoursAgo));
  };
  setUsed("a", 3);
  setUsed("b", 2);
  setUsed("c", 1);
  ASSERT_TRUE(cache->find("a")); // used now
  ASSERT_TRUE(cache->store("d", std::vector<std::byte>(1000)));
  EXPECT_TRUE(cache->find("a"));
  EXPECT_FALSE(cache->find("b"));
  EXPECT_TRUE(cache->find("c"));
  EXPECT_TRUE(cache->find("d"));
  const auto refused = cache->store("e", std::vector<std::byte>(5000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MORTISE_UNSUPPORTED);
  EXPECT_TRUE(cache->find("d"));
}

TEST_F(KernelCacheTest, EntriesAndClear) {
  const auto cache = open();
  ASSERT_TRUE(cache->store("for people\n\nnot", bytesOf("1234")));
  std::ofstream(folder / "note.txt") << "somebody's";
  ASSERT_THAT(cache->entries(), SizeIs(1));
  EXPECT_EQ(cache->entries()[0].text, "for people");
  EXPECT_EQ(cache->entries()[0].bytes, fs::file_size(folder / cache->entries()[0].file));
  const auto removed = cache->clear();
  ASSERT_TRUE(removed);
  EXPECT_EQ(*removed, 1u);
  EXPECT_THAT(cache->entries(), IsEmpty());
  EXPECT_TRUE(fs::exists(folder / "note.txt")) << "a file that is not the cache's was removed";
}

TEST_F(KernelCacheTest, WritersDoNotDisturbEachOther) {
  constexpr int writers = 8, rounds = 100;
  const auto work = [&](int writer) {
    const auto cache = open();
    for (int round = 0; round < rounds; ++round) {
      const std::string key = "key " + std::to_string(round % 5);
      if (round % 2 == writer % 2) {
        if (!cache->store(key, bytesOf(key + std::string(3000, 'y'))))
          return 1;
      } else if (auto found = cache->find(key)) {
        if (*found != bytesOf(key + std::string(3000, 'y')))
          return 2;
      } else if (found.error().code != MORTISE_NOT_FOUND) {
        return 3;
      }
    }
    return 0;
  };
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::owner_all);
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer)
    if (const pid_t child = fork(); child == 0)
      _exit(work(writer));
    else
      children.push_back(child);
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "1: a store failed, 2: wrong bytes, 3: damage, each times 256";
  }
  EXPECT_THAT(files(), SizeIs(5));
}

// A limit on the size of files stands for a full disk.
TEST_F(KernelCacheTest, WhatCannotBeWrittenLeavesWhatWasThere) {
  const auto cache = open();
  ASSERT_TRUE(cache->store("key", bytesOf("small")));
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const auto stored = cache->store("key", std::vector<std::byte>(100'000));
    _exit(!stored && stored.error().code == MORTISE_OUT_OF_MEMORY ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expectFound(*cache, "key", "small");
  EXPECT_THAT(files(), SizeIs(1)) << "something unfinished was left";
  fs::remove_all(folder);
  EXPECT_FALSE(cache->store("key", bytesOf("small"))) << "the folder is gone";
}

TEST_F(KernelCacheTest, FoldersOfOthersAreRefused) {
  const auto refused = [&](const char *why) {
    const auto cache = tryToOpen();
    ASSERT_FALSE(cache);
    EXPECT_EQ(cache.error().code, MORTISE_INVALID_ARGUMENT);
    EXPECT_THAT(cache.error().message, HasSubstr(why));
    EXPECT_THAT(cache.error().message, HasSubstr(folder.string()));
  };
  fs::create_directories(folder);
  fs::permissions(folder, fs::perms::all);
  refused("chmod go-w");
  fs::remove_all(folder);
  std::ofstream(folder) << "a file";
  refused("kernels");
  if (geteuid() == 0) {
    fs::remove(folder);
    fs::create_directories(folder);
    ASSERT_EQ(chown(folder.c_str(), 1, 1), 0);
    refused("another user");
  }
}

// A folder must never be seen with the permissions that the umask allows: another process may open it at once.
TEST_F(KernelCacheTest, TheFolderIsMadeWithItsPermissions) {
  folder = top / "made" / "kernels/";
  const mode_t before = umask(0);
  std::atomic<int> refused{0};
  for (int round = 0; round < 200; ++round) {
    std::barrier together(4);
    std::vector<std::thread> openers;
    for (int i = 0; i < 4; ++i)
      openers.emplace_back([&] {
        together.arrive_and_wait();
        refused += !tryToOpen();
      });
    for (std::thread &opener : openers)
      opener.join();
    fs::remove_all(top / "made");
  }
  umask(before);
  EXPECT_EQ(refused, 0);
}

TEST(KernelCacheSetting, OffIsNoCache) {
  const MortiseOption options[] = {{"kernel_cache", "off"}};
  const auto config = Config::read(options);
  ASSERT_TRUE(config);
  const auto cache = KernelCache::open(*config);
  ASSERT_FALSE(cache);
  EXPECT_EQ(cache.error().code, MORTISE_NOT_FOUND);
}

} // namespace
} // namespace mortise::runtime
