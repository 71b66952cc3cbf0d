# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dynamic shapes: one trace and one program serve all shapes, and the guards of the trace are used."""

import os
import signal

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch_mortise
from agreement import assert_same
from conftest import DEVICES, check


def serves(compiled, model, *calls, programs=1, **options):
    """Checks each call against eager, and that one trace and one program serve them all without a fallback. Returns the graph's report."""
    torch._dynamo.utils.counters.clear()
    for inputs in calls:
        check(compiled, model, *(inputs if isinstance(inputs, tuple) else (inputs,)), **options)
    graphs = torch_mortise.last_report()["graphs"]
    assert not any(graph["notes"] for graph in graphs), graphs[0]["notes"]
    assert len(graphs) == 1, [graph["symbols"] for graph in graphs]
    (graph,) = graphs
    assert len(graph["programs"]) == programs
    return graph


def steps_of(graph):
    """The symbols' divisors, from the report."""
    return sorted(int(text.partition(" step ")[2] or 1) for text in graph["symbols"].values())


# ---- divisors ----------------------------------------------------------------------------------------


def test_patches(compile_for):
    def f(x):
        b, s, d = x.shape
        return x.reshape(b, s // 8, 8, d).softmax(2).reshape(b, s // 8, 8 * d)

    graph = serves(compile_for(f, dynamic=True), f, *(torch.randn(b, s, 5) for b, s in ((2, 16), (3, 24), (5, 8 * 13), (2, 64))))
    assert steps_of(graph)[-1] == 8


def test_image_patches(compile_for):
    class Patches(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(4 * 4 * 3, 16)

        def forward(self, x):
            b, c, h, w = x.shape
            x = x.reshape(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 3, 5, 1)
            return self.project(x.reshape(b, (h // 4) * (w // 4), 4 * 4 * c))

    model = Patches().eval()
    shapes = ((2, 16, 24), (3, 32, 12), (4, 20, 28), (2, 64, 64))
    graph = serves(compile_for(model, dynamic=True), model, *(torch.randn(b, 3, h, w) for b, h, w in shapes))
    assert steps_of(graph)[-2:] == [4, 4]


class Windows(nn.Module):
    """Attention inside windows of 7 x 7 over patches of 2 x 2: the extent of every quotient is divided again."""

    def __init__(self, channels=8):
        super().__init__()
        self.patch, self.qkv = nn.Linear(4 * 3, channels), nn.Linear(channels, 3 * channels)
        self.norm, self.out = nn.LayerNorm(channels), nn.Linear(channels, channels)

    def forward(self, x):
        b, h, w, c = x.shape
        x = self.patch(x.reshape(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5).flatten(3))
        b, h, w, c = x.shape
        windows = x.reshape(b, h // 7, 7, w // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)
        q, k, v = self.qkv(self.norm(windows)).chunk(3, -1)
        y = self.out(F.scaled_dot_product_attention(q, k, v))
        y = y.reshape(b, h // 7, w // 7, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return x + y


def test_window_attention(compile_for):
    model = Windows().eval()
    shapes = ((2, 28, 42), (3, 42, 28), (2, 56, 70), (4, 28, 56))
    graph = serves(compile_for(model, dynamic=True), model, *(torch.randn(b, h, w, 3) for b, h, w in shapes))
    assert steps_of(graph)[-2:] == [14, 14]


def test_checked_divisors(compile_for):
    def f(x):
        torch._check(x.shape[1] % 6 == 0)
        return x.unflatten(1, (-1, 6)).sum(1), x.unflatten(1, (-1, 3)).amax(2)

    graph = serves(compile_for(f, dynamic=True), f, *(torch.randn(b, s) for b, s in ((2, 12), (5, 18), (3, 60))))
    assert steps_of(graph)[-1] == 6


def test_other_shapes_are_traced_again(compile_for):
    def f(x):
        b, s = x.shape
        if s % 8 != 0:
            x = F.pad(x, (0, -s % 8))
        return x.reshape(b, -1, 8).cumsum(2)

    compiled = compile_for(f, dynamic=True)
    serves(compiled, f, torch.randn(2, 16), torch.randn(3, 64))
    for s in (17, 24, 33, 40):
        check(compiled, f, torch.randn(2, s))


# ---- ranges ------------------------------------------------------------------------------------------


def test_ranges_of_marked_dimensions(compile_for):
    def f(x):
        return F.pad(x, (3, 0)).unfold(1, 4, 1).mean(2)

    compiled = compile_for(f, dynamic=None)
    calls = [torch.randn(3, s) for s in (8, 20, 512)]
    torch._dynamo.mark_dynamic(calls[0], 1, min=8, max=512)
    graph = serves(compiled, f, *calls)
    assert list(graph["symbols"].values()) == ["8..512"]
    check(compiled, f, torch.randn(3, 600))  # outside the range: another trace


def test_ranges_of_comparisons(compile_for):
    def f(x):
        return x[:, :100] * 2 if x.shape[1] > 100 else x + 1

    compiled = compile_for(f, dynamic=True)
    graph = serves(compiled, f, torch.randn(2, 128), torch.randn(3, 101), torch.randn(4, 1000))
    assert "101.." in graph["symbols"].values()
    check(compiled, f, torch.randn(2, 50))


# ---- windows -----------------------------------------------------------------------------------------


def randomise(model):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 1.5)
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return model.eval()


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride, bottleneck):
        super().__init__()
        middle = outputs // 4 if bottleneck else outputs
        chain = [(inputs, middle, 1, 1), (middle, middle, 3, stride), (middle, outputs, 1, 1)]
        chain = chain if bottleneck else [(inputs, outputs, 3, stride), (outputs, outputs, 3, 1)]
        self.parts = nn.ModuleList(self.normalised(*part) for part in chain)
        self.shortcut = self.normalised(inputs, outputs, 1, stride) if stride != 1 or inputs != outputs else nn.Identity()

    @staticmethod
    def normalised(inputs, outputs, window, stride):
        return nn.Sequential(nn.Conv2d(inputs, outputs, window, stride, window // 2, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = x
        for part in self.parts[:-1]:
            y = part(y).relu()
        return (self.parts[-1](y) + self.shortcut(x)).relu()


class ResNet(nn.Module):
    def __init__(self, depths, widths, bottleneck):
        super().__init__()
        self.stem = nn.Sequential(Residual.normalised(3, 16, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks, inputs = [], 16
        for stage, (depth, width) in enumerate(zip(depths, widths)):
            for i in range(depth):
                blocks.append(Residual(inputs, width, 2 if stage and not i else 1, bottleneck))
                inputs = width
        self.blocks, self.pool, self.head = nn.Sequential(*blocks), nn.AdaptiveAvgPool2d(1), nn.Linear(inputs, 10)

    def forward(self, x):
        return self.head(self.pool(self.blocks(self.stem(x))).flatten(1))


IMAGES = ((2, 64, 64), (3, 96, 64), (5, 33, 47), (2, 100, 75), (4, 63, 65))


@pytest.mark.parametrize("bottleneck", (False, True))
def test_residual_networks(compile_for, device, bottleneck):
    depths, widths = ((3, 4, 2, 2), (16, 32, 64, 64)) if bottleneck else ((2, 2, 2, 2), (16, 24, 32, 48))
    model = randomise(ResNet(depths, widths, bottleneck))
    images = IMAGES if device == "cpu" else IMAGES[:2]
    compiled = compile_for(model, dynamic=True)
    x = torch.randn(IMAGES[-1][0], 3, *IMAGES[-1][1:])  # PyTorch makes equal sizes of the first call one symbol
    graph = serves(compiled, model, x, *(torch.randn(b, 3, h, w) for b, h, w in images))
    assert len(graph["symbols"]) == 3
    if device == "cpu":
        assert {p["lowering"] for p in graph["programs"][0]["placement"]} == {"cpu.region"}


def test_symbolic_batch(compile_for):
    model = randomise(ResNet((1, 1), (16, 24), False))
    compiled = compile_for(model, dynamic=None)
    calls = [torch.randn(b, 3, 32, 40) for b in (3, 2, 7)]
    torch._dynamo.mark_dynamic(calls[0], 0)
    graph = serves(compiled, model, *calls)
    assert len(graph["symbols"]) == 1


def test_pools_and_groups(compile_for):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.depthwise = nn.Conv2d(8, 8, 3, 2, 1, groups=8)
            self.dilated = nn.Conv2d(8, 12, 3, padding=2, dilation=2)

        def forward(self, x):
            x = F.hardtanh(self.depthwise(x))
            y = F.max_pool2d(x, 3, 2, 1) + F.avg_pool2d(x, 3, 2, 1)
            return self.dilated(y), F.max_pool2d(x, 2, 2, ceil_mode=True), F.avg_pool2d(x, 3, 1, count_include_pad=False), x.mean((2, 3))

    model = Net().eval()
    shapes = ((2, 31, 40), (3, 32, 33), (5, 64, 17), (2, 80, 81))
    serves(compile_for(model, dynamic=True), model, *(torch.randn(b, 8, h, w) for b, h, w in shapes))


def test_encoder_decoder(compile_for):
    """Downsampling by strides, upsampling by nearest neighbours, and skip connections: extents that return must be found equal."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.down1, self.down2 = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 16, 3, 2, 1)
            self.up1, self.up2 = nn.Conv2d(16, 8, 3, 1, 1), nn.Conv2d(16, 3, 3, 1, 1)

        def forward(self, x):
            torch._check(x.shape[2] % 4 == 0)
            torch._check(x.shape[3] % 4 == 0)
            a = self.down1(x).relu()
            b = self.down2(a).relu()
            up = self.up1(self.twice(b)).relu()
            return self.up2(self.twice(torch.cat([a, up], 1))) + x

        @staticmethod
        def twice(x):
            b, c, h, w = x.shape
            return x[:, :, :, None, :, None].expand(b, c, h, 2, w, 2).reshape(b, c, 2 * h, 2 * w)

    model = Net().eval()
    shapes = ((2, 16, 24), (3, 32, 20), (2, 44, 64))
    graph = serves(compile_for(model, dynamic=True), model, *(torch.randn(b, 3, h, w) for b, h, w in shapes))
    assert steps_of(graph)[-2:] == [4, 4]


# ---- several devices ---------------------------------------------------------------------------------


@pytest.mark.skipif(set(DEVICES) < {"cpu", "reference"}, reason="needs both devices")
def test_a_symbolic_graph_on_two_devices():
    """A node that one device refuses runs on another, which compiles it per set of numbers, up to a limit; the rest stays one program."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = nn.Conv1d(1, 3, 3, padding=1).double()  # the cpu plugin has no f64 convolution

        def forward(self, x):
            b, s = x.shape
            y = self.convolution(x.reshape(b, 1, s // 4, 4).sum(3))
            return y.softmax(2) * 2 + x.mean(), y

    f = Net().eval()

    options = {"device": "cpu,reference", "specialize_limit": 2}
    compiled = torch.compile(f, backend="mortise", dynamic=True, options=options)
    calls = [torch.randn(b, s, dtype=torch.float64) for b, s in ((3, 16), (2, 24), (5, 40), (3, 16))]
    graph = serves(compiled, f, *calls)
    program = graph["programs"][0]
    assert {p["device"] for p in program["placement"]} == {"cpu", "reference"}
    for part in program["placement"]:
        if part["device"] == "reference":
            assert part["specialised"].startswith("needs static: the reference runs static shapes")
        else:
            assert part["specialised"] is None
    assert any("convolution" in op for p in program["placement"] if p["device"] == "reference" for op in p["ops"])
    assert program["values"]["limit"] == 2 and program["values"]["dropped"] >= 1
    assert any(s["divisor"] == 4 for s in program["symbols"])
    refusal = next(r for r in program["refusals"] if "convolution" in r["op"] and r["device"] == "cpu")
    assert refusal["reason"] and refusal["detail"]


# ---- errors ------------------------------------------------------------------------------------------


def test_an_error_of_a_call_is_raised(compile_for):
    def f(x):
        return x.softmax(1)

    compiled, x = compile_for(f, dynamic=True), torch.randn(3, 8)
    check(compiled, f, x)
    child = os.fork()  # where no program runs
    if child == 0:
        signal.alarm(20)
        try:
            with torch.no_grad():
                compiled(x)
        except Exception as error:
            os._exit(0 if "spawn" in str(error) else 2)
        os._exit(1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("f, width", [
    (lambda x: torch.var(x, 1, correction=1.0), 5), (lambda x: torch.var(x, 1, correction=0.5), 5),
    (lambda x: F.conv2d(x[:, :, None, None], torch.ones(12, 1, 1, 1), groups=x.shape[1]), 4),
    (lambda x: F.batch_norm(x[:, :5], torch.zeros(5), torch.ones(5), training=True), 5),
    (lambda x: torch.cdist(x, x * 2), 5), (F.pdist, 5), (lambda x: torch.kthvalue(x, x.shape[0] - 1, 1), 5),
    (lambda x: (x * 9).to(torch.int32).median(0).values, 5), (lambda x: x * (x.shape[0] / x.shape[1]), 5),
], ids=["whole correction", "broken correction", "groups", "batch norm", "cdist", "pdist", "kthvalue", "median", "quotient"])
def test_numbers_that_depend_on_shapes(compile_for, f, width):
    """What programs cannot have over symbols is compiled for each shape, and is no error."""
    compiled = compile_for(f, dynamic=True)
    for rows, columns in ((3, width), (2, width), (4, 3 * width)):
        check(compiled, f, torch.randn(rows, columns))


def test_strided_views_of_arguments_keep_their_offset(compile_for):
    def f(x, rows, offset):
        return torch.as_strided(x, (rows, 2), (1, rows), offset)

    compiled = compile_for(f, dynamic=True)
    for rows, offset in ((2, 3), (3, 4), (3, 2)):
        check(compiled, f, torch.randn(16), rows, offset, coverage=None)


def test_products_whose_operand_another_region_transposes(compile_for):
    def f(x, y):
        turned = (x + 1).t()
        solved = torch.linalg.solve_triangular(y, turned, upper=True)  # in eager, between the transpose and the product
        return solved.t() @ turned, turned + 1

    compiled = compile_for(f, dynamic=True)
    for rows in (3, 5):
        check(compiled, f, torch.randn(rows, 4), torch.eye(4), coverage=None)


# ---- sizes and numbers that depend on data ---------------------------------------------------------------


def checked_range(x, count):
    n = count.item()
    torch._check(n >= 1)
    torch._check(n <= x.shape[0])
    return torch.arange(n) * 2.0 + x.exp().sum()


def experts(x, weight):
    chosen = (x.sum(1) > 0).nonzero().squeeze(1)
    return torch.zeros_like(x).index_add(0, chosen, x[chosen] @ weight) + x.exp()


OF_DATA = {
    "nonzero": (lambda x: (x * 2).relu().nonzero() + 1, lambda n: [torch.randn(n, 3)]),
    "boolean indexing": (lambda x: (x @ x.T)[x[:, 0] > 0].exp() + 1, lambda n: [torch.randn(n, 3)]),
    "split by a tensor": (lambda x, s: [p * 2 for p in torch.split(x + 1, s.tolist())],
                          lambda n: [torch.randn(n, 3), torch.tensor([1, n - 1])]),
    "a number": (lambda x, k: x.relu() * k.item() + k.item(), lambda n: [torch.randn(n, 3), torch.tensor(n - 1)]),
    "a slice": (lambda x, k: (x * 2).narrow(0, 0, k.item()).exp(), lambda n: [torch.randn(n, 3), torch.tensor(n - 1)]),
    "a range with bounds": (checked_range, lambda n: [torch.randn(n, 3), torch.tensor(n - 1)]),
    "unique": (lambda x: torch.unique(x * 2) + 1, lambda n: [torch.randint(5, (n,))]),
    "experts": (experts, lambda n: [torch.randn(n, 3), torch.randn(3, 3)]),
}


@pytest.mark.parametrize("name, dynamic", [*((name, True) for name in OF_DATA), ("experts", None)])
def test_sizes_that_depend_on_data(compile_for, name, dynamic):
    """The operators whose results have such sizes run in eager, with the symbol as the reason. What comes before and behind them is
    compiled for all sizes, and there are no graph breaks."""
    f, make = OF_DATA[name]
    captured = torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
    compiled = captured(compile_for(f, dynamic=dynamic))
    for n in (4, 6, 5):
        report = check(compiled, f, *make(n), coverage=None, strides=False)
    assert len({g["name"] for g in report["graphs"]}) == (2 if dynamic is None else 1)
    assert name == "unique" or 0 < report["coverage"] < 1
    reasons = [e["reason"] for g in report["graphs"] for e in g["eager"]]
    assert reasons and all("depend on data" in reason for reason in reasons)


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_one_program_serves_all_sizes_that_depend_on_data(compile_for):
    """Also none and one, and with weights that are bound once."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)

        def forward(self, x, chosen):
            return self.linear(self.norm(x[chosen] * 2)).softmax(-1), x.exp()

    model, x = Model().eval(), torch.randn(9, 8)
    compiled = compile_for(model)
    for count in (4, 0, 1, 9, 5):
        report = check(compiled, model, x, torch.arange(9) < count, coverage=0.7)
    (graph,) = report["graphs"]
    assert [e["op"] for e in graph["eager"]] == ["aten.index.Tensor"]
    assert len(graph["programs"]) == 2 and not graph["notes"] and graph["binds"] <= 2


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_bounds_of_sizes_that_depend_on_data_are_checked(compile_for):
    compiled = compile_for(checked_range, dynamic=True)
    x = torch.randn(4, 3)
    check(compiled, checked_range, x, torch.tensor(3), coverage=None)
    with pytest.raises(RuntimeError):
        compiled(x, torch.tensor(5))


@torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True)
def test_gradients_through_sizes_that_depend_on_data(compile_for):
    x, weight = torch.randn(6, 3), torch.randn(3, 3)
    results = []
    for run in (compile_for(experts, dynamic=True), experts):
        leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
        results.append([*torch.autograd.grad(run(*leaves).square().sum(), leaves)])
    assert_same(*results)


def test_the_report_has_the_guard_for_which_a_function_was_traced_again(compile_for):
    """With dynamic=None the second shape makes a symbol, with False each shape is a trace, and with True there is one."""
    def f(x):
        return x.exp() + 1

    for dynamic, traces in ((None, 2), (False, 3), (True, 1)):
        torch._dynamo.reset()
        torch_mortise.reset()
        compiled = torch.compile(f, backend="mortise", dynamic=dynamic)
        for n in (5, 7, 9):
            check(compiled, f, torch.randn(n), coverage=None)
        graphs = torch_mortise.last_report()["graphs"]
        assert len(graphs) == traces and graphs[0]["recompiled"] is None
        assert all("size mismatch at index 0" in g["recompiled"] for g in graphs[1:])
