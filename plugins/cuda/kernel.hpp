// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled: steps that launch generated kernels and copy, buffers between them, and, for one set of symbol
// values, the numbers of both.
#pragma once

#include "function.hpp"
#include "product.hpp"
#include "replay.hpp"
#include "stream.hpp"

#include <mortise/codegen/simt_plugin.hpp>
#include <mortise/symbols.hpp>

#include <variant>

namespace mortise::cuda {

// Where a value of the region lies: in an input or output of the region, or in a buffer of the workspace.
struct Place {
  enum Kind : uint8_t { Input, Output, Workspace } kind = Input;
  uint32_t index = 0;
};

struct Launch {
  static constexpr size_t mostArguments = 500; // of 8 bytes; the driver takes 4 KB
  struct Argument {                            // 8 bytes: an address, or the value of a symbol
    bool isSymbol = false;
    uint32_t symbol = 0;
    Place place;
  };
  std::shared_ptr<Function> function;
  std::vector<Argument> arguments;
};
struct Copy {
  Place source, target;
  Dim bytes;
};
struct Product {
  ProductShape shape;
  Place a, b, c, workspace;
  std::optional<Place> bias;
};
struct Step {
  std::variant<Launch, Copy, Product> work;
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
};

// The numbers for one set of symbol values.
struct Schedule {
  std::vector<uint64_t>
      amounts; // per step: most blocks of a kernel, bytes to copy, or bytes that a product writes; 0: nothing to do
  std::vector<ProductNumbers> products;     // per step that is one
  std::vector<std::vector<uint64_t>> grids; // per step: blocks of each kernel of a launch
  std::vector<uint64_t> offsets;            // per buffer
  uint64_t workspaceBytes = 0;
  ConstantExpr workspace;
  StepList steps;
  std::unique_ptr<Replays> replays; // NULL: each call queues the steps
};

struct Constants {
  std::vector<MortiseAddress> inputs; // of the region; 0 for those that are not constant
};

class Kernel {
public:
  // `graphs`: the most that is wanted.
  static Result<std::unique_ptr<Kernel>> compile(Device &device, const MortiseGraph &region,
                                                 const MortiseCompileOptions &options, Graphs graphs);
  Kernel(const Kernel &) = delete;
  ~Kernel() { usual.reset(); } // graphs before the code that they launch

  bool hasConstants() const { return constants; }
  size_t inputCount() const { return region.input_count; }
  // For the values of the region's symbols. Errors: MORTISE_UNSUPPORTED, for what no launch can do.
  Result<std::unique_ptr<Schedule>> scheduleFor(std::span<const int64_t> symbols) const;
  std::unique_ptr<Schedule> usual; // for typical values; for all calls where the region has no symbols
  size_t symbolCount() const { return region.symbol_count; }

  // `instance`: the schedule for the call's symbol values; NULL where the region has no symbols.
  Result<void> enqueue(const Constants *constants, const Schedule *instance, const MortiseEnqueueArgs &args) const;

private:
  Kernel(Device &device, const MortiseGraph &region, Graphs graphs) : device(device), region(region), graphs(graphs) {}
  Result<ProductNumbers> productNumbers(const Product &product, std::span<const int64_t> symbols) const;
  friend class Builder;

  Device &device;
  const MortiseGraph &region; // lives until the kernel is destroyed
  const Graphs graphs;
  bool constants = false;
  std::vector<Step> steps;
  std::vector<codegen::Buffer> buffers; // of 0 bytes where a library says how many, for each set of symbol values
};

} // namespace mortise::cuda
