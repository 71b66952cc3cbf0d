# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products, norms and pools with views before, between and after them. When a result is stored through the strides of a view, every output
must still be written."""

import os
import random

import pytest
import torch
import torch.nn.functional as F
from agreement import assert_same
from conftest import check


def batched(x):
    return torch.bmm(x, x.mT)  # [8, 6, 6] from [8, 6, 5]


BEHIND = {
    "transposed ones": lambda x: batched(x).view(2, 4, 6, 1, 6).permute(0, 1, 2, 4, 3),
    "transposed ones, contiguous": lambda x: batched(x).view(2, 4, 6, 1, 6).permute(0, 1, 2, 4, 3).contiguous(),
    "transposed ones, reshaped": lambda x: batched(x).view(2, 4, 6, 1, 6).permute(0, 1, 2, 4, 3).reshape(2, 4, 6, 6),
    "after an addition": lambda x: (batched(x) + 1).view(2, 4, 6, 1, 6).permute(0, 1, 2, 4, 3).reshape(2, 4, 6, 6),
    "linear": lambda x: F.linear(x[0], x[1]).view(6, 1, 6).permute(0, 2, 1).reshape(6, 6),
    "heads": lambda x: batched(x).view(2, 4, 6, 6).permute(0, 2, 1, 3).reshape(2, 6, 24),
    "squeezed, turned and repeated": lambda x: batched(x).reshape(8, 1, 36).squeeze().permute(1, 0).unsqueeze(0).expand(2, 36, 8),
    "turned, and once more": lambda x: (y := batched(x).permute(2, 1, 0), y.unsqueeze(0).expand(2, 6, 6, 8)),
    "turned, and read": lambda x: (y := batched(x).permute(2, 0, 1), y @ y.mT, y.exp(), y.reshape(48, 6) @ y[0].mT),
    "einsum bhqd,bhkd->bhqk": lambda x: torch.einsum("bhqd,bhkd->bhqk", x.view(2, 4, 6, 5), x.view(2, 4, 6, 5)),
    "einsum bhqd,bhkd->bqhk": lambda x: torch.einsum("bhqd,bhkd->bqhk", x.view(2, 4, 6, 5), x.view(2, 4, 6, 5)),
    "einsum bij,bjk->kbi": lambda x: torch.einsum("bij,bkj->kbi", x, x),
    "einsum bi,bi->": lambda x: torch.einsum("bij,bij->b", x, x),
}


@pytest.mark.parametrize("name", BEHIND)
def test_views_behind_products(compile_for, name):
    check(compile_for(BEHIND[name]), BEHIND[name], torch.randn(8, 6, 5))


class Siblings(torch.nn.Module):
    """Two products of one input by constant weights, which may become one, and a convolution that reads one of them through a view."""

    def __init__(self, convolution):
        super().__init__()
        self.first, self.second, self.convolution = torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 16), convolution

    def forward(self, x):
        return self.convolution(self.second(x).transpose(1, 2)), self.first(x).exp()


CONVOLUTIONS = {
    "dense": lambda: torch.nn.Conv1d(16, 8, 3),
    "depthwise": lambda: torch.nn.Conv1d(16, 16, 4, groups=16, padding=3),
    "transposed": lambda: torch.nn.ConvTranspose1d(16, 8, 3),
    "transposed, of stride 2": lambda: torch.nn.ConvTranspose1d(16, 8, 4, stride=2),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions_behind_products_of_one_input(compile_for, name):
    model = Siblings(CONVOLUTIONS[name]())
    check(compile_for(model), model, torch.randn(2, 6, 16))


class Programs:
    """Makes random programs, as lists of (name, function, text)."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.values = torch.Generator().manual_seed(seed)

    def randn(self, *shape):
        return torch.randn(*shape, generator=self.values)

    def view(self, x):
        pick = self.random
        match pick.randrange(6):
            case 0:  # distributes the prime factors of the element count over the dimensions
                dims, left, factor = [1] * pick.randint(1, 4), x.numel(), 2
                while left > 1:
                    while left % factor == 0:
                        dims[pick.randrange(len(dims))] *= factor
                        left //= factor
                    factor += 1
                return f"reshape{dims}", lambda y: y.reshape(dims)
            case 1:
                order = pick.sample(range(x.dim()), x.dim())
                return f"permute{order}", lambda y: y.permute(order)
            case 2:
                at = pick.randint(0, x.dim())
                return f"unsqueeze({at})", lambda y: y.unsqueeze(at)
            case 3 if x.dim() and max(x.shape) > 1:
                at = pick.choice([i for i, n in enumerate(x.shape) if n > 1])
                start = pick.randrange(x.shape[at] - 1)
                size = pick.randint(1, x.shape[at] - start)
                return f"narrow({at}, {start}, {size})", lambda y: y.narrow(at, start, size)
            case 4:
                return "squeeze()", lambda y: y.squeeze()
        return "contiguous()", lambda y: y.contiguous()

    def computation(self, x):
        pick, rank = self.random, x.dim()
        axis = pick.randrange(rank) if rank else 0
        kind = pick.choice(["sigmoid", "add", "softmax", "sum", "mm", "mm", "lmm", "self", "self", "cat", "norm", "conv", "pool", "expand"])
        if kind == "sigmoid" or not rank:
            return "sigmoid()", torch.sigmoid
        if kind == "add":
            other = self.randn(x.shape[-1:] if pick.random() < 0.5 else x.shape)
            return f"add {list(other.shape)}", lambda y: y + other
        if kind == "softmax":
            return f"softmax({axis})", lambda y: y.softmax(axis)
        if kind == "sum" and x.numel() > 8:
            keep = pick.random() < 0.5
            return f"sum({axis}, {keep})", lambda y: y.sum(axis, keepdim=keep)
        if kind == "mm" and rank > 1:
            right = self.randn(x.shape[-1], pick.choice([1, 3, 4, 8])) * 0.3
            return f"@ {list(right.shape)}", lambda y: y @ right
        if kind == "lmm" and rank > 1:
            left = self.randn(pick.choice([1, 2, 5]), x.shape[-2]) * 0.3
            return f"{list(left.shape)} @", lambda y: left @ y
        if kind == "self" and rank > 1 and x.shape[-2] < 40:
            return "@ self.mT", lambda y: y @ y.mT
        if kind == "cat" and x.numel() < 2000:
            return f"cat({axis})", lambda y: torch.cat([y, y], axis)
        if kind == "norm":
            return "layer_norm", lambda y: F.layer_norm(y, y.shape[-1:])
        if kind == "conv" and rank == 4:
            window = self.randn(3, x.shape[1], 1, 1)
            return "conv2d", lambda y: torch.conv2d(y, window)
        if kind == "pool" and rank == 4 and min(x.shape[2:]) > 1:
            return "max_pool2d(2)", lambda y: F.max_pool2d(y, 2)
        if kind == "expand" and x.numel() < 2000:
            return "expand(2)", lambda y: y.unsqueeze(0).expand(2, *y.shape)
        return "sigmoid()", torch.sigmoid

    def make(self):
        """Returns a program, its text, and its input."""
        pick = self.random
        source = x = self.randn([pick.choice([1, 2, 3, 4, 6, 8]) for _ in range(pick.randint(2, 4))])
        steps, text = [], str(list(x.shape))
        for _ in range(pick.randint(2, 8)):
            name, step = self.view(x) if pick.random() < 0.55 else self.computation(x)
            y = step(x)
            if not 0 < y.numel() <= 20000 or y.dim() > 6:
                continue
            x, shown = y, pick.random() < 0.12
            steps.append((step, shown))
            text += f" {name}{' (output)' if shown else ''}"

        def program(y):
            outputs = []
            for step, shown in steps:
                y = step(y)
                if shown:
                    outputs.append(y)
            return *outputs, y

        return program, text, source


@pytest.mark.parametrize("seed", [1, None], ids=["fixed", "fresh"])
def test_random_programs(compile_for, device, seed):
    if device != "cpu":
        pytest.skip("what is stored through views is the cpu plugin's affair")
    seed = int(os.environ.get("MORTISE_TEST_SEED") or seed or random.randrange(1 << 30))
    programs, wrong = Programs(seed), []
    for number in range(30):
        program, text, source = programs.make()
        torch._dynamo.reset()
        with torch.no_grad():
            expected = program(source)
            try:
                compiled = compile_for(program)
                for _ in range(2):
                    assert_same(compiled(source.clone()), expected, lambda p=program, x=source: p(x))
            except Exception as error:  # noqa: BLE001 (whatever it is, with the program that does it)
                wrong.append(f"number {number}: {text}: {str(error)[:300]}")
    assert not wrong, f"MORTISE_TEST_SEED={seed}: " + "\n".join(wrong)
