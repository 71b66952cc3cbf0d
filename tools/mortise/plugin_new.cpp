// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "command.hpp"
#include "files.hpp"
#include "plugin.hpp"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <regex>

namespace fs = std::filesystem;

namespace mortise::tool {
namespace {

// The SDK's projects, below share/mortise/sdk. Each is a plugin that builds, with a name that stands in all its files.
struct Template {
  const char *lang, *memory, *folder, *name;
  const char *what;
};
constexpr Template templates[] = {
    {"c", "host", "template/c", "acme", "in C, for a device that computes in ordinary memory"},
    {"c", "own", "template/c-own", "acme", "in C, for a device with memory of its own"},
    {"cpp", "host", "examples/pointwise", "pointwise", "in C++, for a device that computes in ordinary memory"},
    {"cpp", "own", "template/cpp-own", "acme", "in C++, for a device with memory and queues of its own"},
    {"codegen", "host", "template/codegen", "acme", "in C++, with generated kernels for this machine's CPU"},
};

// Where the SDK is: this program lies in its bin, or in that of a build, which has installed it beside.
Result<fs::path> sdkPrefix() {
  const fs::path above = fs::path(self()).parent_path().parent_path();
  std::error_code ignored;
  for (const fs::path &prefix : {above, above / "sdk-installed"})
    if (fs::exists(prefix / "share" / "mortise" / "sdk" / "template", ignored))
      return prefix;
  return Error{MORTISE_NOT_FOUND, "there is no SDK beside this program, in '" + above.string() +
                                      "/share/mortise/sdk'; use the `mortise` of an installed SDK"};
}

std::string capitalised(std::string name) {
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

std::string replaced(std::string text, const std::string &old, const std::string &by) {
  for (size_t at = 0; (at = text.find(old, at)) != std::string::npos; at += by.size())
    text.replace(at, old.size(), by);
  return text;
}

// The text with another plugin's name and vendor. CMakeLists.txt also learns where the SDK is. The README's is acme.
std::string renamed(std::string text, const Template &from, const NewPlugin &asked, const fs::path &prefix) {
  // By way of marks, because what is asked for may hold what is replaced.
  const std::string vendor = "\1", word = "\2", name = "\3";
  for (const char *old : {"Acme Inc.", "Mortise examples"})
    text = replaced(std::move(text), old, vendor);
  for (const std::string old : {from.name, "acme"}) {
    text = replaced(std::move(text), old, name);
    text = replaced(std::move(text), capitalised(old), word);
  }
  text = replaced(std::move(text), name, asked.name);
  text = replaced(std::move(text), word, capitalised(replaced(asked.name, "-", "")));
  text = replaced(std::move(text), vendor, asked.vendor);
  const std::string marker = "\nfind_package(MortiseSDK";
  if (const size_t at = text.find(marker); at != std::string::npos)
    text.insert(at, "\nlist(APPEND CMAKE_PREFIX_PATH \"" + prefix.string() + "\") # the SDK that made this project");
  return text;
}

Result<void> copyProject(const Template &from, const NewPlugin &asked, const fs::path &prefix, const fs::path &folder) {
  const fs::path source = prefix / "share" / "mortise" / "sdk" / from.folder;
  std::error_code failed;
  std::vector<fs::path> files;
  for (const auto &entry : fs::directory_iterator(source, failed))
    files.push_back(entry.path());
  if (failed)
    return Error{MORTISE_NOT_FOUND,
                 source.string() + " cannot be read: " + failed.message() + "; install the SDK anew"};
  files.push_back(prefix / "share" / "mortise" / "sdk" / "template" / "README.md");
  std::ranges::sort(files);
  fs::create_directories(folder, failed);
  if (failed)
    return Error{MORTISE_INVALID_ARGUMENT, folder.string() + " cannot be made: " + failed.message()};
  for (const fs::path &file : files) {
    const Result<std::string> text = readFile(file);
    if (!text)
      return text.error();
    const std::string changed = renamed(*text, from, asked, prefix);
    if (auto written = writeFile(folder / file.filename(), std::as_bytes(std::span(changed))); !written)
      return written;
  }
  return {};
}

int failed(const std::string &why) {
  std::cerr << "mortise: " << why << "\n";
  return 2;
}

} // namespace

int newPlugin(const NewPlugin &asked) {
  if (!std::regex_match(asked.name, std::regex("[a-z][a-z0-9_-]{0,39}")))
    return failed(
        "expected a name of up to 40 lower case letters, digits, _ and -, which begins with a letter; found '" +
        asked.name + "'");
  if (std::ranges::any_of(asked.vendor,
                          [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < ' '; }))
    return failed("expected a vendor without quotes, backslashes and control characters, found '" + asked.vendor + "'");
  const auto *from = std::ranges::find_if(
      templates, [&](const Template &each) { return asked.lang == each.lang && asked.memory == each.memory; });
  if (from == std::end(templates))
    return failed("there is no template with --lang " + asked.lang + " --memory " + asked.memory +
                  "; generated kernels run on this machine's CPU, in ordinary memory: --memory host");
  const fs::path folder = asked.folder.empty() ? fs::path(asked.name) : fs::path(asked.folder);
  std::error_code ignored;
  if (fs::exists(folder, ignored) && !fs::is_empty(folder, ignored))
    return failed(folder.string() + " is there already, and is not empty; name another folder");
  const Result<fs::path> prefix = sdkPrefix();
  if (!prefix)
    return failed(prefix.error().message);
  NewPlugin whole = asked;
  if (whole.vendor.empty())
    whole.vendor = capitalised(asked.name);
  if (auto copied = copyProject(*from, whole, *prefix, folder); !copied)
    return failed(copied.error().message);
  const std::string where = folder.string();
  std::cout << where << ": a plugin " << from->what << "\n"
            << "  cmake -S " << where << " -B " << where << "/build\n"
            << "  cmake --build " << where << "/build\n"
            << "  mortise plugin check " << where << "/build/lib/mortise/plugins/libmortise_" << asked.name << ".so\n"
            << where << "/README.md says what comes next.\n";
  return 0;
}

} // namespace mortise::tool
