#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# package.sh SDK BUILD: checks that the package offers both components, and that a plugin without an entry point does not link.
set -euo pipefail
sdk=$1 build=$2
rm -rf "$build"
mkdir -p "$build"
cat >"$build/CMakeLists.txt" <<'TEXT'
cmake_minimum_required(VERSION 3.25)
project(package LANGUAGES C CXX)
find_package(MortiseSDK REQUIRED COMPONENTS abi codegen)
if(NOT TARGET Mortise::abi OR NOT TARGET Mortise::codegen OR NOT COMMAND mortise_link_codegen)
  message(FATAL_ERROR "a target or a function is missing")
endif()
mortise_add_plugin(empty SOURCES empty.c MANIFEST manifest.toml)
TEXT
echo 'int nothing;' >"$build/empty.c"
echo 'name = "empty"' >"$build/manifest.toml"
CC=clang-22 CXX=clang++-22 cmake -S "$build" -B "$build/build" -G Ninja "-DCMAKE_PREFIX_PATH=$sdk" \
  -DCMAKE_MODULE_LINKER_FLAGS=-fuse-ld=lld
if cmake --build "$build/build" >"$build/log" 2>&1; then echo "expected a link error without mortise_plugin, found success"; exit 1; fi
grep -q mortise_plugin "$build/log" || { cat "$build/log"; exit 1; }
