// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The struct behind MortiseBuilder.
#pragma once

#include "compiler.hpp"
#include "handles.hpp"

namespace mortise::capi {

// The list that mortise_builder_refusals returns. The views point into `answers`.
struct Refusals {
  std::vector<passes::Uncovered> answers;
  std::vector<MortiseRefusal> views;
  std::vector<const MortiseRefusal *> pointers;

  void show();
};

} // namespace mortise::capi

struct MortiseBuilder {
  std::shared_ptr<const mortise::capi::SessionState> session;
  std::string name;
  std::unique_ptr<mortise::capi::Compiler> compiler; // NULL while empty
  mortise::capi::Refusals refusals;                  // of the last mortise_compile
  mortise::passes::Homes homes;                      // as far as given; the rest is host memory

  mortise::capi::Compiler &graph() {
    if (!compiler)
      compiler = std::make_unique<mortise::capi::Compiler>(name, *session->registry);
    return *compiler;
  }
};
