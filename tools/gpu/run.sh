#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Runs on a machine with a GPU, in a copy of the working tree with what `./dev gpu-bundle` has packed in .gpu. Needs Python with PyTorch.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
tools/gpu/run.sh [device=NAME] PART...   on cuda, or another plugin's device; each of:
  conformance[=LEVELS]     a few cases of each op at all levels, or at these (core,composite,...)
  full[=LEVELS]            all cases: by default of the levels core, composite and dynamic
  test                     the door's tests that need a GPU
  figure='NAME ARGUMENT..' a figure, kept in $OUT unless the arguments make a part of it
  profile=NETWORK          the kernels of one replayed call, ours and reduce-overhead's (a network of the figure cuda-peers)
TEXT
}

case "${1:---help}" in --help | -h) usage && exit 0 ;; esac
[ -f .gpu/bundle.tar.xz ] || {
  echo "tools/gpu/run.sh: expected .gpu/bundle.tar.xz, found none: make it with ./dev gpu-bundle, and carry .gpu with the working tree" >&2
  exit 2
}
OUT=${OUT:-$PWD/.gpu/out}
DEVICE=cuda
case "$1" in device=*) DEVICE=${1#*=} && shift ;; esac
mkdir -p "$OUT"
# Once: a process that runs beside this one has its libraries loaded.
if ! cmp -s .gpu/bundle.tar.xz .gpu/unpacked; then
  tar -xJf .gpu/bundle.tar.xz
  cp .gpu/bundle.tar.xz .gpu/unpacked
fi
python3 frontend/torch/register.py build/release/python >/dev/null
export PYTHONPATH="$PWD/build/release/python${PYTHONPATH:+:$PYTHONPATH}" HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
# The kit does not load PyTorch, whose copies of cuBLASLt and cuDNN the plugin would find.
libraries_of_pytorch() {
  local packages found
  packages=$(python3 -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parents[1] / "nvidia")')
  library_of_pytorch() { find "$packages" -path "*/lib/$1" 2>/dev/null | sort | head -n 1; }
  [ -n "${MORTISE_CUDA_CUBLASLT:-}" ] || MORTISE_CUDA_CUBLASLT=$(library_of_pytorch 'libcublasLt.so.*')
  [ -n "${MORTISE_CUDA_CUDNN:-}" ] || MORTISE_CUDA_CUDNN=$(library_of_pytorch 'libcudnn.so.*')
  [ -z "$MORTISE_CUDA_CUBLASLT" ] || export MORTISE_CUDA_CUBLASLT
  [ -n "$MORTISE_CUDA_CUDNN" ] || return 0
  export MORTISE_CUDA_CUDNN # it looks for cuBLAS and NVRTC itself
  for library in 'libcublas.so.*' 'libnvrtc.so.*'; do
    found=$(library_of_pytorch "$library")
    [ -z "$found" ] || LD_LIBRARY_PATH=$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  done
  export LD_LIBRARY_PATH
}
# Another plugin's settings are unknown to a kit that has only this one.
[ "$DEVICE" != cuda ] || libraries_of_pytorch
status=0

# Levels whose cases fill the device's memory have it alone. A driver reserves more address space than any limit for a worker's memory
# would leave. Status 4 says that nothing was executed: no op of quantised numbers runs there yet.
judge() {
  local name=$1 levels=$2 level
  shift 2
  for level in ${levels//,/ }; do
    echo "== $name $level"
    local answer=0 jobs=8
    case $level in abi | stress) jobs=1 ;; esac
    build/release/bin/mortise-conformance --plugin "build/release/lib/mortise/plugins/libmortise_$DEVICE.so" --level "$level" --jobs $jobs \
      --memory $((1 << 46)) --expectations "plugins/$DEVICE/expectations.toml" --report "$OUT/$name-$level" "$@" >"$OUT/$name-$level.log" 2>&1 ||
      answer=$?
    tail -n 12 "$OUT/$name-$level.log"
    [ "$answer" = 0 ] || [ "$level $answer" = "quantised 4" ] || status=1
  done
}

for part in "$@"; do
  value=${part#*=}
  case "$part" in
    conformance) judge quick core,composite,dynamic,quantised,training,models,abi --quick ;;
    conformance=*) judge quick "$value" --quick ;;
    full) judge full core,composite,dynamic ;;
    full=*) judge full "$value" ;;
    test)
      python3 -c "import pytest" || { echo "tools/gpu/run.sh: test needs pytest: carry its wheels, and pip install them" >&2 && exit 2; }
      python3 -m pytest -q frontend/torch/test/test_cuda.py || status=1
      ;;
    figure=*)
      read -ra words <<<"$value"
      kept=bench/results/${words[0]:?expected figure=NAME, found no name}.json
      rm -f "$kept" # so that no earlier run is taken for this one: a part of a figure is not kept
      python3 bench/figure.py --save "${words[@]}" || status=1
      [ ! -f "$kept" ] || cp "$kept" "$OUT/"
      ;;
    profile=*) python3 bench/kernel_times.py "$value" "$OUT" || status=1 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
exit $status
