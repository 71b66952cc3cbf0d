# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Backward programs work in the memory of saved tensors, unless something else may read them (decision 0075)."""

import copy

import pytest
import torch
import torch_mortise
from agreement import assert_same
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_mortise import donation, region


class Network(nn.Module):
    """Its saved tensors have 512 KiB and 8 KiB."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 8))

    def forward(self, x):
        return self.body(x).square().mean()


@pytest.fixture
def network():
    return Network()


@pytest.fixture
def x():
    return torch.randn(256, 64)


def gradients(model, loss, **options):
    return torch.autograd.grad(loss, list(model.parameters()), **options)


def eager(network, x):
    model = copy.deepcopy(network)
    return gradients(model, model(x))


@pytest.fixture
def backwards():
    """A function that gives the regions of the backward graphs that the test has compiled."""
    before = set(region.regions)
    return lambda: [one for one in region.regions if "_backward" in one.name and one not in before]


@pytest.fixture
def backward(backwards):
    """The same for one region."""

    def backward():
        (found,) = backwards()
        return found

    return backward


def arena_bytes():
    graphs = torch_mortise.last_report()["graphs"]
    return sum(program["arena_bytes"] for graph in graphs if graph["name"].endswith("_backward") for program in graph["programs"])


def overwritten(compiled, model, x):
    """How many of the tensors that a step saves have other contents afterwards, although a hook holds them."""
    held, before = [], []

    def pack(tensor):
        held.append(tensor)
        before.append(tensor.clone())
        return len(held) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda number: held[number]):
        gradients(model, compiled(x))
    return sum(not torch.equal(a, b) for a, b in zip(held, before, strict=True))


def test_saved_tensors_are_workspace(compile_for, network, x, device, backward):
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    for _ in range(3):
        found = gradients(model, compiled(x))
    assert_same(found, eager(network, x))
    assert len(backward().donated) == 2 and not backward().notes
    donating = arena_bytes()
    torch._dynamo.reset()
    torch_mortise.reset()
    with torch._functorch.config.patch(donated_buffer=False):
        gradients(model, compile_for(model)(x))
    if device == "cpu":
        assert donating <= arena_bytes() - 256 * 512 * 4


def test_a_graph_that_is_kept(compile_for, network, x, backward):
    """PyTorch itself would refuse the second step."""
    model = copy.deepcopy(network)
    compiled, expected = compile_for(model), eager(network, x)
    for kept in (False, True, False):
        loss = compiled(x)
        for options in ({"retain_graph": True}, {"create_graph": True}, {}) if kept else ({},):
            found = [g.detach() for g in gradients(model, loss, **options)]
            assert_same(found, expected)
    assert not backward().donated and len(backward().notes) == 1


def test_the_first_graph_is_kept(compile_for, network, x):
    model = copy.deepcopy(network)
    loss = compile_for(model)(x)
    for kept in (True, False):
        assert_same(gradients(model, loss, retain_graph=kept), eager(network, x))


def test_tensors_that_a_hook_holds(compile_for, network, x, backward):
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    gradients(model, compiled(x))
    assert overwritten(compiled, model, x) == 0
    assert not backward().donated


def test_arrays_that_a_hook_makes_tensors_of(compile_for, network, x):
    """Only the arrays are held. The tensors live as long as the call."""
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    gradients(model, compiled(x))
    held = []

    def pack(tensor):
        held.append(tensor.detach().clone().numpy())
        return len(held) - 1

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda number: torch.from_numpy(held[number])):
        loss = compiled(x)
        before = [array.copy() for array in held]
        found = gradients(model, loss)
    assert_same(found, eager(network, x))
    assert held and all((a == b).all() for a, b in zip(held, before, strict=True))


def test_without_a_look_at_references_they_would_be_overwritten(compile_for, network, x, device, monkeypatch):
    if device != "cpu":
        pytest.skip("the plugin makes no use of donated inputs")
    monkeypatch.setattr(donation, "_references", lambda arguments, position: ())
    monkeypatch.setattr(donation, "_alone", lambda: ())
    assert overwritten(compile_for(network), network, x) > 0


def test_tensors_of_the_graph_itself(compile_for, network, x):
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    gradients(model, compiled(x))
    loss = compiled(x)
    held = loss.grad_fn.saved_tensors
    before = [tensor.clone() for tensor in held]
    gradients(model, loss)
    assert all(map(torch.equal, held, before))


HOLDERS = {
    "storage": (lambda tensor: tensor.untyped_storage(), lambda storage: torch.empty(0).set_(storage, 0, (256 * 512,), (1,))),
    "view": (lambda tensor: tensor.view(-1), lambda view: view),
    "array": (lambda tensor: tensor.numpy(), torch.from_numpy),
}


@pytest.mark.parametrize("kind", HOLDERS)
def test_what_holds_the_memory_alone(compile_for, network, x, kind):
    take, read = HOLDERS[kind]
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    gradients(model, compiled(x))
    loss = compiled(x)
    held = [take(tensor.detach()) for tensor in loss.grad_fn.saved_tensors if tensor.shape == (256, 512)]
    before = [read(one).clone() for one in held]
    gradients(model, loss)
    assert len(held) == 2 and all(torch.equal(a, read(one)) for a, one in zip(before, held, strict=True))


def test_several_graphs_at_once(compile_for, network, x, backward):
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    inputs = [x, -x, 2 * x]
    losses = [compiled(one) for one in inputs]
    for one, loss in zip(inputs, losses, strict=True):
        assert_same(gradients(model, loss), eager(network, one))
    assert len(backward().donated) == 2


def test_verify_compares_before_anything_is_overwritten(compile_for, network, x, backward):
    model = copy.deepcopy(network)
    compiled = compile_for(model, verify="first")
    for _ in range(2):
        assert_same(gradients(model, compiled(x)), eager(network, x))
    report = torch_mortise.last_report()
    assert report["coverage"] == 1.0 and not any(graph["notes"] for graph in report["graphs"])
    assert len(backward().donated) == 2


def test_all_shapes(compile_for, network, x, backwards):
    model = copy.deepcopy(network)
    compiled = compile_for(model, dynamic=True)
    for rows in (256, 7, 133, 256):
        assert_same(gradients(model, compiled(x[:rows])), eager(network, x[:rows]))
    assert all(one.donated and not one.notes for one in backwards())


def test_views_of_one_tensor(compile_for, backward):
    """Queries, keys and values are parts of one product: each keeps the memory of the others."""

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.all, self.out = nn.Linear(64, 192), nn.Linear(64, 64)

        def forward(self, x):
            q, k, v = (part.view(4, 128, 4, 16).transpose(1, 2) for part in self.all(x).split(64, dim=-1))
            y = torch.softmax(q @ k.transpose(2, 3) / 4, -1) @ v
            return self.out(y.transpose(1, 2).reshape(4, 128, 64).sin()).square().mean()

    network, x = Attention(), torch.randn(4, 128, 64)
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    for _ in range(2):
        assert_same(gradients(model, compiled(x)), eager(network, x))
    assert backward().donated and not backward().notes


def test_checkpoints_around_a_compiled_model(compile_for, network, x):
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    for reentrant in (False, True):
        x.requires_grad_()
        for _ in range(2):
            model.zero_grad()
            checkpoint(compiled, x, use_reentrant=reentrant).backward()
            found = [parameter.grad for parameter in model.parameters()]
            assert_same(found, eager(network, x.detach()))


def test_results_that_are_saved(compile_for):
    """The result of the first product is a result of the graph, too, and the exponential is both saved and returned."""
    weights = torch.randn(256, 256, requires_grad=True)

    def function(x):
        y = x @ weights
        z = y.exp()
        return y, z, (z.sin() * y).sum()

    x = torch.randn(256, 256) / 64
    compiled = compile_for(function)
    for _ in range(2):
        y, z, loss = compiled(x)
        before = y.detach().clone(), z.detach().clone()
        found = torch.autograd.grad(loss, weights)
        assert torch.equal(y, before[0]) and torch.equal(z, before[1])
        assert_same(found, torch.autograd.grad(function(x)[2], weights))


def test_graphs_in_pieces_donate_nothing(compile_for, x, backwards):
    """Their calls hold the arguments until they end."""

    class Pieces(Network):
        def forward(self, x):
            return self.body(x).square().mean() + torch.digamma(self.body[0](x).sigmoid() + 1).mean()

    network = Pieces()
    model = copy.deepcopy(network)
    compiled = compile_for(model)
    for _ in range(2):
        assert_same(gradients(model, compiled(x)), eager(network, x))
    assert backwards() and not any(one.donated for one in backwards())
