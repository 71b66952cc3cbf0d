# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sums over torch_mortise.last_report(): coverage, time per lowering, compile time, placement."""

from __future__ import annotations

from collections import Counter


def programs(report: dict) -> list[dict]:
    """The report of every compiled program in a model's report."""
    return [graph["program"] for graph in report["graphs"] if graph.get("program")]


def coverage(report: dict, device: str) -> float:
    """Share of all operators that run on `device`; those run in eager count as not covered."""
    placed = total = 0
    for graph in report["graphs"]:
        total += len(graph["eager"])
        for region in (graph.get("program") or {}).get("placement", []):
            total += len(region["nodes"])
            placed += len(region["nodes"]) if region["device"] == device else 0
    return placed / total if total else 0.0


def placement(report: dict) -> dict[str, int]:
    """Operators by device; "eager" for those left to PyTorch."""
    counts: Counter = Counter()
    for graph in report["graphs"]:
        counts["eager"] += len(graph["eager"])
        for region in (graph.get("program") or {}).get("placement", []):
            counts[region["device"]] += len(region["nodes"])
    return {device: count for device, count in counts.items() if count}


def steps(report: dict) -> list[dict]:
    """Every step of every region, with the device it ran on."""
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
    """Time inside our backend, from the graphs' arrival until kernels and packed weights were ready."""
    stages: Counter = Counter()
    for graph in report["graphs"]:
        stages["import"] += graph["import_s"]
        stages.update((graph.get("program") or {}).get("compile_s", {}))
    return {"total": sum(stages.values()), "stages": dict(stages)}
