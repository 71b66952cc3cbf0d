# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums over torch_mortise.last_report(): coverage, time per lowering, compile time, placement."""

from __future__ import annotations

from collections import Counter


def programs(report: dict) -> list[dict]:
    """The reports of all compiled programs in a model's report."""
    return [graph["program"] for graph in report["graphs"] if graph.get("program")]


def coverage(report: dict, device: str) -> float:
    """The share of all operators that run on `device`. Operators that run in eager count as not covered."""
    placed = total = 0
    for graph in report["graphs"]:
        total += len(graph["eager"])
        for region in (graph.get("program") or {}).get("placement", []):
            total += len(region["nodes"])
            placed += len(region["nodes"]) if region["device"] == device else 0
    return placed / total if total else 0.0


def placement(report: dict) -> dict[str, int]:
    """The number of operators by device; "eager" for those left to PyTorch."""
    counts: Counter = Counter()
    for graph in report["graphs"]:
        counts["eager"] += len(graph["eager"])
        for region in (graph.get("program") or {}).get("placement", []):
            counts[region["device"]] += len(region["nodes"])
    return {device: count for device, count in counts.items() if count}


def steps(report: dict) -> list[dict]:
    """Every step of every region, with the device that it ran on."""
    return [dict(step, device=region["device"]) for program in programs(report) for region in program["placement"]
            for step in region["steps"]]


def time_share(report: dict) -> dict[str, float]:
    """Share of the profiled time per lowering, largest first."""
    totals: Counter = Counter()
    for step in steps(report):
        totals[step["lowering"]] += step["ns"]
    whole = sum(totals.values())
    return {lowering: ns / whole for lowering, ns in totals.most_common() if whole}


def backend_seconds(report: dict) -> dict:
    """Wall clock of our backend's calls: `call` runs from the arrival of Dynamo's graph to the backend's return, without PyTorch's own
    trace in between; `late` and `bind` are what first calls of the compiled graphs added, for shapes that came late and for weights that
    were not packed yet. `stages` are clocks inside `call` and `late`; `not_in_stages` is the rest. `packing` is the time that packing
    took, which begins on another thread when a graph is compiled."""
    graphs = {graph["name"]: graph["wall_s"] for graph in report["graphs"]}  # one entry for each set of shapes
    parts = {"call": sum(graphs.values()), "late": sum(graph["late_s"] for graph in report["graphs"]),
             "bind": sum(graph["bind_s"] for graph in report["graphs"])}
    stages: Counter = Counter()
    for graph in report["graphs"]:
        stages["import"] += graph["import_s"]
        for program in graph["programs"]:
            stages.update(program.get("compile_s", {}))
    packing = stages.pop("bind", 0.0)
    return {"total": sum(parts.values()), "parts": parts, "stages": dict(stages), "packing": packing,
            "not_in_stages": parts["call"] + parts["late"] - sum(stages.values())}
