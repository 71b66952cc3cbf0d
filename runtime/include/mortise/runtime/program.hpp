// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded plan: kernels compiled, constants bound. Any number of threads may run one program at once; each call in
// flight leases an execution context. After the first call of each context the host allocates nothing.
//
// A plan with symbols runs for all their values. The first call with a set of values makes a specialisation (extents,
// arena offsets, instances); the program keeps LoadOptions::specializeLimit of them and drops the least recently used.
//
// A plugin may refuse a region that it offered when constants are bound, when a call needs a kernel of its own, or
// because its process ended. A program that knows its graph then has it placed again, within the same call
// (docs/decisions/0037-refused-kernels.md).
#pragma once

#include <mortise/portable/graph.hpp>
#include <mortise/runtime/refusal.hpp>
#include <mortise/runtime/registry.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace mortise::plan {
struct GuardT;
struct PlanT;
struct TensorTypeT; // generated from runtime/plan.fbs (object API)
} // namespace mortise::plan

namespace mortise::runtime {

class Executable;

struct Tensor {         // a caller's buffer; not owned
  void *data = nullptr; // an address in the home of `device`, when there is one
  int32_t dtype = 0;
  int32_t rank = 0;
  const int64_t *dims = nullptr;
  const int64_t *strides = nullptr; // in elements; NULL is dense row-major
  const Device *device = nullptr;   // of the registry; NULL: host memory
};

// A caller's queue on a device: a stream that the device's plugin made or imported.
struct CallerStream {
  const Device *device = nullptr;
  MortiseStream *stream = nullptr;
};

struct StepReport {
  std::string name, lowering;
  uint64_t ns = 0;
  double bytes = 0, flops = 0;
};
struct RegionReport {
  std::string device, plugin, lowering;
  std::vector<uint32_t> nodes; // of the compiled graph
  double predictedNs = 0;
  std::vector<StepReport> steps; // those of the last run's symbol values, where steps depend on values
  std::string specialised; // why the region is compiled for each set of values; "" when one kernel serves all values
  uint32_t kernels = 0;    // compiled or loaded so far; 0 for a region that shares an equal region's kernel
  // "hit" when the kernel was loaded from disk, "saved" when from the program's file, otherwise why it was compiled; ""
  // when specialised.
  std::string cached;
};

struct ValuesReport {
  size_t ready = 0, limit = 0;   // specialisations kept, and how many may be kept
  size_t instances = 0;          // made by plugins for the specialisations kept
  uint64_t met = 0, dropped = 0; // specialisations made, and those dropped because of the limit, since load
  uint64_t specialised = 0;      // kernels compiled for one set of values, since load
};

// What a plugin wrote of a region's kernel, and what it depends on beside the region's graph.
struct SavedKernel {
  uint32_t region = 0; // of the plan
  std::string key;
  std::vector<std::byte> bytes;
};

struct LoadOptions {
  size_t specializeLimit = 64;
  std::span<const SavedKernel> kernels = {};       // at most one for each region; read during the load
  std::optional<RefusedRegion> *refused = nullptr; // is set where the load fails for that reason
};

// For messages: "f32[b, 2*s]", "4*s - 8 >= 0".
std::string typeText(const plan::PlanT &plan, const plan::TensorTypeT &type);
std::string guardText(const plan::PlanT &plan, const plan::GuardT &guard);

class Program;

// Makes a program of the graph that `plan` was written for, without the refused region; it takes the same inputs and
// gives the same outputs. `uncovered` receives the nodes that no device takes then.
using PlaceAgain = std::function<Result<std::shared_ptr<Program>>(const plan::PlanT &plan, const RefusedRegion &refused,
                                                                  std::vector<Uncovered> &uncovered)>;

class Program {
public:
  // Compiles every region's kernel (in parallel threads) on the devices that the plan names.
  static Result<std::shared_ptr<Program>> load(std::shared_ptr<const plan::PlanT> plan,
                                               std::shared_ptr<const Registry> registry,
                                               const LoadOptions &options = {});
  // Before the first use. Without it what a plugin refuses is an error.
  void setPlaceAgain(PlaceAgain placeAgain);

  // Packs the constant inputs: `tensors` holds one entry per plan input, ignored where it is not constant. The memory
  // must stay valid until the next bind or the program's end. Calling again rebinds (swapped weights); calls in flight
  // finish with the old ones, and the call waits for them. So does the program's end. After an error the constants
  // bound before stay bound.
  Result<void> bindConstants(std::span<const Tensor> tensors);

  // Checks dtype and shape of every input and output, then runs. The symbols' values are read from the inputs' extents;
  // all other extents and the plan's guards are checked against these values. Inputs that are not dense are copied
  // first; outputs must be dense. Entries for constants are ignored. An aliased output's data is NULL or its input's.
  // Errors: MORTISE_UNSUPPORTED where a plugin refuses a region, and the graph cannot be placed without it: nothing of
  // the call has happened. MORTISE_DEVICE_LOST where a plugin's process ended after memory that a call reads was
  // written, so that the call cannot be repeated; the next one does without that kernel.
  Result<void> run(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  // Like run(), on callers' streams, of one device each: comes behind what is queued there, and returns when its work
  // is queued and the host's tensors may be used again. A tensor in device memory stays valid until the work has
  // happened: it is ordered by the stream of its device, or by one of the others where there is none. Where the plan
  // has no tensor in the memory of a stream's device, the call waits for the streams, and runs.
  Result<void> enqueue(std::span<const Tensor> inputs, std::span<const Tensor> outputs,
                       std::span<const CallerStream> callers);

  // The unchecked fast path: one pointer to dense memory per input and output. The caller guarantees that shapes agree
  // with `values`, which has one entry per symbol of the plan, and that donated inputs in host memory are aligned to
  // arenaAlignment.
  Result<void> runPointers(const void *const *inputs, void *const *outputs, std::span<const int64_t> values = {});

  // Computes the symbols' values from the inputs' extents, after run()'s checks of inputs except those of data.
  // `values` has one entry per symbol of the plan.
  Result<void> symbolValues(std::span<const Tensor> inputs, std::span<int64_t> values) const;
  // The extents of an output for `values`, which symbolValues() returned.
  Result<std::vector<int64_t>> outputShape(size_t output, std::span<const int64_t> values) const;

  // Runs once with per-step clocks on, adding to the report's ns.
  Result<void> runProfiled(std::span<const Tensor> inputs, std::span<const Tensor> outputs);

  // The kernels that plugins can save, those of equal regions once. Not those that are compiled for sets of symbol
  // values. What cannot be saved is left out, with a warning where the plugin fails. Thread safe.
  std::vector<SavedKernel> saveKernels() const;

  const plan::PlanT &plan() const; // valid as long as the program, though another may take its place
  // Of the last time that the graph was placed again in vain: every device's answer for every node that none takes.
  std::vector<Uncovered> uncovered() const;
  uint64_t arenaBytes() const; // of one execution context, workspaces included; of the largest values so far
  // Per memory space of the plan what a call takes, workspaces included; zeros where that depends on symbols.
  std::vector<uint64_t> spaceBytes() const;
  uint64_t packedBytes() const; // constants held by plugins
  ValuesReport valuesReport() const;
  std::vector<RegionReport> report() const;

  ~Program();

private:
  struct Impl;
  explicit Program(std::unique_ptr<Executable> executable);
  std::unique_ptr<Impl> impl;
};

// Bytes of host memory that calls of all programs of the process work in (decision 0056). Any thread.
uint64_t processArenaBytes();

} // namespace mortise::runtime
