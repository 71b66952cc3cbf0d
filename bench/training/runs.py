# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The training runs of the figure `training-curves`: two networks, f32 or bf16 autocast, by eager, Inductor or Mortise.

A step is the loss of a batch, its gradients, and the optimiser. Inductor and Mortise compile the loss (with its gradients) and the
optimiser's step; `fused` is eager with PyTorch's fused optimiser.

`traced` is eager with PyTorch's trace of the optimiser, run operator by operator: what compilers are given. Eager computes 1 - beta**step
of AdamW as a Python number; in the trace it is a tensor of f32, where beta is 0.999 only to 1.3e-8, so that each update is larger by
6e-6 of itself. That is far more than roundings move a gradient, and training makes it larger as it does with those, so that losses of
any compiler are compared with this side."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.nn.functional import cross_entropy

from . import data

COMPILERS = {"inductor": {}, "mortise": {"backend": "mortise", "options": {"device": "cpu"}}}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}  # in which products and convolutions compute


class Gpt2:
    """GPT-2 of 4 layers of 256, AdamW, passages of 128 tokens. With batches of 4 it learns less in 500 steps than the judge asks."""

    def __init__(self, batch: int = 8, length: int = 128, layers: int = 4, width: int = 256):
        from transformers import GPT2Config, GPT2LMHeadModel

        config = GPT2Config(vocab_size=data.TOKENS, n_positions=length, n_embd=width, n_layer=layers, n_head=4, resid_pdrop=0.0,
                            embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, use_cache=False)
        self.module, self.batches = GPT2LMHeadModel(config).train(), data.text_batches(batch, length)

    def loss(self, ids, following):
        return cross_entropy(self.module(input_ids=ids).logits.float().flatten(0, 1), following.flatten())

    def optimiser(self, **form):
        return torch.optim.AdamW(self.module.parameters(), lr=1e-3, weight_decay=0.1, **form)


class ResNet:
    """ResNet of three stages of two blocks, SGD with momentum, images of 64 x 64."""

    def __init__(self, batch: int = 16, extent: int = 64, widths: tuple[int, ...] = (64, 128, 256)):
        from transformers import ResNetConfig, ResNetForImageClassification

        config = ResNetConfig(num_channels=1, embedding_size=widths[0], hidden_sizes=list(widths), depths=[2] * len(widths),
                              layer_type="basic", num_labels=10)
        self.module, self.batches = ResNetForImageClassification(config).train(), data.image_batches(batch, extent)

    def loss(self, images, digits):
        return cross_entropy(self.module(pixel_values=images).logits.float(), digits)

    def optimiser(self, **form):
        return torch.optim.SGD(self.module.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4, **form)


NETWORKS = {"gpt2": Gpt2, "resnet": ResNet}
ROWS = tuple(f"{network}-{dtype}" for network in NETWORKS for dtype in DTYPES)


class Run:
    """A run of one side. `perturbed`: a seed by which, for the loss and the gradients of each step, each weight is moved by one unit in
    the last place of the dtype that computes, up, down or not at all; 0 moves none. `wrong`: called with the module after each backward
    pass, so that tests can plant faults."""

    def __init__(self, row: str, side: str, perturbed: int = 0, wrong: Callable = lambda module: None, **sizes):
        name, _, self.dtype = row.partition("-")
        torch.manual_seed(data.SEED)
        self.network, self.side, self.wrong, self.number = NETWORKS[name](**sizes), side, wrong, 0
        self.digest = hashlib.sha256(b"".join(part.numpy().tobytes() for part in self.network.batches(0))).hexdigest()[:16]
        self.moves = torch.Generator().manual_seed(perturbed) if perturbed else None
        self.optimiser = self.network.optimiser(**({"fused": True} if side == "fused" else {}))
        self.loss, self.update = self.network.loss, self.optimiser.step
        if side == "traced":
            self.update = torch.compile(self.optimiser.step, backend="eager")
        if side in COMPILERS:
            self.loss = torch.compile(self.network.loss, **COMPILERS[side])
            self.update = torch.compile(self.optimiser.step, **COMPILERS[side])

    def step(self) -> float:
        """The loss before the step."""
        batch, self.number = self.network.batches(self.number), self.number + 1
        with moved(self.network.module, torch.finfo(DTYPES[self.dtype]).eps, self.moves):
            with torch.autocast("cpu", torch.bfloat16, enabled=self.dtype == "bf16"):
                loss = self.loss(*batch)
            loss.backward()
        self.wrong(self.network.module)
        self.update()
        self.optimiser.zero_grad()
        return loss.item()

    def state_bytes(self) -> int:
        """Of the weights, the buffers and what the optimiser keeps of each: the same for all sides."""
        kept = [*self.network.module.parameters(), *self.network.module.buffers()]
        kept += [value for state in self.optimiser.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
        return sum(tensor.nbytes for tensor in kept)


@contextlib.contextmanager
def moved(module: torch.nn.Module, unit: float, moves: torch.Generator | None):
    """Within it, the weights are up to one unit away from their values; without `moves` they are not."""
    before = [weight.detach().clone() for weight in module.parameters()] if moves else []
    with torch.no_grad():
        for weight, value in zip(module.parameters(), before):
            weight.copy_(value * (1 + unit * torch.randint(-1, 2, value.shape, generator=moves)))
    yield
    with torch.no_grad():
        for weight, value in zip(module.parameters(), before):
            weight.copy_(value)


def compiled_share() -> float:
    """The share of the operators of this process that ran in programs of Mortise; 0 unless a forward and a backward graph were compiled."""
    import torch_mortise

    report = torch_mortise.last_report()
    ends = {graph["name"].rpartition("_")[2] for graph in report["graphs"]}
    return report["coverage"] if {"forward", "backward"} <= ends else 0.0


# ---- in a process of its own ---------------------------------------------------------------------------------


def curve(row: str, side: str, steps: int, perturbed: int = 0) -> dict:
    """The losses of a whole run."""
    run = Run(row, side, perturbed)
    losses = [run.step() for _ in range(steps)]
    result = {"row": row, "side": side, "perturbed": perturbed, "digest": run.digest, "losses": losses}
    return result | ({"coverage": compiled_share()} if side == "mortise" else {})


def times(row: str, sides: list[str], rounds: int, seconds: float) -> dict:
    """Milliseconds of the steps of all sides, which take turns, and the losses of each."""
    from measure import interleaved

    runs = {side: Run(row, side) for side in sides}
    losses: dict[str, list[float]] = {side: [] for side in sides}
    calls = {side: lambda side=side: losses[side].append(runs[side].step()) for side in sides}
    return {"times": interleaved(calls, rounds, seconds), "losses": losses, "digests": {side: run.digest for side, run in runs.items()}}


def memory(row: str, side: str, warm: int, rounds: int, counter) -> dict:
    """The most bytes allocated at one time during a step, beyond those before it, in each round; what programs hold between steps; and
    the bytes of the training's state."""
    import gc

    run, release, held = Run(row, side), lambda: None, 0
    for _ in range(warm):
        run.step()
    if side == "mortise":
        import torch_mortise

        release = torch_mortise.release_memory
        held = max((p["process_arena_bytes"] for g in torch_mortise.last_report()["graphs"] for p in g["programs"]), default=0)
    found = []
    for _ in range(rounds):
        gc.collect()
        release()
        found.append(counter.growth(run.step))
    return {"rounds": found, "held": held, "state": run.state_bytes(), "digest": run.digest}
