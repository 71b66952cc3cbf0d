// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "fixtures.hpp"

#include <mortise/portable/graph.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace fs = std::filesystem;

namespace mortise::runtime::test {

Folder::Folder() {
  std::string pattern = (fs::temp_directory_path() / "mortise-runtime-XXXXXX").string();
  where = mkdtemp(pattern.data());
}
Folder::~Folder() {
  std::error_code ignored;
  fs::permissions(where, fs::perms::owner_all, ignored);
  fs::remove_all(where, ignored);
}

std::string Folder::add(const std::string &fixture, const std::string &manifest) {
  const fs::path library = where / ("lib" + fixture + ".so");
  fs::copy_file(fs::path(FIXTURES) / library.filename(), library);
  if (manifest.empty())
    return library.string();
  std::string text = manifest;
  if (const size_t at = text.find("opset = 1"); at != std::string::npos)
    for (const char *second : {"instances", "plain", "half_of_instances", "garbage_instance"})
      if (fixture == second) // CMakeLists.txt builds it for opset 2
        text.replace(at, 9, "opset = 2");
  write("lib" + fixture + ".toml", text);
  return library.string();
}

std::string Folder::write(const std::string &file, const std::string &content) {
  std::ofstream(where / file, std::ios::binary) << content;
  return (where / file).string();
}

std::string Folder::manifestFor(const std::string &name, const std::string &devices) {
  const std::string kinds = devices.empty() ? "\"" + name + "\"" : devices;
  return "name = \"" + name + "\"\nvendor = \"tests\"\nversion = \"1.0\"\nabi = [3, 3]\nopset = 1\ndevices = [" +
         kinds + "]\nautomatic = [" + kinds +
         "]\nsame_as = [\"far\"]\n[options.speed]\ndefault = \"slow\"\nvalues = [\"slow\", \"fast\"]\n";
}

std::shared_ptr<Registry> openFrom(const std::string &pluginPath, const std::string &cache, const std::string &owners) {
  const MortiseOption options[] = {{"plugin_path", pluginPath.c_str()},
                                   {"log_level", "off"},
                                   {"kernel_cache", cache.c_str()},
                                   {"probe", "off"},
                                   {"plugin_owners", owners.c_str()}};
  auto config = Config::read(options);
  EXPECT_TRUE(config) << (config ? "" : config.error().message);
  return config ? Registry::open(*config) : nullptr;
}

std::shared_ptr<Registry> loadFrom(const std::string &pluginPath, const std::string &cache) {
  auto registry = openFrom(pluginPath, cache);
  if (registry)
    registry->loadAll();
  return registry;
}

std::string onlyRejection(const Registry &registry) {
  EXPECT_EQ(registry.rejected().size(), 1u);
  return registry.rejected().empty() ? "" : registry.rejected()[0].error.message;
}

PlanMaker::PlanMaker(std::vector<Dim> extents, const std::vector<std::pair<std::string, SymbolRange>> &symbols)
    : extents(std::move(extents)) {
  plan->spaces.push_back(space(""));
  plan->version = symbols.empty() ? 1 : 2;
  for (uint32_t i = 0; i < symbols.size(); ++i) {
    auto made = std::make_unique<plan::SymbolT>();
    made->name = symbols[i].first;
    made->min = symbols[i].second.min;
    made->max = symbols[i].second.max;
    made->divisor = symbols[i].second.divisor;
    made->dimension = static_cast<uint32_t>(std::ranges::find(this->extents, Dim::symbol(i)) - this->extents.begin());
    plan->symbols.push_back(std::move(made));
  }
}

std::unique_ptr<plan::TensorTypeT> PlanMaker::type(std::span<const Dim> extents) {
  auto made = std::make_unique<plan::TensorTypeT>();
  made->dtype = MORTISE_F32;
  bool symbolic = false;
  for (const Dim &extent : extents) {
    made->dims.push_back(extent.numberOrDynamic());
    symbolic |= !extent.isNumber();
  }
  for (size_t i = 0; symbolic && i < extents.size(); ++i) {
    const std::vector<MortiseExprStep> steps = extents[i].steps();
    made->step_counts.push_back(static_cast<uint32_t>(steps.size()));
    for (const MortiseExprStep &step : steps)
      made->steps.emplace_back(step.op, 0, step.value);
  }
  return made;
}

std::unique_ptr<plan::SpaceT> PlanMaker::space(const std::string &device) const {
  auto made = std::make_unique<plan::SpaceT>();
  made->device = device;
  return made;
}

uint32_t PlanMaker::buffer(plan::BufferKind kind, uint32_t index, std::span<const Dim> extents) {
  auto made = std::make_unique<plan::BufferT>();
  made->kind = kind;
  made->index = index;
  made->type = type(extents);
  made->last = 1000;
  plan->buffers.push_back(std::move(made));
  return static_cast<uint32_t>(plan->buffers.size() - 1);
}

uint32_t PlanMaker::input(bool constant, bool state) {
  const uint32_t made = input(constant ? constantExtents() : extents);
  plan->inputs.back()->constant = constant;
  plan->inputs.back()->state = state;
  return made;
}

uint32_t PlanMaker::donated() {
  const uint32_t made = input();
  plan->inputs.back()->donated = true;
  plan->version = 2;
  return made;
}

uint32_t PlanMaker::within(uint32_t root, int32_t dtype, std::vector<Dim> own) {
  const uint32_t made = buffer(plan::BufferKind::Arena, 0, own);
  plan->buffers[made]->type->dtype = dtype;
  plan->buffers[made]->shares = root;
  plan->version = 2;
  return made;
}

uint32_t PlanMaker::input(const std::vector<Dim> &extents) {
  auto made = std::make_unique<plan::InputT>();
  made->name = "x" + std::to_string(plan->inputs.size());
  made->type = type(extents);
  plan->inputs.push_back(std::move(made));
  return buffer(plan::BufferKind::Input, static_cast<uint32_t>(plan->inputs.size() - 1), extents);
}

void PlanMaker::guard(const Dim &dim, MortiseRelation relation, const std::string &reason) {
  auto made = std::make_unique<plan::GuardT>();
  for (const MortiseExprStep &step : dim.steps())
    made->steps.emplace_back(step.op, 0, step.value);
  made->relation = relation;
  made->reason = reason;
  plan->guards.push_back(std::move(made));
}

uint32_t PlanMaker::output(int64_t alias) {
  auto made = std::make_unique<plan::OutputT>();
  made->type = type(extents);
  made->alias = alias;
  plan->outputs.push_back(std::move(made));
  return buffer(plan::BufferKind::Output, static_cast<uint32_t>(plan->outputs.size() - 1), extents);
}

uint64_t PlanMaker::elements() const {
  uint64_t elements = 1;
  for (const Dim &extent : extents)
    elements *= static_cast<uint64_t>(extent.number().value_or(0));
  return elements;
}

uint32_t PlanMaker::arena(uint32_t number) {
  const uint32_t made = buffer(plan::BufferKind::Arena, 0, extents);
  plan->buffers[made]->space = number;
  plan->buffers[made]->offset = plan->spaces[number]->bytes;
  plan->spaces[number]->bytes += (elements() * 4 + 255) / 256 * 256;
  return made;
}

uint32_t PlanMaker::literal(float value) {
  const uint32_t made = buffer(plan::BufferKind::Literal, 0, extents);
  const std::vector<float> values(elements(), value);
  const auto *bytes = reinterpret_cast<const uint8_t *>(values.data());
  plan->buffers[made]->literal.assign(bytes, bytes + values.size() * 4);
  return made;
}

uint32_t PlanMaker::addSpace(const std::string &device) {
  plan->spaces.push_back(space(device));
  return static_cast<uint32_t>(plan->spaces.size() - 1);
}

std::vector<uint8_t> PlanMaker::graph(const std::vector<uint32_t> &inputs, size_t outputs,
                                      const std::vector<bool> &donated) const {
  struct Type {
    std::vector<int64_t> dims;
    std::vector<std::vector<MortiseExprStep>> programs;
    std::vector<MortiseExpr> exprs;
    MortiseType view;
    explicit Type(const std::vector<Dim> &extents) {
      bool symbolic = false;
      for (const Dim &extent : extents) {
        dims.push_back(extent.numberOrDynamic());
        programs.push_back(extent.steps());
        symbolic |= !extent.isNumber();
      }
      for (const auto &program : programs)
        exprs.push_back({program.data(), program.size()});
      view = {.struct_size = sizeof(MortiseType),
              .dtype = MORTISE_F32,
              .rank = static_cast<int32_t>(dims.size()),
              .dims = dims.data(),
              .dim_exprs = symbolic ? exprs.data() : nullptr};
    }
  };
  const Type own(extents), constant(constantExtents());
  std::vector<MortiseSymbol> symbols;
  std::vector<const MortiseSymbol *> symbolPointers;
  for (const auto &symbol : plan->symbols)
    symbols.push_back(
        {sizeof(MortiseSymbol), nullptr, symbol->name.c_str(), symbol->min, symbol->max, symbol->divisor});
  for (const MortiseSymbol &symbol : symbols)
    symbolPointers.push_back(&symbol);
  const size_t count = inputs.size() + outputs;
  std::vector<MortiseValue> values(count);
  std::vector<const MortiseValue *> pointers(count);
  MortiseNode node{.struct_size = sizeof(MortiseNode), .index = 0, .since = 1, .op = "mortise.add", .location = ""};
  for (size_t i = 0; i < count; ++i) {
    const bool isInput = i < inputs.size();
    values[i] = {.struct_size = sizeof(MortiseValue),
                 .type = &own.view,
                 .producer = isInput ? nullptr : &node,
                 .index = static_cast<uint32_t>(i),
                 .result_index = static_cast<uint32_t>(isInput ? i : i - inputs.size()),
                 .use_count = 1,
                 .name = ""};
    if (isInput) {
      const auto &described = *plan->buffers[inputs[i]];
      if (described.kind == plan::BufferKind::Literal ||
          (described.kind == plan::BufferKind::Input && plan->inputs[described.index]->constant))
        values[i].flags = MORTISE_VALUE_CONSTANT;
      if (described.kind == plan::BufferKind::Input && plan->inputs[described.index]->constant)
        values[i].type = &constant.view;
      if (i < donated.size() && donated[i])
        values[i].flags = MORTISE_VALUE_DONATED;
    }
    pointers[i] = &values[i];
  }
  node.operands = pointers.data();
  node.operand_count = inputs.size();
  node.results = pointers.data() + inputs.size();
  node.result_count = outputs;
  const MortiseNode *nodes[] = {&node};
  const MortiseGraph view{.struct_size = sizeof(MortiseGraph),
                          .name = "region",
                          .opset = 1,
                          .nodes = nodes,
                          .node_count = 1,
                          .values = pointers.data(),
                          .value_count = count,
                          .inputs = pointers.data(),
                          .input_count = inputs.size(),
                          .outputs = pointers.data() + inputs.size(),
                          .output_count = outputs,
                          .symbols = symbolPointers.data(),
                          .symbol_count = symbols.size()};
  auto copied = Graph::copy(view);
  EXPECT_TRUE(copied) << (copied ? "" : copied.error().message);
  if (!copied)
    return {};
  const auto *bytes = reinterpret_cast<const uint8_t *>((*copied)->bytes().data());
  return {bytes, bytes + (*copied)->bytes().size()};
}

uint32_t PlanMaker::region(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs, const std::string &device,
                           const std::string &plugin) {
  auto made = std::make_unique<plan::RegionT>();
  made->plugin = plugin;
  made->device = device;
  made->lowering = "fixture.sum";
  made->graph = graph(inputs, outputs.size());
  made->inputs = std::move(inputs);
  made->outputs = std::move(outputs);
  made->nodes = {static_cast<uint32_t>(plan->regions.size())};
  made->cost_ns = 10;
  plan->regions.push_back(std::move(made));
  return static_cast<uint32_t>(plan->regions.size() - 1);
}

uint32_t PlanMaker::regionThatMayOverwrite(std::vector<bool> donated, std::vector<uint32_t> inputs,
                                           std::vector<uint32_t> outputs) {
  plan->version = 2;
  auto marked = graph(inputs, outputs.size(), donated);
  const uint32_t made = region(std::move(inputs), std::move(outputs));
  plan->regions[made]->graph = std::move(marked);
  return made;
}

void PlanMaker::enqueue(uint32_t region) {
  plan::EnqueueT enqueue;
  enqueue.region = region;
  plan->steps.push_back(std::make_unique<plan::StepT>());
  plan->steps.back()->instruction.Set(enqueue);
}

void PlanMaker::copy(uint32_t source, uint32_t target) {
  plan::CopyT copy;
  copy.source = source;
  copy.target = target;
  plan->steps.push_back(std::make_unique<plan::StepT>());
  plan->steps.back()->instruction.Set(copy);
}

Tensor tensorOf(const std::vector<float> &values, const std::vector<int64_t> &dims) {
  return {const_cast<float *>(values.data()), MORTISE_F32, static_cast<int32_t>(dims.size()), dims.data(), nullptr};
}

} // namespace mortise::runtime::test
