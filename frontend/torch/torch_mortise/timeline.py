# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The calls of the last profiling block over time, as a trace for Perfetto and as a part of the HTML page."""

import html
import json
import resource

MICROSECONDS = 1e6
CALLS, STEPS = 1, 2  # numbers of the tracks


def resident_bytes():
    """The memory of this process that is in RAM; its peak where the system does not tell the present value."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def steps_of(graph):
    """(name, lowering, nanoseconds) of the steps that were measured, in their order."""
    placed = [region for program in graph["programs"] for region in program.get("placement", [])]
    return [(s["name"], s["lowering"], s["ns"]) for region in placed for s in region.get("steps", []) if s.get("ns")]


def trace(report):
    """The text of a trace that https://ui.perfetto.dev and chrome://tracing open. The times of calls are those of the clock; each graph's
    steps lie one after another in its last call, because only their durations are measured."""
    tracks = ((CALLS, "calls"), (STEPS, "steps"))
    events = [{"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": name}} for tid, name in tracks]

    def span(tid, name, start_s, length_s, **arguments):
        events.append({"ph": "X", "pid": 1, "tid": tid, "name": name, "ts": start_s * MICROSECONDS, "dur": length_s * MICROSECONDS,
                       "args": arguments})

    last = {call["graph"]: call for call in report["calls"]}
    graphs = {graph["name"]: graph for graph in report["graphs"]}
    for call in report["calls"]:
        graph = graphs.get(call["graph"], {})
        span(CALLS, call["graph"], call["start_s"], call["s"], symbols=graph.get("symbols", {}), coverage=graph.get("coverage"))
        events.append({"ph": "C", "pid": 1, "name": "memory", "ts": (call["start_s"] + call["s"]) * MICROSECONDS,
                       "args": {key: call[key] for key in ("resident_bytes", "output_pool_bytes")}})
    for name, call in last.items():
        at = call["start_s"]
        for step, lowering, ns in steps_of(graphs[name]) if name in graphs else ():
            span(STEPS, step, at, ns * 1e-9, lowering=lowering)
            at += ns * 1e-9
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"})


def rows(report):
    """HTML: the calls as bars over time, the memory behind each, and why functions were traced again; "" without a profiling block."""
    calls = report["calls"]
    again = "".join(f"<tr><td>{html.escape(g['name'])}<td>{html.escape(g['recompiled'])}</tr>" for g in report["graphs"] if g["recompiled"])
    parts = [f"<h2>Traced again, and why</h2><table><tr><th>graph<th>guard that failed</tr>{again}</table>"] if again else []
    if calls:
        end = max(call["start_s"] + call["s"] for call in calls) or 1.0
        most = max(call["resident_bytes"] for call in calls) or 1
        bars = "".join(
            f'<div title="{html.escape(c["graph"])}: {c["s"] * 1e3:.3f} ms" style="position:absolute;height:1.4em;background:#47c;'
            f'left:{100 * c["start_s"] / end:.3f}%;width:max(1px,{100 * c["s"] / end:.3f}%)"></div>' for c in calls
        )
        points = " ".join(f"{1000 * (c['start_s'] + c['s']) / end:.1f},{100 - 95 * c['resident_bytes'] / most:.1f}" for c in calls)
        parts.append(
            f'<h2>Calls over {end * 1e3:.3f} ms</h2><div style="position:relative;height:1.6em;background:#f4f4f4">{bars}</div>'
            f'<h2>Memory over time, at most {most / 2**20:.1f} MiB in RAM</h2><svg viewBox="0 0 1000 100" preserveAspectRatio="none" '
            'style="width:100%;height:6em;background:#f4f4f4">'
            f'<polyline points="{points}" fill="none" stroke="#2a7" stroke-width="2"/></svg>'
        )
    return "".join(parts)
