// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include "memory.hpp"
#include "settings.hpp"

namespace strict {
using namespace mortise;

namespace {

uint64_t bytesOf(const MortiseType &type) {
  return (static_cast<uint64_t>(elementCount(type)) * dtypeBits(type.dtype) + 7) / 8;
}

} // namespace

Counted::Counted(const char *kind) : kind(kind) { control().add(kind, 1); }

Counted::~Counted() {
  control().add(kind, -1);
  // A violation is reported by the count alone: a destructor has no status.
  (void)checker().end(host, std::string("the end of a ") + kind, addressOf(this), 1);
}

Result<std::unique_ptr<Kernel>> Kernel::make(const MortiseCompileArgs &args) {
  const MortiseGraph &graph = *args.region;
  Result<std::unique_ptr<reference::Interpreter>> program = reference::Interpreter::compile(graph);
  if (!program)
    return program.error();
  auto kernel = std::make_unique<Kernel>();
  kernel->device = numberOf(args.device);
  kernel->program = std::move(*program);
  kernel->workspaceBytes = kernel->program->workspaceBytes();
  kernel->workspace = ConstantExpr(static_cast<int64_t>(kernel->workspaceBytes));
  for (size_t i = 0; i < graph.input_count; ++i)
    kernel->inputBytes.push_back(bytesOf(*graph.inputs[i]->type));
  for (size_t i = 0; i < graph.output_count; ++i)
    kernel->outputBytes.push_back(bytesOf(*graph.outputs[i]->type));
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const reference::Estimate cost = reference::estimate(*graph.nodes[i]);
    kernel->steps.add(graph.nodes[i]->op, "strict.node", {i}, cost.bytes, cost.flops);
  }
  kernel->name = "kernel " + std::string(graph.node_count ? graph.nodes[0]->op : "of nothing") +
                 (graph.node_count > 1 ? " and " + std::to_string(graph.node_count - 1) + " more" : "");
  return kernel;
}

MortiseMemoryArgs Frame::memory() const {
  auto args = sized<MortiseMemoryArgs>();
  args.device = handle(devices[device]);
  args.bytes = scratchBytes;
  args.address = scratch;
  return args;
}

Frame::~Frame() {
  MortiseMemoryArgs args = memory();
  if (scratch)
    Status(mortise::host().device_free(&args));
}

Result<void> Run::operator()() const {
  std::vector<const void *> in;
  std::vector<void *> out;
  std::vector<std::shared_ptr<std::byte>> held;
  const auto find = [&](MortiseAddress address, uint64_t bytes, const std::string &what) -> Result<void *> {
    if (bytes == 0)
      return nullptr;
    Result<std::shared_ptr<std::byte>> found = memory().find(kernel->device, address, bytes);
    if (!found)
      return Error{MORTISE_INTERNAL, kernel->name + ": " + what + ": " + found.error().message};
    held.push_back(std::move(*found));
    return static_cast<void *>(held.back().get());
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Result<void *> found = find(inputs[i], kernel->inputBytes[i], "input " + std::to_string(i));
    if (!found)
      return found.error();
    in.push_back(*found);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Result<void *> found = find(outputs[i], kernel->outputBytes[i], "output " + std::to_string(i));
    if (!found)
      return found.error();
    out.push_back(*found);
  }
  const Result<void *> space = kernel->workspaceBytes ? find(workspace, kernel->workspaceBytes, "workspace") : nullptr;
  if (!space)
    return space.error();
  kernel->program->run(in, out, *space, nullptr, stepNs);
  return {};
}

} // namespace strict
