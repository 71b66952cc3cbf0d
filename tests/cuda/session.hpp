// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cuda plugin on a stand-in for the driver: slots, called without the runtime, and what the stand-in saw.
#pragma once

#include "../../plugins/cuda/test/blas_stand_in.hpp"
#include "../../plugins/cuda/test/dnn_stand_in.hpp"
#include "../../plugins/cuda/test/driver_stand_in.hpp"
#include "../slots/slots.hpp"

namespace mortise::test {

// Starts the plugin with this driver and these libraries, as the environment variables name them. The devices that it
// finds.
Result<std::span<const MortiseDeviceInfo *const>> start(const std::string &driver,
                                                        const std::string &products = MORTISE_TEST_BLAS_STAND_IN,
                                                        const std::string &convolutions = MORTISE_TEST_DNN_STAND_IN);

// The plugin with devices of its own: lost devices of other sessions do not matter.
class Session {
public:
  // `settings`: of the stand-in, as devices are found.
  explicit Session(const std::string &settings = "", const std::string &library = MORTISE_TEST_STAND_IN,
                   const std::string &products = MORTISE_TEST_BLAS_STAND_IN,
                   const std::string &convolutions = MORTISE_TEST_DNN_STAND_IN);
  ~Session();
  Session(const Session &) = delete;

  std::vector<MortiseDevice *> devices;
  std::string log; // as devices were found, or why there are none

  void configure(const std::string &settings) const { standInConfigure(settings.c_str()); }
  std::vector<std::string> calls() const; // lines of the stand-in's report, without the first
  std::string counts() const;             // the first line
  std::vector<std::string> work() const;  // what has happened since configure()
  size_t callsOf(const std::string &function) const;
  // Starts up the devices, so that what stays until the process ends is there.
  void warmUp() const;

  void *symbol(const char *name) const; // of the stand-in

private:
  std::string path;
  void *handle = nullptr;
  StandInConfigure standInConfigure = nullptr;
  StandInReport standInReport = nullptr, standInWork = nullptr;
};

// The stand-in for the library of products.
void configureBlas(const std::string &settings);
std::vector<std::string> blasCalls(const std::string &function); // lines of its report
std::string blasCounts();                                        // the first line

struct HowComputed {
  int32_t precision = MORTISE_PRECISION_HIGHEST;
  uint64_t skew = 0;     // bytes by which inputs and outputs start behind a multiple of 256
  const char *blas = ""; // settings of the library's stand-in during compilation
};
struct Computed {
  std::string steps;
  std::vector<std::string> calls; // of cublasLtMatmul, in one run
};
// Compiles the network, which has no other steps than products, runs it, and compares with the interpreter.
Computed computed(Network &network, const HowComputed &how = {});

// The stand-in for the library of convolutions. Lines of its report with this word.
void configureDnn(const std::string &settings);
std::vector<std::string> dnnLines(const std::string &word);
std::string dnnCounts();

// What the plugin has logged while it answered whether it takes the graph, which it has to.
std::string saidWhenTaken(const Session &session, const MortiseGraph &graph);

// A linear of two matrices of so many rows and columns, and a bias.
std::shared_ptr<const Graph> product(int32_t dtype, int64_t size, bool bias = false);

} // namespace mortise::test
