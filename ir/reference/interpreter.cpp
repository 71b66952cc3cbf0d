// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checks a graph, plans memory for its values, and runs its nodes in order.
#include <mortise/reference/interpreter.hpp>

#include "check.hpp"

#include <algorithm>
#include <cfenv>
#include <chrono>
#include <cstring>
#include <new>

namespace mortise::reference::inline MORTISE_ARITHMETIC {
namespace {

constexpr size_t alignment = 64;
constexpr uint32_t none = UINT32_MAX;

// Sets rounding to nearest and keeps subnormals, independently of the caller's floating-point environment, which it
// restores.
class DefaultFloats {
public:
  DefaultFloats() {
    std::fegetenv(&saved);
    std::fesetenv(FE_DFL_ENV);
  }
  ~DefaultFloats() { std::fesetenv(&saved); }

private:
  std::fenv_t saved;
};

size_t innerBytes(const MortiseType &type) {
  return static_cast<size_t>(elementCount(type)) * storageBytes(type.dtype);
}

// Whether the interpreter stores the elements in another way than the ABI's buffers.
bool packs(int32_t dtype) { return dtype == MORTISE_I4 || (isUnrounded && isFloat(dtype)); }

// Unrounded floats are given back as they are stored.
void unpack(const MortiseType &type, bool packed, const void *from, std::byte *to) {
  if (!packed || !packs(type.dtype)) {
    if (size_t bytes = innerBytes(type))
      std::memmove(to, from, bytes);
    return;
  }
  if (isFloat(type.dtype))
    return visitFloat(type.dtype, [&](auto kind) {
      using Packed = typename decltype(kind)::Packed;
      for (int64_t i = 0; i < elementCount(type); ++i)
        reinterpret_cast<double *>(to)[i] = Packed::toDouble(static_cast<const typename Packed::Bytes *>(from)[i]);
    });
  for (int64_t i = 0; i < elementCount(type); ++i)
    reinterpret_cast<int8_t *>(to)[i] = I4::store(static_cast<const uint8_t *>(from)[i / 2] >> (i % 2 * 4));
}
void pack(const MortiseType &type, bool packed, const std::byte *from, void *to) {
  if (!packed || type.dtype != MORTISE_I4) {
    if (size_t bytes = innerBytes(type); bytes && from != to)
      std::memmove(to, from, bytes);
    return;
  }
  auto *bytes = static_cast<uint8_t *>(to);
  for (int64_t i = 0; i < elementCount(type); ++i) {
    auto bits = static_cast<uint8_t>(static_cast<uint8_t>(from[i]) & 15);
    bytes[i / 2] = static_cast<uint8_t>(i % 2 ? bytes[i / 2] | bits << 4 : bits);
  }
}

// Allocates workspace by first fit among the live values.
class Arena {
public:
  size_t allocate(uint32_t value, size_t bytes) {
    bytes = (bytes + alignment - 1) / alignment * alignment;
    size_t offset = 0;
    auto place = live.begin();
    for (; place != live.end() && place->offset - offset < bytes; ++place)
      offset = place->offset + place->bytes;
    live.insert(place, {offset, bytes, value});
    peak = std::max(peak, offset + bytes);
    return offset;
  }
  void release(uint32_t value) {
    std::erase_if(live, [&](const Block &block) { return block.value == value; });
  }
  size_t peak = 0;

private:
  struct Block {
    size_t offset, bytes;
    uint32_t value;
  };
  std::vector<Block> live; // sorted by offset
};

Error asError(const MortiseNode &node, const Refusal &refusal) {
  MortiseCode code = MORTISE_INVALID_ARGUMENT;
  if (refusal.reason == MORTISE_REASON_NEEDS_STATIC)
    code = MORTISE_NEEDS_STATIC;
  else if (refusal.reason == MORTISE_REASON_OP || refusal.reason == MORTISE_REASON_LAYOUT)
    code = MORTISE_UNSUPPORTED;
  std::string place = node.location && *node.location ? std::string(" at ") + node.location : "";
  return {code, std::string(node.op) + place + ": " + refusal.detail};
}

} // namespace

struct Interpreter::Impl {
  // The memory of a value while the graph runs.
  struct Home {
    enum { input, output, workspace } kind = workspace;
    size_t at = 0; // number of the input or output, or offset
  };
  const MortiseGraph &graph;
  const bool packed;                 // inputs and outputs have the ABI's layout; those of a body have the internal one
  std::vector<const OpSpec *> specs; // per node
  std::vector<std::vector<std::unique_ptr<Interpreter>>> bodies; // per node
  std::vector<Home> homes;                                       // per value
  std::vector<uint32_t> staged; // inputs that are copied into the workspace before anything runs
  std::vector<uint32_t> copies; // outputs that are copied at the end, those of aliased memory last
  size_t workspace = 0;

  Impl(const MortiseGraph &graph, bool packed) : graph(graph), packed(packed), homes(graph.value_count) {}
  bool isUnpacked(int32_t dtype) const { return packed && packs(dtype); }

  Result<void> check(int64_t ranks, int depth) {
    for (size_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      Refusal refusal = ranks == 1 ? refuse(node) : checkNode(node);
      if (int64_t wanted = rankCount(node); !refusal && wanted && wanted != ranks)
        refusal = {MORTISE_REASON_ATTRIBUTE,
                   "is for " + std::to_string(wanted) + " ranks, and " + std::to_string(ranks) + " are running"};
      if (refusal)
        return asError(node, refusal);
      specs.push_back(findOp(node));
      bodies.emplace_back();
      for (const MortiseGraph *body : bodiesOf(node)) {
        if (depth == maxDepth)
          return asError(node, {MORTISE_REASON_SIZE, "bodies are nested deeper than " + std::to_string(maxDepth)});
        Result<std::unique_ptr<Interpreter>> program = compile(*body, false, 1, depth + 1);
        if (!program)
          return program.error();
        bodies.back().push_back(std::move(*program));
      }
    }
    for (size_t i = 0; i < graph.input_count; ++i)
      if (!isStatic(*graph.inputs[i]->type))
        return Error{MORTISE_NEEDS_STATIC,
                     "the reference runs static shapes, found an input " + typeString(*graph.inputs[i]->type)};
    return {};
  }

  std::vector<uint32_t> aliasInputs() const { // per output
    std::vector<uint32_t> inputs(graph.output_count, none);
    for (size_t i = 0; i < graph.alias_count; ++i)
      inputs[graph.aliases[i]->output] = graph.aliases[i]->input;
    return inputs;
  }

  void plan() {
    std::vector<uint32_t> alias = aliasInputs(), lastUse(graph.value_count, 0);
    for (size_t i = 0; i < graph.node_count; ++i)
      for (size_t k = 0; k < graph.nodes[i]->operand_count; ++k)
        if (graph.nodes[i]->operands[k])
          lastUse[graph.nodes[i]->operands[k]->index] = static_cast<uint32_t>(i);
    std::vector<bool> placed(graph.value_count), stage(graph.value_count);
    for (size_t o = 0; o < graph.output_count; ++o) {
      const MortiseValue &value = *graph.outputs[o];
      lastUse[value.index] = none; // outputs are live to the end
      bool direct = alias[o] == none && value.producer && !isUnpacked(value.type->dtype) && !placed[value.index];
      if (direct) {
        homes[value.index] = {Home::output, o};
        placed[value.index] = true;
        continue;
      }
      copies.push_back(static_cast<uint32_t>(o));
      // This input is copied to memory that another input owns. That input may be an output too, so this one is staged.
      if (alias[o] != none && !value.producer && value.result_index != alias[o])
        stage[value.index] = true;
    }
    std::ranges::sort(copies, {}, [&](uint32_t o) { return std::pair(alias[o] != none, o); });
    Arena arena;
    for (size_t i = 0; i < graph.input_count; ++i) {
      const MortiseValue &value = *graph.inputs[i];
      homes[value.index] = {Home::input, i};
      if (stage[value.index] || isUnpacked(value.type->dtype)) {
        homes[value.index] = {Home::workspace, arena.allocate(value.index, innerBytes(*value.type))};
        staged.push_back(static_cast<uint32_t>(i));
      }
    }
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      const MortiseNode &node = *graph.nodes[i];
      for (size_t k = 0; k < node.result_count; ++k) {
        const MortiseValue &result = *node.results[k];
        if (!placed[result.index])
          homes[result.index] = {Home::workspace, arena.allocate(result.index, innerBytes(*result.type))};
      }
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k] && lastUse[node.operands[k]->index] == i)
          arena.release(node.operands[k]->index);
      for (size_t k = 0; k < node.result_count; ++k)
        if (node.results[k]->use_count == 0)
          arena.release(node.results[k]->index);
    }
    workspace = arena.peak;
  }

  static Result<std::unique_ptr<Interpreter>> compile(const MortiseGraph &graph, bool packed, int64_t ranks, int depth);

  // The state of one run: the caller's buffers, the workspace, and the tensors of the current node.
  struct Frame {
    const Impl &impl;
    std::span<const void *const> inputs;
    std::span<void *const> outputs;
    std::byte *base;
    std::vector<Tensor> operands = {}, results = {};

    std::byte *at(const MortiseValue &value) const {
      const Home &home = impl.homes[value.index];
      if (home.kind == Home::input) // read only
        return static_cast<std::byte *>(const_cast<void *>(inputs[home.at]));
      return home.kind == Home::output ? static_cast<std::byte *>(outputs[home.at]) : base + home.at;
    }
    void begin() {
      for (uint32_t i : impl.staged)
        unpack(*impl.graph.inputs[i]->type, impl.packed, inputs[i], at(*impl.graph.inputs[i]));
    }
    // Sets up the tensors of a node. False when all results are empty; these may have no memory.
    bool prepare(const MortiseNode &node) {
      results.clear();
      for (size_t k = 0; k < node.result_count; ++k)
        results.push_back({node.results[k]->type, at(*node.results[k])});
      operands.assign(node.operand_count, Tensor());
      for (size_t k = 0; k < node.operand_count; ++k)
        if (node.operands[k])
          operands[k] = {node.operands[k]->type, at(*node.operands[k])};
      return std::ranges::any_of(results, [](const Tensor &result) { return result.count() != 0; });
    }
    Call call(uint32_t node, ParallelFor parallelFor) const {
      return {*impl.graph.nodes[node], operands, results, results[0], parallelFor, impl.bodies[node]};
    }
    void end() {
      for (uint32_t o : impl.copies)
        pack(*impl.graph.outputs[o]->type, impl.packed, at(*impl.graph.outputs[o]), outputs[o]);
    }
  };
};

Interpreter::Interpreter(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Interpreter::~Interpreter() = default;
size_t Interpreter::workspaceBytes() const { return impl->workspace; }

Result<std::unique_ptr<Interpreter>> Interpreter::Impl::compile(const MortiseGraph &graph, bool packed, int64_t ranks,
                                                                int depth) {
  auto impl = std::make_unique<Impl>(graph, packed);
  if (Result<void> checked = impl->check(ranks, depth); !checked)
    return checked.error();
  impl->plan();
  return std::unique_ptr<Interpreter>(new Interpreter(std::move(impl)));
}
Result<std::unique_ptr<Interpreter>> Interpreter::compile(const MortiseGraph &graph) {
  return Impl::compile(graph, true, 1, 0);
}

void Interpreter::run(std::span<const void *const> inputs, std::span<void *const> outputs, void *workspace,
                      ParallelFor parallelFor, uint64_t *nodeNs) const {
  DefaultFloats floats;
  Impl::Frame frame{*impl, inputs, outputs, static_cast<std::byte *>(workspace)};
  frame.begin();
  for (uint32_t i = 0; i < impl->graph.node_count; ++i) {
    if (!frame.prepare(*impl->graph.nodes[i]))
      continue;
    auto start = std::chrono::steady_clock::now();
    Call call = frame.call(i, parallelFor);
    if (impl->specs[i]->runRanks)
      impl->specs[i]->runRanks({&call, 1});
    else
      impl->specs[i]->run(call);
    if (nodeNs)
      nodeNs[i] += static_cast<uint64_t>(
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - start).count());
  }
  frame.end();
}

namespace {

using Memory =
    std::unique_ptr<void, decltype([](void *memory) { ::operator delete(memory, std::align_val_t(alignment)); })>;
Memory allocate(size_t bytes) { return Memory(::operator new(bytes, std::align_val_t(alignment))); }

Result<void> checkBuffers(const MortiseGraph &graph, size_t inputs, size_t outputs) {
  if (inputs == graph.input_count && outputs == graph.output_count)
    return {};
  return Error{MORTISE_INVALID_ARGUMENT, "expected " + std::to_string(graph.input_count) + " inputs and " +
                                             std::to_string(graph.output_count) + " outputs, found " +
                                             std::to_string(inputs) + " and " + std::to_string(outputs)};
}
Error outOfMemory(const MortiseGraph &graph) {
  return {MORTISE_OUT_OF_MEMORY, "the reference needs more memory than there is for graph '" +
                                     std::string(graph.name ? graph.name : "") + "'"};
}

} // namespace

Result<void> interpret(const MortiseGraph &graph, std::span<const void *const> inputs, std::span<void *const> outputs) {
  if (Result<void> fits = checkBuffers(graph, inputs.size(), outputs.size()); !fits)
    return fits;
  Result<std::unique_ptr<Interpreter>> program = Interpreter::compile(graph);
  if (!program)
    return program.error();
  try {
    Memory workspace = allocate((*program)->workspaceBytes());
    (*program)->run(inputs, outputs, workspace.get(), nullptr, nullptr);
  } catch (const std::bad_alloc &) {
    return outOfMemory(graph);
  }
  return {};
}

Result<void> interpretRanks(const MortiseGraph &graph, std::span<const std::vector<const void *>> inputs,
                            std::span<const std::vector<void *>> outputs) {
  if (inputs.empty() || inputs.size() != outputs.size())
    return Error{MORTISE_INVALID_ARGUMENT, "expected buffers of one rank or more, found inputs of " +
                                               std::to_string(inputs.size()) + " ranks and outputs of " +
                                               std::to_string(outputs.size())};
  for (size_t r = 0; r < inputs.size(); ++r)
    if (Result<void> fits = checkBuffers(graph, inputs[r].size(), outputs[r].size()); !fits)
      return fits;
  Result<std::unique_ptr<Interpreter>> program =
      Interpreter::Impl::compile(graph, true, static_cast<int64_t>(inputs.size()), 0);
  if (!program)
    return program.error();
  const Interpreter::Impl &impl = *(*program)->impl;
  DefaultFloats floats;
  try {
    std::vector<Memory> workspaces;
    std::vector<Interpreter::Impl::Frame> frames;
    for (size_t r = 0; r < inputs.size(); ++r) {
      workspaces.push_back(allocate(impl.workspace));
      frames.push_back({impl, inputs[r], outputs[r], static_cast<std::byte *>(workspaces[r].get())});
      frames[r].begin();
    }
    for (uint32_t i = 0; i < graph.node_count; ++i) {
      std::vector<Call> calls;
      for (auto &frame : frames)
        if (frame.prepare(*graph.nodes[i]))
          calls.push_back(frame.call(i, nullptr));
      if (impl.specs[i]->runRanks && !calls.empty())
        impl.specs[i]->runRanks(calls);
      for (const Call &call : calls)
        if (!impl.specs[i]->runRanks)
          impl.specs[i]->run(call);
    }
    for (auto &frame : frames)
      frame.end();
  } catch (const std::bad_alloc &) {
    return outOfMemory(graph);
  }
  return {};
}

} // namespace mortise::reference::inline MORTISE_ARITHMETIC
