// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

#include <mortise/mortise.hpp>

#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
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

// A fresh folder; removed at the end.
struct Folder {
  std::filesystem::path path;
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "mortise-XXXXXX").string();
    path = mkdtemp(name.data());
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator/(const char *name) const { return (path / name).string(); }
};

} // namespace mortise::api
