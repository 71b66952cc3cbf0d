# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equal layers are imported once (torch_mortise/repeats.py): the graph is equal, op by op, to the graph without repeats, and a layer that
differs in one thing is not treated like its neighbours."""

import contextlib
import importlib
import re

import pytest
import torch
from agreement import assert_same, flat
from torch import nn

import torch_mortise
from torch_mortise import _library

region = importlib.import_module("torch_mortise.region")
LAYERS, WIDTH = 9, 16


class Layer(nn.Module):
    """A small layer with a norm, products, a residual, and numbers that a test changes."""

    def __init__(self, width=WIDTH, inner=2 * WIDTH, scale=0.5):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, inner), nn.Linear(inner, width)
        self.scale = scale

    def forward(self, x):
        y = self.up(self.norm(x)).relu() * self.scale
        return x + self.down(y).softmax(-1)


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Recorder:
    """A builder that records the text of its graph."""

    texts = []

    def __init__(self, inner):
        self.inner = inner

    def compile(self, options):
        self.texts.append(re.sub(r"@graph_\d+", "@graph", self.inner.text()))
        return self.inner.compile(options)

    def __getattr__(self, name):
        return getattr(self.inner, name)


@contextlib.contextmanager
def recorded(monkeypatch):
    native = _library.native()
    builder = native.Builder
    Recorder.texts = []
    with monkeypatch.context() as patch:
        patch.setattr(native, "Builder", lambda *arguments: Recorder(builder(*arguments)))
        yield Recorder.texts


def run(model, inputs, monkeypatch, repeat, dynamic=False):
    """The outputs, the built graphs, and the number of nodes copied from equal ones."""
    torch._dynamo.reset()
    torch_mortise.reset()
    known = set(region.regions)
    compiled = torch.compile(model, backend="mortise", dynamic=dynamic, options={"repeat_layers": repeat})
    with recorded(monkeypatch) as texts, torch.no_grad():
        torch.manual_seed(1)
        outputs = compiled(*[x.clone() for x in inputs])
    fresh = [one for one in list(region.regions) if one not in known]
    assert fresh
    return outputs, texts, sum(found.record["repeated"] for one in fresh for found in one.all_programs())


def assert_equal(found, expected):
    """Compares bits, except for NaN."""
    torch.testing.assert_close(flat(found), flat(expected), rtol=0, atol=0, equal_nan=True)


def check(model, inputs, monkeypatch, dynamic=False, eager=True):
    """Compares both ways with each other and with eager. Returns the number of repeated nodes."""
    model = model.eval().requires_grad_(False)
    with_repeats, texts, repeated = run(model, inputs, monkeypatch, True, dynamic)
    without, plain_texts, none = run(model, inputs, monkeypatch, False, dynamic)
    assert none == 0
    assert len(texts) == 1 and texts == plain_texts
    assert_equal(with_repeats, without)
    if eager:
        with torch.no_grad():
            assert_same(with_repeats, model(*[x.clone() for x in inputs]))
    return repeated


X = torch.randn(4, WIDTH)


def stack(**other):
    """A stack of equal layers, except that layer number "at" gets the other arguments in `other`."""
    at = other.pop("at", None)
    return Stack([Layer(**other) if i == at else Layer() for i in range(LAYERS)])


def test_equal_layers_are_repeated(monkeypatch):
    model = stack()
    repeated = check(model, (X,), monkeypatch)
    per_layer = repeated / (LAYERS - 3)  # three layers are imported, and a few nodes at the ends of the run
    assert repeated > 0 and per_layer > 5


def test_few_layers_are_imported(monkeypatch):
    assert check(Stack([Layer() for _ in range(4)]), (X,), monkeypatch) == 0


@pytest.mark.parametrize("at", [0, 1, 4, 7, LAYERS - 1])
@pytest.mark.parametrize("difference", [{"inner": 24}, {"scale": 0.25}, {"scale": 1}, {"scale": -0.0}, {"scale": 0.0}])
def test_one_layer_is_different(monkeypatch, at, difference):
    check(stack(at=at, **difference), (X,), monkeypatch)


def test_signs_of_zero_differ(monkeypatch):
    check(Stack([Layer(scale=-0.0 if i % 2 else 0.0) for i in range(12)]), (X,), monkeypatch)


def test_two_kinds_take_turns(monkeypatch):
    assert check(Stack([Layer(scale=0.5 if i % 2 else 2.0) for i in range(14)]), (X,), monkeypatch) > 0


def test_two_kinds_one_after_the_other(monkeypatch):
    assert check(Stack([Layer(scale=0.5 if i < 8 else 2.0) for i in range(16)]), (X,), monkeypatch) > 0


def test_layers_share_a_weight(monkeypatch):
    model = stack()
    model.layers[6].up.weight = model.layers[2].up.weight
    check(model, (X,), monkeypatch)


def test_all_layers_share_a_weight(monkeypatch):
    model = stack()
    for layer in model.layers:
        layer.up = model.layers[0].up
    assert check(model, (X,), monkeypatch) > 0


def test_two_weights_of_a_layer_are_one(monkeypatch):
    model = Stack([Layer(inner=WIDTH) for _ in range(LAYERS)])
    for at in (1, 5):
        model.layers[at].down.weight = model.layers[at].up.weight
    check(model, (X,), monkeypatch)


@pytest.mark.parametrize("strides", [(1, 2 * WIDTH), (2 * WIDTH, 1)])
def test_a_weight_lies_differently_in_memory(monkeypatch, strides):
    model = stack()
    weight = model.layers[5].up.weight
    other = torch.empty_strided(weight.shape, strides).copy_(weight.detach())
    model.layers[5].up.weight = nn.Parameter(other)
    check(model, (X,), monkeypatch)


def test_a_mask_is_made_in_the_first_layer(monkeypatch):
    class Masked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

        def forward(self, x):
            mask = None
            for layer in self.layers:
                y = layer(x)
                if mask is None:
                    mask = torch.where(y > 0, 0.0, float("-inf"))
                x = x + torch.softmax(y * 0.5 + mask.clamp(min=-9), -1).tanh()
            return x

    assert check(Masked(), (X,), monkeypatch) > 0


def test_layers_have_state(monkeypatch):
    class Remembers(nn.Module):
        def __init__(self):
            super().__init__()
            self.project = nn.Linear(WIDTH, WIDTH)
            self.register_buffer("cache", torch.zeros(8, WIDTH))

        def forward(self, x, at):
            self.cache.index_copy_(0, at, self.project(x))
            return x + (self.cache.softmax(0).sum(0) * 0.1)

    class Model(Stack):
        def forward(self, x, at):
            for layer in self.layers:
                x = layer(x, at)
            return x, [layer.cache.clone() for layer in self.layers]

        def reset(self):
            for layer in self.layers:
                layer.cache.zero_()

    model = Model([Remembers() for _ in range(LAYERS)]).eval().requires_grad_(False)
    inputs = (X, torch.tensor([1, 5, 2, 7]))
    found = []
    for repeat in (True, False):
        model.reset()
        found.append(run(model, inputs, monkeypatch, repeat))
    model.reset()
    (outputs, texts, repeated), (plain, plain_texts, none) = found
    assert repeated > 0 and none == 0 and texts == plain_texts
    assert_equal(outputs, plain)
    assert_same(outputs, model(*inputs))


def test_random_numbers_of_layers_differ(monkeypatch):
    class Noisy(Layer):
        def forward(self, x):
            return super().forward(x) + torch.rand_like(x) * 0.1

    class Model(Stack):
        def forward(self, x):
            return [x := layer(x) for layer in self.layers]

    model = Model([Noisy() for _ in range(LAYERS)]).eval().requires_grad_(False)
    with_repeats, texts, _ = run(model, (X,), monkeypatch, True)
    without, plain_texts, _ = run(model, (X,), monkeypatch, False)
    assert texts == plain_texts
    assert_equal(with_repeats, without)


def test_the_last_layer_uses_more_results(monkeypatch):
    class Model(Stack):
        def forward(self, x):
            for layer in self.layers:
                values, places = layer(x).sort(dim=-1)
                x = x + values * 0.5
            return x, places

    check(Model([Layer() for _ in range(LAYERS)]), (X,), monkeypatch)


def test_results_of_layers_are_returned(monkeypatch):
    class Model(Stack):
        def forward(self, x):
            return [x := layer(x) for layer in self.layers] + [x.t()]

    assert check(Model([Layer() for _ in range(LAYERS)]), (X,), monkeypatch) > 0


@pytest.mark.parametrize("at", [None, 0, 5])
def test_operators_of_every_layer_that_run_in_eager(monkeypatch, at):
    """What the copies that stand for all cannot run, no copy can; `at`: the layer that has one more such operator."""

    class Odd(Layer):
        def forward(self, x):
            return torch.digamma(super().forward(x).sigmoid() + 2)

    class Odder(Odd):
        def forward(self, x):
            return torch.digamma(super().forward(x).abs() + 2)

    model = Stack([Odder() if i == at else Odd() for i in range(LAYERS)]).eval().requires_grad_(False)
    counts, outputs = [], []
    for repeat in (True, False):
        found, _, _ = run(model, (X,), monkeypatch, repeat)
        outputs.append(found)
        eager = torch_mortise.last_report()["graphs"][0]["eager"]
        counts.append([entry["reason"] for entry in eager])
    assert counts[0] == counts[1] and len(counts[0]) == LAYERS + (at is not None)
    assert_equal(*outputs)
    with torch.no_grad():
        assert_same(outputs[0], model(X))


def test_for_all_shapes_at_once(monkeypatch):
    assert check(stack(), (X,), monkeypatch, dynamic=True) > 0


def test_unknown_value_of_the_option():
    with pytest.raises(Exception, match="repeat_layers: expected true or false"):
        torch.compile(nn.Linear(2, 2), backend="mortise", options={"repeat_layers": "some"})(torch.zeros(1, 2))
