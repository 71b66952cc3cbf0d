#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# at_isa.sh LEVEL COMMAND...: runs COMMAND with generated code, our own loops and oneDNN restricted to an x86-64 level.
# Exits with 77, which ctest counts as skipped, when the machine lacks the level.
level=$1
shift
case "$level" in
  x86-64-v2) needs="sse4_2 popcnt" ;;
  x86-64-v3) needs="avx2 fma f16c bmi2 abm movbe" ;;
  x86-64-v4) needs="avx512f avx512bw avx512cd avx512dq avx512vl" ;;
  *) echo "at_isa.sh: expected x86-64-v2, x86-64-v3 or x86-64-v4, found '$level'" >&2; exit 2 ;;
esac
flags=" $(grep -m 1 '^flags' /proc/cpuinfo) "
for flag in $needs; do
  case "$flags" in *" $flag "*) ;; *) echo "skipped: this machine has no $flag, which $level needs"; exit 77 ;; esac
done
MORTISE_CPU_ISA=$level exec "$@"
