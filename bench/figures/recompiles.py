# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Twenty shapes through torch.compile(backend="mortise", dynamic=None), with sizes 0 and 1 among them: results are eager's, and no more
than one function is compiled again after the first call, the one that makes the changing sizes symbols. The size 0 is that of the first
dimension: PyTorch's guards on strides ask for another trace where an inner one is 0.

`recompiles` counts what Dynamo traced after the first call, and programs that were compiled for a shape of their own. `why` has what
last_report() says of each; a recompilation without a reason fails. `one-trace-many-shapes` measures what dynamic shapes cost in time;
here no size is marked, and the networks are small."""

from figures import ArgumentError

MEASURES = "20 shapes through torch.compile(dynamic=None), sizes 0 and 1 among them: recompiles after the first call, agreement, reasons"
NEEDS = "cpu"
MINUTES = 2

# (batch, length). The first is compiled as it is, the second makes symbols of both.
SHAPES = [(3, 5), (4, 7), (1, 5), (0, 3), (5, 1), (1, 1), (0, 1), (2, 2), (8, 3), (1, 16), (6, 6), (12, 9), (0, 7), (16, 4), (2, 31),
          (7, 12), (33, 2), (1, 2), (9, 17), (3, 64)]
MOST = 1


def networks() -> dict:
    """{name: (maker of the module, maker of the arguments for a batch and a length, whether it is trained)}"""
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(16, 16), nn.LayerNorm(16)

        def forward(self, x):
            return self.norm(x + F.gelu(self.linear(x))) * torch.sigmoid(x)

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = nn.Embedding(100, 16), nn.LayerNorm(16)
            self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

        def forward(self, ids):
            x = self.embed(ids)
            b, t, c = x.shape
            q, k, v = (y.view(b, t, 4, 4).transpose(1, 2) for y in self.qkv(self.norm(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return x + self.out(y.transpose(1, 2).reshape(b, t, c))

    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
            self.norm, self.out = nn.BatchNorm2d(8), nn.Linear(8, 5)

        def forward(self, x):
            x = F.relu(self.norm(self.first(x)))
            return self.out(F.relu(self.second(x)).mean((2, 3)))

    def rows(batch, length, generator):
        return (torch.randn(batch, length, 16, generator=generator),)

    def ids(batch, length, generator):
        return (torch.randint(100, (batch, length), generator=generator),)

    def images(batch, length, generator):
        return (torch.randn(batch, 3, length, 8, generator=generator),)

    return {"norm": (Norm, rows, False), "attention": (Attention, ids, False), "convolutions": (Convolutions, images, False),
            "training": (Norm, rows, True)}


def results(call, module, arguments, trained: bool) -> list:
    """What is compared: the outputs and, in training, all gradients."""
    import torch

    if not trained:
        with torch.no_grad():
            return [call(*arguments)]
    module.zero_grad()
    arguments = [a.clone().requires_grad_() for a in arguments]
    out = call(*arguments)
    out.square().sum().backward()
    return [out.detach(), *(a.grad for a in arguments), *(p.grad.clone() for p in module.parameters())]


def compilations() -> int:
    """Traces by Dynamo, and programs that were compiled for one shape beyond the first of their graph."""
    import torch
    import torch_mortise

    graphs = torch_mortise.last_report()["graphs"]
    keys = {(graph["name"], str(graph["symbols"])) for graph in graphs}
    late = sum(program["values"]["kernels_specialised"] for graph in graphs for program in graph["programs"])
    return torch._dynamo.utils.counters["stats"]["unique_graphs"] + len(keys) - len({name for name, _ in keys}) + late


def measure_network(name: str) -> dict:
    import torch
    import torch_mortise
    from measure import ERROR_LIMIT, clear_compilers, compare, progress
    from reports import coverage

    make, arguments_for, trained = networks()[name]
    clear_compilers()
    torch_mortise.reset()
    torch._dynamo.utils.counters.clear()
    torch.manual_seed(0)
    module = make().train(trained)
    call = torch.compile(module, backend="mortise", options={"device": "cpu"})
    rows, first = [], 0
    for shape in SHAPES:
        arguments = arguments_for(*shape, torch.Generator().manual_seed(shape[0] * 1000 + shape[1]))
        before = compilations()
        agreement = compared(compare, results(call, module, arguments, trained), results(module, module, arguments, trained))
        rows.append({"shape": list(shape), "compiled": compilations() - before, "error": agreement.error,
                     "problem": agreement.why_not(ERROR_LIMIT)})
        first = first or compilations()
    report = torch_mortise.last_report()
    why = sorted({graph["recompiled"] for graph in report["graphs"] if graph["recompiled"]})
    again = compilations() - first
    problem = "; ".join(filter(None, [
        f"{again} recompiles, expected at most {MOST}" if again > MOST else "",
        f"{again} recompiles, and last_report() gives no reason" if again and not why else "",
        "no program was compiled" if not first else "",
        "" if coverage(report, "cpu") == 1.0 else f"coverage is {coverage(report, 'cpu')}"]))
    wrong = sum(bool(row["problem"]) for row in rows)
    progress(f"{name}: {again} recompiles ({'; '.join(why)}), {wrong} of {len(rows)} shapes wrong {problem}")
    return {"rows": rows, "recompiles": again, "why": why, "coverage": coverage(report, "cpu"), "problem": problem,
            "notes": [note for graph in report["graphs"] for note in graph["notes"]]}


def compared(compare, found: list, expected: list):
    """Agreement of all outputs; what is empty has only its shape and dtype."""
    from measure import Agreement

    if len(found) != len(expected):
        return Agreement(float("inf"), -1, f"expected {len(expected)} outputs, found {len(found)}")
    for number, (f, e) in enumerate(zip(found, expected)):
        if f.shape != e.shape or f.dtype != e.dtype:
            return Agreement(float("inf"), -1, f"output {number}: expected {e.dtype}{list(e.shape)}, found {f.dtype}{list(f.shape)}")
    filled = [number for number, e in enumerate(expected) if e.numel()]
    if not filled:
        return Agreement(0.0, 1.0)
    return compare([found[n] for n in filled], [expected[n] for n in filled])


def measure(arguments: list[str]) -> dict:
    if unknown := [a for a in arguments if a not in networks()]:
        raise ArgumentError(f"expected some of {', '.join(networks())}, found {' '.join(unknown)}")
    found = {name: measure_network(name) for name in arguments or networks()}
    worst = max(row["recompiles"] for row in found.values())
    wrong = sum(bool(row["problem"]) for network in found.values() for row in network["rows"])
    sizes = {size for shape in SHAPES for size in shape}
    return {"shapes": len(SHAPES), "recompiles": worst, "wrong": wrong, "networks": found,
            "passed": worst <= MOST and not wrong and {0, 1} <= sizes and not any(network["problem"] for network in found.values())}
