# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Frameworks under the judge: `mortise-conformance --outside` writes cases of one op each, and judges what another computes for them."""

from __future__ import annotations

import json
import subprocess

import kit


class Refused(Exception):
    """The framework has no such op, or not for these types or attributes."""


def equation(n, lhs_rank: int, rhs_rank: int) -> str:
    """The product `dot` with the attributes n, as einsum has it."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    left = [next(letters) for _ in range(lhs_rank)]
    right = [next(letters) for _ in range(rhs_rank)]
    left_paired, right_paired = n["lhs_batch"] + n["lhs_contract"], n["rhs_batch"] + n["rhs_contract"]
    for i, j in zip(left_paired, right_paired, strict=True):
        right[j] = left[i]
    out = [left[i] for i in n["lhs_batch"]]
    out += [name for i, name in enumerate(left) if i not in left_paired]
    out += [name for j, name in enumerate(right) if j not in right_paired]
    return f"{''.join(left)},{''.join(right)}->{''.join(out)}"


def judge(compute, names, *arguments) -> list[dict]:
    """The verdicts on what `compute` gives for the cases that the arguments choose, of the ops `names` unless they name others. It takes
    a case and the bytes of its operands, None for those left out, and returns the bytes of the result, or raises Refused."""
    chosen = list(arguments) if "--op" in arguments else [*arguments, "--op", ",".join(names)]
    verdicts = []
    with subprocess.Popen([str(kit.KIT), "--outside", *map(str, chosen)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        while line := child.stdout.readline():
            case = json.loads(line)
            data = [None if type is None else bytearray(child.stdout.read(type["bytes"])) for type in case["operands"]]
            try:
                answer = json.dumps({}).encode() + b"\n" + compute(case, data)
            except Refused as why:
                answer = json.dumps({"refused": str(why)}).encode() + b"\n"
            child.stdin.write(answer)
            child.stdin.flush()
            verdicts.append(json.loads(child.stdout.readline()))
    if child.returncode:
        raise RuntimeError(f"mortise-conformance --outside: exit status {child.returncode}")
    return verdicts
