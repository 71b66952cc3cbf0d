# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# ./dev fmt and ./dev lint.

# Files that clang-format formats. Tables and generated code keep their own layout.
formatted_files() {
  git ls-files --cached --others --exclude-standard '*.c' '*.cpp' '*.h' '*.hpp' | grep -vxFf tools/dev/unformatted.txt
}

dev_fmt() {
  local clang_format=clang-format-22
  command -v $clang_format >/dev/null || fail "fmt: expected $clang_format; ./dev setup installs it"
  case "${1:-}" in
    '') formatted_files | xargs $clang_format -i ;;
    --check) formatted_files | xargs $clang_format --dry-run --Werror || fail "fmt: ./dev fmt mends what is named above" ;;
    *) fail "fmt: expected nothing or --check, found '$1'" ;;
  esac
}

# Prints the files to lint: all, or those that differ from the main branch or are not committed.
lint_files() {
  if [ "${1:-}" = --all ]; then
    git ls-files --cached --others --exclude-standard
  else
    { git diff --name-only --diff-filter=d "$(git merge-base HEAD "${MORTISE_DEV_LINT_BASE:-HEAD~1}")" && git ls-files --others --exclude-standard; } | sort -u
  fi
}

dev_lint() {
  case "${1:-}" in '' | --all) ;; *) fail "lint: expected nothing or --all, found '$1'" ;; esac
  dev_setup
  local files failed=0
  files=$(lint_files "${1:-}")
  say "format"
  dev_fmt --check || failed=1
  say "clang-tidy"
  [ -f build/dev/compile_commands.json ] || dev_build dev
  # Update precompiled and generated headers: a stale one causes errors in every file that includes it.
  ninja -C build/dev $(ninja -C build/dev -t targets all | sed -n 's/^\(.*cmake_pch\.hxx\.pch\): .*/\1/p') >/dev/null || failed=1
  "$VENV/bin/python" tools/dev/tidy.py build/dev $files || failed=1
  say "ruff"
  { grep '\.py$' <<<"$files" || true; } | xargs -r "$VENV/bin/ruff" check --quiet || failed=1
  say "generated files"
  "$VENV/bin/python" tools/generate --check || failed=1
  [ $failed = 0 ] || fail "lint: see above"
  say "lint: clean"
}
