// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a compiled region is: a flat list of steps over buffers. And the scheduler that makes one from a graph.
#pragma once

#include "views.h"

#include <dnnl.hpp>

#include <functional>

namespace mortise::cpu {

using BufferId = uint32_t;
inline constexpr uint32_t none = UINT32_MAX;

enum class Home : uint8_t {
  Workspace, // in the call's workspace, at `offset`
  Input,     // the caller's region input `number`
  Output,    // the caller's region output `number`
  Bound,     // constant input `number`, read in place
  Kept,      // made while constants are bound and kept with them
  Literal,   // in the kernel
};

struct Buffer {
  Home home = Home::Workspace;
  uint32_t number = 0;
  size_t bytes = 0;
  int64_t offset = 0;            // in the workspace
  int32_t first = -1, last = -1; // steps that touch it; -1: none
  const void *literal = nullptr;
  BufferId sharing = none; // lies in another buffer's memory (a sum accumulated in place)
};

struct Operand {
  BufferId buffer = none;
  int64_t offset = 0; // bytes
  bool written = false;
};

// One library call, generated function or loop of our own.
struct Step {
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
  double bytes = 0, flops = 0;
  std::vector<Operand> operands; // generated: inputs, then outputs

  dnnl::primitive_desc_base description; // set for a library call, whose operands have these arguments and layouts
  dnnl::primitive primitive;
  std::vector<int> arguments;
  std::vector<dnnl::memory::desc> layouts;

  codegen::Function function; // set for a generated function
  size_t inputCount = 0;

  std::function<void(void *const *operands)> native; // set for a loop of our own
  std::string
      signature; // at bind time: says all that `native` does, so that equal results are shared; empty: not shared

  bool isLibraryCall() const { return !arguments.empty(); }
};

struct Options {
  bool fuseActivations = true; // library calls may turn an infinity into NaN in a fused activation
  bool packWeights = true;
};

// An immutable program.
struct Schedule {
  std::vector<Buffer> buffers;
  std::vector<Step> binding; // run once when constants are bound
  std::vector<Step> steps;   // run by each call
  std::vector<std::vector<std::byte>> literals;
  size_t workspaceBytes = 0;
  std::shared_ptr<codegen::Compiler> code;
};

dnnl::engine &engine();
// f32 for MORTISE_F32 and so on; undef where the library has no such type.
dnnl::memory::data_type libraryType(int32_t dtype);

Result<Schedule> makeSchedule(const MortiseGraph &graph, const Options &options);

// Gives every workspace buffer an offset, so that buffers alive at the same time do not overlap.
void planMemory(Schedule &schedule);

} // namespace mortise::cpu
