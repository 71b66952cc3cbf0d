#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# headers.sh INCLUDE: checks that the ABI header is pedantic C11 and C++ and needs only two standard headers, that the tables are C11, and
# that the other headers are C++20.
set -euo pipefail
include=$1
warnings=(-Wall -Wextra -Wpedantic -pedantic-errors -Werror -fsyntax-only "-I$include")
for c in gcc clang-22; do
  for header in plugin experimental dtypes ops; do
    echo "#include <mortise/$header.h>" | $c -std=c11 "${warnings[@]}" -x c -
  done
done
for cxx in g++ clang++-22; do
  for standard in c++11 c++20; do
    $cxx -std=$standard "${warnings[@]}" -Wno-long-long -x c++ "$include/mortise/plugin.h"
  done
  for header in result ops graph plugin dim bounds symbols views rewrite; do
    echo "#include <mortise/$header.hpp>" | $cxx -std=c++20 "${warnings[@]}" -x c++ -
  done
done
includes=$(grep -c '^#include' "$include/mortise/plugin.h")
[ "$includes" = 2 ] || { echo "plugin.h: expected <stddef.h> and <stdint.h> and no other include, found $includes"; exit 1; }
