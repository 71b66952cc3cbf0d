// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"

#include "plugin_record.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sys/stat.h>
#include <unistd.h>

namespace mortise::runtime::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(Registry, LoadsAGoodPluginAndItsDevice) {
  Folder folder;
  const std::string path = folder.add("good");
  auto registry = loadFrom(folder.path());
  ASSERT_EQ(registry->plugins().size(), 1u);
  EXPECT_TRUE(registry->rejected().empty());
  const Plugin &plugin = *registry->plugins()[0];
  EXPECT_EQ(plugin.name, "fixture");
  EXPECT_EQ(plugin.path, fs::canonical(path));
  EXPECT_EQ(plugin.abiRevision, 3u);
  EXPECT_FALSE(plugin.hasStreams());
  ASSERT_EQ(registry->devices().size(), 1u);
  EXPECT_EQ(registry->devices()[0]->name(), "fixture");
  for (const char *name : {"auto", "fixture", "fixture:0"}) {
    auto found = registry->find(name);
    ASSERT_TRUE(found) << name;
    EXPECT_EQ(found->front(), registry->devices()[0]);
  }
}

TEST(Registry, APluginDoesNotChangeFloatingPoint) {
  Folder folder;
  folder.add("fast_math");
  EXPECT_TRUE(loadFrom(folder.path())->rejected().empty());
  const volatile float smallest = std::numeric_limits<float>::min();
  EXPECT_GT(smallest / 2, 0);
}

TEST(Registry, InitializesAPluginOnceInAProcess) {
  Folder folder;
  folder.add("good");
  auto first = loadFrom(folder.path()), second = loadFrom(folder.path());
  EXPECT_TRUE(second->rejected().empty());
  ASSERT_EQ(second->plugins().size(), 1u);
  EXPECT_EQ(first->plugins()[0]->table, second->plugins()[0]->table);
}

TEST(Registry, RefusesAFileThatChangedSinceItWasLoaded) {
  Folder folder;
  const std::string path = folder.add("good");
  loadFrom(path);
  fs::rename(path, path + ".old");
  fs::copy_file(fs::path(FIXTURES) / "libgood.so", path);
  EXPECT_THAT(onlyRejection(*loadFrom(path)), HasSubstr("start a new process"));
}

TEST(Registry, ABadPluginDoesNotKeepAGoodOneOut) {
  Folder folder;
  folder.add("good");
  folder.add("queued", Folder::manifestFor("queued", "\"queued\", \"far\""));
  folder.add("wrong_magic");
  auto registry = loadFrom(folder.path());
  EXPECT_EQ(registry->plugins().size(), 2u);
  EXPECT_EQ(registry->devices().size(), 3u);
  EXPECT_THAT(onlyRejection(*registry), HasSubstr("MORTISE_PLUGIN_MAGIC"));
}

struct Fault {
  const char *fixture, *reason;
  MortiseCode code;
};
void PrintTo(const Fault &fault, std::ostream *out) { *out << fault.fixture; }

class FaultyTable : public testing::TestWithParam<Fault> {};

TEST_P(FaultyTable, IsRejectedWithAReason) {
  Folder folder;
  folder.add(GetParam().fixture);
  auto registry = loadFrom(folder.path());
  EXPECT_THAT(onlyRejection(*registry), HasSubstr(GetParam().reason));
  ASSERT_FALSE(registry->rejected().empty());
  EXPECT_EQ(registry->rejected()[0].error.code, GetParam().code);
  EXPECT_TRUE(registry->plugins().empty());
  EXPECT_TRUE(registry->devices().empty());
}

INSTANTIATE_TEST_SUITE_P(
    Registry, FaultyTable,
    testing::Values(
        Fault{"wrong_magic", "expected MORTISE_PLUGIN_MAGIC", MORTISE_INVALID_ARGUMENT},
        Fault{"null_slot", "found NULL in propose, enqueue", MORTISE_INVALID_ARGUMENT},
        Fault{"wrong_abi", "found 90 to 99; install a newer Mortise", MORTISE_VERSION_MISMATCH},
        Fault{"wrong_layout", "layout hash", MORTISE_VERSION_MISMATCH},
        Fault{"null_table", "to return a table, found NULL", MORTISE_INVALID_ARGUMENT},
        Fault{"garbage_table", "where none can be read", MORTISE_INVALID_ARGUMENT},
        Fault{"small_table", "found struct_size 40", MORTISE_VERSION_MISMATCH},
        Fault{"fails_to_initialize", "initialize failed: expected a flux capacitor, found none",
              MORTISE_INVALID_ARGUMENT},
        Fault{"garbage_alignment", "alignment to be a power of two up to 2^30, found 7", MORTISE_INVALID_ARGUMENT},
        Fault{"null_device", "device 0: expected a description, found NULL", MORTISE_INVALID_ARGUMENT},
        Fault{"undeclared_kind", "manifest names (fixture), found 'surprise'", MORTISE_INVALID_ARGUMENT},
        Fault{"garbage_devices", "list of 1 devices, found memory that cannot be read", MORTISE_INVALID_ARGUMENT},
        Fault{"half_of_streams", "all or none of the optional slots", MORTISE_INVALID_ARGUMENT},
        Fault{"half_of_instances", "slots that belong to instance_create, found NULL in instance_destroy",
              MORTISE_INVALID_ARGUMENT},
        Fault{"half_of_saving", "slots that belong to kernel_save, found NULL in kernel_load",
              MORTISE_INVALID_ARGUMENT},
        Fault{"garbage_status", "a status that status_create did not make", MORTISE_INTERNAL},
        Fault{"garbage_slot", "expected slot peer to point to a function, found an address where nothing is",
              MORTISE_INVALID_ARGUMENT},
        Fault{"data", "expected mortise_plugin to be a function that returns the table, found data",
              MORTISE_INVALID_ARGUMENT},
        Fault{"throws", "threw 'no initialize today' from initialize", MORTISE_INTERNAL},
        Fault{"throws_at_entry", "threw 'no table today' from mortise_plugin", MORTISE_INTERNAL},
        Fault{"unrelated", "export the function mortise_plugin, found none", MORTISE_INVALID_ARGUMENT}));

TEST(Registry, OneDeviceHasOnePlugin) {
  Folder folder;
  const std::string first = folder.add("good"),
                    second = folder.add("rival", Folder::manifestFor("rival", "\"fixture\""));
  const auto registry = loadFrom(first + ":" + second);
  EXPECT_THAT(onlyRejection(*registry),
              AllOf(HasSubstr("'fixture:0' is offered by plugin 'fixture' already"), HasSubstr("set same_as")));
  EXPECT_EQ(registry->rejected()[0].path, second);
  ASSERT_TRUE(registry->find("fixture"));
  EXPECT_EQ(registry->find("fixture")->size(), 1u);
  EXPECT_EQ(registry->find("fixture")->front()->plugin->name, "fixture");
}

TEST(Registry, RejectsATextFile) {
  Folder folder;
  const std::string path = folder.write("libtext.so", "this is no library\n");
  folder.write("libtext.toml", Folder::manifestFor("fixture"));
  EXPECT_THAT(onlyRejection(*loadFrom(path)), HasSubstr("expected a shared library (ELF)"));
}

TEST(Registry, RejectsATruncatedLibrary) {
  const auto whole = fs::file_size(fs::path(FIXTURES) / "libgood.so");
  for (const uintmax_t size : {uintmax_t{40}, uintmax_t{700}, whole / 2, whole - 1}) {
    Folder folder;
    const std::string path = folder.add("good");
    fs::resize_file(path, size);
    EXPECT_THAT(onlyRejection(*loadFrom(path)), HasSubstr("truncated")) << size;
  }
}

TEST(Registry, RejectsAMissingFile) {
  Folder folder;
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path() + "/libgone.so")), HasSubstr("No such file"));
}

TEST(Registry, RejectsAFolderNamedLikeALibrary) {
  Folder folder;
  fs::create_directory(folder.path() + "/libgood.so");
  folder.write("libgood.toml", Folder::manifestFor("fixture"));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("expected a regular file"));
}

TEST(Registry, RejectsALibraryWithoutManifest) {
  Folder folder;
  folder.add("good", "");
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), AllOf(HasSubstr("no manifest"), HasSubstr("libgood.toml")));
}

TEST(Registry, RejectsAManifestWithoutLibrary) {
  Folder folder;
  folder.write("libalone.toml", Folder::manifestFor("fixture"));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("No such file"));
}

TEST(Registry, RejectsAManifestThatIsWrong) {
  for (auto [text, reason] :
       {std::pair{"name = ", "not valid TOML"},
        {"vendor = \"x\"\n", "expected the key 'name'"},
        {"name = \"fixture\"\nvendor = \"x\"\nversion = \"1\"\n", "expected abi = [oldest, newest]"}}) {
    Folder folder;
    folder.add("good", text);
    EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr(reason));
  }
}

TEST(Registry, RejectsAnotherPluginsManifest) {
  Folder folder;
  folder.add("good", Folder::manifestFor("other"));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())),
              HasSubstr("expected the name 'other' of its manifest, found 'fixture'"));
}

TEST(Registry, RejectsAManifestThatContradictsTheTable) {
  for (const char *wrong : {"abi = [3, 4]\nopset = 1", "abi = [2, 3]\nopset = 1", "abi = [3, 3]\nopset = 2"}) {
    Folder folder;
    std::string manifest = Folder::manifestFor("fixture");
    const std::string right = "abi = [3, 3]\nopset = 1";
    manifest.replace(manifest.find(right), right.size(), wrong);
    folder.add("good", manifest);
    EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("expected " + right.substr(0, 12)));
  }
}

TEST(Registry, RejectsManifestsThatAreNoFiles) {
  Folder folder;
  folder.add("good", "");
  const std::string manifest = folder.path() + "/libgood.toml";
  ASSERT_EQ(mkfifo(manifest.c_str(), 0600), 0);
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("expected a file, found something else"));
  fs::remove(manifest);
  fs::create_symlink("/dev/zero", manifest);
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("expected a file, found something else"));
}

TEST(Registry, LoadsWhatIsAskedForWithWhatBelongsToIt) {
  Folder folder;
  folder.add("good", Folder::manifestFor("fixture"));
  folder.add("twins", Folder::manifestFor("twins"));
  const auto registry = openFrom(folder.path());
  EXPECT_TRUE(registry->plugins().empty());
  EXPECT_TRUE(registry->expect("twins:1"));
  EXPECT_TRUE(registry->expect("twins:7")) << "not known before it is loaded";
  EXPECT_FALSE(registry->expect("unknown"));
  auto missing = registry->find("twin");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("(the nearest is 'twins')"));
  EXPECT_TRUE(registry->plugins().empty()) << "an unknown device loads nothing";
  ASSERT_TRUE(registry->find("twins:1"));
  EXPECT_FALSE(registry->expect("twins:7"));
  for (const Plugin *plugin : registry->plugins())
    EXPECT_TRUE(plugin->name == "twins" || plugin->name == "fixture");
  EXPECT_TRUE(registry->findDlpack(12, 0).empty());
}

TEST(Registry, LoadsOnlyPluginsThatDeclareTheKind) {
  Folder folder;
  const auto manifest = [](const std::string &name) { // that shares nothing
    const std::string text = Folder::manifestFor(name);
    return std::string(text).replace(text.find("same_as"), text.find("[options") - text.find("same_as"), "");
  };
  folder.add("twins", manifest("twins"));
  folder.add("good", manifest("fixture"));
  const auto registry = openFrom(folder.path());
  ASSERT_TRUE(registry->find("twins"));
  ASSERT_EQ(registry->plugins().size(), 1u);
  EXPECT_EQ(registry->plugins()[0]->name, "twins");
  ASSERT_TRUE(registry->find("auto"));
  EXPECT_EQ(registry->plugins().size(), 2u);
}

TEST(Registry, HoldsDevicesToTheirManifests) {
  Folder folder;
  std::string manifest = Folder::manifestFor("fixture");
  const size_t at = manifest.find("automatic");
  folder.add("good", manifest.erase(at, manifest.find("same_as") - at));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("found no automatic = [\"fixture\"]"));
}

TEST(Registry, RejectsALibraryThatIsNotItsManifests) {
  Folder folder;
  const std::string library = folder.add("good");
  const auto sum = sha256Of(library);
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->size(), 64u);
  folder.write("libgood.toml", "sha256 = \"" + std::string(64, '0') + "\"\n" + Folder::manifestFor("fixture"));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())),
              AllOf(HasSubstr("expected the library of its manifest"), HasSubstr(*sum)));
  folder.write("libgood.toml", "sha256 = \"1234\"\n" + Folder::manifestFor("fixture"));
  EXPECT_THAT(onlyRejection(*loadFrom(folder.path())), HasSubstr("64 digits"));
  Folder other;
  other.add("good", "sha256 = \"" + *sum + "\"\n" + Folder::manifestFor("fixture"));
  EXPECT_TRUE(loadFrom(other.path())->rejected().empty());
}

TEST(Registry, RejectsFilesAndFoldersOfOtherUsers) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a file to another user";
  constexpr uid_t other = 12345;
  Folder folder;
  const std::string library = folder.add("good");
  for (const std::string &path : {library, folder.path() + "/libgood.toml", folder.path()}) {
    ASSERT_EQ(chown(path.c_str(), other, static_cast<gid_t>(-1)), 0);
    EXPECT_THAT(onlyRejection(*loadFrom(library)),
                AllOf(HasSubstr("'" + path + "' belongs to user 12345"), HasSubstr("plugin_owners")));
    const auto trusting = openFrom(library, "off", "7, 12345");
    trusting->loadAll();
    EXPECT_TRUE(trusting->rejected().empty());
    ASSERT_EQ(chown(path.c_str(), 0, static_cast<gid_t>(-1)), 0);
  }
}

TEST(Registry, RejectsLinksThatOthersMayChange) {
  Folder folder, open;
  const std::string library = folder.add("good");
  for (const char *name : {"libgood.so", "libgood.toml"})
    fs::create_symlink(folder.path() + "/" + name, open.path() + "/" + name);
  EXPECT_TRUE(loadFrom(open.path())->rejected().empty()) << "links of this user are followed";
  fs::permissions(open.path(), fs::perms::all);
  EXPECT_THAT(onlyRejection(*loadFrom(open.path())), HasSubstr("directory '" + open.path() + "' is world-writable"));
  Folder loop;
  fs::create_symlink(loop.path() + "/libgood.toml", loop.path() + "/libgood.toml");
  EXPECT_THAT(onlyRejection(*loadFrom(loop.path())), HasSubstr("a link that cannot be followed"));
}

TEST(PluginRecord, HoldsForTheFileAsItIs) {
  Folder folder;
  const char *home = std::getenv("XDG_CACHE_HOME");
  const std::string before = home ? home : "";
  setenv("XDG_CACHE_HOME", folder.path().c_str(), 1);
  const FileIdentity identity{1, 2, 3, 4, 5};
  EXPECT_FALSE(findPluginRecord("/x/liba.so", identity));
  keepPluginRecord("/x/liba.so", identity, {"abc", true});
  const auto found = findPluginRecord("/x/liba.so", identity);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->sha256, "abc");
  EXPECT_TRUE(found->proven);
  FileIdentity changed = identity;
  changed.changed = 6;
  EXPECT_FALSE(findPluginRecord("/x/liba.so", changed));
  EXPECT_FALSE(findPluginRecord("/x/libb.so", identity));
  changed.changed = std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
  keepPluginRecord("/x/liba.so", changed, {"def", true});
  EXPECT_FALSE(findPluginRecord("/x/liba.so", changed)) << "a file that has just changed may change again";
  for (const auto &file : fs::directory_iterator(folder.path() + "/mortise/plugins"))
    std::ofstream(file.path()) << "[1, 2";
  EXPECT_FALSE(findPluginRecord("/x/liba.so", identity)) << "damaged";
  fs::permissions(folder.path() + "/mortise/plugins", fs::perms::all);
  keepPluginRecord("/x/liba.so", identity, {"abc", true});
  EXPECT_FALSE(findPluginRecord("/x/liba.so", identity)) << "others may write there";
  before.empty() ? unsetenv("XDG_CACHE_HOME") : setenv("XDG_CACHE_HOME", before.c_str(), 1);
}

TEST(Registry, RejectsWorldWritableFoldersAndFiles) {
  Folder folder;
  const std::string path = folder.add("good");
  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_THAT(onlyRejection(*loadFrom(path)), HasSubstr("world-writable; run chmod o-w"));
  fs::permissions(path, fs::perms::others_write, fs::perm_options::remove);
  fs::permissions(folder.path(), fs::perms::all);
  EXPECT_THAT(onlyRejection(*loadFrom(path)),
              HasSubstr("its directory '" + fs::canonical(folder.path()).string() + "' is world-writable"));
  fs::permissions(folder.path(), fs::perms::owner_all);
  EXPECT_TRUE(loadFrom(path)->rejected().empty());
}

TEST(Registry, RejectsTheSecondPluginOfAName) {
  Folder first, second;
  first.add("good");
  second.add("good");
  auto registry = loadFrom(first.path() + ":" + second.path());
  EXPECT_EQ(registry->plugins().size(), 1u);
  EXPECT_THAT(onlyRejection(*registry), HasSubstr("another plugin named 'fixture' was found before it"));
}

TEST(Registry, FindNamesTheDevicesThereAreAndWhyOneIsMissing) {
  Folder folder;
  folder.add("queued", Folder::manifestFor("queued", "\"queued\", \"far\""));
  folder.add("wrong_abi", Folder::manifestFor("fixture", "\"fixture\""));
  auto registry = loadFrom(folder.path());
  auto missing = registry->find("queue");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, MORTISE_NOT_FOUND);
  EXPECT_THAT(missing.error().message,
              AllOf(HasSubstr("no device 'queue'; the devices are queued, far"), HasSubstr("nearest is 'queued'")));
  auto rejected = registry->find("fixture:0");
  ASSERT_FALSE(rejected);
  EXPECT_THAT(rejected.error().message, AllOf(HasSubstr("libwrong_abi.so"), HasSubstr("90 to 99")));
  EXPECT_FALSE(registry->find("queued:1"));
  auto automatic = registry->find("auto");
  ASSERT_TRUE(automatic);
  EXPECT_EQ(automatic->size(), 1u) << "the device 'far' is not automatic";
}

// No fault of the plugin: it stays, and the reason stands where the user asks for the device.
TEST(Registry, APluginWithoutADeviceHereSaysWhy) {
  Folder folder;
  folder.add("no_device");
  auto registry = loadFrom(folder.path());
  const auto found = registry->find("fixture");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, MORTISE_NOT_FOUND);
  EXPECT_THAT(found.error().message,
              AllOf(HasSubstr("there is no device 'fixture'"),
                    HasSubstr("plugin 'fixture' has none here: expected a flux capacitor, found none; plug one in"),
                    Not(HasSubstr("install a plugin that has it"))));
  EXPECT_THAT(registry->find("auto").error().message, HasSubstr("plug one in"));
  EXPECT_THAT(registry->find("other").error().message, Not(HasSubstr("plug one in")));
  EXPECT_EQ(registry->plugins().size(), 1u);
  EXPECT_TRUE(registry->rejected().empty());
}

TEST(Registry, EqualDevicesAreOneChoice) {
  Folder folder;
  folder.add("twins", Folder::manifestFor("twins", "\"twins\""));
  auto registry = loadFrom(folder.path());
  ASSERT_EQ(registry->devices().size(), 2u);
  for (const auto &[name, expected] : {std::pair{"auto", "twins:0"}, {"twins", "twins:0"}, {"twins:1", "twins:1"}}) {
    auto found = registry->find(name);
    ASSERT_TRUE(found) << name;
    ASSERT_EQ(found->size(), 1u) << name;
    EXPECT_EQ(found->front()->name(), expected);
  }
}

TEST(Registry, SaysSoWhenThereIsNoDeviceAtAll) {
  Folder folder;
  auto found = loadFrom(folder.path())->find("auto");
  ASSERT_FALSE(found);
  EXPECT_THAT(found.error().message, AllOf(HasSubstr("there is no device"), HasSubstr("MORTISE_PLUGIN_PATH")));
}

} // namespace
} // namespace mortise::runtime::test
