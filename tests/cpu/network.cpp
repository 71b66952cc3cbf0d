// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "network.hpp"

#include <mortise/conformance/error_bounds.hpp>
#include <mortise/ir/dialect.hpp>
#include <mortise/ir/portable.hpp>
#include <mortise/reference/formats.hpp>
#include <mortise/reference/interpreter.hpp>
#include <mortise/runtime/call.hpp>

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/OwningOpRef.h>

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

namespace mortise::test {

static Attribute make(std::string name, int32_t kind) {
  Attribute made;
  made.name = std::move(name);
  made.view.struct_size = sizeof(MortiseAttribute);
  made.view.kind = kind;
  return made;
}
Attribute ints(std::string name, std::vector<int64_t> values) {
  Attribute made = make(std::move(name), MORTISE_ATTRIBUTE_I64_ARRAY);
  made.ints = std::move(values);
  return made;
}
Attribute integer(std::string name, int64_t value) {
  Attribute made = make(std::move(name), MORTISE_ATTRIBUTE_I64);
  made.view.i64 = value;
  return made;
}
Attribute boolean(std::string name, bool value) {
  Attribute made = make(std::move(name), MORTISE_ATTRIBUTE_BOOL);
  made.view.i64 = value;
  return made;
}
Attribute real(std::string name, double value) {
  Attribute made = make(std::move(name), MORTISE_ATTRIBUTE_F64);
  made.view.f64 = value;
  return made;
}
Attribute text(std::string name, std::string value) {
  Attribute made = make(std::move(name), MORTISE_ATTRIBUTE_STRING);
  made.text = std::move(value);
  return made;
}

struct Network::Impl {
  static mlir::MLIRContext &context() {
    static mlir::MLIRContext *made = [] {
      mlir::DialectRegistry registry;
      ir::registerDialect(registry);
      auto *context = new mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
      context->loadAllAvailableDialects();
      return context;
    }();
    return *made;
  }
  ir::Builder builder{context(), "test"};
  int inputs = 0;
};

template <typename T> static T must(Result<T> result) {
  if (!result) {
    fprintf(stderr, "%s\n", result.error().message.c_str());
    abort(); // the test itself is faulty
  }
  return std::move(*result);
}

Network::Network() : impl(std::make_unique<Impl>()) {}
Network::~Network() = default;

static MortiseType typeOf(int32_t dtype, const std::vector<int64_t> &dims) {
  MortiseType type{};
  type.struct_size = sizeof type;
  type.dtype = dtype;
  type.rank = static_cast<int32_t>(dims.size());
  type.dims = dims.data();
  return type;
}

ValueId Network::input(int32_t dtype, std::vector<int64_t> dims, uint32_t flags) {
  return must(impl->builder.addInput("in" + std::to_string(impl->inputs++), typeOf(dtype, dims), flags));
}

ValueId Network::scalar(double value, int32_t dtype) {
  Attribute literal = make("value", MORTISE_ATTRIBUTE_TENSOR);
  literal.type = typeOf(dtype, literal.dims);
  literal.bytes.resize(dtypeBits(dtype) / 8);
  reference::visitElement(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto stored = Kind::store(static_cast<typename Kind::Compute>(value));
    std::memcpy(literal.bytes.data(), &stored, sizeof stored);
  });
  return op("constant", {}, {std::move(literal)});
}

ValueId Network::splat(double value, std::vector<int64_t> dims, int32_t dtype) {
  return broadcast(scalar(value, dtype), std::move(dims), {});
}

std::vector<ValueId> Network::ops(const std::string &name, std::vector<ValueId> operands,
                                  std::vector<Attribute> attributes) {
  std::vector<const MortiseAttribute *> list;
  for (Attribute &attribute : attributes) {
    MortiseAttribute &view = attribute.view;
    view.name = attribute.name.c_str();
    view.string = attribute.text.c_str();
    view.i64s = attribute.ints.data();
    view.count = attribute.bytes.empty() ? attribute.ints.size() : attribute.bytes.size();
    attribute.type.dims = attribute.dims.data();
    view.tensor_type = &attribute.type;
    view.tensor_data = attribute.bytes.data();
    list.push_back(&view);
  }
  return must(impl->builder.addOp("mortise." + name, operands, list, ""));
}

ValueId Network::op(const std::string &name, std::vector<ValueId> operands, std::vector<Attribute> attributes) {
  return ops(name, std::move(operands), std::move(attributes))[0];
}

std::vector<int64_t> Network::dims(ValueId value) const {
  const MortiseType *type = must(impl->builder.typeOf(value));
  return {type->dims, type->dims + type->rank};
}

int64_t Network::inputCount() const { return impl->inputs; }

void Network::output(ValueId value, int64_t alias) {
  if (Result<void> result = impl->builder.addOutput(value, alias); !result) {
    fprintf(stderr, "%s\n", result.error().message.c_str());
    abort();
  }
}

std::shared_ptr<const Graph> Network::finish() {
  mlir::OwningOpRef<mlir::ModuleOp> module = must(impl->builder.finish());
  return must(ir::exportGraph(*module));
}

ValueId Network::addRow(ValueId x, ValueId row) {
  std::vector<int64_t> shape = dims(x);
  return op("add", {x, broadcast(row, shape, {static_cast<int64_t>(shape.size()) - 1})});
}

ValueId Network::convolution(ValueId x, ValueId w, std::vector<int64_t> strides, std::vector<int64_t> pad,
                             int64_t groups, std::vector<int64_t> dilations) {
  if (dilations.empty())
    dilations.assign(strides.size(), 1);
  return op("convolution", {x, w},
            {ints("strides", strides), ints("low", pad), ints("high", pad), ints("dilations", dilations),
             integer("groups", groups)});
}

ValueId Network::attention(ValueId q, ValueId k, ValueId v, double scale) {
  ValueId scores = dot(q, k, {0, 1}, {0, 1}, {3}, {3});
  scores = op("mul", {scores, splat(scale, dims(scores))});
  ValueId weights = op("softmax", {scores}, {integer("axis", 3)});
  return dot(weights, v, {0, 1}, {0, 1}, {3}, {2});
}

void randomFill(const MortiseValue &value, size_t position, std::vector<std::byte> &bytes) {
  std::mt19937_64 random(position * 7919 + 17);
  std::normal_distribution<double> normal(0, 0.4);
  int32_t dtype = value.type->dtype;
  reference::visitElement(dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto *data = reinterpret_cast<typename Kind::Storage *>(bytes.data());
    for (size_t i = 0; i < bytes.size() / sizeof(*data); ++i)
      data[i] = Kind::store(static_cast<typename Kind::Compute>(
          Kind::isFloat ? normal(random) : static_cast<double>(random() % (dtype == MORTISE_I1 ? 2 : 8))));
  });
}

const runtime::Device *cpuDevice() {
  static std::shared_ptr<runtime::Registry> *registry = [] {
    MortiseOption option{"plugin_path", MORTISE_TEST_PLUGINS};
    return new std::shared_ptr(runtime::Registry::open(must(runtime::Config::read(std::span(&option, 1)))));
  }();
  auto found = (*registry)->find("cpu");
  if (!found) {
    fprintf(stderr, "%s\n", found.error().message.c_str());
    return nullptr;
  }
  return found->front();
}

Result<std::unique_ptr<Compiled>> Compiled::make(std::shared_ptr<const Graph> graph,
                                                 std::vector<MortiseOption> options) {
  const runtime::Device *device = cpuDevice();
  if (!device)
    return Error{MORTISE_NOT_FOUND, "no cpu plugin"};
  const MortisePlugin &table = *device->plugin->table;
  struct Sink {
    size_t candidates = 0, nodes = 0;
    std::string refusals;
  } sink;
  MortiseProposeArgs propose{};
  propose.struct_size = sizeof propose;
  propose.device = device->info.device;
  propose.graph = &graph->view();
  propose.sink = &sink;
  propose.add = [](void *to, const MortiseCandidate *candidate) {
    ++static_cast<Sink *>(to)->candidates;
    static_cast<Sink *>(to)->nodes += candidate->node_count;
  };
  propose.refuse = [](void *to, uint32_t node, int32_t reason, const char *detail) {
    static_cast<Sink *>(to)->refusals +=
        "node " + std::to_string(node) + " reason " + std::to_string(reason) + ": " + detail + "\n";
  };
  if (Result<void> result = runtime::call("propose", table.propose, propose); !result)
    return result.error();
  if (sink.nodes != graph->view().node_count)
    return Error{MORTISE_UNSUPPORTED, sink.refusals};
  MortiseCompileArgs compile{};
  compile.struct_size = sizeof compile;
  compile.device = device->info.device;
  compile.region = &graph->view();
  compile.lowering = "cpu.region";
  compile.options = options.data();
  compile.option_count = options.size();
  if (Result<void> result = runtime::call("kernel_compile", table.kernel_compile, compile); !result)
    return result.error();
  std::unique_ptr<Compiled> made(new Compiled);
  made->graph = std::move(graph);
  made->kernel = compile.kernel;
  MortiseExpr workspace = made->info().workspace;
  int64_t bytes = workspace.count ? must(evaluate(workspace, {})) : 0;
  made->workspace.resize(static_cast<size_t>(bytes) + 64);
  return made;
}

MortiseKernelInfo Compiled::info() const {
  MortiseKernelInfo info{};
  info.struct_size = sizeof info;
  info.kernel = kernel;
  if (Result<void> result = runtime::call("kernel_info", cpuDevice()->plugin->table->kernel_info, info); !result)
    fprintf(stderr, "%s\n", result.error().message.c_str());
  return info;
}

uint64_t Compiled::codeBytes() const { return info().code_bytes; }

static std::vector<MortiseAddress> addresses(std::span<const void *const> pointers) {
  std::vector<MortiseAddress> result(pointers.size());
  std::ranges::transform(pointers, result.begin(), addressOf);
  return result;
}
static MortiseAddress aligned(std::span<std::byte> memory) { return (addressOf(memory.data()) + 63) / 64 * 64; }

Result<void> Compiled::prepare(const std::vector<int64_t> &values) {
  auto found = instances.find(values);
  if (found == instances.end()) {
    MortiseInstanceArgs args{};
    args.struct_size = sizeof args;
    args.kernel = kernel;
    args.constants = constants;
    args.symbols = values.data();
    if (Result<void> result = runtime::call("instance_create", cpuDevice()->plugin->table->instance_create, args);
        !result)
      return result;
    instanceBytes += args.packed_bytes;
    found = instances.emplace(values, Instance{args.instance, args.workspace_bytes}).first;
  }
  symbols = values;
  workspace.resize(std::max(workspace.size(), static_cast<size_t>(found->second.workspaceBytes) + 64));
  return {};
}

Result<void> Compiled::runOnce(const std::vector<int64_t> &values, std::span<const void *const> inputs,
                               std::span<void *const> outputs) const {
  const MortisePlugin &table = *cpuDevice()->plugin->table;
  MortiseInstanceArgs made{};
  made.struct_size = sizeof made;
  made.kernel = kernel;
  made.constants = constants;
  made.symbols = values.data();
  if (Result<void> result = runtime::call("instance_create", table.instance_create, made); !result)
    return result;
  std::vector<std::byte> memory(made.workspace_bytes + 64);
  MortiseEnqueueArgs args{};
  args.struct_size = sizeof args;
  args.kernel = kernel;
  args.constants = constants;
  const std::vector<MortiseAddress> in = addresses(inputs), out = addresses(outputs);
  args.inputs = in.data();
  args.outputs = out.data();
  args.workspace = aligned(memory);
  args.symbols = values.data();
  args.instance = made.instance;
  Result<void> result = runtime::call("enqueue", table.enqueue, args);
  (void)runtime::call("instance_destroy", table.instance_destroy, made);
  return result;
}

void Compiled::forgetInstances() {
  for (auto &[values, instance] : instances) {
    MortiseInstanceArgs args{};
    args.struct_size = sizeof args;
    args.kernel = kernel;
    args.constants = constants;
    args.instance = instance.handle;
    (void)runtime::call("instance_destroy", cpuDevice()->plugin->table->instance_destroy, args);
  }
  instances.clear();
  symbols.clear();
}

Result<void> Compiled::bind(std::span<const void *const> inputs) {
  const MortisePlugin &table = *cpuDevice()->plugin->table;
  forgetInstances();
  if (constants) {
    MortiseConstantsArgs destroy{sizeof destroy, nullptr, kernel, constants};
    constants = nullptr;
    if (Result<void> result = runtime::call("constants_destroy", table.constants_destroy, destroy); !result)
      return result;
  }
  MortiseConstantsBindArgs args{};
  args.struct_size = sizeof args;
  args.kernel = kernel;
  const std::vector<MortiseAddress> in = addresses(inputs);
  args.inputs = in.data();
  Result<void> result = runtime::call("constants_bind", table.constants_bind, args);
  constants = args.constants;
  packedBytes = args.packed_bytes;
  return result;
}

Result<void> Compiled::run(std::span<const void *const> inputs, std::span<void *const> outputs, uint64_t *stepTimes,
                           std::span<std::byte> own) {
  MortiseEnqueueArgs args{};
  args.struct_size = sizeof args;
  args.kernel = kernel;
  args.constants = constants;
  const std::vector<MortiseAddress> in = addresses(inputs), out = addresses(outputs);
  args.inputs = in.data();
  args.outputs = out.data();
  args.workspace = aligned(own.empty() ? std::span<std::byte>(workspace) : own);
  args.step_ns = stepTimes;
  if (auto found = instances.find(symbols); found != instances.end()) {
    args.instance = found->second.handle;
    args.symbols = symbols.data();
  }
  return runtime::call("enqueue", cpuDevice()->plugin->table->enqueue, args);
}

std::vector<const MortiseStep *> Compiled::steps() const {
  MortiseKernelInfo found = info();
  return {found.steps, found.steps + found.step_count};
}

bool Compiled::hasStep(std::string_view name) const {
  for (const MortiseStep *step : steps())
    if (std::string_view(step->name).find(name) != std::string_view::npos ||
        std::string_view(step->lowering).find(name) != std::string_view::npos)
      return true;
  return false;
}

std::string Compiled::text() const {
  std::string lines;
  for (const MortiseStep *step : steps())
    lines += std::string("  ") + step->lowering + ": " + step->name + "\n";
  return lines;
}

Compiled::~Compiled() {
  const MortisePlugin &table = *cpuDevice()->plugin->table;
  forgetInstances();
  if (constants) {
    MortiseConstantsArgs args{sizeof args, nullptr, kernel, constants};
    (void)runtime::call("constants_destroy", table.constants_destroy, args);
  }
  if (kernel) {
    MortiseKernelArgs args{sizeof args, nullptr, kernel};
    (void)runtime::call("kernel_destroy", table.kernel_destroy, args);
  }
}

namespace {
// Inputs and outputs of a graph with static shapes, once for the kernel and once for the interpreter.
struct Buffers {
  Buffers(const MortiseGraph &view, const Fill &fill);
  void lend(); // donated inputs with their contents, because runs may have overwritten them
  std::vector<std::vector<std::byte>> inputs, expectedState, outputs, expected;
  std::vector<std::vector<std::byte>> lent; // aligned copies of donated inputs; empty for others
  std::vector<const void *> bound, passed, reference;
  std::vector<void *> out, want;
};
} // namespace

Buffers::Buffers(const MortiseGraph &view, const Fill &fill)
    : inputs(view.input_count), expectedState(view.input_count), outputs(view.output_count),
      expected(view.output_count), lent(view.input_count), bound(view.input_count), passed(view.input_count),
      reference(view.input_count), out(view.output_count), want(view.output_count) {
  for (size_t i = 0; i < view.input_count; ++i) {
    inputs[i].resize(byteSize(*view.inputs[i]->type));
    fill(*view.inputs[i], i, inputs[i]);
    expectedState[i] = inputs[i];
    bool constant = view.inputs[i]->flags & MORTISE_VALUE_CONSTANT;
    (constant ? bound : passed)[i] = inputs[i].data();
    if (view.inputs[i]->flags & MORTISE_VALUE_DONATED) {
      lent[i].resize(inputs[i].size() + 64);
      passed[i] = &lent[i][(64 - reinterpret_cast<uintptr_t>(lent[i].data()) % 64) % 64];
    }
    reference[i] = expectedState[i].data();
  }
  for (size_t i = 0; i < view.output_count; ++i) {
    outputs[i].resize(byteSize(*view.outputs[i]->type), std::byte(0x5a));
    expected[i].resize(outputs[i].size());
    out[i] = outputs[i].data();
    want[i] = expected[i].data();
    for (size_t k = 0; k < view.alias_count; ++k)
      if (view.aliases[k]->output == i) {
        out[i] = inputs[view.aliases[k]->input].data();
        want[i] = expectedState[view.aliases[k]->input].data();
      }
  }
}

void Buffers::lend() {
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!lent[i].empty())
      std::ranges::copy(inputs[i], static_cast<std::byte *>(const_cast<void *>(passed[i])));
}

// Compares output by output.
static void compareOutputs(const Compiled &compiled, const MortiseGraph &view, const Buffers &buffers,
                           std::span<const void *const> inputs, const Check &how, int round) {
  auto copy = [](void *from, size_t size) {
    return std::vector<std::byte>(static_cast<std::byte *>(from), static_cast<std::byte *>(from) + size);
  };
  conformance::Judge judge(view, inputs);
  for (size_t i = 0; i < view.output_count; ++i) {
    const size_t size = buffers.outputs[i].size();
    const std::vector<std::byte> got = copy(buffers.out[i], size), want = copy(buffers.want[i], size);
    const std::string text =
        how.exact ? conformance::differences(*view.outputs[i]->type, got, want) : must(judge.differences(i, got, want));
    if (!text.empty())
      ADD_FAILURE() << "output " << i << ", round " << round << ":\n" << text << "steps:\n" << compiled.text();
  }
}

// Continues both sides from the state that the kernel made, so that each round is judged by itself.
static void continueFromKernelState(const MortiseGraph &view, Buffers &buffers) {
  for (size_t k = 0; k < view.alias_count; ++k) {
    const uint32_t input = view.aliases[k]->input;
    std::memcpy(buffers.expectedState[input].data(), buffers.inputs[input].data(), buffers.inputs[input].size());
  }
}

// False after a failure that ends the test.
static bool runAndCompare(Compiled &compiled, const MortiseGraph &view, Buffers &buffers, const Check &how) {
  for (int round = 0; round < 2; ++round) { // the second round uses the state of the first
    std::vector<uint64_t> times(compiled.steps().size() + 1);
    const std::vector<std::vector<std::byte>> before = buffers.expectedState;
    buffers.lend();
    Result<void> run = compiled.run(buffers.passed, buffers.out, round ? times.data() : nullptr);
    EXPECT_EQ(times.back(), 0u) << "a time for a step that is none";
    Result<void> interpreted = reference::interpret(view, buffers.reference, buffers.want);
    if (!run || !interpreted) {
      ADD_FAILURE() << (run ? interpreted : run).error().message;
      return false;
    }
    std::vector<const void *> inputs;
    for (const std::vector<std::byte> &input : before)
      inputs.push_back(input.data());
    compareOutputs(compiled, view, buffers, inputs, how, round);
    for (size_t i = 0; i < view.input_count; ++i)
      if (!(view.inputs[i]->flags & MORTISE_VALUE_STATE))
        EXPECT_TRUE(buffers.inputs[i] == before[i]) << "input " << i << " was overwritten";
    continueFromKernelState(view, buffers);
  }
  return true;
}

std::unique_ptr<Compiled> check(Network &network, const Check &how) {
  std::shared_ptr<const Graph> graph = network.finish();
  const MortiseGraph &view = graph->view();
  auto compiled = Compiled::make(graph, how.options);
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message;
    return nullptr;
  }
  Buffers buffers(view, how.fill);
  if (Result<void> result = (*compiled)->bind(buffers.bound); !result) {
    ADD_FAILURE() << result.error().message;
    return nullptr;
  }
  if (!runAndCompare(**compiled, view, buffers, how))
    return nullptr;
  return std::move(*compiled);
}

static constexpr int64_t batchStandIn = 30011, tokensStandIn = 9973, rowsStandIn = 19997;

int64_t tableRows(int64_t tokens) { return tokens == tokensStandIn ? rowsStandIn : mostTokens; }

Result<std::unique_ptr<Compiled>> compileForShapes(const Build &build, int64_t smallest,
                                                   std::vector<MortiseOption> options) {
  Network general;
  build(general, batchStandIn, tokensStandIn);
  return Compiled::make(withSymbols(general.finish()->view(), {{batchStandIn, "batch", smallest},
                                                               {tokensStandIn, "tokens", smallest, mostTokens},
                                                               {rowsStandIn, "", mostTokens, mostTokens}}),
                        std::move(options));
}

std::unique_ptr<Compiled> checkShapes(const Build &build, const Shapes &shapes, const Check &how, int64_t smallest) {
  auto compiled = compileForShapes(build, smallest, how.options);
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message;
    return nullptr;
  }
  std::unique_ptr<Buffers> constants; // the first shape's, which all shapes use
  for (auto [batch, tokens] : shapes) {
    SCOPED_TRACE(std::to_string(batch) + ", " + std::to_string(tokens));
    Network network;
    build(network, batch, tokens);
    std::shared_ptr<const Graph> graph = network.finish();
    if (!constants) {
      constants = std::make_unique<Buffers>(graph->view(), how.fill);
      if (Result<void> result = (*compiled)->bind(constants->bound); !result) {
        ADD_FAILURE() << result.error().message;
        return nullptr;
      }
    }
    Buffers buffers(graph->view(), how.fill);
    if (Result<void> result = (*compiled)->prepare({batch, tokens}); !result) {
      ADD_FAILURE() << result.error().message;
      return nullptr;
    }
    if (!runAndCompare(**compiled, graph->view(), buffers, how))
      return nullptr;
  }
  return std::move(*compiled);
}

bool takesLinear(int32_t dtype) {
  Network net;
  net.output(net.linear(net.input(dtype, {8, 16}), net.weight({16, 16}, dtype)));
  return static_cast<bool>(Compiled::make(net.finish()));
}

} // namespace mortise::test
