# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights, which are bound once and again when they change, and state, which a call updates in place."""

import concurrent.futures
import contextlib
import copy
import gc
import os
import signal
import subprocess
import sys
import weakref

import pytest
import torch
import torch_mortise
import torch_mortise.region
from agreement import assert_same
from conftest import Small, check
from torch import nn

def test_weights_are_bound_once_and_rebound_on_change(compile_for):
    model, x = Small().eval(), torch.randn(3, 8)
    compiled = compile_for(model)
    for _ in range(3):
        check(compiled, model, x)
    assert torch_mortise.last_report()["graphs"][0]["binds"] == 1
    with torch.no_grad():
        model.first.weight.mul_(2)
    check(compiled, model, x)
    model.second.weight.data = torch.randn(8, 16)
    check(compiled, model, x)
    model.first.weight = nn.Parameter(torch.randn(16, 8))
    check(compiled, model, x)
    graphs = torch_mortise.last_report()["graphs"]
    assert len(graphs) == 1 and graphs[0]["binds"] == 4


def test_a_weight_at_the_address_of_an_earlier_one(compile_for):
    model, x = nn.Linear(64, 64, bias=False).eval(), torch.randn(4, 64)
    compiled = compile_for(model)
    check(compiled, model, x)
    # What the assignment frees could be what the next tensor gets, with the version of the one that was bound.
    bound, others = model.weight.data_ptr(), []
    model.weight.data = torch.randn(64, 64)
    while len(others) < 1000 and (not others or others[-1].data_ptr() != bound):
        others.append(torch.randn(64, 64))
    model.weight.data = others[-1]
    check(compiled, model, x)


@pytest.mark.parametrize("direct", [True, False])
def test_what_changes_a_bound_weight_is_seen(direct):
    """With PyTorch's own functions for addresses and versions, and without."""
    code = f"""
import torch, torch_mortise
from torch import nn
if not {direct}:
    del torch._C._aoti.unsafe_alloc_void_ptr_from_tensor
model, x = nn.Linear(8, 8).eval(), torch.randn(3, 8)
compiled = torch.compile(model, backend="mortise")
def change(): model.weight[2] = 1
def assign(): model.weight.data = torch.randn(8, 8)
def replace(): model.weight = nn.Parameter(torch.randn(8, 8))
def share(): model.weight = nn.Parameter(model.weight.data)
def lend(): model.bias.set_(torch.randn(8))
def load(): model.load_state_dict({{k: torch.randn_like(v) for k, v in model.state_dict().items()}})
def turn(): model.weight.data = model.weight.data.t()
def unversion():
    with torch.inference_mode():
        made = torch.randn(8, 8)
    model.weight.data = made
with torch.no_grad():
    for number, what in enumerate([int, change, assign, replace, change, share, lend, load, turn, change, unversion, int]):
        what()
        for _ in range(2):
            torch.testing.assert_close(compiled(x), model(x), msg=lambda text: f"{{what.__name__}}: {{text}}")
    assert torch_mortise._library.native().reads_directly() == {direct}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_weights_are_bound_before_the_first_call(device):
    model, x = Small().eval(), torch.randn(3, 8)
    ahead = []

    def backend(module, inputs):
        compiled = torch._dynamo.lookup_backend("mortise")(module, inputs, options={"device": device})
        torch_mortise.threads.binder().submit(int).result(60)  # it binds one after the other
        ahead.append(torch_mortise.last_report()["graphs"][0]["binds"])
        with torch.no_grad():
            model.first.weight.mul_(2)  # the call has to see it
        return compiled

    check(torch.compile(model, backend=backend), model, x)
    assert ahead == [1] and torch_mortise.last_report()["graphs"][0]["binds"] == 2


def test_a_fork_while_weights_are_bound_gives_an_error_and_no_hang(compile_for):
    model, x = Small().eval(), torch.randn(3, 8)
    compiled = compile_for(model)
    check(compiled, model, x)
    with contextlib.ExitStack() as held, torch.no_grad():
        for region in torch_mortise.region.regions:
            held.enter_context(region.lock)  # as the thread that binds may hold it
        model.first.weight.mul_(2)  # the call has to bind again

        def call():
            with torch.no_grad():
                return compiled(x)

        child = os.fork()
        if child == 0:
            signal.alarm(20)
            try:
                # RLocks let their owner in, and a child's only thread has the owner's number, so that another thread has to call.
                with concurrent.futures.ThreadPoolExecutor(1) as threads:
                    threads.submit(call).result()
            except Exception as error:
                os._exit(0 if "spawn" in str(error) else 2)
            os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
    check(compiled, model, x)


def test_the_first_inputs_are_not_kept(compile_for):
    model = Small().eval()
    compiled, x = compile_for(model), torch.randn(3, 8)
    seen = weakref.ref(x)
    with torch.no_grad():
        compiled(x)
    del x
    gc.collect()
    assert seen() is None


def test_refresh(compile_for):
    model, x = Small().eval(), torch.randn(3, 8)
    compiled = compile_for(model)
    check(compiled, model, x)
    model.first.weight.data.mul_(3)  # changes neither the address nor the version
    torch_mortise.refresh(model)
    check(compiled, model, x)


def test_weights_that_change_all_the_time_become_inputs(compile_for):
    model, x = Small().eval(), torch.randn(3, 8)
    compiled = compile_for(model)
    for _ in range(25):
        with torch.no_grad():
            model.first.bias.add_(0.1)
        check(compiled, model, x)
    report = torch_mortise.last_report()["graphs"][0]
    assert any("ordinary input" in note for note in report["notes"]) and report["binds"] < 5


def test_layers_that_share_one_graph(compile_for, device):
    layers = nn.ModuleList(Small() for _ in range(4)).eval()
    twins = copy.deepcopy(layers)
    for layer in layers:
        layer.compile(backend="mortise", options={"device": device})
    x = torch.randn(3, 8)
    with torch.no_grad():
        for _ in range(3):
            for layer, twin in zip(layers, twins):
                assert_same(layer(x), twin(x))
        layers[2].first.bias.add_(1)
        twins[2].first.bias.add_(1)
        for layer, twin in zip(layers, twins):
            assert_same(layer(x), twin(x))
    graphs = torch_mortise.last_report()["graphs"]
    assert len(graphs) == 1 and len(graphs[0]["programs"]) == 4 and graphs[0]["binds"] == 5


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(2, 6, 4))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))
        self.project = nn.Linear(4, 4)

    def forward(self, x, position):
        self.cache.index_copy_(1, position, self.project(x))
        self.count.add_(position.shape[0])
        return self.cache.sum(1) * self.count


def test_state_is_updated_in_place(compile_for):
    model = Cached().eval()
    expected = copy.deepcopy(model)
    compiled, address = compile_for(model), model.cache.data_ptr()
    with torch.no_grad():
        for step in range(4):
            x, position = torch.randn(2, 1, 4), torch.tensor([step])
            version = model.cache._version
            assert_same(compiled(x, position), expected(x, position))
            assert_same(model.cache, expected.cache)
            assert model.count == expected.count and model.cache._version > version
    assert model.cache.data_ptr() == address
    report = torch_mortise.last_report()["graphs"][0]
    assert report["coverage"] == 1.0
    assert sum(i["state"] for i in report["program"]["inputs"]) == 2


def test_inference_mode(compile_for):
    model = Cached().eval()
    expected = copy.deepcopy(model)
    compiled = compile_for(model)
    with torch.inference_mode():
        for module in (model, expected):
            module.cache = torch.zeros(2, 6, 4)  # an inference tensor, without a version
        for step in range(3):
            x, position = torch.randn(2, 1, 4), torch.tensor([step])
            assert_same(compiled(x, position), expected(x, position))
        assert_same(model.cache, expected.cache)
        model.project = expected.project = nn.Linear(4, 4)
        assert_same(compiled(x, position), expected(x, position))


def test_state_that_is_not_dense(compile_for):
    def f(state, x):
        state.add_(x)
        return state * 2

    base, twin = torch.zeros(6, 8), torch.zeros(6, 8)
    x = torch.randn(6, 4)
    compiled = compile_for(f)
    with torch.no_grad():
        for _ in range(2):
            assert_same(compiled(base[:, ::2], x), f(twin[:, ::2], x), strides=False)
    assert torch.equal(base, twin)
