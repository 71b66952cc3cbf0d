# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where every region ran and why: `last_report()`, `profiling()` and `explain()`."""

import collections
import contextlib
import html
import json
import time
import weakref

import torch
from torch._dynamo.utils import counters

from . import caches, timeline
from .fallback import forget, site
from .importer import by_design
from .pool import pool
from .region import NoProgram

# A Profile for each open `profiling` block. A call only checks whether any block is open.
collecting = []
_recent = collections.deque(maxlen=256)  # weak references to graphs, newest last
_profiled = None  # the Profile of the last profiling block
_before = {}  # what Dynamo had counted at the last reset()


class Profile:
    """What ran in one `profiling` block."""

    def __init__(self):
        self.started = time.perf_counter()
        self.pairs = []  # (graph, key)
        self.calls = []  # as last_report() lists them


def compiled(graph):
    global _profiled
    _recent.append(weakref.ref(graph))
    _profiled = None
    caches.compiled(graph.options)


def collect(graph, key):
    for profile in collecting:
        if (graph, key) not in profile.pairs:
            profile.pairs.append((graph, key))


def called(graph, started):
    """Notes a call that ends now."""
    now, resident, pooled = time.perf_counter(), timeline.resident_bytes(), pool.report()["output_pool_bytes"]
    for profile in collecting:
        profile.calls.append({"graph": graph.name, "start_s": started - profile.started, "s": now - started, "resident_bytes": resident,
                              "output_pool_bytes": pooled})


def reset():
    """Forgets everything compiled so far: last_report() then covers later compilations, and reasons for running in eager are logged
    again."""
    global _profiled
    forget()
    _recent.clear()
    _profiled = None
    _before.update({name: collections.Counter(counters[name]) for name in ("graph_break", "frames")})


def _counted(name):
    """What Dynamo has counted since the last reset()."""
    return collections.Counter(counters[name]) - _before.get(name, collections.Counter())


def _graph_breaks():
    def short(reason):  # without hints
        return " ".join(reason.split("\n  Hint:")[0].split("\n\n")[0].replace("\n  Explanation:", ":").split())

    return [{"reason": short(reason), "count": count} for reason, count in _counted("graph_break").most_common()]


@contextlib.contextmanager
def profiling():
    """Measures the time of each step of the programs that run inside the block. Afterwards last_report() covers the graphs that ran in
    it."""
    global _profiled
    profile = Profile()
    collecting.append(profile)
    try:
        yield
    finally:
        collecting[:] = [other for other in collecting if other is not profile]
        _profiled = profile


def _entry(graph, key):
    programs, handles, notes = [], [], list(graph.notes)
    numbers = collections.Counter()
    pending = graph.is_pending()
    for region in () if pending else graph.regions:
        notes += region.notes
        for found in region.programs(key):
            if isinstance(found.program, NoProgram):
                continue
            for name in ("import_s", "compile_s", "bind_s", "binds", "late_s"):
                numbers[name] += found.record[name]
            programs.append(json.loads(found.program.report()))
            handles.append(found.program.handle)
    reasons = [] if pending else graph.eager_nodes()
    eager = [
        {"node": n.name, "op": str(n.target), "site": site(n), "reason": r, "by_design": by_design(n.target) is not None}
        for n, r in reasons
    ]
    total = graph.operator_count()
    return {
        "name": graph.name,
        "symbols": graph.key.described(key),
        "recompiled": graph.recompiled,
        "pending": pending,
        "operators": total,
        "coverage": (total - len(eager)) / total if total else 1.0,
        "eager": eager,
        "import_s": numbers["import_s"],
        "compile_s": programs[0].get("compile_s", {}) if programs else {},
        "compile_total_s": numbers["compile_s"],
        "bind_s": numbers["bind_s"],
        "binds": numbers["binds"],
        "wall_s": graph.wall_s,
        "late_s": numbers["late_s"],
        "backend_s": graph.wall_s + numbers["late_s"] + numbers["bind_s"],
        "handle": handles[0] if handles else 0,
        "program": programs[0] if programs else None,
        "programs": programs,
        "notes": notes,
    }


def _pairs():
    if _profiled is not None:
        return list(_profiled.pairs)
    pairs = []
    for reference in _recent:
        graph = reference()
        if graph is not None:
            regions = [] if graph.is_pending() else [region for region in graph.regions if region.key is graph.key]
            keys = {k: None for region in regions for k in list(region.specialisations)} or {(): None}
            pairs += [(graph, key) for key in keys]
    return pairs


def last_report():
    """A dictionary: {"coverage", "operators", "placement": {device: operators}, "time_share": {lowering: share}, "memory":
    {"output_pool_bytes", ...}, "calls": [...], "graphs": [...], "graph_breaks": [...], "frames_in_eager"}, one graph for each compiled
    specialisation; `program` in it is the C API's report.
    What runs in "eager" has its reason, and `by_design` if it always does: collectives, and the keys of random numbers.
    `recompiled` says why Dynamo traced the function of a graph anew, None for the first trace; `pending` whether a graph's first
    compilation is still under way (the option compile_timeout).
    "graph_breaks" are the places where Dynamo ended a graph since reset(), so that Python ran a piece in eager: {"reason", "count"};
    "frames_in_eager" counts functions that it could not compile at all. Both are of the process, other backends' functions included,
    and "coverage" knows nothing of them: fullgraph=True makes an error of each.
    "memory" describes the process: bytes that the pool of results keeps, those that are idle now, its blocks, hits and misses.
    "calls" are those of the last `profiling` block: {"graph", "start_s" since the block began, "s" until the call returned, which on a GPU
    is until its work was queued, and at its end "resident_bytes" of the process and "output_pool_bytes"}."""
    graphs = [_entry(graph, key) for graph, key in _pairs()]
    total = sum(g["operators"] for g in graphs)
    eager = sum(len(g["eager"]) for g in graphs)
    placement, times = collections.Counter(), collections.Counter()
    for graph in graphs:
        for program in graph["programs"]:
            for region in program.get("placement", []):
                placement[region["device"]] += sum(region["ops"].values())
                for step in region.get("steps", []):
                    times[step["lowering"]] += step.get("ns") or 0
    if eager:
        placement["eager"] = eager
    spent = sum(times.values())
    return {
        "coverage": (total - eager) / total if total else 1.0,
        "operators": total,
        "placement": dict(placement),
        "memory": pool.report(),
        "time_share": {k: v / spent for k, v in times.most_common()} if spent else {},
        "calls": list(_profiled.calls) if _profiled is not None else [],
        "graphs": graphs,
        "graph_breaks": _graph_breaks(),
        "frames_in_eager": max(0, _counted("frames")["total"] - _counted("frames")["ok"]),
    }


def _ops(part):
    """The ops of a region or candidate: "3 add, 1 relu"."""
    return ", ".join(f"{n} {op.removeprefix('mortise.')}" for op, n in sorted(part["ops"].items(), key=lambda i: -i[1]))


def _price(copy):
    if copy["latency_source"] is None:
        return "within one memory, not priced" if copy["from"] == copy["to"] else "priced with the copy before it"
    return (
        f"predicted {copy['predicted_ns'] / 1e3:.1f} us ({copy['latency_ns'] / 1e3:.4g} us, {copy['latency_source']}, and "
        f"{copy['bytes_per_second'] / 1e9:.4g} GB/s, {copy['bandwidth_source']}{'; over the host' if copy['over_host'] else ''})"
    )


class Explanation:
    """Where each region of a model ran and why. `report` is the dictionary of last_report(); str(), json() and html() show it."""

    def __init__(self, report):
        self.report = report

    def json(self, indent=1):
        return json.dumps(self.report, indent=indent)

    def __str__(self):
        r = self.report
        lines = [
            f"coverage {r['coverage']:.1%} of {r['operators']} operators; " + ", ".join(f"{n} on {d}" for d, n in r["placement"].items())
        ]
        for graph in r["graphs"]:
            symbols = ", ".join(f"{k} = {v}" for k, v in graph["symbols"].items())
            lines.append(
                f"graph {graph['name']}{f' ({symbols})' if symbols else ''}: import {graph['import_s'] * 1e3:.1f} ms, "
                f"compile {graph['compile_total_s'] * 1e3:.1f} ms, bind {graph['bind_s'] * 1e3:.1f} ms"
            )
            for program in graph["programs"]:
                lines += self._program_lines(program)
            lines += [f"  eager    {e['op']} ({e['node']}{e['site'] and ' at '}{e['site']}): {e['reason']}" for e in graph["eager"]]
            if graph["recompiled"]:
                lines.append(f"  again    traced anew, because a guard of an earlier trace failed: {graph['recompiled']}")
            lines += [f"  note     {n}" for n in graph["notes"]]
        for found in r["graph_breaks"]:
            times = "1 time" if found["count"] == 1 else f"{found['count']} times"
            lines.append(f"broken {times}, and Python ran a piece in eager: {found['reason']}")
        if r["frames_in_eager"]:
            lines.append(f"{r['frames_in_eager']} functions that Dynamo could not compile ran in eager")
        return "\n".join(lines)

    __repr__ = __str__

    @staticmethod
    def _program_lines(program):
        lines = []
        for region in program.get("placement", []):
            lines.append(
                f"  {region['device']:<8} {region['lowering']}: {_ops(region)}; predicted {region.get('predicted_ns', 0) / 1e3:.0f} us"
            )
            for step in region.get("steps", []):
                lines.append(f"             {(step.get('ns') or 0) / 1e3:9.1f} us  {step['lowering']}: {step['name']}")
        for copy in program.get("copies", []):
            lines.append(f"  copy     {copy['bytes']:.0f} bytes from {copy['from']} to {copy['to']}: {_price(copy)}")
        for lost in program.get("declined", []):
            said = "lost    " if lost["reason"] == "cost" else "refused "
            lines.append(
                f"  {said} {lost['lowering']} by {lost['plugin']} on {lost['device']}: {_ops(lost)}; "
                f"predicted {lost['predicted_ns'] / 1e3:.0f} us; {lost['reason']} {lost['detail']}"
            )
        for rest in program.get("unlisted", []):
            lines.append(f"  lost     {rest['count']} more by {rest['plugin']} on {rest['device']}, which are not listed")
        for refusal in program.get("refusals", []):
            why = f"{refusal['reason']} {refusal.get('detail') or ''}".rstrip()
            lines.append(f"  refused  {refusal['op']} by {refusal['plugin']} on {refusal['device']}: {why}")
        return lines

    def html(self):
        """A self-contained page."""
        r = self.report
        colours = ["#2a7", "#47c", "#c73", "#a4c", "#888"]
        bars = "".join(
            f'<div style="flex:{n};background:{"#c33" if d == "eager" else colours[i % 5]}">{html.escape(d)}: {n}</div>'
            for i, (d, n) in enumerate(r["placement"].items())
        )
        shares = "".join(
            f'<tr><td>{html.escape(k)}</td><td>{v:.1%}</td><td><div style="background:#47c;height:1em;width:{v * 300:.0f}px">'
            "</div></td></tr>"
            for k, v in r["time_share"].items()
        )
        declined = [lost for graph in r["graphs"] for program in graph["programs"] for lost in program.get("declined", [])]
        candidates = "".join(
            "<tr>"
            + "".join(
                f"<td>{html.escape(str(cell))}</td>"
                for cell in (
                    lost["lowering"],
                    lost["device"],
                    _ops(lost),
                    f"{lost['predicted_ns'] / 1e3:.1f} us",
                    lost["reason"],
                    lost["detail"],
                )
            )
            + "</tr>"
            for lost in declined
        )
        return f"""<!doctype html><meta charset="utf-8"><title>mortise placement</title>
<style>body{{font:14px sans-serif;margin:2em;max-width:70em}}.bar{{display:flex;color:#fff}}.bar div{{padding:.5em;min-width:5em}}
pre{{background:#f4f4f4;padding:1em;overflow:auto}}td{{padding:.2em 1em .2em 0}}</style>
<h1>Where each region ran</h1><p>Coverage {r["coverage"]:.1%} of {r["operators"]} operators</p><div class="bar">{bars}</div>
<h2>Share of time per lowering</h2><table>{shares}</table><h2>Candidates that lost or were refused</h2>
<table><tr><th>lowering<th>device<th>ops<th>predicted<th>reason<th>detail</tr>{candidates}</table>
{timeline.rows(r)}<h2>Regions, copies, refusals and reasons</h2><pre>{html.escape(str(self))}</pre>"""

    def trace(self):
        """The calls and their steps over time, as the text of a file for Perfetto."""
        return timeline.trace(self.report)

    def save(self, path):
        """Writes the report, by the name's end: .trace.json for Perfetto, .json, .txt, or a page for a browser."""
        kinds = {".trace.json": self.trace, ".json": self.json, ".txt": self.__str__}
        made = next((make for end, make in kinds.items() if str(path).endswith(end)), self.html)
        with open(path, "w", encoding="utf-8") as file:
            file.write(made())


def explain(model, *args, mode=None, options=None, **kwargs):
    """Runs `model` (compiled for "mortise" unless it already is) on the arguments and reports where every region ran, how long each step
    took, and what was refused and why. Runs twice under no_grad: once to compile, once with profiling."""
    already = hasattr(model, "_torchdynamo_orig_callable") or isinstance(model, torch._dynamo.eval_frame.OptimizedModule)
    options = {**(options or {}), **({"mode": mode} if mode else {})}  # PyTorch takes one of the two
    run = model if already else torch.compile(model, backend="mortise", options=options)
    with torch.no_grad():
        run(*args, **kwargs)
        with profiling():
            run(*args, **kwargs)
    return Explanation(last_report())
