// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region as steps that launch kernels and copy: where each value lies, what each kernel is given, and, for one set of
// symbol values, the numbers of both. What plugins share whose kernels are SimtFunctions; each has its own way to load,
// launch and copy.
#pragma once

#include <mortise/codegen/simt_plugin.hpp>
#include <mortise/codegen/simt_queue.hpp>
#include <mortise/symbols.hpp>

#include <variant>

namespace mortise::codegen {

// Where a value of a region lies: in an input or output of the region, in a buffer of the workspace, or in one of the
// memory that is filled when constants are bound.
struct Place {
  enum Kind : uint8_t { Input, Output, Workspace, Packed } kind = Input;
  uint32_t index = 0;
};

struct KernelArgument { // 8 bytes
  // A stride is a number that the alignment of addresses depends on.
  enum Kind : uint8_t { Address, Symbol, Number, Stride, Constant } kind = Address;
  uint32_t index = 0; // of a symbol of the graph, in the step's SimtNumbers::numbers, or in SimtFunction::constants
  Place place;        // of an address
};

// ---- Where values lie

// Finds a place for each value that has memory. The inputs have theirs from the start; `placeOutputs` comes before the
// first step.
class Placement {
public:
  // What writes its outputs in one step, in the order of the steps.
  struct Unit {
    std::span<const uint32_t> inputs, outputs; // values
    const Group *group = nullptr;              // NULL, as the code: a library computes it
    const SimtFunction *code = nullptr;
  };
  // An output that no step writes.
  struct Copy {
    uint32_t output = 0, value = 0;
    Place source, target;
    Dim bytes;
    std::vector<uint32_t> nodes; // that made the value
  };

  // `buffers`: of the workspace, to which new ones are added.
  Placement(const MortiseGraph &region, std::vector<Buffer> &buffers);
  // Groups write outputs where they can. An output that is an input, is listed a second time, or updates a state that
  // is still read is copied at the end.
  void placeOutputs(std::span<const Unit> units);
  // Errors: MORTISE_INTERNAL, for a value that no step has written.
  Result<Place> of(uint32_t value) const;
  Place forResult(uint32_t value);
  Place workspace(Dim bytes);
  void set(uint32_t value, Place place) { places[value] = place; }
  // To be made at the end, in this order.
  Result<std::vector<Copy>> copies();
  // The step with this number reads or writes what lies there.
  void use(const Place &place, uint32_t step);
  void use(std::span<const KernelArgument> arguments, uint32_t step);

private:
  struct End {
    uint32_t output = 0, value = 0;
  };
  bool mayUpdate(std::span<const Unit> units, uint32_t output, uint32_t value) const;
  Copy copyOf(uint32_t output, uint32_t value, Place source, Place target) const;

  const MortiseGraph &region;
  std::vector<Buffer> &buffers;
  std::vector<std::optional<Place>> places; // per value
  std::vector<uint32_t> aliased;            // per output: the value of the input that it updates, or none
  std::vector<End> ends;
};

// Bytes of a dense tensor.
Dim bytesOf(const MortiseValue &value);

// What the kernels of a group are given. `scratch` makes memory of so many bytes for them.
Result<std::vector<KernelArgument>> argumentsOf(const SimtFunction &code, const Group &group, Placement &placement,
                                                const std::function<Place(Dim)> &scratch);

// ---- Steps

// What steps are called in explanations: "cuda.rows". Literals, which kernels refer to.
struct LoweringNames {
  const char *pointwise, *rows, *columns, *scan, *product, *sort, *copy;
  const char *of(GroupKind kind) const;
};

// The groups of a region all of which is generated.
Result<std::vector<Group>> groupsOf(const MortiseGraph &region);

struct LaunchStep {
  uint32_t group = 0; // whose kernels are launched
  const SimtFunction *code = nullptr;
  std::vector<KernelArgument> arguments;
};
struct CopyStep {
  Place source, target;
  Dim bytes;
};
struct ProgramStep {
  std::variant<LaunchStep, CopyStep> work;
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
};

// What a device can do in one launch.
struct LaunchLimits {
  uint64_t blocks = (UINT64_C(1) << 31) - 1; // of a grid
  uint64_t threads = UINT64_MAX;             // of a grid
  uint64_t iterations = UINT64_MAX;          // of all loops of a thread together
};

// The numbers for one set of symbol values.
struct SimtNumbers {
  // Per step: most blocks of a kernel, or bytes to copy or that a library writes; 0: nothing to do.
  std::vector<uint64_t> amounts;
  std::vector<std::vector<uint64_t>> grids;  // per step: blocks of each kernel of a launch
  std::vector<std::vector<int64_t>> numbers; // per step: of an attention
  std::vector<uint64_t> offsets;             // per buffer
  uint64_t workspaceBytes = 0;
  ConstantExpr workspace;
  StepList steps;

  // For a number of steps, each of which is then added.
  explicit SimtNumbers(size_t count) : grids(count), numbers(count) {}
  struct Naming { // of a step; for explanations, as the traffic is
    const std::string &name;
    const char *lowering;
    const std::vector<uint32_t> &nodes;
  };
  // `attention`: NULL where numbers and blocks come from the code. Errors: MORTISE_UNSUPPORTED, for what no launch can
  // do.
  Result<void> addLaunch(const Naming &naming, const SimtFunction &code, const AttentionCall *attention,
                         const LaunchLimits &limits, std::span<const int64_t> symbols);
  Result<void> addCopy(const Naming &naming, const Dim &bytes, std::span<const int64_t> symbols);
  // What a library computes.
  void addCall(const Naming &naming, uint64_t writtenBytes, double bytes, double flops);
  // Behind the last step, for buffers of these sizes. Errors: as placeBuffers'.
  Result<void> place(std::span<const Buffer> buffers, std::span<const uint64_t> sizes);
};
// 0 for less. Errors: those of Dim::evaluate.
Result<uint64_t> countOf(const Dim &dim, std::span<const int64_t> symbols);
Result<std::vector<uint64_t>> sizesOf(std::span<const Buffer> buffers, std::span<const int64_t> symbols);

// A region all of which is generated.
struct SimtProgram {
  std::vector<ProgramStep> steps;
  std::vector<Buffer> buffers;

  // `codes`: per group; they outlive the program.
  static Result<SimtProgram> make(const MortiseGraph &region, std::span<const Group> groups,
                                  std::span<const SimtFunction *const> codes, const LoweringNames &names);
  // Errors: MORTISE_UNSUPPORTED, for what no launch can do.
  Result<std::unique_ptr<SimtNumbers>> numbersFor(std::span<const int64_t> symbols, const LaunchLimits &limits) const;
};

// ---- Calls

// The addresses of one call.
struct CallAddresses {
  const SimtNumbers &numbers;
  const MortiseEnqueueArgs &args;
  std::span<const MortiseAddress> bound; // per input: 0 for those that are not constant; empty where none is
  MortiseAddress packed = 0;             // the memory that was filled when constants were bound
  const SimtNumbers *packing = nullptr;  // how it was filled; NULL: no place is packed

  MortiseAddress operator()(const Place &place) const {
    switch (place.kind) {
    case Place::Workspace:
      return args.workspace + numbers.offsets[place.index];
    case Place::Packed:
      return packed + packing->offsets[place.index];
    case Place::Output:
      return args.outputs[place.index];
    case Place::Input:
      break;
    }
    return input(place.index);
  }
  MortiseAddress input(size_t i) const {
    const MortiseAddress given = args.inputs[i];
    return given || bound.empty() ? given : bound[i];
  }
};

// Writes what the kernels of the step with this number are given. True: all addresses and strides are multiples of
// SimtFunction::alignment. `constants`: addresses, per constant of the code.
bool fillValues(std::span<const KernelArgument> arguments, size_t step, const SimtFunction &code,
                const CallAddresses &addresses, std::span<const uint64_t> constants, uint64_t *values);

// ---- Kernels of the ABI

// The constants of a region as the host keeps them.
struct BoundInputs {
  std::vector<MortiseAddress> inputs; // of the region; 0 for those that are not constant
};
inline std::span<const MortiseAddress> inputsOf(const BoundInputs *bound) {
  return bound ? std::span<const MortiseAddress>(bound->inputs) : std::span<const MortiseAddress>();
}

// A region all of which is generated, compiled for a device. The class made of it adds how it is queued. `Device` and
// `Function`: as compileGroups'; a device also has `info()` and `limits()`.
template <typename Device, typename Function> class GeneratedRegion {
public:
  GeneratedRegion(Device &device, const MortiseGraph &region) : device(device), region(region) {}
  GeneratedRegion(const GeneratedRegion &) = delete;

  Result<void> compile(const LoweringNames &names) {
    if (cancelled())
      return cancelledError();
    Result<std::vector<Group>> groups = groupsOf(region);
    if (!groups)
      return groups.error();
    if (cancelled())
      return cancelledError();
    auto compiled = compileGroups<Function>(device, region, std::span<const Group>(*groups));
    if (!compiled)
      return compiled.error();
    functions = std::move(*compiled);
    std::vector<const SimtFunction *> codes;
    for (const std::shared_ptr<Function> &function : functions)
      codes.push_back(&function->code());
    Result<SimtProgram> made = SimtProgram::make(region, *groups, codes, names);
    if (!made)
      return made.error();
    program = std::move(*made);
    Result<std::unique_ptr<SimtNumbers>> numbers = scheduleFor(typicalValues(region));
    if (!numbers)
      return numbers.error();
    usual = std::move(*numbers);
    return {};
  }

  std::span<const std::shared_ptr<Function>> generatedFunctions() const { return functions; }
  bool hasConstants() const {
    return std::any_of(region.inputs, region.inputs + region.input_count,
                       [](const MortiseValue *input) { return (input->flags & MORTISE_VALUE_CONSTANT) != 0; });
  }
  // The host has copied the constants to the device, and keeps them there.
  std::unique_ptr<BoundInputs> bind(const MortiseAddress *inputs) const {
    auto bound = std::make_unique<BoundInputs>();
    bound->inputs.assign(inputs, inputs + region.input_count);
    return bound;
  }
  size_t symbolCount() const { return region.symbol_count; }
  // For the values of the region's symbols. Errors: MORTISE_UNSUPPORTED, for what no launch can do.
  Result<std::unique_ptr<SimtNumbers>> scheduleFor(std::span<const int64_t> symbols) const {
    return program.numbersFor(symbols, device.limits());
  }
  std::unique_ptr<SimtNumbers> usual; // for typical values; for all calls where the region has no symbols

protected:
  // The stream of a call, in which work can be queued, and the call's numbers. `instance`: NULL where the region has no
  // symbols.
  template <typename Stream>
  Result<std::pair<Stream *, const SimtNumbers *>> begin(const SimtNumbers *instance,
                                                         const MortiseEnqueueArgs &args) const {
    Result<Stream *> stream = streamFor<Stream>(device, args);
    if (!stream)
      return stream.error();
    if (region.symbol_count && !instance)
      return Error{MORTISE_INTERNAL, "expected an instance for the symbols' values, found none"};
    return std::pair<Stream *, const SimtNumbers *>(*stream, instance ? instance : usual.get());
  }

  Device &device;
  const MortiseGraph &region;                       // lives until the kernel is destroyed
  std::vector<std::shared_ptr<Function>> functions; // per group
  SimtProgram program;
};

} // namespace mortise::codegen
