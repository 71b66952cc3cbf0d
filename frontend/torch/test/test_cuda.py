# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors on an NVIDIA GPU through torch.compile. Runs there: tools/gpu/run.sh test."""

import threading
import time

import pytest
import torch
import torch_mortise
from conftest import saved_ops
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


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mask", ["none", "causal", "boolean", "added"])
@pytest.mark.parametrize("queries, keys, depth", [(48, 48, 64), (77, 200, 128), (512, 512, 64), (300, 40, 80)])
@torch.no_grad()
def test_attention_in_one_kernel(dtype, mask, queries, keys, depth):
    """Through the transposes that stand around it, which take no kernel."""
    heads = 4
    q, k, v = (torch.randn(2, rows, heads * depth, device="cuda", dtype=dtype) for rows in (queries, keys, keys))
    seen = torch.rand(2, 1, 1, keys, device="cuda") < 0.7
    bias = torch.randn(1, heads, queries, keys, device="cuda", dtype=dtype)

    def attention(q, k, v):
        q, k, v = (x.view(2, -1, heads, depth).transpose(1, 2) for x in (q, k, v))
        given = {"none": None, "causal": None, "boolean": seen, "added": bias.to(q.dtype)}[mask]
        y = F.scaled_dot_product_attention(q, k, v, given, is_causal=mask == "causal")
        return y.transpose(1, 2).reshape(2, queries, heads * depth)

    compiled = assert_near_f64(attention, (q, k, v))
    assert set(torch_mortise.explain(compiled, q, k, v).report["time_share"]) == {"cuda.attention"}


@torch.no_grad()
def test_a_boolean_mask_stays_boolean(tmp_path):
    """PyTorch adds 0 and a low number, which depends on the kernel that it has chosen. Tiles are left out only where a mask is boolean."""
    q, k, v = (torch.randn(1, 4, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    seen = torch.ones(128, 128, dtype=torch.bool, device="cuda").tril()
    compiled = torch.compile(F.scaled_dot_product_attention, backend="mortise", options=OPTIONS | {"save_graphs": str(tmp_path)})
    compiled(q, k, v, seen)
    (attention,) = saved_ops(tmp_path, "attention")
    assert "xi1>" in attention


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(2, 30, 64, 96), (1, 1, 33, 7), (1, 500, 768, 3072)])
def test_products_with_a_bias(dtype, shape):
    batch, rows, terms, columns = shape
    x, w, bias = (torch.randn(*dims, device="cuda", dtype=dtype) for dims in ((batch, rows, terms), (columns, terms), (columns,)))
    assert_near_f64(lambda x, w, bias: F.relu(F.linear(x, w, bias)), (x, w, bias))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_products_of_narrow_numbers_are_exact_in_f32(dtype):
    """Operands of few bits, so that every sum is exact: a result that was rounded to the operands' type would show."""
    x, w = (torch.randint(-8, 9, (96, 256), device="cuda").to(dtype) for _ in range(2))
    compiled = torch.compile(lambda x, w: x.float() @ w.float().T + 0.5, backend="mortise", options=OPTIONS)
    assert compiled(x, w).equal((x.double() @ w.double().T + 0.5).float())


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


# ---- Convolutions

FORMS = [  # channels of input and output, window, keywords
    (3, 8, 7, {"stride": 2, "padding": 3}), (16, 24, 3, {"padding": 1}), (16, 8, 1, {}),
    (12, 20, 3, {"padding": 2, "dilation": 2}), (16, 32, 3, {"groups": 4, "padding": 1}),
    (16, 16, 3, {"groups": 16, "padding": 1}), (5, 7, 3, {"padding": 1}), (6, 10, 2, {"groups": 2}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", FORMS, ids=str)
@torch.no_grad()
def test_convolutions(dtype, form):
    channels, results, window, keywords = form
    x = torch.randn(2, channels, 19, 17, device="cuda", dtype=dtype)
    weight = torch.randn(results, channels // keywords.get("groups", 1), window, window, device="cuda", dtype=dtype)
    bias = torch.randn(results, device="cuda", dtype=dtype)
    assert_near_f64(lambda x, w: F.conv2d(x, w, **keywords), (x, weight))
    for activation in (F.relu, F.silu):
        assert_near_f64(lambda x, w, b, activation=activation: activation(F.conv2d(x, w, b, **keywords)), (x, weight, bias))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rank", [1, 3])
@torch.no_grad()
def test_convolutions_of_lines_and_volumes(dtype, rank):
    x, weight = (torch.randn(*dims, *[size] * rank, device="cuda", dtype=dtype) for dims, size in (((2, 16), 9), ((8, 16), 3)))
    assert_near_f64(lambda x, w: F.relu((F.conv1d if rank == 1 else F.conv3d)(x, w, padding=1)), (x, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("offset", [0, 1, 4])
@torch.no_grad()
def test_convolutions_of_tensors_at_any_address(dtype, offset):
    """Also of channels last, whose strides results of eager keep."""
    memory = torch.randn(2 * 16 * 9 * 9 + 8, device="cuda", dtype=dtype)
    x, weight = memory[offset:offset + 2 * 16 * 9 * 9].view(2, 16, 9, 9), torch.randn(16, 16, 3, 3, device="cuda", dtype=dtype)
    for given in (x, x.contiguous(memory_format=torch.channels_last)):
        assert_near_f64(lambda x, w: F.conv2d(x, w, padding=1), (given, weight))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_pools(dtype):
    x = torch.randn(2, 6, 15, 14, device="cuda", dtype=dtype)
    x[0, 0, 3, 3], x[1, 2, 5, 5] = float("inf"), float("nan")
    found = torch.compile(lambda x: F.max_pool2d(x, 3, 2, 1), backend="mortise", options=OPTIONS)(x)
    torch.testing.assert_close(found, F.max_pool2d(x, 3, 2, 1), rtol=0, atol=0, equal_nan=True)
    assert torch_mortise.last_report()["coverage"] == 1
    assert_near_f64(lambda x: F.avg_pool2d(x, 3, 2, 1), (x[1:, 3:],))


class Residual(torch.nn.Module):
    """A convolution with normalisation, a pool, and two blocks as in ResNet."""

    def __init__(self, width=32):
        super().__init__()
        self.stem = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.inner = torch.nn.ModuleList(torch.nn.Conv2d(width, width, 3, padding=1, bias=False) for _ in range(4))
        self.norms = torch.nn.ModuleList(torch.nn.BatchNorm2d(width) for _ in range(5))
        for norm in self.norms:
            torch.nn.init.normal_(norm.running_mean, 0, 0.1)
            torch.nn.init.uniform_(norm.running_var, 0.5, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norms[4](self.stem(x))), 3, 2, 1)
        for i in (0, 2):
            y = F.relu(self.norms[i](self.inner[i](x)))
            x = F.relu(self.norms[i + 1](self.inner[i + 1](y)) + x)
        return x.mean((2, 3))


@pytest.mark.parametrize("graphs", ["on", "all", "off"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_a_network_of_convolutions(dtype, graphs):
    model = Residual().to("cuda", dtype).eval()
    limits = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {"rtol": 1e-4, "atol": 1e-5}
    compiled = torch.compile(model, backend="mortise", dynamic=False, options=OPTIONS | {"cuda.graphs": graphs})
    for _ in range(4):
        x = torch.randn(2, 3, 64, 64, device="cuda", dtype=dtype)
        torch.testing.assert_close(compiled(x), model(x), **limits)
    assert torch_mortise.last_report()["coverage"] == 1
    model.norms[0].weight.mul_(2)  # what is computed from weights alone is computed again
    torch.testing.assert_close(compiled(x), model(x), **limits)


@torch.no_grad()
def test_one_program_for_all_images():
    weight, compiled = torch.randn(8, 16, 3, 3, device="cuda", dtype=torch.bfloat16), None
    for batch, size in ((2, 9), (3, 12), (5, 31)):
        x = torch.randn(batch, 16, size, size, device="cuda", dtype=torch.bfloat16)
        compiled = assert_near_f64(lambda x, w: F.relu(F.conv2d(x, w, padding=1)), (x, weight), dynamic=True, compiled=compiled)


# ---- Calls that are replayed as graphs


class Layers(torch.nn.Module):
    """Attention and a feed-forward net, with all shapes of what BERT does, and a product as the last step."""

    def __init__(self, width=128, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return self.down(F.gelu(self.up(self.norms[1](x))))


def layers(dtype, **options):
    model = Layers().to("cuda", dtype).eval()
    return model, torch.compile(model, backend="mortise", dynamic=False, options=OPTIONS | options)


@pytest.mark.parametrize("graphs", ["on", "all"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_replays_see_each_calls_tensors(dtype, graphs):
    """Inputs and results at addresses old and new, kept and freed, aligned or not."""
    model, compiled = layers(dtype, **{"cuda.graphs": graphs})
    queued = torch.compile(model, backend="mortise", dynamic=False, options=OPTIONS | {"cuda.graphs": "off"})
    memory = torch.empty(64 * 2 * 48 * 128 + 64, device="cuda", dtype=dtype)
    size, kept = 2 * 48 * 128, []
    for call in range(40):
        start = call * size + (call % 5 if call > 20 else 0) if call % 3 else 0
        x = memory[start:start + size].view(2, 48, 128)
        x.copy_(torch.randn(2, 48, 128, device="cuda", dtype=dtype))
        found = compiled(x)
        assert found.equal(queued(x)) or (found - queued(x)).abs().max() <= 0.02  # another alignment may get another kernel of the library
        if call % 4 == 0:
            kept.append((found, found.clone()))
    assert all(found.equal(copy) for found, copy in kept)


@pytest.mark.parametrize("graphs", ["on", "all"])
@torch.no_grad()
def test_replays_follow_each_other_without_waiting(graphs):
    model, compiled = layers(torch.float32, **{"cuda.graphs": graphs})
    x = torch.randn(2, 48, 128, device="cuda")
    found, expected = x, x
    for _ in range(30):
        found, expected = compiled(found), model(expected)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("graphs", ["on", "all"])
@torch.no_grad()
def test_replays_in_several_threads_and_streams(graphs):
    """By default also while another thread waits for the whole device, which a capture would make an error."""
    model, compiled = layers(torch.float32, **{"cuda.graphs": graphs})
    inputs = [torch.randn(2, 48, 128, device="cuda") for _ in range(6)]
    expected = [model(x) for x in inputs]
    compiled(inputs[0])
    torch.cuda.synchronize()
    errors, stop = [], threading.Event()

    def guarded(body, *arguments):
        try:
            with torch.no_grad():
                body(*arguments)
        except Exception as error:  # noqa: BLE001 (raised below)
            errors.append(error)

    def work(x, want):
        with torch.cuda.stream(torch.cuda.Stream()):
            for _ in range(50):
                torch.testing.assert_close(compiled(x), want, rtol=1e-4, atol=1e-5)

    def wait():
        while not stop.is_set() and graphs == "on":
            torch.cuda.synchronize()

    threads = [threading.Thread(target=guarded, args=(work, *pair)) for pair in zip(inputs, expected, strict=True)]
    waiting = threading.Thread(target=guarded, args=(wait,))
    for thread in [*threads, waiting]:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    waiting.join()
    assert not errors, errors[0]


@torch.no_grad()
def test_an_application_captures_our_calls():
    model, compiled = layers(torch.float32)
    x = torch.randn(2, 48, 128, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            compiled(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        found = compiled(x)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


@torch.no_grad()
def test_a_call_costs_the_processor_less_than_its_launches():
    def cost(compiled, x):
        for _ in range(10):
            compiled(x)
        times = []
        for _ in range(50):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            compiled(x)
            times.append(time.perf_counter() - begin)
        return sorted(times)[25]

    x = torch.randn(2, 48, 128, device="cuda")
    deep = torch.nn.Sequential(*(Layers() for _ in range(8))).cuda().eval()
    costs = {}
    for graphs in ("all", "on", "off"):
        torch.compiler.reset()
        costs[graphs] = cost(torch.compile(deep, backend="mortise", dynamic=False, options=OPTIONS | {"cuda.graphs": graphs}), x)
    print("microseconds of a call, by the option graphs: " + ", ".join(f"{name} {1e6 * each:.0f}" for name, each in costs.items()))
    assert costs["all"] < 0.5 * costs["off"]
    assert costs["on"] < 1.1 * costs["off"]
