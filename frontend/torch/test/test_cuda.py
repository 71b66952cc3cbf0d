# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors on an NVIDIA GPU through torch.compile. Runs there: tools/gpu/run.sh test."""

import pytest
import torch
import torch_mortise
from torch.nn import functional as F

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU of NVIDIA's, or a PyTorch without CUDA")

OPTIONS = {"device": "cuda"}


def assert_near_f64(function, tensors, dynamic=False, coverage=1.0, compiled=None):
    """The compiled function's distance from f64 is at most twice eager's, or two units in the last place of the largest result."""
    compiled = compiled or torch.compile(function, backend="mortise", dynamic=dynamic, options=OPTIONS)
    found = compiled(*tensors)
    assert found.device.type == "cuda"
    assert torch_mortise.last_report()["coverage"] >= coverage
    exact = function(*(t.double() if t.is_floating_point() else t for t in tensors))
    eager = function(*tensors)
    assert found.dtype == eager.dtype and found.shape == eager.shape and found.stride() == eager.stride()
    unit = torch.finfo(found.dtype).eps * exact.abs().max().item()
    limit = max(2 * (eager.double() - exact).abs().max().item(), 2 * unit)
    assert (found.double() - exact).abs().max().item() <= limit
    return compiled


@pytest.fixture(autouse=True)
def fresh():
    torch.compiler.reset()
    torch.manual_seed(3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(64, 4096), (7, 33), (3, 40000), (1, 1)])
def test_rows(dtype, shape):
    x = torch.randn(shape, device="cuda", dtype=dtype)
    assert_near_f64(lambda x: F.gelu(F.layer_norm(x, x.shape[-1:])) + torch.softmax(x, -1), (x,))


@pytest.mark.parametrize("offset", [0, 1, 3])
def test_addresses_need_only_the_elements_alignment(offset):
    memory = torch.randn(64 * 1024 + 8, device="cuda", dtype=torch.bfloat16)
    x = memory[offset:offset + 64 * 1024].view(64, 1024)
    assert_near_f64(lambda x: torch.softmax(x * 2, -1), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype, causal):
    q, k, v = (torch.randn(2, 4, 48, 64, device="cuda", dtype=dtype) for _ in range(3))
    with torch.no_grad():
        assert_near_f64(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=causal), (q, k, v))


def test_products():
    x, w, bias = (torch.randn(*shape, device="cuda") for shape in ((2, 30, 64), (96, 64), (96,)))
    assert_near_f64(lambda x, w, bias: F.relu(F.linear(x, w, bias)), (x, w, bias))


def test_one_program_for_all_shapes():
    def function(x):
        return torch.softmax(x, -1).sum(0)

    compiled = None
    for rows, length in ((5, 32), (64, 100), (3, 4096), (200, 7)):
        x = torch.randn(rows, length, device="cuda")
        compiled = assert_near_f64(function, (x,), dynamic=True, compiled=compiled)


def test_work_is_ordered_with_the_callers_stream():
    compiled = torch.compile(lambda x: x * 2 + 1, backend="mortise", options=OPTIONS)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x = torch.zeros(1 << 22, device="cuda")
        for _ in range(20):
            x = compiled(x)
    stream.synchronize()
    assert x.eq(2.0**20 - 1).all()
