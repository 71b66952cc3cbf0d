# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""interpret(op) == interpret(decompose(op)) for every composite op, on hostile values too: one level, whole, and
canonicalised, in every element type that the op takes, for shapes empty, of one element and odd.

Equal means: both results lie in the range that rounding explains, for each element by itself, computed in interval
arithmetic over the decomposition (ir/test/ranges.hpp); infinities are those that the range allows, and NaN stands in the
same places unless rounding decides about it. `open` counts elements where it does, or decides between infinity and
numbers; `differing` those of them where the two gave a number and none. `tight`: ranges of at most 8 last places. Ops
that are exact by their description agree in every bit. `symbolic`: decomposed for all values of symbols, then
specialised."""

MEASURES = "composites x dtypes x shapes x hostile values whose decomposition computes what the op does"
NEEDS = "the product build"
MINUTES = 1


def measure(arguments: list[str]) -> dict:
    import json
    import subprocess

    from measure import built, progress

    program = built("bin/mortise-decompositions")
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False)
    for line in done.stderr.splitlines()[:40]:
        progress(f"FAILED {line}")
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{program.name} ended with code {done.returncode}: {done.stderr[-2000:]}")
    result = json.loads(done.stdout)
    progress(f"{result['composites']} composites, {result['elements']} elements; left open by rounding {result['open']}, "
             f"of these {result['differing']} a number from one and none from the other")
    return result
