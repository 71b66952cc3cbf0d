# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Functions that ./dev calls, from the repository's root: set-up, build, docs, SDK.
ROOT=$PWD
VENV=$ROOT/.venv
export CCACHE_BASEDIR=$ROOT CCACHE_NOHASHDIR=1 CCACHE_DIR=$ROOT/.cache/ccache CCACHE_MAXSIZE=10G
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
STARTED=$SECONDS

say() { printf '[%4ss] %s\n' $((SECONDS - STARTED)) "$*" >&3; }
fail() { printf 'dev: %s\n' "$*" >&2; exit 1; }

# step TEXT COMMAND...: runs the command without output and prints its time; on failure prints the end of its output.
step() {
  local text=$1 log=$ROOT/build/log/${1//[^a-z0-9]/-}.txt begin=$SECONDS
  shift
  mkdir -p build/log
  say "$text ..."
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "$text failed; the whole output is in $log"
  fi
  say "$text: done in $((SECONDS - begin)) s"
}

packages() { grep -vE '^ *(#|$)' tools/setup/apt.txt; }

install_packages() {
  local missing=() have
  have=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 2>/dev/null | awk '$1 == "ii" { print $2 }')
  for package in $(packages); do
    grep -qx "$package" <<<"$have" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || fail "setup: expected Debian 12 with apt-get; install these by hand: ${missing[*]}"
  local sudo=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "setup: not root, and there is no sudo; as root run: apt-get install ${missing[*]}"
    sudo=(sudo)
    sudo true # asks for the password while output is still visible
  fi
  step "apt-get update" "${sudo[@]}" apt-get -q update
  step "installing ${#missing[@]} Debian packages" \
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
}

# Installs the CPU build. PyPI's wheel comes last, because it brings gigabytes of GPU libraries.
install_torch() {
  local version=$1
  "$VENV/bin/pip" install "torch==$version+cpu" && return 0
  say "  no CPU build at the configured package indexes; trying https://download.pytorch.org/whl/cpu"
  "$VENV/bin/pip" install --index-url https://download.pytorch.org/whl/cpu "torch==$version" && return 0
  say "  not reachable; taking PyPI's torch==$version, with the GPU libraries that it brings"
  "$VENV/bin/pip" install "torch==$version"
}

install_venv() {
  [ -x "$VENV/bin/pip" ] || step "making .venv" /usr/bin/python3 -m venv "$VENV"
  local version
  version=$(sed -n 's/^torch==//p' tools/setup/torch.txt)
  if ! compgen -G "$VENV/lib/python3*/site-packages/torch-$version*.dist-info" >/dev/null; then
    step "installing PyTorch $version" install_torch "$version"
  fi
  step "installing Python packages" "$VENV/bin/pip" install -r tools/setup/requirements.txt
  step "installing Python packages without dependencies" "$VENV/bin/pip" install --no-deps -r tools/setup/no-deps.txt
}

dev_setup() {
  local stamp=.venv/.mortise-setup wanted
  wanted=$(cat tools/setup/*.txt | sha256sum)
  if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then return 0; fi
  say "setting up (tools/setup/ lists the packages)"
  install_packages
  install_venv
  echo "$wanted" >"$stamp"
}

dev_check_preset() {
  case "$1" in dev | release | asan | tsan) ;; *) fail "build: expected dev, release, asan or tsan; found '$1'" ;; esac
}

# dev_build PRESET [TARGET...]: builds everything, or these targets.
dev_build() {
  local preset=$1
  shift
  local targets=("${@:-all}")
  dev_check_preset "$preset"
  # Not from the cache of a configuration that failed: what it did not find may be installed by now.
  [ -f "build/$preset/build.ninja" ] || step "configuring $preset" cmake --fresh --preset "$preset"
  say "building $preset"
  mkdir -p build/log
  # On a terminal, Ninja shows its progress; elsewhere, print some of its lines.
  if [ -t 1 ]; then
    cmake --build "build/$preset" --target "${targets[@]}" || fail "the $preset build failed"
  else
    NINJA_STATUS='[%f/%t] ' cmake --build "build/$preset" --target "${targets[@]}" 2>&1 | tee "build/log/build-$preset.txt" | sparse_progress ||
      fail "the $preset build failed; the whole output is in build/log/build-$preset.txt"
  fi
  say "built $preset"
}

# Passes every 25th status line of Ninja, and all other lines (warnings, errors) but those of installed files.
sparse_progress() {
  awk '/^\[[0-9]+\/[0-9]+\]/ { if (++n % 25 == 0) { print; fflush() } next } /^-- (Install|Up-to-date)/ { next } { print; fflush() }' >&2
}

# dev_check_arguments SCRIPT ARGUMENT...: fails when the script refuses its arguments, which it says before anything is built.
# Ends here when they ask for no more than text.
dev_check_arguments() {
  local argument
  for argument in "${@:2}"; do
    case "$argument" in -h | --help | --list) exec "$VENV/bin/python" "$@" ;; esac
  done
  "$VENV/bin/python" "$@" --check-arguments
}

# Whoever owns the checkout has had this script run: plugins built here are as trusted.
checkout_owner="$(stat -c %u .)"
if [ "$checkout_owner" != 0 ] && [ "$checkout_owner" != "$(id -u)" ]; then
  export MORTISE_PLUGIN_OWNERS="$checkout_owner"
fi

# dev_python PRESET FILE...: runs Python with that build's package, registered so that PyTorch finds its entry point.
dev_python() {
  local preset=$1
  shift
  "$VENV/bin/python" frontend/torch/register.py "build/$preset/python" >/dev/null
  PYTHONPATH="$ROOT/build/$preset/python${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 "$VENV/bin/python" "$@"
}

dev_docs() {
  dev_setup
  # docs/aten.md is recorded from a build.
  compgen -G "build/*/python/torch_mortise/_native.abi3.so" >/dev/null || dev_build dev product
  "$VENV/bin/python" tools/generate "$@"
}

dev_sdk() {
  local folder
  folder=$(realpath -m "$1")
  dev_setup
  dev_build release sdk-codegen mortise-cli mortise-worker mortise-conformance
  for component in abi codegen tools; do
    cmake --install build/release --prefix "$folder" --component $component --strip >/dev/null
  done
  cp "$folder/share/mortise/sdk/README.md" "$folder/README.md"
  tar -C "$(dirname "$folder")" -czf "$folder.tar.gz" "$(basename "$folder")"
  say "the SDK is in $folder and $folder.tar.gz; its README.md begins with a plugin in 30 minutes"
}

dev_wheel() {
  dev_setup
  dev_build release product
  "$VENV/bin/python" tools/wheel/wheel.py "$1" || fail "wheel: see above"
  say "the wheels are in $1; install them beside PyTorch: pip install $1/torch_mortise-*.whl"
}
