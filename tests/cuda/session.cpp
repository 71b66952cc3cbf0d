// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "session.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <sstream>
#include <unistd.h>

namespace mortise::test {

static void *opened(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle)
    throw std::runtime_error(dlerror());
  return handle;
}

Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &driver, const std::string &products,
                                                        const std::string &convolutions) {
  setenv("MORTISE_CUDA_DRIVER", driver.c_str(), 1);
  setenv("MORTISE_CUDA_CUBLASLT", products.c_str(), 1);
  setenv("MORTISE_CUDA_CUDNN", convolutions.c_str(), 1);
  const MortiseOption options[] = {
      {"driver", driver.c_str()}, {"cublaslt", products.c_str()}, {"cudnn", convolutions.c_str()}};
  return startPlugin(options);
}

// ---- Sessions

static void *blas() {
  static void *handle = opened(MORTISE_TEST_BLAS_STAND_IN);
  return handle;
}
static void *dnn() {
  static void *handle = opened(MORTISE_TEST_DNN_STAND_IN);
  return handle;
}
static void useQueue(StandInQueue queue) {
  reinterpret_cast<BlasUse>(dlsym(blas(), "blasStandInUse"))(queue);
  reinterpret_cast<DnnUse>(dlsym(dnn(), "dnnStandInUse"))(queue);
}

// A link of its own: the plugin finds devices once for each path, and the stand-in is one library for all.
Session::Session(const std::string &settings, const std::string &library, const std::string &products,
                 const std::string &convolutions) {
  static std::atomic<int> number = 0;
  path = std::filesystem::temp_directory_path() /
         ("mortise-stand-in-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so");
  std::filesystem::create_symlink(library, path);
  handle = opened(path.c_str());
  standInConfigure = reinterpret_cast<StandInConfigure>(symbol("standInConfigure"));
  standInReport = reinterpret_cast<StandInReport>(symbol("standInReport"));
  standInWork = reinterpret_cast<StandInReport>(symbol("standInWork"));
  useQueue(reinterpret_cast<StandInQueue>(symbol("standInQueue")));
  configure("devices=2 version=13000 " + settings);
  takeLog();
  auto found = start(path, products, convolutions);
  log = takeLog();
  if (found)
    for (const MortiseDeviceInfo *info : *found)
      devices.push_back(info->device);
  else if (found.error().code == MORTISE_NOT_FOUND)
    log += found.error().message;
  else
    throw Failed(found.error());
}

Session::~Session() {
  configure("");
  std::filesystem::remove(path);
}

static std::vector<std::string> linesOf(const std::string &text) {
  std::istringstream lines(text);
  std::vector<std::string> list;
  for (std::string line; std::getline(lines, line);)
    list.push_back(line);
  return list;
}

std::vector<std::string> Session::calls() const {
  std::vector<std::string> list = linesOf(standInReport());
  list.erase(list.begin());
  return list;
}

std::vector<std::string> Session::work() const { return linesOf(standInWork()); }

void *Session::symbol(const char *name) const { return dlsym(handle, name); }

std::string Session::counts() const {
  const std::string report = standInReport();
  return report.substr(0, report.find('\n'));
}

size_t Session::callsOf(const std::string &function) const {
  const std::vector<std::string> list = calls();
  return static_cast<size_t>(
      std::ranges::count_if(list, [&](const std::string &line) { return line.substr(0, line.find(' ')) == function; }));
}

void Session::warmUp() const {
  for (MortiseDevice *device : devices)
    freeMemory(device, makeMemory(device, 256), 256);
}

// ---- Products

void configureBlas(const std::string &settings) {
  reinterpret_cast<BlasConfigure>(dlsym(blas(), "blasStandInConfigure"))(settings.c_str());
}
static std::vector<std::string> blasReport() {
  return linesOf(reinterpret_cast<BlasReport>(dlsym(blas(), "blasStandInReport"))());
}
std::vector<std::string> blasCalls(const std::string &function) {
  std::vector<std::string> list = blasReport();
  std::erase_if(list, [&](const std::string &line) { return line.substr(0, line.find(' ')) != function; });
  return list;
}
std::string blasCounts() { return blasReport()[0]; }

Computed computed(Network &network, const HowComputed &how) {
  const Session session;
  const std::shared_ptr<const Graph> graph = network.finish();
  configureBlas(how.blas);
  Region region(session.devices[0], graph, how.precision);
  configureBlas(""); // without the calls that try kernels
  runAndCompare(session.devices[0], region, graph->view(), how.skew);
  std::vector<std::string> calls = blasCalls("cublasLtMatmul");
  EXPECT_EQ(calls.size() % 2, 0u);
  calls.resize(calls.size() / 2); // of the first round
  return {region.text(), calls};
}

// ---- Convolutions

void configureDnn(const std::string &settings) {
  reinterpret_cast<DnnConfigure>(dlsym(dnn(), "dnnStandInConfigure"))(settings.c_str());
}
static std::vector<std::string> dnnReport() {
  return linesOf(reinterpret_cast<DnnReport>(dlsym(dnn(), "dnnStandInReport"))());
}
std::vector<std::string> dnnLines(const std::string &word) {
  std::vector<std::string> list = dnnReport();
  list.erase(list.begin());
  std::erase_if(list, [&](const std::string &line) { return line.find(word) == line.npos; });
  return list;
}
std::string dnnCounts() { return dnnReport()[0]; }

std::shared_ptr<const Graph> product(int32_t dtype, int64_t size, bool bias) {
  Network net;
  net.output(net.linear(net.input(dtype, {size, size}), net.input(dtype, {size, size}),
                        bias ? net.input(dtype, {size}) : ir::noValue));
  return net.finish();
}

std::string saidWhenTaken(const Session &session, const MortiseGraph &graph) {
  takeLog();
  const Answer answer = propose(session.devices[0], graph);
  EXPECT_EQ(answer.candidates, 1U) << answer.detail;
  return takeLog();
}

} // namespace mortise::test
