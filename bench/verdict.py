# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether a figure's result can be believed: it must state a verdict, contain something, and not contradict itself."""

from __future__ import annotations

import math

# The parts of a result that contain measurements; an empty one means that nothing was measured.
MEASURED = ("rows", "networks", "levels", "ratio", "groups", "table", "by_composite")


def problems(result) -> list[str]:
    """Why a result is not a pass; empty for a pass. A result has `passed` as a bool, or counts `passed` and `failed`; it may also have
    `holds`."""
    if not isinstance(result, dict) or not result:
        return ["the result is empty"]
    found = []
    if "error" in result and isinstance(result["error"], str):
        found.append(result["error"])
    found += _verdict(result)
    found += [f"{key} is empty: nothing was measured" for key in MEASURED if key in result and not result[key]]
    found += _inside(result, "")
    return list(dict.fromkeys(found))


def _verdict(result: dict) -> list[str]:
    passed, found = result.get("passed"), []
    if isinstance(passed, bool):
        if not passed:
            found.append("passed is false")
    elif _is_count(passed):
        failed = result.get("failed")
        if not _is_count(failed):
            found.append(f"expected `failed`, a count, beside {passed} passed; found {failed!r}")
        elif failed:
            found.append(f"{failed} failed")
        if not passed:
            found.append("passed is 0: nothing was measured")
    elif "holds" not in result:
        found.append(f"the result states no verdict: expected `passed`, a bool or a count, found {passed!r}")
    if "holds" in result and result["holds"] is not True:
        found.append(f"holds is {result['holds']!r}")
    return found


def _is_count(value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _inside(value, place: str) -> list[str]:
    """Numbers that are not finite, and parts that say that they did not pass, anywhere in the value."""
    found = []
    if isinstance(value, float) and not math.isfinite(value):
        found.append(f"{place} is {value}")
    elif isinstance(value, dict):
        if place and value.get("passed") is False:
            found.append(f"{place} did not pass")
        if place and isinstance(value.get("problem"), str) and value["problem"]:
            found.append(f"{place}: {value['problem']}")
        for key, part in value.items():
            found += _inside(part, f"{place}.{key}" if place else str(key))
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            found += _inside(part, f"{place}[{number}]")
    return found


def printable(value):
    """The same value without numbers that JSON lacks: NaN and infinities become null."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: printable(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable(part) for part in value]
    return value
