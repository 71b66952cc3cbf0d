// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The cuda plugin on a stand-in for the driver: slots, called without the runtime, and what the stand-in saw.
#pragma once

#include "../../plugins/cuda/test/blas_stand_in.hpp"
#include "../../plugins/cuda/test/dnn_stand_in.hpp"
#include "../../plugins/cuda/test/driver_stand_in.hpp"
#include "../cpu/network.hpp"

#include <mortise/graph.hpp>
#include <mortise/plugin.hpp>

#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace mortise::test {

const MortisePlugin &cudaPlugin();

// What the plugin has written to the log since the last call.
std::string takeLog();

template <typename Args> Result<void> call(MortiseStatus *(*slot)(Args *), Args &args) {
  args.struct_size = sizeof args;
  const Status status(slot(&args));
  return status.result();
}

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

struct Failed : std::runtime_error {
  explicit Failed(const Error &error) : std::runtime_error(error.message), error(error) {}
  Error error;
};

// The stand-in for the library of products.
void configureBlas(const std::string &settings);
std::vector<std::string> blasCalls(const std::string &function); // lines of its report
std::string blasCounts();                                        // the first line

// The stand-in for the library of convolutions. Lines of its report with this word.
void configureDnn(const std::string &settings);
std::vector<std::string> dnnLines(const std::string &word);
std::string dnnCounts();

// Handles that a test makes. Each function throws a status as Failed.
MortiseStream *makeStream(MortiseDevice *device);
void destroyStream(MortiseStream *stream);
MortiseEvent *makeEvent(MortiseDevice *device);
void destroyEvent(MortiseEvent *event);
Result<void> record(MortiseEvent *event, MortiseStream *stream);
Result<void> wait(MortiseEvent *event, MortiseStream *stream);
MortiseAddress makeMemory(MortiseDevice *device, uint64_t bytes, MortiseStream *stream = nullptr);
void freeMemory(MortiseDevice *device, MortiseAddress address, uint64_t bytes, MortiseStream *stream = nullptr);

// A compiled region, with memory for its workspace.
class Region {
public:
  struct How {
    int32_t precision = MORTISE_PRECISION_HIGHEST, mode = MORTISE_MODE_DEFAULT;
    bool deterministic = false;
    const char *graphs = "on"; // the option
  };
  Region(MortiseDevice *device, std::shared_ptr<const Graph> graph, How how);
  Region(MortiseDevice *device, std::shared_ptr<const Graph> graph, int32_t precision = MORTISE_PRECISION_HIGHEST)
      : Region(device, std::move(graph), How{.precision = precision}) {}
  ~Region();
  Region(const Region &) = delete;
  Result<void> enqueue(MortiseStream *stream, std::vector<MortiseAddress> inputs, std::vector<MortiseAddress> outputs,
                       uint64_t *stepNs = nullptr) const {
    return enqueueIn(workspace, stream, std::move(inputs), std::move(outputs), stepNs);
  }
  // With another workspace than its own.
  Result<void> enqueueIn(MortiseAddress workspace, MortiseStream *stream, std::vector<MortiseAddress> inputs,
                         std::vector<MortiseAddress> outputs, uint64_t *stepNs = nullptr) const;
  // Constants for the calls that follow: their addresses, 0 for other inputs.
  void bind(std::vector<MortiseAddress> inputs);
  // For a graph with symbols: the values for the calls that follow.
  void prepare(std::vector<int64_t> values);
  std::string text() const; // of the steps, one a line
  size_t steps = 0;
  uint64_t workspaceBytes = 0, packedBytes = 0;

private:
  void allocate();
  void endConstants();
  void endInstance();
  void end();
  MortiseDevice *device;
  std::shared_ptr<const Graph> graph;
  MortiseKernel *kernel = nullptr;
  MortiseConstants *constants = nullptr;
  MortiseInstance *instance = nullptr;
  std::vector<int64_t> symbols;
  MortiseAddress workspace = 0;
};

// Runs the region twice with the extents of `graph`, and the interpreter on it. Tensors start `skew` bytes behind a
// multiple of 256.
void runAndCompare(const Session &session, Region &region, const MortiseGraph &graph, uint64_t skew = 0);

// What the plugin proposes for a graph: detail and reason of the last refusal, and the cost of the last candidate.
struct Answer {
  int32_t reason = 0;
  std::string detail;
  size_t candidates = 0;
  double costNs = 0, flops = 0;
};
Answer propose(MortiseDevice *device, const MortiseGraph &graph, int32_t precision = MORTISE_PRECISION_HIGHEST);

// A linear of two matrices of so many rows and columns, and a bias.
std::shared_ptr<const Graph> product(int32_t dtype, int64_t size, bool bias = false);
// exp(x + x) for x of f32[64, 128].
std::shared_ptr<const Graph> smallGraph();
inline constexpr uint64_t smallBytes = 64 * 128 * 4;

} // namespace mortise::test
