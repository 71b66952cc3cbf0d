# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""One network over several devices at once: cpu and vulkan, and where there is a GPU of NVIDIA's, cpu, cuda and vulkan.

The network is a block of linear layers, tanh, norm, softmax and a choice of the largest, which no GPU's plugin takes.

    rule    rules per op give each device some of them: these ops run there, and nowhere else
    cost    no rules: the cheapest devices, of which one is the cpu, since it alone has top_k
    error   greatest difference from eager in f64, relative to the output's scale

A row passes when every device that is due has work, each op that a rule names runs where the rule says, nothing runs in eager, and the
results are eager's. Places: lavapipe, which is Vulkan on the CPU, and gpu, a GPU of NVIDIA's; both are due, and one without rows
(`lacking`) counts as failed. Arguments: devices, instead of those that there are, and kept runs of the other place (FILE.json), made from
the same sources on another machine."""

from figures import ArgumentError

MEASURES = "a network over cpu and vulkan, and over cpu, cuda and vulkan: work of each device by rule and by cost, results"
NEEDS = "Mesa's lavapipe, or a gpu with Vulkan"
MINUTES = 1

TOLERANCE = 1e-5
DUE = ("lavapipe", "gpu")
# What decides about the figure.
SOURCES = ("CMakeLists.txt", "bench/figures/gpu_mixed.py", "cmake", "frontend", "ir", "passes", "plugins", "runtime", "sdk")
# Ops of the core, whose parts cannot go elsewhere, and linear layers with what they are made of.
RULES = {"vulkan": ("tanh",), "cuda": ("linear", "dot"), "cpu": ("top_k",)}


def rules(devices: list[str]) -> str:
    """What each of these devices is given: the setting `place`."""
    return "; ".join(f"op={op} device={device}" for device in devices for op in RULES[device])


def judged(devices: list[str], ruled: bool, placement: dict, ops: dict, error: float) -> dict:
    """`placement`: {device: operators}; `ops`: {device: names of ops}."""
    problems = []
    for device in devices if ruled else ["cpu"]:
        if not placement.get(device):
            problems.append(f"{device} has no work")
    if not ruled and len([device for device in devices if placement.get(device)]) < 2:
        problems.append("one device has all of the work")
    if placement.get("eager"):
        problems.append(f"{placement['eager']} operators run in eager")
    for device in devices if ruled else []:
        for op in RULES[device]:
            if elsewhere := [other for other, names in ops.items() if op in names and other != device]:
                problems.append(f"{op} runs on {', '.join(elsewhere)}, expected {device}")
        if not set(RULES[device]) & set(ops.get(device, ())):
            problems.append(f"none of {', '.join(RULES[device])} runs on {device}")
    if not error <= TOLERANCE:
        problems.append(f"error {error:.3g}, at most {TOLERANCE}")
    return {"placement": placement, "error": error, "problems": problems, "passed": not problems}


def network():
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down, self.norm = nn.Linear(256, 1024), nn.Linear(1024, 256), nn.LayerNorm(256)

        def forward(self, x):
            y = self.norm(x + self.down(torch.tanh(self.up(x))))
            return (y, torch.softmax(y, -1).topk(8, dim=-1).values)

    torch.manual_seed(0)
    return Block().eval().requires_grad_(False), torch.randn(64, 256)


def row(devices: list[str], ruled: bool) -> dict:
    import copy

    import torch
    import torch_mortise
    from measure import compare

    torch.compiler.reset()
    torch_mortise.reset()
    module, x = network()
    options = {"device": ",".join(devices)} | ({"place": rules(devices)} if ruled else {})
    with torch.no_grad():
        expected, eager = copy.deepcopy(module).double()(x.double()), module(x)
        found = torch.compile(module, backend="mortise", options=options)(x)
    report = torch_mortise.last_report()
    regions = [region for graph in report["graphs"] for program in graph["programs"] for region in program["placement"]]
    ops: dict = {}
    for region in regions:
        ops.setdefault(region["device"], set()).update(op.removeprefix("mortise.") for op in region["ops"])
    agreement = compare(list(found), list(expected), like=list(eager))
    error = float("inf") if agreement.problem else agreement.error
    return judged(devices, ruled, report["placement"], ops, error)


def measure(arguments: list[str]) -> dict:
    import torch_mortise
    from kept import digest, merged, parts_given
    from measure import ROOT, machine, progress

    sources = digest(ROOT, SOURCES)
    there = {one["kind"]: one["hardware"] for one in torch_mortise.devices()}
    parts, named = parts_given(arguments, "gpu-mixed", sources)
    for name in named:
        if name not in RULES:
            raise ArgumentError(f"expected devices among {', '.join(RULES)}, found {name!r}")
    sets = [named] if named else [["vulkan", "cpu"], *([["cuda", "vulkan", "cpu"]] if "cuda" in there else [])]
    rows = {}
    for devices in sets:
        for how in ("rule", "cost"):
            name = f"{' '.join(devices)} by {how}"
            try:
                rows[name] = row(devices, how == "rule")
            except Exception as error:
                rows[name] = {"error": f"{type(error).__name__}: {str(error)[:300]}", "passed": False}
            progress(f"{name:28} {rows[name]}")
    parts["gpu" if "cuda" in there else "lavapipe"] = {"hardware": there, "machine": machine(), "rows": rows}
    result = {"sources": sources} | merged(parts, DUE)
    if named:
        result["partial"] = "some devices"
    return result
