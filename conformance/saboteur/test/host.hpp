// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A small host for the saboteur: plants a fault, compiles graphs, and runs them on either device.
#pragma once

#include "run_op.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <set>

struct MortiseStatus {
  int32_t code;
  std::string message;
};

namespace mortise::test {

template <typename T> T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

using Bytes = std::vector<uint8_t>;
using Buffers = std::vector<Bytes>;

enum Device { InHost, WithQueue };
inline constexpr Device bothDevices[] = {InHost, WithQueue};

const MortisePlugin &plugin();
const MortiseHost &hostTable();
MortiseDevice *handleOf(Device device);
std::string tryToPlant(const std::string &fault); // in place of the one before
void plant(const std::string &fault);
extern std::chrono::milliseconds hostDelay; // before parallel_for begins
extern bool hostCancels;                    // what the host answers to `cancelled`

// The status of a call, which it takes: "" or "CODE: message".
std::string take(MortiseStatus *status);
int32_t codeOf(MortiseStatus *status);
template <typename Args> std::string call(MortiseStatus *(*slot)(Args *), Args &args) { return take(slot(&args)); }

// Faults that some test shows; every row of faults.def has to be among them.
std::set<std::string> &shown();
struct Shows {
  explicit Shows(const char *fault) { shown().insert(fault); }
};
// A test of the fault `name`, which is planted where the test says so.
#define FAULT_TEST(Identifier, name)                                                                                   \
  static const Shows shows##Identifier(name);                                                                          \
  TEST(Saboteur, Identifier)

// ---- Objects of the plugin

struct Stream {
  explicit Stream(Device device);
  ~Stream();
  std::string wait() const;
  std::string reset() const;
  Device device;
  MortiseStream *handle;
};

struct Event {
  Event();
  ~Event();
  std::string record(const Stream &stream) const { return on(plugin().event_record, stream); }
  std::string holdBack(const Stream &stream) const { return on(plugin().event_wait, stream); }
  std::string synchronize() const;
  bool hasHappened() const;
  std::string on(MortiseStatus *(*slot)(MortiseEventArgs *), const Stream &stream) const;
  MortiseEvent *handle;
};

// Bytes in the home of a device.
class Memory {
public:
  Memory(Device device, size_t bytes);
  ~Memory();
  MortiseAddress address() const { return at; }
  void write(const Bytes &bytes) const;
  Bytes read(const Stream *stream = nullptr) const; // NULL: at once
  void free(const Stream &stream);                  // behind the work of a stream

private:
  std::string copy(void *host, bool toDevice, const Stream *stream) const;
  Device device;
  size_t size;
  MortiseAddress at = 0;
  Bytes own;
};

struct Bound {
  MortiseConstants *handle = nullptr;
  uint64_t bytes = 0;
};

class Kernel {
public:
  Kernel(Device device, const MortiseGraph &graph, const char *lowering = "saboteur.region");
  ~Kernel();
  MortiseKernelInfo info() const;
  size_t workspaceBytes() const;
  Bound bind(const std::vector<MortiseAddress> &inputs) const;
  void unbind(Bound bound) const;
  // Runs once, with memory of its own, and returns the outputs. Aliased outputs are written to their inputs.
  Buffers run(const Buffers &inputs) const;

  const Device device;
  const MortiseGraph &graph;
  MortiseKernel *handle = nullptr;
};

// A call of a kernel, with the lists that its arguments point to.
struct Call {
  Call(const Kernel &kernel, std::vector<MortiseAddress> inputs, std::vector<MortiseAddress> outputs,
       MortiseAddress workspace, const Stream *stream = nullptr);
  Call(const Call &) = delete;
  std::string enqueue() { return call(plugin().enqueue, args); }
  std::vector<MortiseAddress> inputs, outputs;
  MortiseEnqueueArgs args = sized<MortiseEnqueueArgs>();
};

// A compilation with `plugin().kernel_compile`; the code of its status.
int32_t compileCode(const MortiseGraph &graph);

struct Proposed {
  size_t candidates = 0, refusals = 0;
  std::vector<MortiseInPlace> inPlace;
};
Proposed propose(const MortiseGraph &graph);

// ---- Graphs

// Builds a graph and returns the values of its inputs.
using Make = std::function<std::vector<Data>(ViewBuilder &builder)>;
Make one(const std::string &op, std::vector<Data> operands, std::vector<Slot> results,
         std::vector<Attribute> attributes = {});

struct Graph {
  explicit Graph(const Make &make);
  const MortiseGraph &view() { return builder.view(); }
  Buffers expected(); // by the reference
  ViewBuilder builder;
  Buffers inputs;
};

// "" or how the outputs differ from those of the reference by more than rounding explains; `bits`: at all.
std::string difference(Graph &graph, const Buffers &found, bool bits = false);

// Runs in a child: 0 when `body` returns, its signal when it ends by one, -1 when an expectation fails there.
int signalOf(const std::function<void()> &body);

} // namespace mortise::test
