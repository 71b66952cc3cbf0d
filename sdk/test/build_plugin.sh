#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# build_plugin.sh SDK SOURCE BUILD OUTPUT: builds a plugin as a vendor would, and checks its exports and links.
set -euo pipefail
sdk=$1 source=$2 build=$3 output=$4
rm -rf "$build"
CC=gcc CXX=g++ cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=$sdk" \
  -DCMAKE_COMPILE_WARNING_AS_ERROR=ON "-DMORTISE_PLUGIN_OUTPUT_DIRECTORY=$output"
cmake --build "$build"
name=$(sed -n 's/^name = "\([^"]*\)".*/\1/p' "$source/manifest.toml")
library=$output/libmortise_$name.so
[ -f "$output/libmortise_$name.toml" ] || { echo "no manifest beside $library"; exit 1; }
exports=$(nm -D --defined-only "$library" | awk '{ print $3 }')
[ "$exports" = mortise_plugin ] || { echo "expected the one export mortise_plugin, found: $exports"; exit 1; }
