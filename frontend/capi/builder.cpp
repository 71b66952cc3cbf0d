// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builders, and the way from a graph to a program.
#include "builder.hpp"

#include <algorithm>
#include <bit>
#include <utility>

using namespace mortise;
using namespace mortise::capi;

namespace {

Result<void> setHome(MortiseBuilder *builder, std::vector<const runtime::Device *> passes::Homes::*list, size_t number,
                     const char *what, size_t count, const MortiseSessionDevice *device) {
  if (number >= count)
    return invalid("there is no " + std::string(what) + " " + std::to_string(number) + " yet; add it first");
  if (device && device->session != builder->session.get())
    return invalid(std::string(what) + " " + std::to_string(number) +
                   ": expected a device of the builder's session, found another session's '" + device->device->name() +
                   "'");
  std::vector<const runtime::Device *> &homes = builder->homes.*list;
  homes.resize(std::max(homes.size(), number + 1));
  homes[number] = device ? device->device : nullptr;
  return {};
}

} // namespace

void capi::Refusals::show() {
  for (const passes::Uncovered &answer : answers)
    views.push_back({sizeof(MortiseRefusal), answer.node, answer.reason, answer.op.c_str(), answer.location.c_str(),
                     answer.device.c_str(), answer.plugin.c_str(), answer.detail.c_str()});
  for (const MortiseRefusal &view : views)
    pointers.push_back(&view);
}

MortiseStatus *mortise_builder_create(MortiseSession *session, const char *name, MortiseBuilder **builder) {
  return guarded([&]() -> Result<void> {
    if (!session || !builder)
      return nullError(session ? "place for the builder" : "session");
    *builder = new MortiseBuilder{.session = session->state, .name = name && *name ? name : "main"};
    return {};
  });
}

void mortise_builder_destroy(MortiseBuilder *builder) { delete builder; }

MortiseStatus *mortise_builder_symbol(MortiseBuilder *builder, const char *name, int64_t min, int64_t max,
                                      int64_t divisor, uint32_t *number) {
  return guarded([&]() -> Result<void> {
    if (!builder || !name || !number)
      return nullError(!builder ? "builder" : !name ? "name of a symbol" : "place for the symbol's number");
    Result<uint32_t> added = builder->graph().builder().addSymbol(name, min, max, divisor);
    if (!added)
      return added.error();
    *number = *added;
    return {};
  });
}

MortiseStatus *mortise_builder_guard(MortiseBuilder *builder, const MortiseExpr *expr, int32_t relation,
                                     const char *reason) {
  return guarded([&]() -> Result<void> {
    if (!builder || !expr || !expr->steps)
      return nullError(builder ? "guard's expression" : "builder");
    return builder->graph().builder().addGuard(*expr, relation, reason ? reason : "");
  });
}

MortiseStatus *mortise_builder_input(MortiseBuilder *builder, const char *name, const MortiseType *type, uint32_t flags,
                                     uint32_t *value) {
  return guarded([&]() -> Result<void> {
    if (!builder || !value)
      return nullError(builder ? "place for the value" : "builder");
    const std::string label = name ? name : "";
    if (Result<void> checked = checkType(type, "input " + label); !checked)
      return checked;
    constexpr uint32_t known = MORTISE_VALUE_CONSTANT | MORTISE_VALUE_STATE | MORTISE_VALUE_DONATED;
    if ((flags & ~known) || std::popcount(flags) > 1)
      return invalid(
          "input " + label +
          ": expected flags 0, MORTISE_VALUE_CONSTANT, MORTISE_VALUE_STATE or MORTISE_VALUE_DONATED, found " +
          std::to_string(flags));
    Result<ir::ValueId> added = builder->graph().builder().addInput(label, *type, flags);
    if (!added)
      return added.error();
    *value = *added;
    return {};
  });
}

MortiseStatus *mortise_builder_op(MortiseBuilder *builder, const char *op, const uint32_t *operands,
                                  size_t operand_count, const MortiseAttribute *const *attributes,
                                  size_t attribute_count, const char *location, uint32_t *results,
                                  size_t result_capacity, size_t *result_count) {
  return guarded([&]() -> Result<void> {
    if (!builder || !op || (operand_count && !operands) || (result_capacity && !results))
      return nullError(!builder                     ? "builder"
                       : !op                        ? "name of an op"
                       : operand_count && !operands ? "list of operands"
                                                    : "place for results");
    Result<std::vector<MortiseAttribute>> known = readAttributes(attributes, attribute_count);
    if (!known)
      return known.error();
    std::vector<const MortiseAttribute *> list;
    for (const MortiseAttribute &attribute : *known)
      list.push_back(&attribute);
    Result<std::vector<ir::ValueId>> added =
        builder->graph().builder().addOp(op, {operands, operand_count}, list, location ? location : "");
    if (!added)
      return added.error();
    if (result_count)
      *result_count = added->size();
    if (added->size() > result_capacity)
      return invalid(std::string(op) + " has " + std::to_string(added->size()) + " results, and there is room for " +
                     std::to_string(result_capacity));
    std::copy(added->begin(), added->end(), results);
    return {};
  });
}

MortiseStatus *mortise_builder_repeat(MortiseBuilder *builder, uint32_t first, uint32_t count, uint32_t copies,
                                      const uint32_t *own, size_t own_count, const char *const *locations,
                                      size_t location_count, int32_t *repeated) {
  return guarded([&]() -> Result<void> {
    if (!builder || !repeated || (own_count && !own) || (location_count && !locations))
      return nullError(!builder            ? "builder"
                       : !repeated         ? "place for whether it was repeated"
                       : own_count && !own ? "list of own values"
                                           : "list of locations");
    const size_t lists = size_t{copies} + 1;
    if (own_count > SIZE_MAX / (lists + 1) || location_count > SIZE_MAX / lists)
      return invalid("repeat: more own values or locations than memory can hold");
    Result<bool> done = builder->graph().builder().repeat(
        {first, count, copies, {own, own_count * (lists + 1)}, {locations, location_count * lists}});
    if (!done)
      return done.error();
    *repeated = *done;
    return {};
  });
}

MortiseStatus *mortise_builder_type(MortiseBuilder *builder, uint32_t value, const MortiseType **type) {
  return guarded([&]() -> Result<void> {
    if (!builder || !type)
      return nullError(builder ? "place for the type" : "builder");
    Result<const MortiseType *> found = builder->graph().builder().typeOf(value);
    if (!found)
      return found.error();
    *type = *found;
    return {};
  });
}

MortiseStatus *mortise_builder_output(MortiseBuilder *builder, uint32_t value, int64_t alias_input) {
  return guarded([&]() -> Result<void> {
    return builder ? builder->graph().builder().addOutput(value, alias_input) : Result<void>(nullError("builder"));
  });
}

MortiseStatus *mortise_builder_text(MortiseBuilder *builder, char **text) {
  return guarded([&]() -> Result<void> {
    if (!builder || !text)
      return nullError(builder ? "place for the text" : "builder");
    Result<char *> copy = copyString(builder->graph().text());
    if (!copy)
      return copy.error();
    *text = *copy;
    return {};
  });
}

MortiseStatus *mortise_builder_input_device(MortiseBuilder *builder, size_t input, const MortiseSessionDevice *device) {
  return guarded([&]() -> Result<void> {
    if (!builder)
      return nullError("builder");
    return setHome(builder, &passes::Homes::inputs, input, "input", builder->graph().builder().inputCount(), device);
  });
}

MortiseStatus *mortise_builder_output_device(MortiseBuilder *builder, size_t output,
                                             const MortiseSessionDevice *device) {
  return guarded([&]() -> Result<void> {
    if (!builder)
      return nullError("builder");
    return setHome(builder, &passes::Homes::outputs, output, "output", builder->graph().builder().outputCount(),
                   device);
  });
}

MortiseStatus *mortise_compile(MortiseSession *session, MortiseBuilder *builder, const MortiseOption *options,
                               size_t option_count, MortiseProgram **program) {
  return guarded([&]() -> Result<void> {
    if (!builder)
      return nullError("builder");
    const std::unique_ptr<Compiler> compiler = std::move(builder->compiler); // the builder is empty from here on
    builder->refusals = {};
    const passes::Homes homes = std::exchange(builder->homes, {});
    if (!session || !program)
      return nullError(session ? "place for the program" : "session");
    *program = nullptr;
    if (!compiler)
      return invalid("the graph has no outputs; add inputs, ops and at least one output first");
    Result<runtime::Config> config = configFor(*session->state, options, option_count);
    if (!config)
      return config.error();
    auto made = std::make_unique<MortiseProgram>();
    made->session = session->state;
    passes::Timings timings;
    Result<std::shared_ptr<runtime::Program>> loaded =
        compiler->compile(session->state->registry, *config, timings, builder->refusals.answers, homes);
    if (!loaded) {
      builder->refusals.show();
      return loaded.error();
    }
    made->passSeconds = timings.passes;
    made->placeSeconds = timings.place;
    made->kernelSeconds = timings.kernels;
    made->take(std::move(*loaded));
    *program = made.release();
    return {};
  });
}

MortiseStatus *mortise_builder_refusals(MortiseBuilder *builder, const MortiseRefusal *const **refusals,
                                        size_t *count) {
  return guarded([&]() -> Result<void> {
    if (!builder || !refusals || !count)
      return nullError(!builder ? "builder" : !refusals ? "place for the refusals" : "place for their count");
    *refusals = builder->refusals.pointers.data();
    *count = builder->refusals.pointers.size();
    return {};
  });
}

const char *mortise_reason_name(int32_t reason) { return passes::reasonName(reason); }
