// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "kernel.hpp"

#include "memory.hpp"
#include "settings.hpp"

#include <algorithm>
#include <cstring>

namespace strict {
using namespace mortise;

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
  auto code = std::make_shared<Code>();
  code->device = numberOf(args.device);
  code->program = std::move(*program);
  code->workspaceBytes = code->program->workspaceBytes();
  kernel->workspace = ConstantExpr(static_cast<int64_t>(code->workspaceBytes));
  const std::span<const MortiseForm> forms(args.forms, args.form_count);
  const auto operandOf = [&](const MortiseValue &value) -> Operand {
    const auto found = std::ranges::find(forms, value.index, &MortiseForm::value);
    const MortiseForm form = found == forms.end() ? MortiseForm{value.index, Plain, 0, 0} : *found;
    return {elementsOf(*value.type), form, bytesOf(elementsOf(*value.type), form.layout),
            (value.flags & MORTISE_VALUE_DONATED) != 0};
  };
  for (size_t i = 0; i < graph.input_count; ++i)
    code->inputs.push_back(operandOf(*graph.inputs[i]));
  for (size_t i = 0; i < graph.output_count; ++i)
    code->outputs.push_back(operandOf(*graph.outputs[i]));
  for (uint32_t i = 0; i < graph.node_count; ++i) {
    const reference::Estimate cost = reference::estimate(*graph.nodes[i]);
    kernel->steps.add(graph.nodes[i]->op, "strict.node", {i}, cost.bytes, cost.flops);
  }
  code->name = "kernel " + std::string(graph.node_count ? graph.nodes[0]->op : "of nothing") +
               (graph.node_count > 1 ? " and " + std::to_string(graph.node_count - 1) + " more" : "");
  kernel->code = std::move(code);
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
  std::vector<std::pair<size_t, std::byte *>> packed; // outputs in layouts, and where they go
  std::vector<std::shared_ptr<std::byte>> held;
  std::vector<std::vector<std::byte>> dense; // of operands in layouts; does not grow, so that its elements stay
  dense.reserve(inputs.size() + outputs.size());
  std::vector<std::pair<void *, uint64_t>> spent; // donated inputs
  const auto find = [&](MortiseAddress address, uint64_t bytes, uint32_t space,
                        const std::string &what) -> Result<void *> {
    if (bytes == 0)
      return nullptr;
    Result<std::shared_ptr<std::byte>> found = memory().find(code->device, address, bytes, space);
    if (!found)
      return Error{MORTISE_INTERNAL, code->name + ": " + what + ": " + found.error().message};
    held.push_back(std::move(*found));
    return static_cast<void *>(held.back().get());
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Operand &operand = code->inputs[i];
    const Result<void *> found = find(inputs[i], operand.bytes, operand.form.space, "input " + std::to_string(i));
    if (!found)
      return found.error();
    in.push_back(*found);
    if (operand.donated && *found)
      spent.emplace_back(*found, operand.bytes);
    if (operand.form.layout == Plain)
      continue;
    dense.emplace_back(bytesOf(operand.elements, Plain));
    unpack(operand.elements, operand.form.layout, static_cast<const std::byte *>(*found), dense.back().data());
    in.back() = dense.back().data();
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Operand &operand = code->outputs[i];
    const Result<void *> found = find(outputs[i], operand.bytes, operand.form.space, "output " + std::to_string(i));
    if (!found)
      return found.error();
    out.push_back(*found);
    if (operand.form.layout == Plain)
      continue;
    packed.emplace_back(i, static_cast<std::byte *>(*found));
    dense.emplace_back(bytesOf(operand.elements, Plain));
    out.back() = dense.back().data();
  }
  const Result<void *> space = code->workspaceBytes ? find(workspace, code->workspaceBytes, 0, "workspace") : nullptr;
  if (!space)
    return space.error();
  code->program->run(in, out, *space, nullptr, stepNs);
  for (const auto &[i, target] : packed)
    pack(code->outputs[i].elements, code->outputs[i].form.layout, static_cast<const std::byte *>(out[i]), target);
  for (const auto &[input, bytes] : spent) // a host that reads one afterwards reads NaN
    std::memset(input, 0xff, bytes);
  return {};
}

} // namespace strict
