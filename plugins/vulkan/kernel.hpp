// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A region compiled: steps that launch generated kernels and copy, buffers between them, and, for one set of symbol
// values, the numbers of both.
#pragma once

#include "function.hpp"
#include "stream.hpp"

#include <mortise/codegen/simt_plugin.hpp>
#include <mortise/symbols.hpp>

#include <variant>

namespace mortise::vulkan {

// Where a value of the region lies: in an input or output of the region, or in a buffer of the workspace.
struct Place {
  enum Kind : uint8_t { Input, Output, Workspace } kind = Input;
  uint32_t index = 0;
};

struct Launch {
  struct Argument { // 8 bytes: the address of a place or of a constant of the function, or the value of a symbol
    enum Kind : uint8_t { Address, Symbol, Constant } kind = Address;
    uint32_t number = 0; // of a symbol or constant
    Place place;
  };
  std::shared_ptr<Function> function;
  std::vector<Argument> arguments;
};
struct Copy {
  Place source, target;
  Dim bytes;
};
struct Step {
  std::variant<Launch, Copy> work;
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
};

// The numbers for one set of symbol values.
struct Schedule {
  std::vector<uint64_t> amounts;            // per step: most blocks of a kernel, or bytes to copy; 0: nothing to do
  std::vector<std::vector<uint64_t>> grids; // per step: blocks of each kernel of a launch
  std::vector<uint64_t> offsets;            // per buffer
  uint64_t workspaceBytes = 0;
  ConstantExpr workspace;
  StepList steps;
};

struct Constants {
  std::vector<MortiseAddress> inputs; // of the region; 0 for those that are not constant
};

class Kernel {
public:
  static Result<std::unique_ptr<Kernel>> compile(Device &device, const MortiseGraph &region);

  bool hasConstants() const { return constants; }
  size_t inputCount() const { return region.input_count; }
  size_t symbolCount() const { return region.symbol_count; }
  // For the values of the region's symbols. Errors: MORTISE_UNSUPPORTED, for what no launch can do.
  Result<std::unique_ptr<Schedule>> scheduleFor(std::span<const int64_t> symbols) const;
  std::unique_ptr<Schedule> usual; // for typical values; for all calls where the region has no symbols

  // `instance`: the schedule for the call's symbol values; NULL where the region has no symbols.
  Result<void> enqueue(const Constants *constants, const Schedule *instance, const MortiseEnqueueArgs &args) const;

private:
  Kernel(Device &device, const MortiseGraph &region) : device(device), region(region) {}
  friend class Builder;

  Device &device;
  const MortiseGraph &region; // lives until the kernel is destroyed
  bool constants = false;
  std::vector<Step> steps;
  std::vector<codegen::Buffer> buffers;
};

} // namespace mortise::vulkan
