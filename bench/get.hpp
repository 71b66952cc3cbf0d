// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What measuring programs do with an error: they say it and end.
#pragma once

#include <mortise/result.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <type_traits>

namespace mortise::bench {

template <typename T> T get(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>)
    return std::move(*result);
}

} // namespace mortise::bench
