// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a region to steps: what libraries compute and what groups do, where each value lies, and in which order.
#include "builder.hpp"

#include "window.hpp"

#include <algorithm>

namespace mortise::cuda {

static constexpr uint32_t none = UINT32_MAX;

static constexpr codegen::LoweringNames names{"cuda.pointwise", "cuda.rows", "cuda.columns", "cuda.scan",
                                              "cuda.product",   "cuda.sort", "cuda.copy"};

bool Builder::isOutput(uint32_t value) const {
  return std::any_of(region.outputs, region.outputs + region.output_count,
                     [&](const MortiseValue *output) { return output->index == value; });
}

std::vector<uint32_t> Builder::originsOf(const std::vector<uint32_t> &nodes) const {
  if (origins.empty())
    return nodes;
  std::vector<uint32_t> list;
  for (const uint32_t node : nodes)
    list.insert(list.end(), origins[node].begin(), origins[node].end());
  std::ranges::sort(list);
  const auto [first, last] = std::ranges::unique(list);
  list.erase(first, last);
  return list;
}

// ---- Library calls

// Where the first of these views' operand lies if the last one's result is dense.
std::optional<View> Builder::writtenThrough(const std::vector<uint32_t> &views) const {
  std::optional<View> view = denseView(*region.nodes[views.back()]->results[0]);
  for (size_t i = views.size(); view && i-- > 0;) {
    const MortiseNode &node = *region.nodes[views[i]];
    view = viewBack(node, *view, dimsOf(*node.operands[0]->type));
  }
  return view;
}

// Frontends reshape what linear layers return: the library writes the output itself. So it does where channels last are
// channels first as well. They transpose what attention returns, and reshape it for the product that follows: its
// kernel writes it as it is read.
void Builder::writeThroughViews(Call &call, const std::vector<const MortiseNode *> &soleUsers) const {
  const bool isAttention = isOp(*call.node, Op::Attention);
  const auto staysDense = [&](const MortiseNode &node) {
    const std::optional<View> view = viewThrough(node, denseView(*node.operands[0]));
    return view && detail::isDense<Dim>(view->dims, view->strides);
  };
  const std::vector<uint32_t> before = call.nodes;
  std::vector<uint32_t> nodes;
  for (uint32_t value = call.target; !isOutput(value);) {
    const MortiseNode *user = soleUsers[value];
    if (!user || !isOp(*user, Op::Reshape, Op::Transpose) || (!isAttention && !staysDense(*user)))
      return;
    nodes.push_back(user->index);
    value = user->results[0]->index;
    const std::optional<View> result = isAttention ? writtenThrough(nodes) : std::nullopt;
    if (isAttention ? !result || !codegen::suitsAttention(*result) : !isOutput(value))
      continue;
    call.target = value;
    if (result)
      call.result = *result;
    call.nodes = before;
    call.nodes.insert(call.nodes.end(), nodes.begin(), nodes.end());
  }
}

// Where each value lies if all but views have memory, which is nearly always right for what calls read.
std::vector<View> Builder::likelyViews() const {
  std::vector<View> views;
  for (size_t v = 0; v < region.value_count; ++v)
    views.push_back(denseView(*region.values[v]));
  for (size_t n = 0; n < region.node_count; ++n)
    if (const MortiseNode &node = *region.nodes[n]; has(node, Trait::View) && !request.taken[n])
      if (auto through = viewThrough(node, views[node.operands[0]->index]))
        views[node.results[0]->index] = std::move(*through);
  return views;
}

bool Builder::isCall(const MortiseNode &node, std::span<const View> views) const {
  if (!isProduct(node))
    return findAttribute(node, WindowRewriter::shapeAttribute) || isOp(node, Op::Attention);
  if (!kernel.device.hasProductsOf(node.results[0]->type->dtype))
    return false;
  const View &lhs = views[node.operands[0]->index], &rhs = views[node.operands[1]->index];
  return products == ProductsBy::Library ||
         !suitsGroup(node, lhs, rhs, ranges, typical, kernel.device.info().peak_flops);
}

Result<void> Builder::readCalls() {
  const std::vector<const MortiseNode *> soleUsers = soleUsersOf(region);
  const std::vector<View> views = likelyViews();
  const std::vector<uint32_t> readers = firstReaders(views);
  for (size_t n = 0; n < region.node_count; ++n) {
    const MortiseNode &node = *region.nodes[n];
    if (!isCall(node, views))
      continue;
    Call call;
    call.node = &node;
    call.nodes = {node.index};
    call.target = node.results[0]->index;
    call.result = denseView(*node.results[0]);
    if (isProduct(node)) {
      if (auto taken = takeAddend(call, soleUsers, views, readers); !taken)
        return taken;
      if (auto checked = checkBias(call, views); !checked)
        return checked;
    }
    writeThroughViews(call, soleUsers);
    for (const uint32_t taken : call.nodes)
      request.taken[taken] = true;
    calls.push_back(std::move(call));
  }
  if (unproved.empty())
    return {};
  return Error{MORTISE_UNSUPPORTED,
               "expected kernels of the library that add biases before they round, found none for " +
                   std::to_string(unproved.size()) + " products"};
}

// Has an operand made dense where the library cannot read it in place. True: some are that were not.
Result<bool> Builder::chooseOperands(const Call &call, const std::function<View(uint32_t)> &viewOf) {
  if (isProduct(*call.node))
    return chooseProductOperands(call, viewOf);
  const bool isAttention = isOp(*call.node, Op::Attention);
  bool changed = false;
  for (size_t i = 0; i < call.node->operand_count; ++i) { // a dense view needs no memory of its own
    if (isAttention && (!call.node->operands[i] || i == 3))
      continue; // a mask is read through any view
    const uint32_t value = call.node->operands[i]->index;
    if (isAttention && codegen::suitsAttention(viewOf(value)))
      continue;
    changed |= !request.materialise[value];
    request.materialise[value] = true;
  }
  return changed;
}

// Whether lhs and rhs are made dense, because the library cannot read them in place. Nothing: it reads them in no way
// for all values of the symbols.
std::optional<std::pair<bool, bool>> Builder::denseOperands(const MortiseNode &node,
                                                            const std::function<View(uint32_t)> &viewOf) const {
  const MortiseValue &lhs = *node.operands[0], &rhs = *node.operands[1];
  for (const auto [denseLhs, denseRhs] : {std::pair{false, false}, {false, true}, {true, false}, {true, true}}) {
    const View a = denseLhs ? denseView(lhs) : viewOf(lhs.index), b = denseRhs ? denseView(rhs) : viewOf(rhs.index);
    if (fitsLibrary(axesOf(node, a, b), ranges))
      return std::pair{denseLhs, denseRhs};
  }
  return std::nullopt;
}

Result<bool> Builder::chooseProductOperands(const Call &call, const std::function<View(uint32_t)> &viewOf) {
  const MortiseNode &node = *call.node;
  bool changed = false;
  const auto materialise = [&](const MortiseValue &value) {
    changed |= !request.materialise[value.index];
    request.materialise[value.index] = true;
  };
  if (node.operand_count > 2 && node.operands[2]) {
    const View bias = viewOf(node.operands[2]->index);
    if (bias.dims[0] != Dim(1) && bias.strides[0] != Dim(1))
      materialise(*node.operands[2]);
  }
  if (call.addend) // dense, unless fusion has decided otherwise
    if (const View addend = viewOf(call.addend->index); !detail::isDense<Dim>(addend.dims, addend.strides))
      materialise(*call.addend);
  const auto dense = denseOperands(node, viewOf);
  if (!dense)
    return Error{MORTISE_NEEDS_STATIC, std::string("node ") + std::to_string(node.index) + " (" + node.op +
                                           "): no order of its dimensions suits the library for all values of the "
                                           "symbols"};
  if (dense->first)
    materialise(*node.operands[0]);
  if (dense->second)
    materialise(*node.operands[1]);
  return changed;
}

// ---- Groups

// Which operands are read in place is first guessed, and then checked: where a value lies is decided by fusion.
Result<void> Builder::fuse() {
  const std::vector<View> views = likelyViews();
  for (const Call &call : calls)
    if (auto chosen = chooseOperands(call, [&](uint32_t value) { return views[value]; }); !chosen)
      return chosen.error();
  for (size_t n = 0; n < region.node_count; ++n) // weights are read along the sum
    if (findAttribute(*region.nodes[n], codegen::channelsLastAttribute))
      request.materialise[region.nodes[n]->operands[1]->index] = true;
  const std::vector<bool> takenByCalls = request.taken;
  for (bool again = true; again;) {
    if (cancelled())
      return cancelledError();
    request.taken = takenByCalls;
    if (auto packed = fusePacking(); !packed)
      return packed;
    Result<codegen::FuseResult> fused = codegen::fuse(request, codegen::simtFuseTarget());
    if (!fused)
      return fused.error();
    groups = std::move(fused->groups);
    const auto viewOf = [&](uint32_t value) {
      return fused->views[value] ? *fused->views[value] : denseView(*region.values[value]);
    };
    again = false;
    for (Call &call : calls) {
      Result<bool> changed = chooseOperands(call, viewOf);
      if (!changed)
        return changed.error();
      again |= *changed;
      call.operands.clear();
      for (size_t i = 0; i < call.node->operand_count; ++i)
        if (call.node->operands[i])
          call.operands.push_back(viewOf(call.node->operands[i]->index));
      if (call.addend)
        call.operands.push_back(viewOf(call.addend->index));
    }
  }
  return {};
}

// Equal ones once.
Result<void> Builder::compileAttentions() {
  std::vector<std::shared_ptr<Function>> wanted;
  for (Call &call : calls) {
    if (!isOp(*call.node, Op::Attention))
      continue;
    call.attention = codegen::attentionCall(*call.node, call.operands, call.result, typical, kernel.device.target());
    Result<codegen::SimtCompiler *> compiler = codegen::sharedCompiler(kernel.device.target());
    if (!compiler)
      return compiler.error();
    auto source = (*compiler)->compile(call.attention->code);
    if (!source)
      return source.error();
    call.function = codegen::functionOf<Function>(kernel.device, *source);
    if (std::ranges::find(wanted, call.function) == wanted.end())
      wanted.push_back(call.function);
  }
  return wanted.empty() ? Result<void>() : codegen::loadAll<Function>(wanted);
}

// Those of calls and those of constants together.
Result<void> Builder::compileGroups() {
  std::vector<codegen::Group> all = groups;
  all.insert(all.end(), packingGroups.begin(), packingGroups.end());
  auto compiled = codegen::compileGroups<Function>(kernel.device, region, all);
  if (!compiled)
    return compiled.error();
  const auto first = compiled->begin() + static_cast<ptrdiff_t>(groups.size());
  functions.assign(compiled->begin(), first);
  packingFunctions.assign(first, compiled->end());
  return {};
}

// ---- Order

// Groups come in an order that allows for the calls between them. A call comes when its operands are there, and where
// it stands in the graph if it can.
void Builder::orderUnits() {
  std::vector<bool> there(region.value_count);
  for (size_t i = 0; i < region.input_count; ++i)
    there[region.inputs[i]->index] = true;
  for (size_t v = 0; v < region.value_count; ++v)
    there[v] = there[v] || isInPacked[v];
  std::vector<bool> done(calls.size());
  const auto isThere = [&](const std::vector<uint32_t> &values) {
    return std::ranges::all_of(values, [&](uint32_t value) { return there[value]; });
  };
  const auto add = [&](Unit unit) {
    for (const uint32_t output : unit.outputs)
      there[output] = true;
    units.push_back(std::move(unit));
  };
  const auto addCalls = [&](uint32_t before) {
    bool any = false;
    for (uint32_t c = 0; c < calls.size() && calls[c].node->index < before; ++c) { // operands stand before their users
      Unit unit{true, c, {}, {calls[c].target}};
      for (const View &operand : calls[c].operands)
        unit.inputs.push_back(operand.base);
      if (done[c] || !isThere(unit.inputs))
        continue;
      add(std::move(unit));
      any = done[c] = true;
    }
    return any;
  };
  for (uint32_t g = 0; g < groups.size(); ++g) {
    addCalls(groups[g].nodes.back());
    while (!isThere(groups[g].inputs) && addCalls(none)) {
    }
    add({false, g, groups[g].inputs, groups[g].outputs});
  }
  while (addCalls(none)) {
  } // Placement::of says so where something is missing
}

// ---- Steps

void Builder::placeOutputs() {
  std::vector<codegen::Placement::Unit> writers;
  for (const Unit &unit : units)
    writers.push_back({unit.inputs, unit.outputs, unit.isCall ? nullptr : &groups[unit.index],
                       unit.isCall ? nullptr : &functions[unit.index]->code()});
  placement.placeOutputs(writers);
}

Result<Launch> Builder::launchOf(const codegen::Group &group, std::shared_ptr<Function> function, bool isPacking) {
  Launch launch{std::move(function), {}, {}};
  auto arguments = codegen::argumentsOf(launch.function->code(), group, placement, [&](Dim bytes) {
    return isPacking ? packed(std::move(bytes), false) : placement.workspace(std::move(bytes));
  });
  if (!arguments)
    return arguments.error();
  launch.arguments = std::move(*arguments);
  if (launch.arguments.size() > Launch::mostArguments)
    return Error{MORTISE_UNSUPPORTED, "expected at most " + std::to_string(Launch::mostArguments) +
                                          " arguments of a kernel, found " + std::to_string(launch.arguments.size()) +
                                          " of '" + group.name + "'"};
  return launch;
}

Result<void> Builder::addLaunch(uint32_t number) {
  const codegen::Group &group = groups[number];
  Result<Launch> launch = launchOf(group, functions[number], false);
  if (!launch)
    return launch.error();
  kernel.steps.push_back({std::move(*launch), group.name, names.of(group.kind), originsOf(group.nodes)});
  return {};
}

// Memory that is there as long as the constants are, or, for scratch, while the step runs that comes next.
Place Builder::packed(Dim bytes, bool stays) {
  const auto step = static_cast<uint32_t>(kernel.packing.size());
  kernel.packed.push_back({std::move(bytes), step, stays ? UINT32_MAX : step});
  return {Place::Packed, static_cast<uint32_t>(kernel.packed.size() - 1)};
}

Result<void> Builder::addPacking() {
  for (size_t i = 0; i < packingGroups.size(); ++i) {
    const codegen::Group &group = packingGroups[i];
    for (const uint32_t output : group.outputs)
      placement.set(output, packed(codegen::bytesOf(*region.values[output]), true));
    Result<Launch> launch = launchOf(group, packingFunctions[i], true);
    if (!launch)
      return launch.error();
    kernel.packing.push_back({std::move(*launch), group.name, names.of(group.kind), originsOf(group.nodes)});
  }
  return {};
}

// `operands`: as they are read, in the order of Call::operands.
ProductShape Builder::shapeOf(const Call &call, std::span<const View> operands) const {
  const MortiseNode &node = *call.node;
  ProductShape shape;
  shape.dtype = node.operands[0]->type->dtype;
  shape.resultDtype = node.results[0]->type->dtype;
  shape.tensorFloats = options.precision != MORTISE_PRECISION_HIGHEST;
  shape.aOffset = operands[0].offset;
  shape.bOffset = operands[1].offset;
  shape.axes = axesOf(node, operands[0], operands[1]);
  shape.hasAddend = call.addend;
  if (shape.hasAddend)
    shape.addendOffset = operands.back().offset;
  shape.hasBias = operands.size() == (shape.hasAddend ? 4 : 3);
  if (shape.hasBias)
    shape.biasOffset = operands[2].offset;
  return shape;
}

Result<Product> Builder::productOf(const Call &call) {
  Product product;
  product.shape = shapeOf(call, call.operands);
  std::vector<Place> sources;
  for (const View &operand : call.operands) {
    Result<Place> place = placement.of(operand.base);
    if (!place)
      return place.error();
    sources.push_back(*place);
  }
  product.a = sources[0];
  product.b = sources[1];
  if (product.shape.hasBias)
    product.bias = sources[2];
  if (product.shape.hasAddend)
    product.addend = sources.back();
  product.c = placement.forResult(call.target);
  product.workspace = placement.workspace(0);
  return product;
}

Result<Convolution> Builder::convolutionOf(const Call &call) {
  Convolution convolution;
  convolution.shape = shapes[static_cast<size_t>(intAttribute(*call.node, WindowRewriter::shapeAttribute))];
  const ConvolutionCall &wanted = convolution.shape.call;
  std::vector<ConvolutionRole> roles{RoleX, RoleWeight};
  for (const auto &[has, role] :
       {std::pair{wanted.hasScale, RoleScale}, {wanted.hasBias, RoleBias}, {wanted.hasAddend, RoleAddend}})
    if (has)
      roles.push_back(role);
  for (size_t i = 0; i < roles.size(); ++i) {
    const View &operand = call.operands[i];
    Result<Place> place = placement.of(operand.base);
    if (!place)
      return place.error();
    convolution.places[roles[i]] = *place;
    convolution.elements[roles[i]] = operand.offset;
  }
  convolution.places[RoleResult] = placement.forResult(call.target);
  convolution.workspace = placement.workspace(0);
  return convolution;
}

Result<Launch> Builder::attentionOf(const Call &call) {
  using Argument = codegen::KernelArgument;
  Launch launch{call.function, {}, call.attention};
  for (const codegen::SimtArgument &argument : launch.function->code().arguments) {
    if (argument.kind == codegen::SimtArgument::Input) {
      Result<Place> place = placement.of(call.operands[argument.index].base);
      if (!place)
        return place.error();
      launch.arguments.push_back({Argument::Address, 0, *place});
    } else if (argument.kind == codegen::SimtArgument::Output) {
      launch.arguments.push_back({Argument::Address, 0, placement.forResult(call.target)});
    } else {
      launch.arguments.push_back(
          {argument.kind == codegen::SimtArgument::Stride ? Argument::Stride : Argument::Number, argument.index, {}});
    }
  }
  return launch;
}

Result<void> Builder::addCall(const Call &call) {
  const auto add = [&](auto &&made, const std::string &name, const char *lowering) -> Result<void> {
    if (!made)
      return made.error();
    kernel.steps.push_back({std::move(*made), name, lowering, originsOf(call.nodes)});
    return {};
  };
  if (call.attention)
    return add(attentionOf(call), call.attention->code.name(), "cuda.attention");
  return isProduct(*call.node) ? add(productOf(call), "matmul", "cublaslt.matmul")
                               : add(convolutionOf(call), "convolution", "cudnn.convolution");
}

Result<void> Builder::addCopies() {
  auto copies = placement.copies();
  if (!copies)
    return copies.error();
  for (codegen::Placement::Copy &copy : *copies)
    kernel.steps.push_back({Copy{copy.source, copy.target, std::move(copy.bytes)},
                            "copy to output " + std::to_string(copy.output), names.copy, originsOf(copy.nodes)});
  return {};
}

void Builder::findLives() {
  for (uint32_t number = 0; number < kernel.steps.size(); ++number) {
    const auto use = [&](const Place &place) { placement.use(place, number); };
    const auto &work = kernel.steps[number].work;
    if (const auto *copy = std::get_if<Copy>(&work)) {
      use(copy->source);
      use(copy->target);
    } else if (const auto *product = std::get_if<Product>(&work)) {
      for (const Place &place : {product->a, product->b, product->c, product->workspace})
        use(place);
      for (const std::optional<Place> &place : {product->bias, product->addend})
        if (place)
          use(*place);
    } else if (const auto *convolution = std::get_if<Convolution>(&work)) {
      for (const std::optional<Place> &place : convolution->places)
        if (place)
          use(*place);
      use(convolution->workspace);
    } else {
      placement.use(std::get<Launch>(work).arguments, number);
    }
  }
}

Result<void> Builder::run() {
  request.graph = &region;
  request.taken.assign(region.node_count, false);
  request.materialise.assign(region.value_count, false);
  for (size_t i = 0; i < region.output_count; ++i)
    request.materialise[region.outputs[i]->index] = true;
  if (auto read = readCalls(); !read)
    return read;
  findLevels();
  if (auto fused = fuse(); !fused)
    return fused;
  orderUnits();
  if (cancelled())
    return cancelledError();
  if (auto bundled = bundleGroups(); !bundled)
    return bundled;
  if (auto compiled = compileGroups(); !compiled)
    return compiled;
  if (auto compiled = compileAttentions(); !compiled)
    return compiled;
  kernel.constants = std::any_of(region.inputs, region.inputs + region.input_count, [](const MortiseValue *input) {
    return (input->flags & MORTISE_VALUE_CONSTANT) != 0;
  });
  if (auto added = addPacking(); !added)
    return added;
  placeOutputs();
  for (const Unit &unit : units)
    if (auto added = unit.isCall ? addCall(calls[unit.index]) : addLaunch(unit.index); !added)
      return added;
  if (auto added = addCopies(); !added)
    return added;
  findLives();
  return {};
}

} // namespace mortise::cuda
