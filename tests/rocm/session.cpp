// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "session.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <unistd.h>

namespace mortise::test {

Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &driver) {
  setenv("MORTISE_ROCM_DRIVER", driver.c_str(), 1);
  const MortiseOption options[] = {{"driver", driver.c_str()}};
  return startPlugin(options);
}

// A link of its own: the plugin finds devices once for each path, and the stand-in is one library for all.
Session::Session(const std::string &settings, const std::string &library) : settings(settings) {
  static std::atomic<int> number = 0;
  path = std::filesystem::temp_directory_path() /
         ("mortise-hip-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so");
  std::filesystem::create_symlink(library, path);
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  configure("");
  takeLog();
  auto found = start(path);
  log = takeLog();
  if (found)
    for (const MortiseDeviceInfo *info : *found) {
      infos.push_back(info);
      devices.push_back(info->device);
    }
  else if (found.error().code == MORTISE_NOT_FOUND)
    log += found.error().message;
  else
    throw Failed(found.error());
}

Session::~Session() {
  settings.clear();
  configure("");
  std::filesystem::remove(path);
}

void Session::configure(const std::string &more) const {
  symbol<void(const char *)>("standInConfigure")((settings + " " + more).c_str());
}

static std::vector<std::string> linesOf(const std::string &text) {
  std::istringstream lines(text);
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);)
    list.push_back(line);
  return list;
}

std::vector<std::string> Session::calls() const {
  std::vector<std::string> list = linesOf(symbol<const char *()>("standInReport")());
  list.erase(list.begin());
  return list;
}

size_t Session::callsOf(const std::string &function) const {
  return static_cast<size_t>(std::ranges::count(calls(), function));
}

std::string Session::counts() const {
  const std::string report = symbol<const char *()>("standInReport")();
  return report.substr(0, report.find(" launches="));
}

std::vector<std::string> Session::problems() const { return linesOf(symbol<const char *()>("standInProblems")()); }

void Session::warmUp() const {
  for (MortiseDevice *device : devices)
    freeMemory(device, makeMemory(device, 256), 256);
}

void *Session::find(const char *name) const { return dlsym(handle, name); }

} // namespace mortise::test
