// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace mortise::runtime::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// A project folder as working directory, a user's folder, and a clean environment.
class ConfigTest : public testing::Test {
protected:
  void SetUp() override {
    before = fs::current_path();
    fs::current_path(project.path());
    setenv("XDG_CONFIG_HOME", user.path().c_str(), 1);
    fs::create_directory(user.path() + "/mortise");
    for (const char *name : variables)
      unsetenv(name);
  }
  void TearDown() override {
    fs::current_path(before);
    unsetenv("XDG_CONFIG_HOME");
    for (const char *name : variables)
      unsetenv(name);
  }

  static Result<Config> read(std::vector<MortiseOption> options = {}) { return Config::read(options); }
  static std::string failure(std::vector<MortiseOption> options = {}) {
    auto config = read(std::move(options));
    EXPECT_FALSE(config);
    if (config)
      return "";
    EXPECT_EQ(config.error().code, MORTISE_INVALID_ARGUMENT);
    return config.error().message;
  }
  static Setting setting(const Config &config, const std::string &key) {
    for (const Setting &each : config.settings())
      if (each.key == key)
        return each;
    return {};
  }

  Folder project, user;
  fs::path before;
  static constexpr const char *variables[] = {"MORTISE_DEVICE",        "MORTISE_DEVISE",
                                              "MORTISE_MODE",          "MORTISE_PLUGIN_PATH",
                                              "MORTISE_FIXTURE_SPEED", "MORTISE_INSTALLED_PLUGINS",
                                              "MORTISE_TEST_ANYTHING"};
};

TEST_F(ConfigTest, HasDefaults) {
  auto config = read();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->get("device"), "auto");
  EXPECT_EQ(config->get("mode"), "default");
  EXPECT_EQ(setting(*config, "mode").source, "default");
  EXPECT_EQ(config->get("nothing"), "");
}

TEST_F(ConfigTest, TheStrongestSourceWins) {
  const std::string userFile =
      user.write("mortise/mortise.toml", "device = \"from-user\"\nmode = \"max-autotune\"\nlog_level = \"error\"\n");
  EXPECT_EQ(read()->get("device"), "from-user");
  project.write("mortise.toml", "device = \"from-project\"\nmode = \"reduce-overhead\"\n");
  EXPECT_EQ(read()->get("device"), "from-project");
  setenv("MORTISE_DEVICE", "from-environment", 1);
  EXPECT_EQ(read()->get("device"), "from-environment");
  auto config = read({{"device", "from-option"}});
  EXPECT_EQ(setting(*config, "device").value, "from-option");
  EXPECT_EQ(setting(*config, "device").source, "option");
  EXPECT_EQ(setting(*config, "mode").source, fs::canonical(project.path()) / "mortise.toml");
  EXPECT_EQ(setting(*config, "log_level").source, userFile);
}

TEST_F(ConfigTest, UnknownKeysNameTheNearest) {
  EXPECT_THAT(failure({{"devise", "cpu"}}),
              AllOf(HasSubstr("unknown key 'devise' (from option)"), HasSubstr("did you mean 'device'")));
  setenv("MORTISE_DEVISE", "cpu", 1);
  EXPECT_THAT(failure(), AllOf(HasSubstr("MORTISE_DEVISE"), HasSubstr("did you mean MORTISE_DEVICE")));
  unsetenv("MORTISE_DEVISE");
  project.write("mortise.toml", "moed = \"default\"\n");
  EXPECT_THAT(failure(), AllOf(HasSubstr("'moed'"), HasSubstr("mortise.toml"), HasSubstr("'mode'")));
}

TEST_F(ConfigTest, OthersVariablesAndEmptyOnesAreSkipped) {
  setenv("MORTISE_TEST_ANYTHING", "x", 1);
  setenv("MORTISE_DEVICE", "", 1);
  auto config = read();
  ASSERT_TRUE(config);
  EXPECT_EQ(setting(*config, "device").source, "default");
}

TEST_F(ConfigTest, BadValuesNameTheAllowedOnes) {
  EXPECT_THAT(failure({{"mode", "reduce-overheads"}}),
              AllOf(HasSubstr("default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs"),
                    HasSubstr("'reduce-overheads'")));
  EXPECT_THAT(failure({{"log_level", "loud"}}), HasSubstr("debug, info, warning, error, off"));
  EXPECT_THAT(failure({{"device", ""}}), HasSubstr("expected auto"));
  EXPECT_THAT(failure({{"verify", "first"}}), HasSubstr("expected one of off"));
  for (const char *value : {"95 on cpu", "95%", "101% on cpu", "-1% on cpu", "95% on ", "x% on cpu", "nan% on cpu"})
    EXPECT_THAT(failure({{"require", value}}), HasSubstr("\"95% on cpu\"")) << value;
}

TEST_F(ConfigTest, TheSpecializeLimitIsANumber) {
  EXPECT_EQ(read()->specializeLimit(), 64u);
  EXPECT_EQ(read({{"specialize_limit", "7"}})->specializeLimit(), 7u);
  for (const char *bad : {"0", "-1", "7x", "", "1000001"})
    EXPECT_THAT(failure({{"specialize_limit", bad}}), HasSubstr("expected a number from 1 to 1000000")) << bad;
}

TEST_F(ConfigTest, ThePoolOfOutputsHasANumberOfBytes) {
  EXPECT_EQ(read({{"kernel_cache_bytes", "4096"}})->kernelCacheBytes(), 4096u);
  EXPECT_THAT(failure({{"kernel_cache_bytes", "0"}}), HasSubstr("expected a number of bytes from 1"));
  EXPECT_THAT(failure({{"kernel_cache", "here"}}), HasSubstr("absolute path"));
  EXPECT_EQ(read()->get("output_pool_bytes"), "268435456");
  EXPECT_EQ(read({{"output_pool_bytes", "0"}})->get("output_pool_bytes"), "0");
  for (const char *bad : {"-1", "256M", "", "1e9", "281474976710657"})
    EXPECT_THAT(failure({{"output_pool_bytes", bad}}), HasSubstr("expected a number of bytes from 0")) << bad;
}

TEST_F(ConfigTest, OptionsWithoutKeyOrValueAreErrors) {
  EXPECT_THAT(failure({{nullptr, "x"}}), HasSubstr("without a key"));
  EXPECT_THAT(failure({{"device", nullptr}}), HasSubstr("'device' without a value"));
}

TEST_F(ConfigTest, ParsesARequirement) {
  EXPECT_FALSE(read()->requirement());
  auto requirement = read({{"require", "99.5% on cpu:1"}})->requirement();
  ASSERT_TRUE(requirement);
  EXPECT_EQ(requirement->percent, 99.5);
  EXPECT_EQ(requirement->device, "cpu:1");
}

TEST_F(ConfigTest, ReadsRulesOfPlaces) {
  EXPECT_TRUE(read()->placeRules().empty());
  project.write("mortise.toml", "[[place]]\nop = \"mortise.exp\"\ndevice = [\"cpu\", \"gpu:1\"]\n"
                                "[[place]]\nlocation = \"layers.*\"\nnot_device = \"reference\"\n");
  auto config = read();
  ASSERT_TRUE(config) << config.error().message;
  const std::vector<PlaceRule> rules = config->placeRules();
  ASSERT_EQ(rules.size(), 2u);
  EXPECT_FALSE(rules[0].forbids);
  EXPECT_TRUE(rules[0].matches("mortise.exp", "anywhere"));
  EXPECT_FALSE(rules[0].matches("mortise.exp2", ""));
  EXPECT_TRUE(rules[0].names("cpu", 3));
  EXPECT_TRUE(rules[0].names("gpu", 1));
  EXPECT_FALSE(rules[0].names("gpu", 0));
  EXPECT_TRUE(rules[1].forbids);
  EXPECT_TRUE(rules[1].matches("mortise.add", "layers.3.add"));
  EXPECT_FALSE(rules[1].matches("mortise.add", "head"));
  // An option replaces the file's.
  const auto option = read({{"place", " op=att*  device=cpu ; op=conv?d not_device=cpu,gpu;"}})->placeRules();
  ASSERT_EQ(option.size(), 2u);
  EXPECT_TRUE(option[0].matches("mortise.attention", ""));
  EXPECT_TRUE(option[1].matches("mortise.conv2d", ""));
  EXPECT_TRUE(option[1].names("gpu", 7));
}

TEST_F(ConfigTest, ManyRulesKeepTheirOrder) {
  std::string text;
  for (int i = 0; i < 12; ++i)
    text += "[[place]]\nop = \"op" + std::to_string(i) + "\"\ndevice = \"cpu\"\n";
  project.write("mortise.toml", text);
  const auto rules = read()->placeRules();
  ASSERT_EQ(rules.size(), 12u);
  for (size_t i = 0; i < rules.size(); ++i)
    EXPECT_EQ(rules[i].op, "op" + std::to_string(i));
}

TEST_F(ConfigTest, RulesThatAreWrongSayHow) {
  const std::pair<const char *, const char *> cases[] = {
      {"op=exp", "names no device"},
      {"exp device=cpu", "expected FIELD=VALUE, found 'exp'"},
      {"op= device=cpu", "expected FIELD=VALUE, found 'op='"},
      {"op=a op=b device=cpu", "found op twice"},
      {"device=cpu not_device=gpu", "both device and not_device"},
      {"devcie=cpu", "the nearest is 'device'"},
      {"op=exp,log not_device=cpu", "expected one pattern in op, found a list"},
      {"op=exp device=auto", "found 'auto'"},
  };
  for (const auto &[text, why] : cases)
    EXPECT_THAT(failure({{"place", text}}), AllOf(HasSubstr(why), HasSubstr("not_device=NAMES"))) << text;
  project.write("mortise.toml", "[place]\nop = \"exp\"\n");
  EXPECT_THAT(failure(), HasSubstr("expected [[place]] tables"));
  project.write("mortise.toml", "[[place]]\nop = [[1]]\n");
  EXPECT_THAT(failure(), HasSubstr("expected [[place]] tables"));
}

TEST_F(ConfigTest, ReadsPricesOfCopies) {
  EXPECT_TRUE(read()->transfers().empty());
  project.write("mortise.toml", "[[transfer]]\nfrom = \"host\"\nto = \"gpu:1\"\nns = 1500\nbytes_per_second = 12.5e9\n"
                                "[[transfer]]\nfrom = \"gpu\"\nto = \"gpu\"\nns = 0\nbytes_per_second = 300e9\n");
  auto config = read();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->get("transfer"), "host->gpu:1=1500:1.25e+10, gpu->gpu=0:3e+11");
  const std::vector<Transfer> prices = config->transfers();
  ASSERT_EQ(prices.size(), 2u);
  EXPECT_EQ(prices[0].ns, 1500);
  EXPECT_EQ(prices[0].bytesPerSecond, 12.5e9);
  EXPECT_EQ(findTransfer(prices, "host", "gpu:1"), &prices[0]);
  EXPECT_EQ(findTransfer(prices, "gpu:1", "host"), nullptr); // a direction is a price of its own
  EXPECT_EQ(findTransfer(prices, "host", "gpu:0"), nullptr);
  EXPECT_EQ(findTransfer(prices, "gpu:0", "gpu:1"), &prices[1]);
  // An option replaces the file's.
  const auto option = read({{"transfer", " gpu->host = 7 : 1e9,gpu:2->host=8:1 ,gpu->host:0=9:1"}})->transfers();
  ASSERT_EQ(option.size(), 3u);
  EXPECT_EQ(findTransfer(option, "gpu:0", "host")->ns, 7);
  EXPECT_EQ(findTransfer(option, "gpu:2", "host")->ns, 8); // an ordinal is stronger than its kind
}

TEST_F(ConfigTest, PricesOfCopiesThatAreWrongSayHow) {
  const std::pair<const char *, const char *> cases[] = {
      {"host->gpu", "found no ="},
      {"host-gpu=1:2", "found no ->"},
      {"->gpu=1:2", "expected host or the name of a device, found ''"},
      {"auto->gpu=1:2", "found 'auto'"},
      {"host->gpu gpu=1:2", "found 'gpu gpu'"},
      {"host->host=1:2", "expected two memories, found 'host' twice"},
      {"gpu:1->gpu:1=1:2", "expected two memories, found 'gpu:1' twice"},
      {"host->gpu=1", "expected bytes per second from 1 to 1e18, found ''"},
      {"host->gpu=-1:2", "expected nanoseconds from 0 to 1e12, found '-1'"},
      {"host->gpu=nan:2", "found 'nan'"},
      {"host->gpu=1us:2", "found '1us'"},
      {"host->gpu=1:0", "found '0'"},
      {"host->gpu=1:inf", "found 'inf'"},
      {"host->gpu=1:2,", "found no ="},
      {"host->gpu=1:2, host->gpu=3:4", "found host->gpu twice"},
  };
  for (const auto &[text, why] : cases)
    EXPECT_THAT(failure({{"transfer", text}}), AllOf(HasSubstr(why), HasSubstr("FROM->TO=NS:BYTES_PER_SECOND")))
        << text;
  const std::pair<const char *, const char *> files[] = {
      {"[transfer]\nfrom = \"host\"\n", "expected [[transfer]] tables"},
      {"[[transfer]]\nfrom = \"host\"\nto = \"gpu\"\nns = 1\n", "found no bytes_per_second"},
      {"[[transfer]]\nform = \"host\"\n", "unknown field 'form' of [[transfer]], the nearest is 'from'"},
      {"[[transfer]]\nfrom = \"host\"\nto = \"gpu\"\nns = \"1 us\"\nbytes_per_second = 1\n", "found '1 us'"},
  };
  for (const auto &[text, why] : files) {
    project.write("mortise.toml", text);
    EXPECT_THAT(failure(), AllOf(HasSubstr(why), HasSubstr("mortise.toml"))) << text;
  }
}

TEST_F(ConfigTest, AProjectFileMayNotSetPluginDirectories) {
  project.write("mortise.toml", "installed_plugins = \"/tmp\"\n");
  EXPECT_THAT(failure(), HasSubstr("MORTISE_INSTALLED_PLUGINS"));
  project.write("mortise.toml", "plugin_path = \"/tmp\"\n");
  EXPECT_THAT(failure(), AllOf(HasSubstr("plugin_path"), HasSubstr(user.path() + "/mortise/mortise.toml"),
                               HasSubstr("MORTISE_PLUGIN_PATH")));
}

TEST_F(ConfigTest, AProjectFileMayNotSayWhereFilesAreWritten) {
  project.write("mortise.toml", "save_graphs = \"/tmp\"\n");
  EXPECT_THAT(failure(), AllOf(HasSubstr("save_graphs"), HasSubstr("MORTISE_SAVE_GRAPHS")));
}

TEST_F(ConfigTest, AUsersFileMay) {
  user.write("mortise/mortise.toml", "plugin_path = [\"/a\", \"relative\"]\n");
  auto config = read();
  ASSERT_TRUE(config);
  EXPECT_EQ(config->get("plugin_path"), "/a:" + user.path() + "/mortise/relative");
}

TEST_F(ConfigTest, InstalledPluginsAreFoundByDefault) {
  Folder plugins;
  plugins.add("good");
  setenv("MORTISE_INSTALLED_PLUGINS", plugins.path().c_str(), 1);
  EXPECT_EQ(read()->get("fixture.speed"), "slow");
  setenv("MORTISE_PLUGIN_PATH", "/nowhere", 1);
  EXPECT_THAT(failure({{"fixture.speed", "fast"}}), HasSubstr("unknown"));
}

TEST_F(ConfigTest, BadFilesNameTheLine) {
  project.write("mortise.toml", "mode = \"default\"\ndevice = \n");
  EXPECT_THAT(failure(), AllOf(HasSubstr("mortise.toml:2"), HasSubstr("not valid TOML")));
  project.write("mortise.toml", "mode = [\"default\"]\n");
  EXPECT_THAT(failure(), HasSubstr("expected one value for 'mode'"));
}

TEST_F(ConfigTest, PluginOptionsComeFromManifests) {
  Folder plugins;
  const std::string library = plugins.add("good");
  setenv("MORTISE_PLUGIN_PATH", library.c_str(), 1);
  auto config = read();
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->get("fixture.speed"), "slow");
  user.write("mortise/mortise.toml", "[fixture]\nspeed = \"fast\"\n");
  auto options = read()->pluginOptions("fixture");
  ASSERT_EQ(options.size(), 1u);
  EXPECT_EQ(options[0].key, "speed");
  EXPECT_EQ(options[0].value, "fast");
  setenv("MORTISE_FIXTURE_SPEED", "slow", 1);
  EXPECT_EQ(read()->get("fixture.speed"), "slow");
  EXPECT_THAT(failure({{"fixture.speed", "medium"}}), HasSubstr("expected one of slow, fast; found 'medium'"));
  EXPECT_THAT(failure({{"fixture.sped", "fast"}}), HasSubstr("did you mean 'fixture.speed'"));
}

TEST_F(ConfigTest, LimitsOfMemoryAreBytesOfDevices) {
  const auto limits = read({{"memory_limit", "a:1=8, b=9"}})->memoryLimits();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_EQ(limits[0].device + " " + limits[1].device, "a:1 b");
  EXPECT_EQ(limits[0].bytes + limits[1].bytes, 17u);
  for (const char *wrong : {"a", "a=", "a=1,", "=1", "a=0", "a=1GiB", "a b=1", ",", "a=1,,b=2"})
    EXPECT_THAT(failure({{"memory_limit", wrong}}), HasSubstr("expected DEVICE=BYTES")) << wrong;
}

} // namespace
} // namespace mortise::runtime::test
