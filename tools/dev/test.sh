# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ./dev test: runs the tests of the given presets and prints one line of totals.
#
#   dev, release  the suite: ctest (without lower instruction sets), lit, pytest
#   asan          C and C++ at the machine's own instruction set (ctest, lit), the PyTorch door's tests of bad input, whole calls and devices
#   tsan          tests of code that runs on several threads (ctest)
#   isa           the C++ tests of the cpu plugin and of the code generator at lower instruction sets, on the release build (ctest, label isa)
#
# and of the first four parts, such as asan-2/3. The parts are:
#
#   dev, release  1/3 ctest and lit; 2/3 the PyTorch door, bad input and the conformance kit; 3/3 the other tests in Python
#   asan          1/3 the language and the compiler; 2/3 code that runs on several threads; 3/3 the tests in Python
#   tsan          1/2 SDK and runtime; 2/2 C API, the cpu plugin and devices

# lit suites are the folders with a lit.cfg.py. ctest or pytest run all other tests.
lit_suites() { git ls-files --cached --others --exclude-standard '*lit.cfg.py' | xargs -rn1 dirname; }

dev_test() {
  export MORTISE_KERNEL_CACHE=off # a kernel from the disk would hide what its compilation does
  local parts=() argument
  for argument; do
    case "$argument" in
      --full) export MORTISE_TEST_FULL=1 ;;
      isa) parts+=(isa) ;;
      dev | release | asan) parts+=("$argument-1/3" "$argument-2/3" "$argument-3/3") ;;
      tsan) parts+=(tsan-1/2 tsan-2/2) ;;
      dev-[123]/3 | release-[123]/3 | asan-[123]/3 | tsan-[12]/2) parts+=("$argument") ;;
      *) fail "test: expected --full or presets (dev, release, asan, tsan, isa) or parts such as asan-1/3, found '$argument'" ;;
    esac
  done
  [ ${#parts[@]} -gt 0 ] || parts=(dev-1/3 dev-2/3 dev-3/3)
  dev_setup
  local reports=$ROOT/build/reports failed=0 names=() part
  rm -rf "$reports"
  mkdir -p "$reports"
  for part in "${parts[@]}"; do
    test_part "$part"
  done
  "$VENV/bin/python" tools/dev/totals.py "$reports" "${names[@]}" || failed=1
  return $failed
}

# Runs the suites of a part; adds to `names` and sets `failed` of dev_test.
test_part() {
  local preset=${1%-?/?}
  case "$1" in
    dev-1/3 | release-1/3)
      dev_build "$preset"
      run_ctest "$preset" "$ROOT/build/$preset" "$preset-ctest" -LE isa
      run_lit "$preset" "$ROOT/build/$preset" ;;
    dev-2/3 | release-2/3) # runs of their own, because folders have files of the same names
      dev_build "$preset" all-but-gtest
      run_pytest "$preset" torch frontend/torch/test
      run_pytest "$preset" bad-input tests/bad_input tests/conformance ;;
    dev-3/3 | release-3/3)
      dev_build "$preset" all-but-gtest
      run_pytest "$preset" tests tests --ignore=tests/bad_input --ignore=tests/conformance ;;
    asan-1/3)
      run_folders asan ir/portable ir passes tests/fuzz tests/checks
      dev_build asan mortise-opt
      run_lit asan "$ROOT/build/asan" ;;
    asan-2/3) run_folders asan sdk runtime frontend/capi tests/cpu tests/devices ;;
    asan-3/3)
      dev_build asan product strict_device
      ASAN_PRELOAD=1 run_pytest asan torch frontend/torch/test/test_door.py frontend/torch/test/test_weights.py frontend/torch/test/test_devices.py
      ASAN_PRELOAD=1 run_pytest asan tests tests/bad_input ;;
    tsan-1/2) run_folders tsan sdk runtime ;;
    tsan-2/2) run_folders tsan frontend/capi tests/cpu tests/devices ;;
    isa)
      dev_build release cpu_vs_reference_test mortise_codegen_tests
      run_ctest release "$ROOT/build/release/tests/cpu" isa-ctest -L isa ;;
  esac
}

# run_folders PRESET FOLDER...: builds these folders of the build and no others, and runs their tests, lower instruction sets aside.
run_folders() {
  local preset=$1 folder
  shift
  dev_build "$preset" $(printf '%s/all ' "$@")
  for folder; do
    run_ctest "$preset" "$ROOT/build/$preset/$folder" "$preset-${folder//\//-}" -LE isa
  done
}

run_ctest() {
  local preset=$1 folder=$2 name=$3
  shift 3
  say "$name: GoogleTest and checks of the house (ctest)"
  names+=("$name")
  sanitizer_settings "$preset" ctest --test-dir "$folder" --output-on-failure --no-tests=error -j 2 --timeout 900 \
    --output-junit "$reports/$name.xml" "$@" | quiet_passes || failed=1
}

run_lit() {
  local preset=$1 build=$2
  say "$preset-lit: IR (lit)"
  names+=("$preset-lit")
  MORTISE_BUILD=$build sanitizer_settings "$preset" "$VENV/bin/lit" -q --xunit-xml-output "$reports/$preset-lit.xml" $(lit_suites) || failed=1
}

run_pytest() {
  local preset=$1 suite=$2 name=$1-pytest-$2
  shift 2
  say "$name: Python (pytest)"
  names+=("$name")
  sanitizer_settings "$preset" dev_python "$preset" -m pytest -q -ra -n 2 --continue-on-collection-errors --junitxml "$reports/$name.xml" "$@" || failed=1
}

# sanitizer_settings PRESET COMMAND...: runs the command with the settings of its sanitizer. LLVM's shared library is not instrumented.
# Its headers poison memory in our code that the library does not unpoison (arenas, containers), and unlock mutexes in our code that the
# library locked, so these checks are off.
sanitizer_settings() {
  local preset=$1 leaks=1 preload=
  shift
  # Mesa's threads and allocations are not instrumented: without a driver, what needs a device with Vulkan is skipped.
  case "$preset" in asan | tsan) local -x VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent ;; esac
  if [ -n "${ASAN_PRELOAD:-}" ]; then # Python keeps memory until the process ends
    leaks=0
    preload=$(clang-22 -print-file-name=libclang_rt.asan-x86_64.so)
  fi
  case "$preset" in
    asan)
      LD_PRELOAD=$preload UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1 LSAN_OPTIONS=suppressions=$ROOT/tools/dev/leaks.supp:print_suppressions=0 \
        ASAN_OPTIONS=detect_leaks=$leaks:detect_container_overflow=0:allow_user_poisoning=0:allocator_may_return_null=1 "$@" ;;
    tsan) TSAN_OPTIONS=halt_on_error=1:report_mutex_bugs=0:second_deadlock_stack=1:suppressions=$ROOT/tools/dev/races.supp "$@" ;;
    *) "$@" ;;
  esac
}

# Removes the lines of passed tests from ctest's output.
quiet_passes() {
  grep -vE '^ *Start +[0-9]+:|Passed +[0-9.]+ sec$' || true
}
