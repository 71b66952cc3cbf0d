# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether the measuring code detects errors. Faults are planted while figures, the demo, the totals of the test suites and the check of
kept results run, by wrapping what they call (plants.py), and each must make the verdict red.

A fault counts as caught if the verdict is red and its reason names the fault (`by`), and if the same code without the fault does not give
such a reason (`controls`). Arguments: words; only faults whose name contains one of them are planted."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from figures import ArgumentError

MEASURES = "faults planted in the measuring code itself (wrong outputs, lost counts, failed peers, stale or empty results), and caught"
NEEDS = "cpu, a build; g++ for Inductor"
MINUTES = 5


@dataclass(frozen=True)
class Plant:
    name: str
    of: str  # a key of RUNS: the code that the fault is planted in
    expected: str  # part of the expected reason
    fault: Callable  # () -> context manager, or the argument of RUNS[of]


def figure_problems(name: str, *arguments: str) -> Callable:
    """Runs a figure like ./dev figure, including the exit status."""

    def run(_=None) -> list[str]:
        import contextlib
        import io

        import figure
        from measure import clear_compilers
        from verdict import problems

        clear_compilers()
        quiet = io.StringIO()
        with contextlib.redirect_stdout(quiet), contextlib.redirect_stderr(quiet):
            try:
                result = figure.make(name, list(arguments))
            except ValueError as error:
                return [f"ValueError: {error}"]
            status = figure.show(name, result)
        found = problems(result)
        if bool(status) != bool(found):
            return []  # the exit status contradicts the verdict, so nothing was caught
        return found

    return run


def planted_figure(result) -> list[str]:
    """Runs a figure that returns or raises `result`, and keeps the run over an earlier passed one."""
    import json
    import sys
    import tempfile
    import types
    from pathlib import Path
    from unittest import mock

    import figure

    module = types.ModuleType("figures.planted")

    def measure(arguments):
        if isinstance(result, BaseException):
            raise result
        return result

    module.measure = measure
    with (contextlib.ExitStack() as after, tempfile.TemporaryDirectory() as folder,
          mock.patch.object(figure, "names", lambda: {"planted": "figures.planted"})):
        sys.modules[module.__name__] = module  # patch.dict would also forget what the figure imports meanwhile
        after.callback(sys.modules.pop, module.__name__)
        kept = Path(folder) / "planted.json"
        kept.write_text(json.dumps({"problems": [], "result": {"passed": True}}))
        found = figure_problems("planted")()
        with open("/dev/null", "w") as nowhere, contextlib.redirect_stderr(nowhere):
            figure.save("planted", [], figure.make("planted", []), Path(folder))
        now = json.loads(kept.read_text())
    return found if now["problems"] == found else []  # an older passed file must not stand for a failed run


def demo_problems(_=None) -> list[str]:
    import sys

    import networks
    import torch
    from measure import ROOT, clear_compilers

    sys.path.insert(0, str(ROOT / "tools" / "demo"))
    import demo

    clear_compilers()
    network = networks.make("tiny")
    try:
        latency, compiled = demo.compare_rivals(network, {"device": "cpu"}, False, 3)
        with torch.no_grad():
            pair = network.run(compiled, network.module), network.run(network.module)
        return [*filter(None, [demo.agreement(pair)["problem"]]), *latency["left_out"].values()]
    except RuntimeError as error:
        return [str(error)]


def totals_problems(report: str | None) -> list[str]:
    """Runs tools/dev/totals.py over the report of a good suite and this report; None: the report is missing."""
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    from measure import ROOT

    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "good.xml").write_text('<testsuite><testcase name="a"/></testsuite>')
        if report is not None:
            Path(folder, "other.xml").write_text(report)
        done = subprocess.run([sys.executable, str(ROOT / "tools" / "dev" / "totals.py"), folder, "good", "other"],
                              capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 1 else []


def kept_problems(change: Callable) -> list[str]:
    """Runs the check of kept results on a copy of the repository with one change: change(folder of the copy)."""
    import shutil
    import subprocess
    import tempfile
    from pathlib import Path

    import figure
    import kept
    from measure import ROOT

    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", str(ROOT), str(copy)], check=True)
        shutil.copytree(ROOT / "bench" / "results", copy / "bench" / "results")
        shutil.copy(ROOT / "README.md", copy)
        change(copy / "bench" / "results")
        return kept.problems(copy, set(figure.names()))


def edited(name: str, change: Callable) -> Callable:
    """Returns a change of one kept run: change(its dictionary)."""

    def apply(folder):
        import json

        file = folder / f"{name}.json"
        run = json.loads(file.read_text())
        change(run)
        file.write_text(json.dumps(run))

    return apply


def with_fault(run: Callable) -> Callable:
    """Returns a run whose faults are context managers."""

    def under(fault: Callable) -> list[str]:
        with fault():
            return run()

    return under


@contextlib.contextmanager
def two_shapes():
    from unittest import mock

    from figures import one_trace_many_shapes

    with mock.patch.object(one_trace_many_shapes, "SHAPES", one_trace_many_shapes.SHAPES[:2]):
        yield


def one_trace_problems() -> list[str]:
    with two_shapes():
        return figure_problems("one-trace-many-shapes", "tiny")()


RUNS = {
    "parity": with_fault(figure_problems("parity", "tiny")),
    "speed-first": with_fault(figure_problems("speed-first", "tiny")),
    "one-trace-many-shapes": with_fault(one_trace_problems),
    "compile-first": with_fault(figure_problems("compile-first", "tiny")),
    "plan-memory": with_fault(figure_problems("plan-memory", "tiny")),
    "steady-state": with_fault(figure_problems("steady-state", "tiny")),
    "strict-device": with_fault(figure_problems("strict-device", "2", "1", "1", "minilm")),
    "device-faults": with_fault(figure_problems("device-faults", "1")),
    "state-stays": with_fault(figure_problems("state-stays")),
    "call-overhead": with_fault(figure_problems("call-overhead")),
    "server": with_fault(figure_problems("server")),
    "kernel-cache": with_fault(figure_problems("kernel-cache", "minilm")),
    "cost-model": with_fault(figure_problems("cost-model", "minilm")),
    "three-vendors": with_fault(figure_problems("three-vendors", "f16")),
    "bounds": with_fault(figure_problems("bounds", "tanh")),
    "bad-input": lambda words: figure_problems("bad-input", *words)(),
    "decompositions": with_fault(figure_problems("decompositions")),
    "demo": with_fault(demo_problems),
    "figure": planted_figure,
    "totals": totals_problems,
    "kept results": kept_problems,
}


def plants() -> list[Plant]:
    import math
    import subprocess
    from unittest import mock

    import networks
    from plants import CHANGES, NanWeights, in_children, raising, spoil

    def ours(change: str, **more) -> Callable:
        return lambda: spoil("mortise", CHANGES[change], **more)

    def nan_in_eager():
        def make():
            return networks.Network("tiny", "its weights hold a NaN", NanWeights(), networks.MAKERS["good tiny"]().inputs)

        return mock.patch.dict(networks.MAKERS, {"tiny": make, "good tiny": networks.MAKERS["tiny"]})

    def prints(text: str) -> Callable:
        done = subprocess.CompletedProcess([], 0, stdout=text, stderr="")
        return lambda: mock.patch.object(subprocess, "run", lambda *_, **__: done)

    wrong = {"NaN": "NaN stands at", "infinity": r"\+inf stands at", "zeroed": "differs by", "zeroed second output": "differs by",
             "shape": "expected shape", "dtype": "expected torch.float32, found torch.float64",
             "missing output": "expected 2 outputs, found 1", "no outputs": "expected 2 outputs, found 0", "scaled": "differs by"}
    few = ("NaN", "zeroed", "shape", "dtype", "missing output")
    found = [Plant(change, "parity", f"first call: .*{why}", ours(change)) for change, why in wrong.items()]
    found += [
        Plant("NaN from the second call on", "parity", "^networks.tiny: later call: .*NaN stands at", ours("NaN", after=1)),
        Plant("zeroed from the second call on", "parity", "^networks.tiny: later call: .*differs by", ours("zeroed", after=1)),
        Plant("NaN in eager and ours alike", "parity", "eager: nothing to compare", nan_in_eager),
        Plant("a network fails", "parity", "RuntimeError: planted", lambda: spoil("mortise", raising)),
    ]
    found += [Plant(change, "speed-first", f"mortise .*{wrong[change]}", ours(change)) for change in few]
    found += [
        Plant("zeroed while timed", "speed-first", r"mortise differs by .*\(after timing\)", ours("zeroed", after=1)),
        Plant("a peer fails", "speed-first", "inductor failed: RuntimeError: planted", lambda: spoil("inductor", raising)),
        Plant("a peer gives NaN", "speed-first", "inductor .*NaN stands at", lambda: spoil("inductor", CHANGES["NaN"])),
        Plant("a peer fails while timed", "speed-first", "RuntimeError: planted", lambda: spoil("inductor", raising, after=5)),
        Plant("eager gives NaN", "speed-first", "eager's own answer cannot be compared", nan_in_eager),
    ]
    found += [Plant(change, "one-trace-many-shapes", wrong[change], ours(change, after=1)) for change in ("NaN", "zeroed", "shape")]
    found += [Plant(change, "demo", wrong[change], ours(change)) for change in few]
    found += [Plant("zeroed later", "demo", "differs by", ours("zeroed", after=1))]
    found += child_plants(in_children) + device_plants() + server_plants() + vendor_plants() + cache_plants() + cost_plants()
    found += bounds_plants()
    found += [
        Plant("no test ran", "bad-input", "pytest ended with code 5", lambda: None),
        Plant("an empty result", "decompositions", "KeyError: 'composites'", prints("{}")),
        Plant("nothing counted", "decompositions", "passed is 0", prints('{"passed": 0, "failed": 0, "composites": 0, '
                                                                        '"elements": 0, "open": 0, "differing": 0}')),
        Plant("no output", "decompositions", "JSONDecodeError", prints("")),
    ]
    found += [Plant(name, "figure", why, result) for name, result, why in (
        ("an empty result", {}, "empty"), ("no result", None, "expected a dict"), ("no verdict", {"ms": 1.0}, "no verdict"),
        ("no rows", {"passed": True, "rows": {}}, "rows is empty"), ("counts of nothing", {"passed": 0, "failed": 0}, "passed is 0"),
        ("a number that is none", {"passed": True, "rows": {"a": {"ms": math.nan}}}, "rows.a.ms is nan"),
        ("a row that failed", {"passed": True, "rows": {"a": {"passed": False}}}, "rows.a did not pass"),
        ("a measurement that breaks", KeyError("planted"), "KeyError: 'planted'"))]
    found += [Plant(name, "totals", why, report) for name, report, why in (
        ("no report", None, "other: no report"), ("a broken report", "<testsuite>", "other: no report"),
        ("an empty report", "<testsuite/>", "other: ran no test"),
        ("only skipped", '<testsuite><testcase name="a"><skipped/></testcase></testsuite>', "other: ran no test"),
        ("a program that is missing", '<testsuite><testcase name="a"/><testcase name="b" status="notrun"><skipped '
                                      'message="Unable to find executable"/></testcase></testsuite>', "1 passed, 1 failed"),
        ("a test that errs", '<testsuite><testcase name="a"><error/></testcase></testsuite>', "0 passed, 1 failed"))]
    return found + kept_plants()


def child_plants(in_children: Callable) -> list[Plant]:
    def child(fault: str, **more) -> Callable:
        return lambda: in_children(fault, **more)

    return [
        Plant("our answer is zeroed", "compile-first", "ours: differs by", child("zeroed")),
        Plant("a peer gives NaN", "compile-first", "inductor: .*NaN stands at", child("NaN from inductor")),
        Plant("a clock that stops early", "compile-first", "do not fit into", child("wall too small")),
        Plant("no stages", "compile-first", "do not fit into", child("no stages")),
        Plant("a process that dies", "compile-first", "failed with code 3", child("dies")),
        Plant("a process that prints nothing", "compile-first", "printed no JSON", child("nothing", printed="")),
        Plant("bytes that are not counted", "plan-memory", "less than the .* bytes of outputs", child("half the growth")),
        Plant("an allocator that is not preloaded", "plan-memory", "not preloaded", child("nothing", drop="LD_PRELOAD")),
        Plant("rounds that differ", "plan-memory", "rounds do not repeat", child("unequal rounds")),
        Plant("a program that allocates", "steady-state", "allocations per call", child("allocating program")),
        Plant("a program that zeroes", "steady-state", "through the C API: differs by", child("zeroing program")),
        Plant("a tensor in each call", "steady-state", "beyond outputs", child("tensor in each call")),
        Plant("an allocator that is not preloaded", "steady-state", "not preloaded", child("nothing", drop="LD_PRELOAD")),
        Plant("kernels that run", "call-overhead", "0 programs ran no kernels", child("nothing", drop="LD_PRELOAD")),
    ]


def device_plants() -> list[Plant]:
    """What the strict plugin's runs give, changed on its way into the figures."""
    from unittest import mock

    import strict

    original, touched = strict.sweeps, "strict: the host touched device memory at 0x10"

    def changed(command: str, change: Callable) -> Callable:
        def sweeps(program, *arguments, env=None):
            row, why = original(program, *arguments, env=env)
            return change(row) if arguments[0] == command and row else (row, why)

        return lambda: mock.patch.object(strict, "sweeps", sweeps)

    def plus(key: str, more) -> Callable:
        return lambda row: (row | {key: row[key] + more}, "")

    return [
        Plant("a process that dies", "strict-device", "touched device memory", changed("graphs", lambda row: (None, touched))),
        Plant("runs that did not happen", "strict-device", "5 runs, expected 6", changed("graphs", plus("runs", -1))),
        Plant("a wrong result", "strict-device", "output 0 is wrong", changed("graphs", plus("problems", ["output 0 is wrong"]))),
        Plant("a wait that is not missed", "strict-device", "not found: event_wait 1", changed("waits", plus("missed", ["event_wait 1"]))),
        Plant("nothing planted", "strict-device", "0 planted, expected 15", changed("waits", lambda row: (row | {"planted": 0}, ""))),
        Plant("a fault that is not named", "device-faults", "1 failed", changed("faults", plus("missed", ["copy 1"]))),
        Plant("a process that dies", "device-faults", "1 failed", changed("faults", lambda row: (None, "AddressSanitizer"))),
        Plant("bytes that are copied", "state-stays", "did not pass", changed("state", plus("copied_bytes", 4))),
        Plant("no states", "state-stays", "rows is empty", changed("state", lambda row: (row | {"states": 0}, ""))),
        Plant("a wrong state", "state-stays", "state is wrong", changed("state", lambda row: (row | {"problem": "state is wrong"}, ""))),
    ]


def cache_plants() -> list[Plant]:
    from unittest import mock

    import measure
    from figures import kernel_cache

    fresh, start, outputs = measure.in_fresh_process, kernel_cache.Cases.start, kernel_cache.Cases.outputs

    def without_cache(code, *arguments, env=None):
        return fresh(code, *arguments, env=(env or {}) | {"MORTISE_KERNEL_CACHE": "off"})

    def changed_later(self, process, name):
        return outputs(self, process, name) + (b"x" if name == "again" else b"")

    def patched(thing, name: str, value) -> Callable:
        return lambda: mock.patch.object(thing, name, value)

    return [
        Plant("a cache that is not used", "kernel-cache", "expected hits only", patched(measure, "in_fresh_process", without_cache)),
        Plant("a slow second process", "kernel-cache", "1.000 s, expected at most", patched(kernel_cache, "seconds", lambda run: 1.0)),
        Plant("outputs that damage changes", "kernel-cache", "cases.flipped: the outputs are wrong",
              patched(kernel_cache.Cases, "outputs", changed_later)),
        Plant("a command without the cache", "kernel-cache", "cases.hits: expected 'hit'",
              patched(kernel_cache.Cases, "start", lambda self, cache, *more, **rest: start(self, "off", *more, **rest))),
    ]


def cost_plants() -> list[Plant]:
    from unittest import mock

    from figures import cost_model

    def regions(change: Callable) -> Callable:
        original = cost_model.regions_of
        return lambda: mock.patch.object(cost_model, "regions_of", lambda name: change(original(name)))

    def predicted(change: Callable) -> Callable:
        return regions(lambda found: [region | {"predicted_us": change(region)} for region in found])

    def placed(**change) -> Callable:
        original = cost_model.placements
        return lambda: mock.patch.object(cost_model, "placements", lambda: original() | change)

    return [
        Plant("predictions upside down", "cost-model", "rank_correlation is -", predicted(lambda region: 1 / region["measured_us"])),
        Plant("predictions four times too large", "cost-model", "median_ratio is", predicted(lambda region: 4 * region["measured_us"])),
        Plant("no prediction", "cost-model", "expected regions with times above 0", predicted(lambda region: 0.0)),
        Plant("no regions", "cost-model", "found 0", regions(lambda found: [])),
        Plant("placements far from the cheapest", "cost-model", "mean_gap is 0.5", placed(mean_gap=0.5)),
        Plant("few placements", "cost-model", "5 graphs were placed", placed(graphs=5)),
        Plant("slow placement", "cost-model", "s_per_10k_ops is 3", placed(seconds=3.0)),
    ]


def vendor_plants() -> list[Plant]:
    """Lines of the vendors' sources, changed before they are built."""
    from unittest import mock

    from vendors import Vendor

    build = Vendor.build

    def changed(vendor: str, file: str, old: str, new: str) -> Callable:
        def edited(self, name):
            if name == vendor:
                text = (source := self.folder / name / file).read_text()
                if old not in text:
                    raise ValueError(f"{source} has no {old!r}")
                source.write_text(text.replace(old, new))
            build(self, name)

        return lambda: mock.patch.object(Vendor, "build", edited)

    return [
        Plant("a wrong quotient", "three-vendors", "hello conforms: .*BAD", changed("hello", "plugin.c", "a[i] / b[i]", "a[i] * b[i]")),
        Plant("a long source", "three-vendors", "hello conforms: expected at most 200 lines, found 399",
              changed("hello", "plugin.c", "#include <string.h>", "#include <string.h>" + "\n" * 200)),
        Plant("products without bias", "three-vendors", "f16: all: differs by",
              changed("acme-npu", "ops.cpp", "bias ? sum + widen(bias[column]) : sum", "sum")),
        Plant("a vendor that asks too much", "three-vendors", "f16: all: no work for acme-npu",
              changed("acme-npu", "ops.hpp", "launchNs = 2000", "launchNs = 2e9")),
        Plant("a slowdown that is not priced", "three-vendors", "acme-npu slow: expected no work for acme-npu",
              changed("acme-npu", "plugin.cpp", "cost.ns * slowdown", "cost.ns")),
        Plant("a fault that does not fail", "three-vendors", "oppack fails in a call: expected an error from oppack",
              changed("oppack", "plugin.cpp", 'fails = fault == "enqueue"', "fails = false")),
        Plant("a wrong scale", "three-vendors", "f16: all: differs by",
              changed("oppack", "attention.cpp", "*= shape.scale", "*= shape.scale * 2")),
    ]


def bounds_plants() -> list[Plant]:
    from unittest import mock

    import eager
    import kit

    original, run = eager.compute, kit.run

    def wrong(case, data):
        made = original(case, data)
        return made * 1.01 if case["result"]["dtype"] == "f16" else made

    def refused(case, data):
        raise eager.Refused("planted")

    def exact(plugin, *arguments, **more):
        report = run(plugin, *arguments, **more)
        for line in report["cases"]:
            line["share"] = line.get("share", 0) / 100
        return report

    @contextlib.contextmanager
    def loose():
        with mock.patch.object(kit, "run", exact), mock.patch.object(eager, "judge", lambda *_: [
                {"case": "tanh/f32/one/dense/random/#1", "outcome": "passed", "share": 0.01, "bound": 4}]):
            yield

    return [Plant("a wrong function", "bounds", "eager: tanh/f16/", lambda: mock.patch.object(eager, "compute", wrong)),
            Plant("a peer refuses all", "bounds", "no bound of eager was used",
                  lambda: mock.patch.object(eager, "compute", refused)),
            Plant("a bound that is too loose", "bounds", "times above the worst error, without a reason", loose)]


def server_plants() -> list[Plant]:
    from pathlib import Path
    from unittest import mock

    import measure

    original = measure.in_fresh_process

    def saved(change: Callable) -> Callable:
        def run(code, *arguments, env=None):
            result = original(code, *arguments, env=env)
            if "import save" in code:
                change(Path(arguments[0]))
            return result

        return lambda: mock.patch.object(measure, "in_fresh_process", run)

    def zeroed(folder):
        (folder / "answer.bin").write_bytes(bytes((folder / "answer.bin").stat().st_size))

    def short(folder):
        (folder / "weights.bin").write_bytes((folder / "weights.bin").read_bytes()[:-4])

    return [Plant("an answer that is not eager's", "server", "answers are wrong", saved(zeroed)),
            Plant("a server that does not start", "server", "the server did not start", saved(short))]


def kept_plants() -> list[Plant]:
    def slower(run):
        run["result"]["rows"]["minilm"]["mortise_ms"] *= 1.5

    def renamed(folder):
        (folder / "speed-first.json").rename(folder / "parity.json")

    def with_nan(folder):
        file = folder / "parity.json"
        file.write_text(re.sub(r'"max_rel_err": [^,]*', '"max_rel_err": NaN', file.read_text(), count=1))

    return [Plant(name, "kept results", why, change) for name, why, change in (
        ("a commit that is no ancestor", "steady-state.json was made at commit '0123456789ab'",
         edited("steady-state", lambda run: run["machine"].update(commit="0123456789ab"))),
        ("no commit", "steady-state.json was made at commit ''", edited("steady-state", lambda run: run["machine"].update(commit=""))),
        ("sources that differ", "parity.json was made from sources", edited("parity", lambda run: run["machine"].update(clean=False))),
        ("numbers that README does not quote", "README.md quotes other numbers", edited("speed-first", slower)),
        ("another figure's file", "parity.json is of the figure 'speed-first'", renamed),
        ("a figure that is no more", "gone.json no figure is named",
         lambda folder: (folder / "gone.json").write_text('{"figure": "gone", "command": "./dev figure gone", '
                                                          '"machine": {"commit": "HEAD"}, "result": {}}')),
        ("a verdict that does not follow", "parity.json says that its problems are",
         edited("parity", lambda run: run.update(problems=[], result=run["result"] | {"passed": False}))),
        ("NaN in a file", "parity.json cannot be read", with_nan),
        ("a broken file", "parity.json cannot be read", lambda folder: (folder / "parity.json").write_text("{")))]


def controls() -> dict[str, Callable]:
    """The runs of the same code without a fault."""
    from plants import in_children

    child = ("compile-first", "plan-memory", "steady-state", "call-overhead")
    nothing = {name: contextlib.nullcontext for name in RUNS} | {name: lambda: in_children("nothing") for name in child}
    good = ('<testsuite><testcase name="a"/><testcase name="b" status="notrun"><skipped message="SKIP_RETURN_CODE=4"/></testcase>'
            '</testsuite>')
    nothing |= {"bad-input": (), "figure": {"passed": True, "rows": {"a": {"ms": 1.0}}}, "totals": good,
                "kept results": lambda folder: None}
    return {name: lambda name=name: RUNS[name](nothing[name]) for name in RUNS}


def planted(plant: Plant) -> tuple[str, ...]:
    """The reasons of the red verdict under this fault."""
    if plant.of == "bad-input":
        return tuple(RUNS[plant.of](("-k", "no_such_test")))
    return tuple(RUNS[plant.of](plant.fault))


def measure(arguments: list[str]) -> dict:
    from measure import progress
    from plants import register

    register()
    wanted = [plant for plant in plants() if not arguments or any(word in f"{plant.of}: {plant.name}" for word in arguments)]
    if not wanted:
        raise ArgumentError(f"expected words of the names of faults, found {' '.join(arguments)}")
    run, clean, rows = controls(), {}, {}
    for plant in wanted:
        if plant.of not in clean:
            clean[plant.of] = run[plant.of]()
            progress(f"{plant.of} without a fault: {'; '.join(clean[plant.of]) or 'green'}")
        reasons = planted(plant)
        by = next((reason for reason in reasons if re.search(plant.expected, reason)), None)
        false_alarm = any(re.search(plant.expected, reason) for reason in clean[plant.of])
        rows[f"{plant.of}: {plant.name}"] = {"caught": by is not None and not false_alarm, "by": by, "reasons": list(reasons)[:4]}
        progress(f"{plant.of}: {plant.name}: " + (f"caught: {by}" if by and not false_alarm else f"NOT CAUGHT: {reasons}"))
    caught = sum(row["caught"] for row in rows.values())
    return {"planted": len(wanted), "caught": caught, "passed": caught == len(wanted) > 0, "rows": rows, "controls": clean}
