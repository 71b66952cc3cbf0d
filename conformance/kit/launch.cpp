// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "launch.hpp"

#include "../../tools/mortise/heap.hpp"

#include <mortise/runtime/call.hpp>
#include <mortise/symbols.hpp>

#include <algorithm>
#include <utility>

namespace mortise::conformance {
namespace {

size_t alignmentOf(const MortiseType &type) { return std::max<size_t>(dtypeBits(type.dtype) / 8, 1); }
bool isConstant(const MortiseValue &value) { return (value.flags & MORTISE_VALUE_CONSTANT) != 0; }
constexpr std::byte poison{0x5a};

} // namespace

Result<std::unique_ptr<Launch>> Launch::make(Kernel &kernel, const Case &of) {
  std::unique_ptr<Launch> made(new Launch(kernel, of));
  if (auto done = made->bind(); !done)
    return done.error();
  return made;
}

Result<void> Launch::bind() {
  const MortiseGraph &view = kernel.graph->view();
  std::vector<MortiseAddress> addresses(view.input_count);
  weights.resize(view.input_count);
  for (size_t i = 0; i < view.input_count; ++i) {
    if (!isConstant(*view.inputs[i]))
      continue;
    const uint32_t space = kernel.info.constant_spaces ? kernel.info.constant_spaces[i] : 0;
    if (!weights[i]) {
      auto buffer =
          Buffer::make(kernel.device, space, of->inputs[i].size(), alignmentOf(*view.inputs[i]->type), Edge::End);
      if (!buffer)
        return buffer.error();
      weights[i].emplace(std::move(*buffer));
    }
    if (auto done = weights[i]->write(of->inputs[i]); !done)
      return done;
    addresses[i] = weights[i]->address();
  }
  MortiseConstantsBindArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .inputs = addresses.data()};
  const uint64_t before = tool::heapBytes();
  if (auto done = kernel.device.call("constants_bind", kernel.device.table().constants_bind, args); !done)
    return done;
  const uint64_t after = tool::heapBytes();
  heldBytes = after - std::min(before, after);
  isBound = true;
  bound = args.constants;
  packedBytes = args.packed_bytes;
  workspaceBytes = args.workspace_bytes;
  if (workspaceBytes || kernel.info.workspace.count == 0)
    return {};
  const Result<int64_t> bytes = evaluate(kernel.info.workspace, of->symbols);
  if (!bytes)
    return bytes.error();
  workspaceBytes = static_cast<uint64_t>(std::max<int64_t>(*bytes, 0));
  return {};
}

Launch::~Launch() { unbind(); }

void Launch::unbind() {
  const MortisePlugin &table = kernel.device.table();
  for (MortiseFrame *frame : frames) {
    MortiseFrameArgs args{
        .struct_size = sizeof args, .kernel = kernel.handle, .constants = bound, .instance = nullptr, .frame = frame};
    (void)kernel.device.call("frame_destroy", table.frame_destroy, args);
  }
  frames.clear();
  MortiseConstantsArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .constants = bound};
  if (std::exchange(isBound, false))
    (void)kernel.device.call("constants_destroy", table.constants_destroy, args);
}

Result<void> Launch::rebind(const Case &other) {
  unbind();
  of = &other;
  return bind();
}

Result<Operands> Launch::operands() const {
  const MortiseGraph &view = kernel.graph->view();
  Operands made;
  const auto add = [&](std::vector<Buffer> &list, const MortiseType &type) -> Result<void> {
    auto buffer = Buffer::make(kernel.device, 0, byteSize(type), alignmentOf(type), Edge::End);
    if (!buffer)
      return buffer.error();
    list.push_back(std::move(*buffer));
    return {};
  };
  made.inputs.reserve(view.input_count);
  made.outputs.reserve(view.output_count);
  for (size_t i = 0; i < view.input_count; ++i)
    if (auto done = add(made.inputs, *view.inputs[i]->type); !done)
      return done.error();
  for (size_t i = 0; i < view.output_count; ++i)
    if (auto done = add(made.outputs, *view.outputs[i]->type); !done)
      return done.error();
  if (workspaceBytes) {
    auto buffer = Buffer::make(kernel.device, 0, workspaceBytes, kernel.device.info().home().alignment, Edge::End);
    if (!buffer)
      return buffer.error();
    made.workspace.emplace(std::move(*buffer));
  }
  if (auto done = refill(made); !done)
    return done.error();
  return made;
}

Result<void> Launch::refill(Operands &given) const {
  for (size_t i = 0; i < given.inputs.size(); ++i)
    if (auto done = given.inputs[i].write(of->inputs[i]); !done)
      return done;
  return spoil(given);
}

Result<void> Launch::spoil(Operands &given) const {
  for (size_t i = 0; i < given.outputs.size(); ++i)
    if (auto done = given.outputs[i].write(std::vector<std::byte>(of->expected[i].size(), poison)); !done)
      return done;
  return given.workspace ? given.workspace->write(std::vector<std::byte>(workspaceBytes, poison)) : Result<void>();
}

void Launch::fill(tool::Call &call, const Operands &given) const {
  const MortiseGraph &view = kernel.graph->view();
  call.inputs.clear();
  call.outputs.clear();
  for (size_t i = 0; i < given.inputs.size(); ++i)
    call.inputs.push_back(isConstant(*view.inputs[i]) ? 0 : given.inputs[i].address());
  for (const Buffer &output : given.outputs)
    call.outputs.push_back(output.address());
  call.workspace = given.workspace ? given.workspace->address() : 0;
}

Result<MortiseFrame *> Launch::makeFrame() {
  if (!kernel.device.info().plugin->hasFrames())
    return static_cast<MortiseFrame *>(nullptr);
  MortiseFrameArgs args{.struct_size = sizeof args, .kernel = kernel.handle, .constants = bound};
  if (auto done = kernel.device.call("frame_create", kernel.device.table().frame_create, args); !done)
    return done.error();
  if (!args.frame)
    return Error{MORTISE_INTERNAL, "frame_create succeeds and makes no frame"};
  frames.push_back(args.frame);
  return args.frame;
}

size_t Launch::wordsOfUnchanged() const {
  const MortiseGraph &view = kernel.graph->view();
  return (view.input_count + view.output_count + 1 + 63) / 64;
}

Result<void> Launch::enqueue(tool::Call &call, MortiseStream *stream) {
  auto frame = makeFrame();
  return frame ? enqueueIn(*frame, {}, call, stream) : Result<void>(frame.error());
}

Result<void> Launch::enqueueIn(MortiseFrame *frame, std::span<const uint64_t> unchanged, tool::Call &call,
                               MortiseStream *stream) {
  std::vector<uint64_t> bits(unchanged.begin(), unchanged.end());
  bits.resize(wordsOfUnchanged());
  call.symbols = of->symbols;
  call.args = {.struct_size = sizeof call.args,
               .kernel = kernel.handle,
               .constants = bound,
               .stream = stream,
               .inputs = call.inputs.data(),
               .outputs = call.outputs.data(),
               .workspace = call.workspace,
               .symbols = call.symbols.data(),
               .frame = frame,
               .unchanged = frame ? bits.data() : nullptr};
  return kernel.device.call("enqueue", kernel.device.table().enqueue, call.args);
}

Result<Tensors> Launch::read(Operands &given) const {
  Tensors found;
  for (Buffer &output : given.outputs) {
    bool intact = true;
    auto bytes = output.read(intact);
    if (!bytes)
      return bytes.error();
    if (!intact)
      return Error{MORTISE_INTERNAL, "it writes beside an output"};
    found.push_back(std::move(*bytes));
  }
  return found;
}

Result<std::string> Launch::wrongWith(const Tensors &found) const {
  CaseJudge judge(*of);
  for (size_t i = 0; i < found.size(); ++i) {
    auto text = judge.compare(i, found[i]);
    if (!text || !text->empty())
      return text ? Result<std::string>("output " + std::to_string(i) + ": " + *text) : text;
  }
  return std::string();
}

Result<std::string> Launch::wrongIn(Operands &given) const {
  auto found = read(given);
  if (!found)
    return found.error();
  return wrongWith(*found);
}

} // namespace mortise::conformance
