# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers: one seed gives one tensor, on whatever device."""

import torch
import torch.nn.functional as F
import torch_mortise

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def test_random_numbers_are_the_same_on_every_device(device):
    """One seed, one tensor: bits and what is computed exactly of them; normal numbers within the last places of log and cos."""

    def f(x):
        exact = (
            *(torch.rand(7, 33, dtype=dtype) for dtype in FLOATS),
            F.dropout(x, 0.3, True),
            torch.bernoulli(x),
            torch.randint(3, 1000, (129,)),
            torch.randperm(77),
            torch.rand(20001),
        )
        return exact, (torch.randn(1001), torch.randn(5, 5, dtype=torch.float64))

    def draw(kind):
        torch._dynamo.reset()
        torch_mortise.reset()
        compiled = torch.compile(f, backend="mortise", dynamic=False, options={"device": kind})
        torch.manual_seed(3)
        with torch.no_grad():
            drawn = compiled(torch.full((5, 13), 0.5))
        report = torch_mortise.last_report()
        assert all("seed" in e["op"] for g in report["graphs"] for e in g["eager"]), report["graphs"]
        return drawn

    (exact, normal), (expected, numbers) = draw(device), draw("reference")
    for found, want in zip(exact, expected):
        assert torch.equal(found, want)
    for found, want in zip(normal, numbers):
        # A few last places of the radius, at most 8.6, and of the cosine's argument.
        torch.testing.assert_close(found, want, rtol=0, atol=100 * torch.finfo(want.dtype).eps)


def test_random_numbers_of_dynamic_shapes(device):
    def draw(kind, size):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x: torch.rand_like(x) + x, backend="mortise", dynamic=True, options={"device": kind})
        with torch.no_grad():
            compiled(torch.zeros(4, 6))
            torch.manual_seed(size)
            return compiled(torch.ones(size, 3 * size))

    for size in (3, 9, 70):
        assert torch.equal(draw(device, size), draw("reference", size))
