// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Status, sessions and builders.
#include "handles.hpp"

#include <mortise/runtime/describe.hpp>

#include <bit>
#include <cstdlib>

using namespace mortise;
using namespace mortise::capi;

MortiseStatus *capi::statusOf(const Error &error) {
  return runtime::host().status_create(error.code, error.message.c_str());
}

int32_t mortise_status_code(const MortiseStatus *status) { return runtime::host().status_code(status); }
const char *mortise_status_message(const MortiseStatus *status) { return runtime::host().status_message(status); }
void mortise_status_destroy(MortiseStatus *status) { runtime::host().status_destroy(status); }
void mortise_string_destroy(char *string) { std::free(string); }

MortiseStatus *mortise_session_create(const MortiseOption *options, size_t option_count, MortiseSession **session) {
  return guarded([&]() -> Result<void> {
    if (!session)
      return nullError("place for the session");
    *session = nullptr;
    if (Result<void> checked = checkOptions(options, option_count); !checked)
      return checked;
    Result<runtime::Config> config = runtime::Config::read({options, option_count});
    if (!config)
      return config.error();
    auto state = std::make_shared<SessionState>();
    for (size_t i = 0; i < option_count; ++i)
      state->options.emplace_back(options[i].key, options[i].value);
    state->registry = runtime::Registry::load(*config);
    state->config = std::move(*config);
    for (const auto &device : state->registry->devices())
      state->devices.push_back({state.get(), device.get()});
    *session = new MortiseSession{std::move(state)};
    return {};
  });
}

void mortise_session_destroy(MortiseSession *session) { delete session; }

MortiseStatus *mortise_session_describe(MortiseSession *session, char **json) {
  return guarded([&]() -> Result<void> {
    if (!session || !json)
      return nullError(session ? "place for the text" : "session");
    Result<char *> copy = copyString(runtime::describe(*session->state->registry, session->state->config));
    if (!copy)
      return copy.error();
    *json = *copy;
    return {};
  });
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
