// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Status and sessions.
#include "handles.hpp"

#include <mortise/runtime/describe.hpp>

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
    state->registry = runtime::Registry::open(*config);
    state->config = std::move(*config);
    *session = new MortiseSession{std::move(state)};
    return {};
  });
}

const MortiseSessionDevice *SessionState::handleOf(const runtime::Device *device) {
  const std::lock_guard lock(mutex);
  return &devices.try_emplace(device, MortiseSessionDevice{this, device}).first->second;
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

MortiseStatus *mortise_session_op(MortiseSession *session, const char *op, const MortiseOpDeclaration **declaration) {
  return guarded([&]() -> Result<void> {
    if (!session || !op || !declaration)
      return nullError(!session ? "session" : !op ? "name of an op" : "place for the declaration");
    *declaration = nullptr;
    Result<const MortiseOpDeclaration *> found = session->state->registry->declaration(op);
    if (!found)
      return found.error();
    *declaration = *found;
    return {};
  });
}
