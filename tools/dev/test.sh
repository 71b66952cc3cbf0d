# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ./dev test: everything that can be run on this machine, and one line of totals.

# lit suites: folders with a lit.cfg.py. Every other test is ctest's or pytest's.
lit_suites() { git ls-files --cached --others --exclude-standard '*lit.cfg.py' | xargs -rn1 dirname; }

dev_test() {
  case "${1:-}" in '') ;; --full) export MORTISE_TEST_FULL=1 ;; *) fail "test: expected nothing or --full, found '$1'" ;; esac
  dev_setup
  dev_build dev
  local reports=$ROOT/build/dev/reports failed=0
  rm -rf "$reports"
  mkdir -p "$reports"

  say "GoogleTest and checks of the house (ctest)"
  ctest --test-dir build/dev --output-on-failure --no-tests=error -j 2 --timeout 600 --output-junit "$reports/ctest.xml" |
    quiet_passes || failed=1
  say "IR (lit)"
  MORTISE_BUILD=$ROOT/build/dev "$VENV/bin/lit" -q --xunit-xml-output "$reports/lit.xml" $(lit_suites) || failed=1
  say "Python (pytest)"
  # Two runs, because both have files of the same name.
  dev_python dev -m pytest -q -ra --junitxml "$reports/pytest-torch.xml" frontend/torch/test || failed=1
  dev_python dev -m pytest -q -ra --junitxml "$reports/pytest-tests.xml" tests || failed=1

  "$VENV/bin/python" tools/dev/totals.py "$reports" ctest lit pytest-torch pytest-tests || failed=1
  return $failed
}

# ctest's lines but those of tests that passed.
quiet_passes() {
  grep -vE '^ *Start +[0-9]+:|Passed +[0-9.]+ sec$' || true
}
