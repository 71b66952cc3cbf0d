# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ./dev gpu-bundle: what a bare x86-64 machine with a GPU, PyTorch and this working tree needs to run Mortise. LLVM is linked statically.

# strip_plugin LIBRARY: without its symbols, and with the manifest beside it in step again.
strip_plugin() {
  local manifest=${1%.so}.toml
  strip "$1"
  cmake "-DMANIFEST=$manifest" "-DLIBRARY=$1" "-DOUTPUT=$manifest" -P sdk/cmake/PluginManifest.cmake
}

# The commit that the bundle is of, and the tree of its sources without what runs of figures write (measure.sources); "changed" in place of
# that tree where files differ from the commit.
bundle_commit() {
  local index tree=changed
  if [ -z "$(git status --porcelain -- . ':!bench/results' ':!README.md')" ]; then
    index=$(mktemp -u)
    GIT_INDEX_FILE=$index git read-tree HEAD
    GIT_INDEX_FILE=$index git rm -rqf --cached --ignore-unmatch bench/results README.md
    tree=$(GIT_INDEX_FILE=$index git write-tree)
    rm -f "$index"
  fi
  echo "$(git rev-parse --short=12 HEAD) $tree"
}

# dev_gpu_bundle [PLUGIN...]: with these plugins; rocm, which doubles the bundle, only where it is named.
dev_gpu_bundle() {
  local folder=.gpu/build/release build=build/release library plugin
  [ $# -gt 0 ] || set -- cpu cuda reference vulkan
  for plugin in "$@"; do
    [ -f "plugins/$plugin/manifest.toml" ] || [ "$plugin" = reference ] || fail "gpu-bundle: expected names of plugins, found '$plugin'"
  done
  dev_setup
  dev_build release product mortise_device_speed
  rm -rf .gpu && mkdir -p "$folder"/{bin,lib/mortise/plugins,python}
  cp "$build"/bin/{mortise,mortise-conformance,mortise-worker,mortise_device_speed} "$folder/bin/"
  cp -P "$build"/lib/libmortise.so* "$folder/lib/"
  for plugin in "$@"; do cp "$build/lib/mortise/plugins/libmortise_$plugin".{so,toml} "$folder/lib/mortise/plugins/"; done
  cp -rL "$build/python/torch_mortise" "$folder/python/"
  # The cpu plugin looks for oneDNN beside itself first.
  cp -L "$(find .venv/ -name 'libdnnl.so.3' | head -n 1)" "$folder/lib/mortise/plugins/"
  strip "$folder"/bin/* "$folder"/lib/libmortise.so.0.* "$folder"/python/torch_mortise/*.so "$folder/lib/mortise/plugins/libdnnl.so.3"
  for library in "$folder"/lib/mortise/plugins/libmortise_*.so; do strip_plugin "$library"; done
  step "packing .gpu/bundle.tar.xz" tar -C .gpu -cf .gpu/bundle.tar.xz --use-compress-program='xz -T0' build
  rm -rf .gpu/build
  bundle_commit >.gpu/commit
  local bytes
  bytes=$(stat -c %s .gpu/bundle.tar.xz)
  [ "$bytes" -le $((60 << 20)) ] || fail "gpu-bundle: expected at most 60 MiB, which fit on the way to the machine; found $((bytes >> 20)) MiB"
  say "the bundle is .gpu/bundle.tar.xz ($((bytes >> 20)) MiB); carry .gpu with the working tree, and run there: bash tools/gpu/run.sh --help"
}
