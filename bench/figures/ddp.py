# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Two processes over gloo train a small language model for 50 steps, as DDP (torch.compile of the wrapped model, a graph for each
bucket) and as FSDP2 (each part compiled and sharded). Eager, mortise and Inductor take turns step by step in the same processes, with
equal weights and samples.

`loss_diff` is the largest relative difference of a loss, the mean of both ranks', from eager's in the same step. It is judged by noise that
is measured: eager runs in which every weight moves by up to one unit roundoff in each step, and samples are dealt out to the ranks in
another order. DDP's replicas have to stay equal to the last bit, and every operator of every graph has to be in a program, but for
collectives. The time of a step is that of the slower rank, the median over the steps after the first ones, which compile.
`ratio_to_eager`: of the slower form."""

from figures import ArgumentError

MEASURES = "DDP and FSDP2 in 2 processes over gloo, 50 training steps: losses beside eager's, time per step beside eager and Inductor"
NEEDS = "cpu; g++ for Inductor"
MINUTES = 5

FORMS, PEERS = ("ddp", "fsdp2"), ("inductor",)
RANKS, STEPS, WARM = 2, 50, 5  # the first WARM steps are not timed
PERTURBED = 3  # runs that measure the noise
FACTOR = 4.0  # how far beyond the noise of the runs before and in a step a loss may be
LARGEST_NOISE = 1e-3  # relative to the loss
UNIT = 2.0**-24
SAMPLES, LENGTH, VOCABULARY, WIDTH, DEPTH = 4, 32, 64, 256, 4  # samples of each rank in a step
SECONDS = 900  # after which a form has failed

RANK = """
import sys
from figures import ddp
ddp.run_rank(*sys.argv[1:])
"""


def network():
    import torch
    import torch.nn.functional as F
    from torch import nn

    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)

        def forward(self, ids):
            return self.tokens(ids) + self.places.weight

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
            attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.second(x))))

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.logits = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, x, labels):
            return F.cross_entropy(self.logits(self.norm(x)).flatten(0, 1), labels.flatten())

    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleList([Tokens(), *(Block() for _ in range(DEPTH)), Head()])

        def forward(self, ids, labels):
            *parts, head = self.parts
            for part in parts:
                ids = part(ids)
            return head(ids, labels)

    torch.manual_seed(0)
    return Language()


class Trainer:
    """A network with an optimizer on one rank. `backend`: "" for eager."""

    def __init__(self, form: str, backend: str):
        import torch
        from torch.distributed.fsdp import fully_shard
        from torch.nn.parallel import DistributedDataParallel

        options = {"options": {"device": "cpu"}} if backend == "mortise" else {}
        self.model = network()
        if form == "ddp":
            self.run = DistributedDataParallel(self.model, bucket_cap_mb=4)
            self.run = torch.compile(self.run, backend=backend, **options) if backend else self.run
        else:
            for part in self.model.parts:
                if backend:
                    part.compile(backend=backend, **options)
                fully_shard(part)
            self.run = fully_shard(self.model)
        self.parameters = list(self.model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.1, momentum=0.9)

    def step(self, ids, labels) -> float:
        self.optimizer.zero_grad()
        loss = self.run(ids, labels)
        loss.backward()
        self.optimizer.step()
        return loss.item()


def batches(seed: int, order=None):
    """(ids, labels) of all ranks in each step. Half of the labels depend on their tokens, the others on nothing, so that the loss falls,
    and not to 0, beside which no difference is small."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for _ in range(STEPS):
        ids = torch.randint(0, VOCABULARY, (RANKS * SAMPLES, LENGTH), generator=generator) ** 2 // VOCABULARY
        noise = torch.randint(0, VOCABULARY, ids.shape, generator=generator)
        labels = torch.where(torch.rand(ids.shape, generator=generator) < 0.5, (3 * ids + 1) % VOCABULARY, noise)
        dealt = torch.randperm(len(ids), generator=order) if order else torch.arange(len(ids))
        yield ids[dealt], labels[dealt]


def part_of(tensor, rank: int):
    return tensor[rank * SAMPLES : (rank + 1) * SAMPLES]


def mean_loss(value: float) -> float:
    """The mean of all ranks' losses."""
    import torch
    import torch.distributed as dist

    total = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / RANKS


def perturbed_losses(form: str, rank: int, seed: int, number: int) -> list[float]:
    """The losses of an eager run with other roundings. All ranks move a weight alike, so that replicas stay equal."""
    import torch

    noise, order = torch.Generator().manual_seed(seed + number + 1), torch.Generator().manual_seed(seed + number + 1)
    trainer, losses = Trainer(form, ""), []
    for ids, labels in batches(seed, order):
        with torch.no_grad():
            for parameter in trainer.parameters:
                local = parameter.to_local() if form == "fsdp2" else parameter
                local.mul_(1 + UNIT * (2 * torch.rand(local.shape, dtype=torch.float64, generator=noise) - 1))
        losses.append(mean_loss(trainer.step(part_of(ids, rank), part_of(labels, rank))))
    return losses


def equal_replicas(trainer: Trainer) -> bool:
    """Whether all ranks have the same weights, to the last bit."""
    import torch
    import torch.distributed as dist

    weights = torch.cat([p.detach().flatten() for p in trainer.parameters]).view(torch.int32)
    found = [torch.empty_like(weights) for _ in range(RANKS)]
    dist.all_gather(found, weights)
    return all(torch.equal(found[0], other) for other in found)


def run_rank(rank: str, store: str, form: str, seed: str, *rivals: str) -> None:
    """One process. Rank 0 prints what was measured, as JSON."""
    import datetime
    import json
    import time

    import torch
    import torch.distributed as dist

    rank, seed = int(rank), int(seed)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, RANKS), rank=rank, world_size=RANKS,
                            timeout=datetime.timedelta(seconds=SECONDS // 3))
    import torch_mortise

    names = ("eager", *rivals)
    trainers = {name: Trainer(form, "" if name == "eager" else name) for name in names}
    losses, times = ({name: [] for name in names} for _ in range(2))
    failed: dict[str, str] = {}
    for ids, labels in batches(seed):
        ids, labels = part_of(ids, rank), part_of(labels, rank)
        for name in names:
            if name in failed:
                continue
            dist.barrier()
            began = time.perf_counter()
            try:
                loss = trainers[name].step(ids, labels)
            except Exception as error:  # a peer that fails on one rank fails on both, because both run the same
                if name not in PEERS:
                    raise
                failed[name] = f"{type(error).__name__}: {error}"[:300]
                continue
            took = torch.tensor(time.perf_counter() - began, dtype=torch.float64)
            dist.all_reduce(took, dist.ReduceOp.MAX)
            times[name].append(took.item() * 1e3)
            losses[name].append(mean_loss(loss))
    result = {"losses": losses, "ms": times, "failed": failed,
              "replicas": {name: equal_replicas(trainers[name]) for name in names if form == "ddp" and name not in failed},
              "graphs": [graph_row(graph) for graph in torch_mortise.last_report()["graphs"]]}
    result["perturbed"] = [perturbed_losses(form, rank, seed, number) for number in range(PERTURBED)]
    dist.barrier()
    dist.destroy_process_group()
    if rank == 0:
        print(json.dumps(result))


def graph_row(graph: dict) -> dict:
    """`eager`: the operators in eager that are not there by design, as collectives are."""
    return {"name": graph["name"], "operators": graph["operators"],
            "eager": [f"{entry['op']}: {entry['reason']}"[:200] for entry in graph["eager"] if not entry["by_design"]]}


def run_form(form: str, seed: int, rivals: tuple[str, ...], code: str = RANK) -> dict:
    """What rank 0 measured. `code`: what each rank runs."""
    import json
    import os
    import subprocess
    import sys
    import tempfile
    import time

    from measure import ROOT

    path = f"{ROOT / 'bench'}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = dict(os.environ, PYTHONPATH=path, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    with tempfile.TemporaryDirectory() as folder:
        logs = [open(f"{folder}/{rank}.{kind}", "w+") for rank in range(RANKS) for kind in ("out", "err")]
        processes = [subprocess.Popen([sys.executable, "-c", code, str(rank), f"{folder}/store", form, str(seed), *rivals], env=environment,
                                      stdout=logs[2 * rank], stderr=logs[2 * rank + 1]) for rank in range(RANKS)]
        deadline, problem = time.monotonic() + SECONDS, ""
        while not problem and any(process.poll() is None for process in processes):
            time.sleep(0.1)
            if any(process.poll() for process in processes):  # the other one would wait for it
                problem = "a rank failed"
            elif time.monotonic() > deadline:
                problem = f"not done after {SECONDS} s"
        for process in processes:
            process.kill()
            process.wait()
        texts = [open(log.name).read() for log in logs if not log.close()]
        if problem or any(process.returncode for process in processes):
            said = "\n".join(text[-1500:] for text in texts[1::2])
            raise RuntimeError(f"{problem or 'a rank failed'}; the ranks end with {[p.returncode for p in processes]} and say:\n{said}")
        return json.loads(texts[0].strip().splitlines()[-1])


def noise_of(found: dict) -> list[float]:
    """For each step, how far the perturbed runs' losses were from eager's in it or before, or a unit in the last place."""
    largest, result = 0.0, []
    for step, loss in enumerate(found["losses"]["eager"]):
        largest = max(largest, 2 * UNIT * abs(loss), *(abs(run[step] - loss) for run in found["perturbed"]))
        result.append(largest)
    return result


def difference(found: dict, name: str) -> tuple[float, str]:
    """(the largest relative difference of a rival's losses from eager's, why it is too large or "")."""
    import math

    losses, expected = found["losses"][name], found["losses"]["eager"]
    if len(losses) != STEPS or len(expected) != STEPS or not all(map(math.isfinite, [*losses, *expected])):
        return math.inf, f"{name}: expected {STEPS} finite losses, found {len(losses)}: {losses[-3:]}"
    largest = max(abs(a - b) / abs(b) for a, b in zip(losses, expected, strict=True))
    for step, (a, b, noise) in enumerate(zip(losses, expected, noise_of(found), strict=True)):
        if not abs(a - b) <= FACTOR * noise:
            return largest, f"{name}: the loss of step {step} is {a:.9g}, eager's {b:.9g}, and the noise {noise:.1e}"
    return largest, ""


def judged(found: dict) -> dict:
    """The row of a form."""
    import math

    from measure import median

    rivals = [name for name in found["losses"] if name != "eager" and name not in found["failed"]]
    problems = [f"{name}: {why}" for name, why in found["failed"].items()]
    row: dict = {"steps": STEPS, "first_loss": found["losses"]["eager"][0], "last_loss": found["losses"]["eager"][-1],
                 "noise": max(n / abs(b) for n, b in zip(noise_of(found), found["losses"]["eager"], strict=True))}
    if not (all(math.isfinite(loss) for run in found["perturbed"] for loss in run) and row["noise"] <= LARGEST_NOISE):
        problems.append(f"the noise is {row['noise']:.1e}, beside which no difference shows")
    if not row["last_loss"] < 0.9 * row["first_loss"]:
        problems.append("eager learns nothing, so that its losses show nothing")
    for name in rivals:
        largest, why = difference(found, name)
        row["loss_diff" if name == "mortise" else f"{name}_loss_diff"] = largest
        problems += [why] if why else []
    problems += [f"{name}: the ranks have different weights" for name, equal in found["replicas"].items() if not equal]
    kinds = {graph["name"].rpartition("_")[2] for graph in found["graphs"]}
    if kinds != {"forward", "backward"}:
        problems.append(f"expected forward and backward graphs, found {[graph['name'] for graph in found['graphs']]}")
    problems += [f"{graph['name']}: in eager: {graph['eager'][0]}" for graph in found["graphs"] if graph["eager"]]
    row["graphs"], row["operators"] = len(found["graphs"]), sum(graph["operators"] for graph in found["graphs"])
    row["in_eager"] = sum(len(graph["eager"]) for graph in found["graphs"])
    for name in ("eager", *rivals):
        row[f"{name}_ms"], row[f"{name}_first_step_s"] = median(found["ms"][name][WARM:]), found["ms"][name][0] / 1e3
    for name in rivals:
        row["ratio_to_eager" if name == "mortise" else f"{name}_ratio_to_eager"] = row[f"{name}_ms"] / row["eager_ms"]
    return row | {"problem": "; ".join(problems)}


def measure(arguments: list[str]) -> dict:
    import random

    from measure import progress

    rivals = ("mortise", *(() if "without-peers" in arguments else PEERS))
    asked = [name for name in arguments if name != "without-peers"]
    if unknown := [name for name in asked if name not in FORMS]:
        raise ArgumentError(f"expected some of {', '.join(FORMS)} and without-peers, found {', '.join(unknown)}")
    rows, seed = {}, random.getrandbits(31)
    for form in asked or FORMS:
        row = rows[form] = judged(run_form(form, seed, rivals))
        times = ", ".join(f"{name} {row[f'{name}_ms']:.1f} ms" for name in ("eager", *rivals) if f"{name}_ms" in row)
        progress(f"{form}: loss {row['first_loss']:.3f} to {row['last_loss']:.3f}, differs by {row['loss_diff']:.1e} (noise "
                 f"{row['noise']:.1e}); {times}{row['problem'] and '; FAILED: '}{row['problem']}")
    result = {"ratio_to_eager": max(row["ratio_to_eager"] for row in rows.values()),
              "loss_diff": max(row["loss_diff"] for row in rows.values()), "rows": rows, "seed": seed,
              "passed": not any(row["problem"] for row in rows.values())}
    part = set(rows) != set(FORMS) or "without-peers" in arguments
    return result | ({"partial": f"{' and '.join(rows)}{' without peers' if 'without-peers' in arguments else ''}"} if part else {})
