# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""interpret(op) == interpret(decompose(op)) for every composite op, also on special values: one level, whole, and canonicalised, in every
element type that the op takes, for shapes that are empty, of one element, and odd.

Equal means: for each element, both results lie in the range that rounding explains, computed in interval arithmetic over the decomposition
(ir/test/ranges.hpp). Infinities must be in the range, and NaN must be in the same positions unless rounding decides about it. `open` counts
elements where rounding decides about NaN, or between infinity and numbers; `differing` counts those of them where one result was a number
and the other was not. `tight`: ranges of at most 8 units in the last place. Ops that are exact by their description must agree in every
bit. `symbolic`: decomposed for all values of symbols, then specialised."""

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
