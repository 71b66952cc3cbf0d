// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Result<T>: a value or an Error. Functions of Mortise that can fail and do not use LLVM return it.
#pragma once

#include <mortise/plugin.h>

#include <string>
#include <utility>
#include <variant>

namespace mortise {

struct Error {
  MortiseCode code = MORTISE_INTERNAL;
  std::string message; // what was expected, what was found, what to do; lower case, no full stop
};

template <typename T> class [[nodiscard]] Result {
public:
  Result(T value) : state(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state(std::in_place_index<1>, std::move(error)) {}
  explicit operator bool() const { return state.index() == 0; }
  T &operator*() { return std::get<0>(state); }
  const T &operator*() const { return std::get<0>(state); }
  T *operator->() { return &std::get<0>(state); }
  const T *operator->() const { return &std::get<0>(state); }
  Error &error() { return std::get<1>(state); }
  const Error &error() const { return std::get<1>(state); }

private:
  std::variant<T, Error> state;
};

template <> class [[nodiscard]] Result<void> {
public:
  Result() = default;
  Result(Error error) : failed(true), failure(std::move(error)) {}
  explicit operator bool() const { return !failed; }
  Error &error() { return failure; }
  const Error &error() const { return failure; }

private:
  bool failed = false;
  Error failure;
};

} // namespace mortise
