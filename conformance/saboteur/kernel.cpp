// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include <cstdlib>
#include <cstring>
#include <thread>

namespace saboteur {

Packed::Packed(const std::byte *from, size_t bytes) : memory(static_cast<std::byte *>(std::malloc(bytes))) {
  if (!memory)
    throw std::bad_alloc();
  std::memcpy(memory, from, bytes);
}

Packed::~Packed() {
  if (is(Fault::LeakConstants))
    return;
  std::byte *volatile same = memory; // or else the compiler sees what is wrong
  std::free(memory);
  if (is(Fault::ConstantsFreedTwice))
    std::free(same); // NOLINT(clang-analyzer-unix.Malloc): the fault
}

Kernel::~Kernel() {
  if (is(Fault::LeakKernel))
    new std::shared_ptr<const Code>(code); // NOLINT(bugprone-unhandled-exception-at-new): never deleted
}

Result<std::unique_ptr<Kernel>> makeKernel(const MortiseCompileArgs &args) {
  const MortiseGraph &graph = *args.region;
  auto code = Code::make(graph);
  if (!code)
    return code.error();
  auto kernel = std::make_unique<Kernel>();
  if (is(Fault::LoweringNameKept))
    kernel->lowering = args.lowering;
  uint64_t bytes = (*code)->workspaceBytes;
  if (is(Fault::AnotherPluginsResult)) {
    auto other = OtherKernel::make(args);
    if (!other)
      return other.error();
    kernel->other = std::move(*other);
    bytes = kernel->other->workspaceBytes();
  }
  kernel->workspace = mortise::ConstantExpr(static_cast<int64_t>(is(Fault::WorkspaceUnderstated) ? bytes / 2 : bytes));
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const mortise::reference::Estimate cost = mortise::reference::estimate(*graph.nodes[i]);
    kernel->steps.add(graph.nodes[i]->op, kernel->lowering, {i}, cost.bytes, cost.flops);
    kernel->name += std::string(kernel->name.empty() ? "" : " ") + graph.nodes[i]->op;
  }
  kernel->code = std::move(*code);
  return kernel;
}

// ---- Constants

static std::shared_ptr<Packed> pack(const std::byte *from, size_t bytes) {
  static std::mutex mutex;
  static std::map<std::pair<const std::byte *, size_t>, std::shared_ptr<Packed>> cache;
  if (!is(Fault::PackedByAddress))
    return std::make_shared<Packed>(from, bytes);
  const std::lock_guard lock(mutex);
  std::shared_ptr<Packed> &found = cache[{from, bytes}];
  if (!found)
    found = std::make_shared<Packed>(from, bytes);
  return found;
}

std::unique_ptr<Constants> packConstants(const Kernel &kernel, const MortiseAddress *inputs) {
  auto constants = std::make_unique<Constants>();
  const MortiseGraph &graph = kernel.code->region;
  for (size_t i = 0; i < graph.input_count; ++i) {
    const size_t bytes = mortise::byteSize(*graph.inputs[i]->type);
    const bool has = inputs[i] && bytes;
    constants->inputs.push_back(has ? pack(mortise::pointer<std::byte>(inputs[i]), bytes) : nullptr);
    constants->bytes += has ? bytes : 0;
  }
  const std::lock_guard lock(kernel.mutex);
  kernel.lastConstants = constants.get();
  return constants;
}

// ---- Calls

namespace {

void fill(Buffers &buffers, const MortiseGraph &graph, const Constants *constants, const MortiseAddress *inputs,
          const MortiseAddress *outputs) {
  buffers.inputs.resize(graph.input_count);
  buffers.outputs.resize(graph.output_count);
  for (size_t i = 0; i < graph.input_count; ++i)
    buffers.inputs[i] =
        constants && constants->inputs[i] ? constants->inputs[i]->data() : mortise::pointer<std::byte>(inputs[i]);
  for (size_t i = 0; i < graph.output_count; ++i)
    buffers.outputs[i] = mortise::pointer<std::byte>(outputs[i]);
}

// Runs the code, or repeats what it gave for inputs at these addresses.
void runOrRepeat(const Kernel &kernel, const Code &code, const Buffers &buffers) {
  const MortiseGraph &graph = code.region;
  const std::lock_guard lock(kernel.mutex);
  const auto [found, isNew] = kernel.results.try_emplace(buffers.inputs);
  if (isNew)
    code.run(buffers);
  for (size_t o = 0; o < graph.output_count; ++o) {
    const size_t bytes = mortise::byteSize(*graph.outputs[o]->type);
    if (isNew)
      found->second.emplace_back(buffers.outputs[o], buffers.outputs[o] + bytes);
    else if (bytes)
      std::memcpy(buffers.outputs[o], found->second[o].data(), bytes);
  }
}

void leakOneBuffer() {
  void *volatile buffer = std::malloc(256); // volatile, or else the compiler leaves it out
  (void)buffer;
} // NOLINT(clang-analyzer-unix.Malloc): the fault

// The kernel's one place for the arguments of a call.
void runInKernel(const Kernel &kernel, const Code &code, const Buffers &buffers) {
  {
    const std::lock_guard lock(kernel.mutex);
    kernel.lastCall = buffers;
  }
  std::this_thread::yield();
  Buffers now;
  {
    const std::lock_guard lock(kernel.mutex);
    now = kernel.lastCall;
  }
  code.run(now);
}

} // namespace

std::function<Result<void>()> workOf(const Kernel &kernel, const Constants *constants, Frame *frame,
                                     const MortiseEnqueueArgs &args) {
  if (is(Fault::LastConstantsUsed) && constants)
    constants = kernel.lastConstants;
  if (is(Fault::LeakPerCall))
    leakOneBuffer();
  const std::shared_ptr<const Code> code = kernel.code;
  auto buffers = frame ? frame->buffers : std::make_shared<Buffers>();
  const bool isStale = frame && frame->hasRun && is(Fault::FrameStaleAddresses);
  const MortiseAddress *inputs = args.inputs, *outputs = args.outputs;
  if (!isStale)
    fill(*buffers, code->region, constants, inputs, outputs);
  buffers->workspace = mortise::pointer<std::byte>(args.workspace);
  buffers->stepNs = args.step_ns;
  if (frame)
    frame->hasRun = true;
  return [&kernel, code, constants, buffers, inputs, outputs]() -> Result<void> {
    if (is(Fault::ListsReadLate))
      fill(*buffers, code->region, constants, inputs, outputs);
    if (is(Fault::ResultByAddress))
      runOrRepeat(kernel, *code, *buffers);
    else if (is(Fault::CallInKernel))
      runInKernel(kernel, *code, *buffers);
    else
      code->run(*buffers);
    return {};
  };
}

} // namespace saboteur
