# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes 0 and 1 in one trace with all others (sizes.py): one trace where that is right, guards where it is not, eager's errors and
shapes."""

import pytest
import torch
import torch.nn.functional as F
import torch_mortise
from conftest import check
from torch import nn
from torch_mortise import sizes

OPTIONS = {"device": "cpu"}


def traces():
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def compiled(model, **options):
    torch._dynamo.utils.counters.clear()
    return torch.compile(model, backend="mortise", options=OPTIONS | options)


def test_sizes_0_and_1_share_the_trace_of_others():
    def f(x):
        return F.layer_norm(x * 2, (8,)).softmax(-1).sum(1)

    call = compiled(f)
    for shape in ((3, 5, 8), (4, 7, 8), (1, 5, 8), (0, 3, 8), (6, 1, 8), (1, 1, 8), (0, 1, 8), (9, 2, 8)):
        check(call, f, torch.randn(shape))
    assert traces() == 2
    assert sorted(torch_mortise.last_report()["graphs"][-1]["symbols"].values()) == ["0..", "0.."]


def test_last_report_says_why_a_function_was_traced_again():
    call = compiled(lambda x: x + 1)
    for n in (3, 4, 5):
        call(torch.randn(n))
    first, second = torch_mortise.last_report()["graphs"]
    assert first["recompiled"] is None
    assert "size mismatch at index 0. expected 3, actual 4" in second["recompiled"]
    assert "traced anew" in str(torch_mortise.Explanation(torch_mortise.last_report()))


def test_the_option_switches_it_off():
    call = compiled(lambda x: x + 1, any_size=False)
    for n in (3, 4, 1, 0):
        call(torch.randn(n))
    assert traces() == 4


def test_a_convolution_is_asked_for_with_names_or_without():
    image, weight = torch.empty(20, 3, 8, 8), torch.empty(4, 3, 3, 3)
    rest = {"bias": None, "stride": [1, 1], "padding": [1, 1], "dilation": [1, 1], "transposed": False, "groups": 1}
    rest |= {"output_padding": [0, 0], "bias_sizes": None}
    with sizes.convolutions_of_any_batch():
        found = torch._C._select_conv_backend(image, weight, **rest)
        assert found == torch._C._select_conv_backend(input=image, weight=weight, **rest)  # as PyTorch 2.11 does


def test_traces_of_other_backends_are_theirs():
    torch._dynamo.utils.counters.clear()
    call = torch.compile(lambda x: x * 3, backend="aot_eager")
    for n in (3, 4, 1, 0):
        call(torch.randn(n))
    assert traces() == 4 and not torch.fx.experimental._config.backed_size_oblivious


def of_each_size(f, *shapes):
    """Calls with all shapes give eager's results or errors."""
    call = compiled(f)
    for shape in shapes:
        x = torch.randn(shape)
        try:
            expected = f(x)
        except (RuntimeError, IndexError, ValueError) as error:
            with pytest.raises((type(error), RuntimeError)):  # Dynamo's own, where the trace fails
                call(x)
            continue
        found = call(x)
        assert [r.shape for r in flat(found)] == [r.shape for r in flat(expected)], shape
        for r, e in zip(flat(found), flat(expected)):
            torch.testing.assert_close(r, e, equal_nan=True, rtol=1e-5, atol=1e-5)


def flat(value):
    return list(value) if isinstance(value, (tuple, list)) else [value]


SHAPES = ((3, 4), (5, 6), (1, 4), (4, 1), (1, 1), (0, 4), (0, 1), (3, 0), (2, 2))
OPERATORS = {
    "squeeze": lambda x: x.squeeze(0) * 2,
    "squeeze of all": lambda x: x.squeeze() * 2,
    "amax": lambda x: x.amax(0),
    "max": lambda x: x.max(),
    "min": lambda x: x.min() * 2,
    "argmax": lambda x: x.argmax(1),
    "argmin of all": lambda x: x.argmin(),
    "select": lambda x: x[0] * 2,
    "last": lambda x: x[-1] * 2,
    "slice": lambda x: x[:2] + 1,
    "slice from the end": lambda x: x[1:-1] + 1,
    "broadcast": lambda x: x + x[:1],
    "expand": lambda x: x.unsqueeze(1).expand(-1, 3, -1) * 2,
    "mean": lambda x: x.mean(0),
    "variance": lambda x: x.var(0),
    "std": lambda x: torch.std_mean(x, 1),
    "product": lambda x: x @ x.t(),
    "inner": lambda x: x.t() @ x,
    "transpose": lambda x: x.t().contiguous() + 1,
    "reshape": lambda x: x.reshape(-1) * 2,
    "flatten of columns": lambda x: x.t().reshape(-1) * 2,
    "repeat": lambda x: x.repeat(2, 1) * 2,
    "cat": lambda x: torch.cat([x, x + 1], 0),
    "stack": lambda x: torch.stack([x, x + 1]).sum(0),
    "split": lambda x: [part * 2 for part in x.split(2)],
    "chunk": lambda x: [part * 2 for part in x.chunk(2)],
    "unbind": lambda x: x.unbind(0)[0] * 2,
    "sort": lambda x: x.sort(0).values,
    "topk": lambda x: x.topk(2, 1).values,
    "cumsum": lambda x: x.cumsum(0),
    "softmax": lambda x: x.softmax(0),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(0),
    "flip": lambda x: x.flip(0),
    "roll": lambda x: x.roll(1, 0),
    "pad": lambda x: F.pad(x, (1, 1)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "gather": lambda x: x.gather(1, torch.zeros(x.shape[0], 1, dtype=torch.long)),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "masked": lambda x: x.masked_fill(x > 0, 0).sum(),
    "any": lambda x: (x > 0).any(0),
    "norm": lambda x: F.normalize(x, dim=1),
    "outer": lambda x: x[:, :, None] * x[:, None, :],
    "tril": lambda x: x.tril(),
    "arange": lambda x: x + torch.arange(x.shape[0])[:, None],
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "a branch": lambda x: x * 2 if x.shape[0] > 1 else x - 1,
    "numel": lambda x: x * x.numel(),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_of_each_size(operator):
    of_each_size(OPERATORS[operator], *SHAPES)


GRADIENTS = ("squeeze", "amax", "select", "slice", "broadcast", "expand", "mean", "variance", "product", "inner", "flatten of columns",
             "cat", "cumsum", "softmax", "logsumexp", "pad", "layer_norm", "gather", "norm", "outer", "tril", "interpolate")


@pytest.mark.parametrize("operator", GRADIENTS)
def test_gradients_of_each_size(operator):
    function = OPERATORS[operator]
    call = compiled(function)
    for shape in SHAPES:
        x = torch.randn(shape, requires_grad=True)
        y = x.detach().clone().requires_grad_()
        try:
            expected = function(y)
        except (RuntimeError, IndexError):
            continue
        found = call(x)
        assert found.shape == expected.shape
        found.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(x.grad, y.grad, equal_nan=True, rtol=1e-4, atol=1e-5)


def test_two_inputs_that_broadcast():
    def f(x, y):
        return x * y

    call = compiled(f)
    shapes = [((n, 4), (n, 4)) for n in (3, 5, 1, 0)]
    for a, b in (*shapes, ((1, 4), (5, 4)), ((5, 4), (1, 4)), ((1, 1), (1, 1)), ((0, 4), (1, 4)), ((5, 1), (5, 7))):
        x, y = torch.randn(a), torch.randn(b)
        assert torch.equal(call(x, y), f(x, y))


@pytest.mark.parametrize("size", [(8, 8), (3, 3), (2, 9), (1, 1), (0, 4)])
def test_images_smaller_than_a_window(size):
    model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU()).eval()
    call = compiled(model)
    with torch.no_grad():
        for x in (torch.randn(2, 2, 9, 7), torch.randn(3, 2, 12, 11)):
            torch.testing.assert_close(call(x), model(x), rtol=1e-5, atol=1e-5)
        x = torch.randn(2, 2, *size)
        try:
            expected = model(x)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                call(x)
        else:
            torch.testing.assert_close(call(x), expected, rtol=1e-5, atol=1e-5)


def test_convolutions_share_the_trace_of_every_batch():
    model = nn.Conv2d(2, 3, 1).eval()
    call = compiled(model)
    for batch in (3, 4, 16, 1, 40, 0):
        check(call, model, torch.randn(batch, 2, 5, 5), coverage=None)
    assert traces() == 2


@pytest.mark.parametrize("start", [0, 1, 2])
def test_a_slice_from_a_symbolic_start(start):
    """A backward graph has to be traced in the ordinary way, too, where its sizes matter."""
    def scatter(x, part, start):
        return torch.slice_scatter(x, part, 0, start, x.shape[0], 1)

    x, part = torch.rand(6, 5, requires_grad=True), torch.rand(6 - start, 5, requires_grad=True)
    compiled = torch.compile(scatter, backend="mortise", dynamic=True)
    for function in (scatter, compiled):
        result = function(x, part, start)
        gradients = torch.autograd.grad((result * torch.arange(30.0).view(6, 5)).sum(), (x, part))
        if function is scatter:
            expected = (result, *gradients)
    for found, wanted in zip((result, *gradients), expected, strict=True):
        assert torch.equal(found, wanted)


def test_a_release_without_the_hook_traces_as_before(monkeypatch):
    monkeypatch.delattr(torch._dynamo.convert_frame, "compile_frame")
    sizes.install(torch_mortise.backend)
    assert not hasattr(torch._dynamo.convert_frame, "compile_frame")
