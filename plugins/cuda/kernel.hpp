// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled: steps that launch generated kernels, copy and call libraries, buffers between them, and, for one
// set of symbol values, the numbers of both.
#pragma once

#include "convolution.hpp"
#include "function.hpp"
#include "product.hpp"
#include "replay.hpp"
#include "stream.hpp"

#include <mortise/codegen/simt_program.hpp>

#include <optional>
#include <variant>

namespace mortise::cuda {

using codegen::Place;

struct Launch {
  static constexpr size_t mostArguments = 500; // of 8 bytes; the driver takes 4 KB
  std::shared_ptr<Function> function;
  std::vector<codegen::KernelArgument> arguments;
  std::optional<codegen::AttentionCall> attention; // where numbers and blocks come from; otherwise from the code
};
struct Copy {
  Place source, target;
  Dim bytes;
};
struct Product {
  ProductShape shape;
  Place a, b, c, workspace;
  std::optional<Place> bias, addend;
};
struct Convolution {
  ConvolutionShape shape;
  PerRole<std::optional<Place>> places;
  PerRole<Dim> elements; // where the tensors begin there
  Place workspace;
};
struct Step {
  std::variant<Launch, Copy, Product, Convolution> work;
  // A library computes it, which can only be captured.
  bool isCall() const { return std::holds_alternative<Product>(work) || std::holds_alternative<Convolution>(work); }
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
};

// The numbers for one set of symbol values.
struct Schedule : codegen::SimtNumbers {
  explicit Schedule(size_t count) : SimtNumbers(count), products(count), convolutions(count) {}
  std::vector<ProductNumbers> products;         // per step that is one
  std::vector<ConvolutionNumbers> convolutions; // likewise
  std::unique_ptr<Replays> replays;             // NULL: each call queues the steps
};

struct Constants {
  explicit Constants(Device &device) : device(device) {}
  Constants(const Constants &) = delete;
  ~Constants();
  Device &device;
  std::vector<MortiseAddress> inputs; // of the region; 0 for those that are not constant
  MortiseAddress packed = 0;          // what is computed from constants alone
  uint64_t packedBytes = 0;
};

class Kernel {
public:
  // `graphs`: the most that is wanted.
  static Result<std::unique_ptr<Kernel>> compile(Device &device, const MortiseGraph &region,
                                                 const MortiseCompileOptions &options, Graphs graphs,
                                                 ProductsBy products);
  Kernel(const Kernel &) = delete;
  ~Kernel() { usual.reset(); } // graphs before the code that they launch

  bool hasConstants() const { return constants; }
  // Computes what depends on constants alone, and waits for it. `inputs`: as Constants::inputs.
  Result<std::unique_ptr<Constants>> bind(const MortiseAddress *inputs) const;
  // For the values of the region's symbols. Errors: MORTISE_UNSUPPORTED, for what no launch can do.
  Result<std::unique_ptr<Schedule>> scheduleFor(std::span<const int64_t> symbols) const;
  std::unique_ptr<Schedule> usual; // for typical values; for all calls where the region has no symbols
  size_t symbolCount() const { return region.symbol_count; }
  std::vector<std::shared_ptr<Function>> generatedFunctions() const;

  // `instance`: the schedule for the call's symbol values; NULL where the region has no symbols.
  Result<void> enqueue(const Constants *constants, const Schedule *instance, const MortiseEnqueueArgs &args) const;

private:
  Kernel(Device &device, const MortiseGraph &region, Graphs graphs) : device(device), region(region), graphs(graphs) {}
  // The numbers of these steps.
  Result<std::unique_ptr<Schedule>> numbersOf(std::span<const Step> steps, std::span<const codegen::Buffer> buffers,
                                              std::span<const int64_t> symbols) const;
  Result<void> addCall(Schedule &schedule, const Step &step, size_t number, std::span<const int64_t> symbols) const;
  friend class Builder;

  Device &device;
  const MortiseGraph &region; // lives until the kernel is destroyed
  const Graphs graphs;
  bool constants = false;
  std::vector<Step> steps;
  std::vector<codegen::Buffer> buffers; // of 0 bytes where a library says how many, for each set of symbol values
  // When constants are bound. Buffers are places of the kind Packed, and the steps' scratch memory between them.
  std::vector<Step> packing;
  std::vector<codegen::Buffer> packed;
  std::unique_ptr<Schedule> packingSchedule; // NULL: nothing depends on constants alone
};

} // namespace mortise::cuda
