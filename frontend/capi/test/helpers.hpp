// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/mortise.hpp>

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

namespace mortise::api {

using Json = nlohmann::json;

// Throws, which ends the test, when something that must work fails.
template <typename T> T get(Result<T> result) {
  if (!result)
    throw std::runtime_error(result.error().message);
  return std::move(*result);
}
inline void expectOk(Result<void> result) { EXPECT_TRUE(result) << result.error().message; }
inline Session session(Options options = {{"device", "reference"}}) { return get(Session::create(options)); }
inline Builder builder(Session &session) { return get(session.builder("test")); }

} // namespace mortise::api
