# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vendors of our own (sdk/examples/hello, acme-npu and oppack), built from the SDK's tarball alone in an empty folder with an empty
environment. Each conforms (`mortise plugin check`). Then a static-shape MiniLM in f16, and one with int8 products, run over cpu, acme-npu
and oppack at once: each gets work, and the outputs are as near to the same network in f64 as eager's, up to a factor. In the int8
network the gelus of the last layers read tables, by acme-npu's own op acme_npu.lookup.
Then the same with each vendor removed, unable to compile, failing in each call, and slow by a factor; with acme-npu in a process of its
own; and with cpu removed, whose part eager runs. A vendor that cannot compile or is slow gets no work but the lookups, which no other
device takes; where acme-npu is removed or cannot compile, eager runs them. A vendor that fails in a call is named by the error, with the
region."""

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache

from vendors import Vendor, lines_of, tarball

MEASURES = "MiniLM in f16 and int8 over cpu and two vendors of our own, built from the tarball; each removed, broken, slow: passed, failed"
NEEDS = "cpu"
MINUTES = 2

VENDORS = ("hello", "acme-npu", "oppack")
WORKERS = VENDORS[1:]
MOST_LINES = 200
SLOWDOWN = 1000
FACTOR = 3.0  # how much farther than eager from f64 the outputs may be: each rounds elsewhere, and int8 rounding jumps
FARTHEST = {"f16": 5e-3, "int8": 5e-2}  # eager itself, or the comparison would mean nothing


class Vendors(Vendor):
    """The folder with the three projects beside the SDK, from which they come."""

    def __init__(self, folder):
        import shutil

        super().__init__(folder)
        for name in VENDORS:
            shutil.copytree(folder / "mortise-sdk" / "share" / "mortise" / "sdk" / "examples" / name, folder / name)

    def path(self, names) -> str:
        """plugin_path: our own plugins, and these."""
        return ":" + ":".join(str(self.plugins(name)) for name in names)

    def verdict(self, name: str) -> str:
        """What `plugin check` says. An op-pack needs the owner of its device beside it."""
        from measure import built

        return self.check(name, *(("--beside", built("lib/mortise/plugins/libmortise_cpu.so")) if name == "oppack" else ()))


LOOKUP = "acme_npu.lookup"
TABLED = 2  # layers of the int8 network whose gelu reads a table


@cache
def define_lookup():
    """Defines the op to PyTorch, with what eager runs. Returns the list of eager's calls, which grows."""
    import torch

    calls = []

    @torch.library.custom_op("acme_npu::lookup", mutates_args=())
    def lookup(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
        calls.append(x.shape)
        return table[x.long() + 128]

    @lookup.register_fake
    def _(x, table):
        return torch.empty_like(x)

    return calls


def quantised(module) -> None:
    """Replaces each linear layer of a network by one whose product multiplies int8 and adds in int32: weights rounded for each column once,
    activations for each row in each call. The gelus of the last layers become relu plus a table of what both differ by, which is small
    everywhere and nothing outside of [-4, 4]: a table of gelu itself would round its inputs, which reach 20, far more coarsely. Only of the
    last layers, because a number between two of the table's inputs jumps with the last bit, and each product behind it rounds again."""
    import torch
    from torch import nn

    define_lookup()

    class TabledGelu(nn.Module):
        INPUTS = 32  # int8 numbers for 1: 256 of them reach from -4 to 4

        def __init__(self):
            super().__init__()
            x = torch.arange(-128, 128, dtype=torch.float64) / self.INPUTS
            differences = nn.functional.gelu(x) - x.relu()
            self.step = differences.abs().max().item() / 127
            self.register_buffer("table", (differences / self.step).round().to(torch.int8))

        def forward(self, x):
            numbers = (x * self.INPUTS).round().clamp(-128, 127).to(torch.int8)
            return x.relu() + torch.ops.acme_npu.lookup(numbers, self.table).to(x.dtype) * self.step

    class QuantisedLinear(nn.Module):
        def __init__(self, linear: nn.Linear):
            super().__init__()
            scale = linear.weight.abs().amax(1) / 127
            self.register_buffer("weight", (linear.weight / scale[:, None]).round().to(torch.int8).t().contiguous())
            self.register_buffer("scale", scale)
            self.register_buffer("bias", linear.bias)

        def forward(self, x):
            rows = x.reshape(-1, x.shape[-1])
            scale = (rows.abs().amax(1, keepdim=True) / 127).clamp(min=1e-9)
            numbers = (rows / scale).round().to(torch.int8)
            sums = torch._int_mm(numbers, self.weight)
            return (sums.to(x.dtype) * scale * self.scale + self.bias).reshape(*x.shape[:-1], -1)

    def replace(module, kind, made):
        for name, child in module.named_children():
            if kind in type(child).__name__:
                setattr(module, name, made(child))
            else:
                replace(child, kind, made)

    replace(module, "Linear", QuantisedLinear)
    for layer in module.encoder.encoder.layer[-TABLED:]:
        replace(layer, "GELU", lambda _: TabledGelu())


def network_of(kind: str):
    import networks

    network = networks.make("minilm")
    if kind == "f16":
        network.module.half()
    else:
        quantised(network.module)
    return network


def work(network, options: dict) -> tuple[tuple, dict[str, int], dict[str, int]]:
    """The outputs of the compiled network, the number of operators by device, and that of lookups. Eager has a number for each call."""
    import torch
    import torch_mortise
    from measure import clear_compilers

    clear_compilers()
    calls = define_lookup()
    before = len(calls)
    with torch.no_grad():
        compiled = torch.compile(network.module, backend="mortise", dynamic=False, options=options)
        outputs = network.run(compiled, network.module)
    report = torch_mortise.last_report()
    lookups = Counter({"eager": len(calls) - before} if len(calls) > before else {})
    for region in (region for graph in report["graphs"] for program in graph["programs"] for region in program["placement"]):
        if number := region["ops"].get(LOOKUP, 0):
            lookups[region["device"]] += number
    return outputs, report["placement"], dict(lookups)


@dataclass(frozen=True)
class Case:
    options: dict
    workers: frozenset = frozenset({"cpu"})  # devices that have to get work
    idle: str = ""                           # a device that must not, but for lookups
    lookups: str = "acme-npu"                # who runs them
    failing: str = ""                        # the plugin whose call has to fail


def cases(vendors: Vendors) -> dict[str, Case]:
    def options(without: str = "", **more) -> dict:
        names = [name for name in WORKERS if name != without]
        return {"device": ",".join(["cpu", *names]), "plugin_path": vendors.path(names)} | more

    found = {"all": Case(options(), frozenset({"cpu", *WORKERS}))}
    found["acme-npu isolated"] = Case(options(isolate="acme-npu"), frozenset({"cpu", *WORKERS}))
    for name in WORKERS:
        lookups = "eager" if name == "acme-npu" else "acme-npu"
        found[f"{name} removed"] = Case(options(name), idle=name, lookups=lookups)
        found[f"{name} does not compile"] = Case(options(**{f"{name}.fault": "compile"}), idle=name, lookups=lookups)
        found[f"{name} fails in a call"] = Case(options(**{f"{name}.fault": "enqueue"}), failing=name)
        found[f"{name} slow"] = Case(options(**{f"{name}.slowdown": str(SLOWDOWN)}), idle=name)
    found["cpu removed"] = Case({"device": "acme-npu", "plugin_path": vendors.path(WORKERS)}, frozenset({"acme-npu", "eager"}), idle="cpu")
    return found


def problem_of(network, case: Case, exact, eager, limit: float) -> tuple[str, dict]:
    """The reason why a case is wrong, or "", and what was measured."""
    from measure import compare

    tables = sum(type(each).__name__ == "TabledGelu" for each in network.module.modules())
    try:
        outputs, placed, lookups = work(network, case.options)
    except Exception as error:
        said = str(error)[:300]
        named = re.search(rf"region \d+ \([^)]* on {case.failing}\)", said)
        if not case.failing:
            return f"{type(error).__name__}: {said}", {}
        return ("" if named else f"expected an error that names {case.failing} and the region, found {said}"), {"said": said}
    if case.failing:
        return f"expected an error from {case.failing}, found outputs", {"operators": placed}
    agreement = compare(outputs, exact, like=eager)
    measured = {"operators": placed, "lookups": lookups, "error": agreement.error}
    problem = agreement.why_not(limit)
    if set(lookups) != ({case.lookups} if tables else set()):
        problem = f"expected {case.lookups} to run the {tables} lookups, found {lookups}"
    if missing := case.workers - set(placed):
        problem = f"no work for {', '.join(sorted(missing))}"
    if placed.get(case.idle, 0) > lookups.get(case.idle, 0):
        problem = f"expected no work for {case.idle} but lookups, found {placed[case.idle]} operators"
    return problem, measured


def conformance(vendors: Vendors, name: str) -> str:
    """The reason why a vendor's plugin is wrong, or ""."""
    try:
        vendors.build(name)
        said = vendors.verdict(name)
    except RuntimeError as error:
        said = str(error)
        return said[max(said.find("BAD"), 0):][:300]
    lines = sum(len(source.read_text().splitlines()) for source in (vendors.folder / name).glob("*.[ch]"))
    if name == "hello" and lines > MOST_LINES:
        return f"expected at most {MOST_LINES} lines, found {lines}"
    return "" if "nothing wrong" in said and "cases are right" in said else f"plugin check: {said[-300:]}"


def measure(arguments: list[str]) -> dict:
    import tempfile
    from pathlib import Path

    import torch
    from measure import compare, progress

    rows = {}

    def add(name: str, problem: str, measured: dict) -> None:
        rows[name] = {"passed": not problem, **({"problem": problem} if problem else {}), **measured}
        progress(f"{name}: {problem or 'right'} {measured.get('operators', '')}")

    with tempfile.TemporaryDirectory() as folder:
        Vendor(Path(folder)).run("tar", "-xzf", tarball(Path(folder, "packed")))
        vendors = Vendors(Path(folder))
        for name in VENDORS:
            add(f"{name} conforms", conformance(vendors, name), {"lines": sum(
                lines_of(source) for kind in ("*.c", "*.cpp", "*.h", "*.hpp") for source in (vendors.folder / name).glob(kind))})
        for kind in arguments or FARTHEST:
            network = network_of(kind)
            with torch.no_grad():
                eager, exact = network.run(network.module), (double := network.double()).run(double.module)
            own = compare(eager, exact, like=eager)
            add(f"{kind}: eager", own.why_not(FARTHEST[kind]), {"error": own.error})
            for name, case in cases(vendors).items():
                add(f"{kind}: {name}", *problem_of(network, case, exact, eager, FACTOR * own.error))
    passed = sum(row["passed"] for row in rows.values())
    return {"rows": rows, "passed": passed, "failed": len(rows) - passed}
