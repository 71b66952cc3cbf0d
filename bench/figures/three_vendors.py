# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The vendors of our own (sdk/examples/hello, acme-npu and oppack), built from the SDK's tarball alone in an empty folder with an empty
environment. Each conforms (`mortise plugin check`). Then a static-shape MiniLM in f16, and one with int8 products, run over cpu, acme-npu
and oppack at once: each gets work, and the outputs are as near to the same network in f64 as eager's, up to a factor.
Then the same with each vendor removed, unable to compile, failing in each call, and slow by a factor; and with cpu removed, whose part
eager runs. A vendor that cannot compile or is slow gets no work; one that fails in a call is named by the error, with the region."""

import re
from dataclasses import dataclass

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


def quantised(module) -> None:
    """Replaces each linear layer of a network by one whose product multiplies int8 and adds in int32: weights rounded for each column once,
    activations for each row in each call."""
    import torch
    from torch import nn

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

    for name, child in module.named_children():
        if isinstance(child, nn.Linear):
            setattr(module, name, QuantisedLinear(child))
        else:
            quantised(child)


def network_of(kind: str):
    import networks

    network = networks.make("minilm")
    if kind == "f16":
        network.module.half()
    else:
        quantised(network.module)
    return network


def work(network, options: dict) -> tuple[tuple, dict[str, int]]:
    """The outputs of the compiled network, and the number of operators by device."""
    import torch
    import torch_mortise
    from measure import clear_compilers

    clear_compilers()
    with torch.no_grad():
        compiled = torch.compile(network.module, backend="mortise", dynamic=False, options=options)
        outputs = network.run(compiled, network.module)
    return outputs, torch_mortise.last_report()["placement"]


@dataclass(frozen=True)
class Case:
    options: dict
    workers: frozenset = frozenset({"cpu"})  # devices that have to get work
    idle: str = ""                           # a device that must not
    failing: str = ""                        # the plugin whose call has to fail


def cases(vendors: Vendors) -> dict[str, Case]:
    def options(without: str = "", **more) -> dict:
        names = [name for name in WORKERS if name != without]
        return {"device": ",".join(["cpu", *names]), "plugin_path": vendors.path(names)} | more

    found = {"all": Case(options(), frozenset({"cpu", *WORKERS}))}
    for name in WORKERS:
        found[f"{name} removed"] = Case(options(name), idle=name)
        found[f"{name} does not compile"] = Case(options(**{f"{name}.fault": "compile"}), idle=name)
        found[f"{name} fails in a call"] = Case(options(**{f"{name}.fault": "enqueue"}), failing=name)
        found[f"{name} slow"] = Case(options(**{f"{name}.slowdown": str(SLOWDOWN)}), idle=name)
    found["cpu removed"] = Case({"device": "acme-npu", "plugin_path": vendors.path(WORKERS)}, frozenset({"acme-npu", "eager"}), idle="cpu")
    return found


def problem_of(network, case: Case, exact, eager, limit: float) -> tuple[str, dict]:
    """The reason why a case is wrong, or "", and what was measured."""
    from measure import compare

    try:
        outputs, placed = work(network, case.options)
    except Exception as error:
        said = str(error)[:300]
        named = re.search(rf"region \d+ \([^)]* on {case.failing}\)", said)
        if not case.failing:
            return f"{type(error).__name__}: {said}", {}
        return ("" if named else f"expected an error that names {case.failing} and the region, found {said}"), {"said": said}
    if case.failing:
        return f"expected an error from {case.failing}, found outputs", {"operators": placed}
    agreement = compare(outputs, exact, like=eager)
    measured = {"operators": placed, "error": agreement.error}
    problem = agreement.why_not(limit)
    if missing := case.workers - set(placed):
        problem = f"no work for {', '.join(sorted(missing))}"
    if case.idle in placed:
        problem = f"expected no work for {case.idle}, found {placed[case.idle]} operators"
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
