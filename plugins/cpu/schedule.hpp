// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a region is once it is compiled and its symbols have values: a flat list of steps over buffers.
#pragma once

#include "units.hpp"

#include <functional>

namespace mortise::cpu {

using BufferId = uint32_t;

enum class Home : uint8_t {
  Workspace, // in the call's workspace, at `offset`
  Input,     // the caller's region input `number`
  Output,    // the caller's region output `number`
  Before,    // in the memory of region output `number` before that is written, at `offset` of its first aligned byte
  After,     // in the memory of region input `number` once that is read no more, at `offset`
  Bound,     // constant input `number`, read in place
  Kept,      // made while constants are bound and kept with them: calls read it
  Scratch,   // needed while constants are bound only, at `offset` of memory that is freed after it
  Literal,   // in the kernel
};

struct Buffer {
  Home home = Home::Workspace;
  uint32_t number = 0;
  size_t bytes = 0;
  int64_t offset = 0;            // in the workspace or the scratch memory
  int32_t first = -1, last = -1; // steps that touch it, of binding for Scratch; -1: none
  const void *literal = nullptr;
  BufferId sharing = none; // lies in another buffer's memory (a sum accumulated in place)
};

struct Operand {
  BufferId buffer = none;
  int64_t offset = 0; // bytes
  bool written = false;
};

// What a step does. Operands are the step's.
struct LibraryCall {
  dnnl::primitive_desc_base description;
  dnnl::primitive primitive;  // of a bind-time step made only when it runs
  std::vector<int> arguments; // per operand
  std::vector<dnnl::memory::desc> layouts;
};

// A generated function, with what depends on the symbols' values in numbers. Operands: inputs, then outputs.
struct GeneratedCall {
  codegen::Function::Entry entry = nullptr;
  int64_t tasks = 0, grain = 1;
  size_t scratchBytes = 0;
  bool hasSymbols = false; // the code reads the symbols' values
  size_t inputCount = 0;
  // Operands: an output, and an input whose memory it may be written to.
  std::vector<std::pair<uint32_t, uint32_t>> over;
};

// A loop of the plugin's own.
struct NativeLoop {
  std::function<void(void *const *operands)> run;
  std::string signature; // at bind time: says all that `run` does, so that equal results are shared; empty: not shared
};

struct Copy { // operands: source, target
  size_t bytes = 0;
};

struct Step {
  std::string name;
  const char *lowering = "";
  std::vector<uint32_t> nodes;
  double bytes = 0, flops = 0;
  std::vector<Operand> operands;
  uint32_t unit =
      0; // position of its unit among bindTime and then runTime ones: programs for other values have the same
  std::variant<LibraryCall, GeneratedCall, NativeLoop, Copy> action;

  const LibraryCall *libraryCall() const { return std::get_if<LibraryCall>(&action); }
};

// Immutable once made.
struct Schedule {
  std::vector<int64_t> symbols; // values it was made for
  std::vector<Buffer> buffers;
  std::vector<Step> binding; // run once when constants are bound
  std::vector<Step> steps;   // run by each call
  std::vector<std::vector<std::byte>> literals;
  size_t workspaceBytes = 0, scratchBytes = 0;
  std::shared_ptr<codegen::Compiler> code;
};

dnnl::engine &engine();
// f32 for MORTISE_F32 and so on; undef where the library has no such type.
dnnl::memory::data_type libraryType(int32_t dtype);

// Makes steps of units for one set of values of the region's symbols: the library's descriptions, and buffers that have
// no place in memory yet. Generates no code. step_builder.cpp
Result<Schedule> makeSchedule(const Units &units, Values values);

// Runs after makeSchedule(): gives every workspace and scratch buffer a place, so that buffers alive at the same time
// do not overlap. `region`: the schedule's, whole. May append copies of outputs.
void planMemory(Schedule &schedule, const MortiseGraph &region);

// Loops of our own, for what the library lacks (f64, integers, empty sums). kernels/loops.cpp
struct ProductLoop {
  int32_t dtype = 0;
  std::vector<Axis> batch, m, n, k;
  bool empty = false; // no terms: the sum is 0
};
std::function<void(void *const *)> productLoop(ProductLoop loop); // operands: a, b, c

// f32 from bf16 or f16, or the other way round, element by element. Operands: source, target. kernels/conversion.cpp
std::function<void(void *const *)> conversionLoop(dnnl::memory::data_type from, dnnl::memory::data_type to,
                                                  int64_t count);

} // namespace mortise::cpu
