// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A plugin's slots, called without the runtime. The plugin is the file MORTISE_TEST_PLUGIN, and its regions are those
// of the lowering MORTISE_TEST_LOWERING, which the program that compiles this names.
#pragma once

#include "../cpu/network.hpp"

#include <mortise/graph.hpp>
#include <mortise/plugin.hpp>

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

namespace mortise::test {

const MortisePlugin &testedPlugin();

// What the plugin has written to the log since the last call.
std::string takeLog();

template <typename Args> Result<void> call(MortiseStatus *(*slot)(Args *), Args &args) {
  args.struct_size = sizeof args;
  const Status status(slot(&args));
  return status.result();
}

// Starts the plugin with these options. The devices that it finds.
Result<std::span<const MortiseDeviceInfo *const>> startPlugin(std::span<const MortiseOption> options);

struct Failed : std::runtime_error {
  explicit Failed(const Error &error) : std::runtime_error(error.message), error(error) {}
  Error error;
};

// Handles that a test makes. Each function throws a status as Failed.
MortiseStream *makeStream(MortiseDevice *device);
void destroyStream(MortiseStream *stream);
MortiseEvent *makeEvent(MortiseDevice *device);
void destroyEvent(MortiseEvent *event);
Result<void> record(MortiseEvent *event, MortiseStream *stream);
Result<void> wait(MortiseEvent *event, MortiseStream *stream);
MortiseAddress makeMemory(MortiseDevice *device, uint64_t bytes, MortiseStream *stream = nullptr);
// Behind the stream's work; the memory of the host must stay until that has happened.
void upload(MortiseDevice *device, MortiseStream *stream, MortiseAddress target, const void *source, uint64_t bytes);
// Waits for the stream.
void download(MortiseDevice *device, MortiseStream *stream, void *target, MortiseAddress source, uint64_t bytes);
void freeMemory(MortiseDevice *device, MortiseAddress address, uint64_t bytes, MortiseStream *stream = nullptr);

// A compiled region, with memory for its workspace.
class Region {
public:
  struct How {
    int32_t precision = MORTISE_PRECISION_HIGHEST, mode = MORTISE_MODE_DEFAULT;
    bool deterministic = false;
    std::vector<MortiseOption> options;
    std::optional<std::span<const std::byte>> saved; // what save() has returned, in place of compiling
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
  std::vector<std::byte> save() const;
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
void runAndCompare(MortiseDevice *device, Region &region, const MortiseGraph &graph, uint64_t skew = 0);

// What the plugin proposes for a graph: detail and reason of the last refusal, and the cost of the last candidate.
// Throws Failed.
struct Answer {
  int32_t reason = 0;
  std::string detail;
  size_t candidates = 0;
  double costNs = 0, flops = 0;
};
Answer propose(MortiseDevice *device, const MortiseGraph &graph, int32_t precision = MORTISE_PRECISION_HIGHEST,
               const std::vector<MortiseOption> &callOptions = {});

// exp(x + x) for x of f32[64, 128].
std::shared_ptr<const Graph> smallGraph();
inline constexpr uint64_t smallBytes = 64 * 128 * 4;

} // namespace mortise::test
