// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "network.h"

#include <mortise/ir/Dialect.h>
#include <mortise/ir/Portable.h>
#include <mortise/reference/Formats.h>
#include <mortise/reference/Interpreter.h>
#include <mortise/runtime/Call.h>

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
    abort(); // a fault of the test itself
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

ValueId Network::op(const std::string &name, std::vector<ValueId> operands, std::vector<Attribute> attributes) {
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
  return must(impl->builder.addOp("mortise." + name, operands, list, ""))[0];
}

std::vector<int64_t> Network::dims(ValueId value) const {
  const MortiseType *type = must(impl->builder.typeOf(value));
  return {type->dims, type->dims + type->rank};
}

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
    return new std::shared_ptr(runtime::Registry::load(must(runtime::Config::read(std::span(&option, 1)))));
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
  MortiseKernelInfo info{};
  info.struct_size = sizeof info;
  info.kernel = made->kernel;
  if (Result<void> result = runtime::call("kernel_info", table.kernel_info, info); !result)
    return result.error();
  int64_t bytes = info.workspace.count ? must(evaluate(info.workspace, {})) : 0;
  made->workspace.resize(static_cast<size_t>(bytes) + 64);
  return made;
}

Result<void> Compiled::bind(std::span<const void *const> inputs) {
  const MortisePlugin &table = *cpuDevice()->plugin->table;
  if (constants) {
    MortiseConstantsArgs destroy{sizeof destroy, nullptr, kernel, constants};
    constants = nullptr;
    if (Result<void> result = runtime::call("constants_destroy", table.constants_destroy, destroy); !result)
      return result;
  }
  MortiseConstantsBindArgs args{};
  args.struct_size = sizeof args;
  args.kernel = kernel;
  args.inputs = inputs.data();
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
  args.inputs = inputs.data();
  args.outputs = outputs.data();
  args.workspace = reinterpret_cast<void *>(
      (reinterpret_cast<uintptr_t>(own.empty() ? workspace.data() : own.data()) + 63) / 64 * 64);
  args.step_ns = stepTimes;
  return runtime::call("enqueue", cpuDevice()->plugin->table->enqueue, args);
}

std::vector<const MortiseStep *> Compiled::steps() const {
  MortiseKernelInfo info{};
  info.struct_size = sizeof info;
  info.kernel = kernel;
  if (!runtime::call("kernel_info", cpuDevice()->plugin->table->kernel_info, info))
    return {};
  return {info.steps, info.steps + info.step_count};
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
  if (constants) {
    MortiseConstantsArgs args{sizeof args, nullptr, kernel, constants};
    (void)runtime::call("constants_destroy", table.constants_destroy, args);
  }
  if (kernel) {
    MortiseKernelArgs args{sizeof args, nullptr, kernel};
    (void)runtime::call("kernel_destroy", table.kernel_destroy, args);
  }
}

static std::string compare(const MortiseType &type, const std::vector<std::byte> &got,
                           const std::vector<std::byte> &want, const Check &how) {
  std::string text;
  reference::visitElement(type.dtype, [&](auto kind) {
    using Kind = decltype(kind);
    auto *x = reinterpret_cast<const typename Kind::Storage *>(got.data());
    auto *y = reinterpret_cast<const typename Kind::Storage *>(want.data());
    size_t count = got.size() / sizeof(*x), bad = 0;
    double largest = 0;
    for (size_t i = 0; i < count; ++i)
      if (double value = static_cast<double>(Kind::load(y[i])); std::isfinite(value))
        largest = std::max(largest, std::abs(value));
    for (size_t i = 0; i < count; ++i) {
      double a = static_cast<double>(Kind::load(x[i])), b = static_cast<double>(Kind::load(y[i]));
      bool same = std::isnan(b)   ? std::isnan(a)
                  : std::isinf(b) ? a == b
                                  : std::abs(a - b) <= how.relative * std::abs(b) + how.absolute * largest;
      if (!same && ++bad <= 3)
        text +=
            "element " + std::to_string(i) + ": expected " + std::to_string(b) + ", found " + std::to_string(a) + "\n";
    }
    if (bad)
      text += std::to_string(bad) + " of " + std::to_string(count) + " elements of " + typeString(type) + " differ\n";
  });
  return text;
}

std::unique_ptr<Compiled> check(Network &network, const Check &how) {
  std::shared_ptr<const Graph> graph = network.finish();
  const MortiseGraph &view = graph->view();
  auto compiled = Compiled::make(graph, how.options);
  if (!compiled) {
    ADD_FAILURE() << compiled.error().message;
    return nullptr;
  }
  std::vector<std::vector<std::byte>> inputs(view.input_count), expectedState(view.input_count),
      outputs(view.output_count), expected(view.output_count);
  std::vector<const void *> bound(view.input_count), passed(view.input_count), reference(view.input_count);
  for (size_t i = 0; i < view.input_count; ++i) {
    inputs[i].resize(byteSize(*view.inputs[i]->type));
    how.fill(*view.inputs[i], i, inputs[i]);
    expectedState[i] = inputs[i];
    bool constant = view.inputs[i]->flags & MORTISE_VALUE_CONSTANT;
    (constant ? bound : passed)[i] = inputs[i].data();
    reference[i] = expectedState[i].data();
  }
  std::vector<void *> out(view.output_count), want(view.output_count);
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
  if (Result<void> result = (*compiled)->bind(bound); !result) {
    ADD_FAILURE() << result.error().message;
    return nullptr;
  }
  for (int round = 0; round < 2; ++round) { // state carries over to the second
    Result<void> run = (*compiled)->run(passed, out);
    Result<void> interpreted = reference::interpret(view, reference, want);
    if (!run || !interpreted) {
      ADD_FAILURE() << (run ? interpreted : run).error().message;
      return nullptr;
    }
    for (size_t i = 0; i < view.output_count; ++i) {
      size_t size = outputs[i].size();
      std::vector<std::byte> got(static_cast<std::byte *>(out[i]), static_cast<std::byte *>(out[i]) + size);
      std::vector<std::byte> wanted(static_cast<std::byte *>(want[i]), static_cast<std::byte *>(want[i]) + size);
      if (std::string text = compare(*view.outputs[i]->type, got, wanted, how); !text.empty()) {
        ADD_FAILURE() << "output " << i << ", round " << round << ":\n" << text << "steps:\n" << (*compiled)->text();
      }
    }
  }
  return std::move(*compiled);
}

} // namespace mortise::test
