# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Complex numbers inside a graph are computed as pairs of real ones (complex_pairs.py)."""

import pytest
import torch
import torch_mortise
from agreement import assert_same
from conftest import check
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_mortise import complex_pairs


class Rotary(nn.Module):
    """Rotary embedding as Llama 4 and DeepSeek V2 have it: features [2, tokens, heads, 8] are four complex numbers."""

    def __init__(self):
        super().__init__()
        self.q, self.k = nn.Linear(16, 16), nn.Linear(16, 16)
        self.register_buffer("inverse", 10000.0 ** -(torch.arange(0, 8, 2) / 8))

    def forward(self, x):
        angles = torch.arange(x.shape[1])[:, None].float() @ self.inverse[None]
        turns = torch.polar(torch.ones_like(angles), angles)
        q, k = (one(x).view(*x.shape[:2], 2, 8) for one in (self.q, self.k))
        turned = [torch.view_as_real(torch.view_as_complex(t.reshape(*t.shape[:-1], 4, 2)) * turns[:, None, :]).flatten(3) for t in (q, k)]
        return (turned[0] * turned[1]).sum(-1)


def eager_of(report):
    return [entry["op"] for graph in report["graphs"] for entry in graph["eager"]]


def test_rotary_embedding(compile_for):
    model = Rotary()
    check(compile_for(model), model, torch.randn(2, 5, 16))


def test_its_gradients(compile_for):
    """The forward pass saves a complex tensor for the backward pass: that is made, and read, in eager."""
    model, x = Rotary(), torch.randn(2, 5, 16)

    def step(function):
        out = function(x)
        return [out.detach(), *torch.autograd.grad((out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum(), [*model.parameters()])]

    assert_same(step(compile_for(model)), step(model), lambda: step(model))
    assert set(eager_of(torch_mortise.last_report())) <= {
        "aten.view_as_complex.default", "aten.view_as_real.default", "aten.resolve_conj.default"}


def test_dynamic_shapes(compile_for):
    model = Rotary()
    compiled = compile_for(model, dynamic=True)
    for tokens in (5, 9):
        check(compiled, model, torch.randn(2, tokens, 16))


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_rules(compile_for, dtype):
    def f(x, y):
        z = x * y.conj() - 2 * y + (-x).unsqueeze(-2).squeeze(1)
        z = torch.cat([z[:, 1:], y[:, :1].clone()], -1).transpose(0, 1)
        z = z.permute(1, 0).unsqueeze(0).expand(2, -1, -1).reshape(2, -1)[:, torch.tensor([3, 0, 5])].select(0, 1)
        return torch.view_as_real(z * torch.linspace(0, 1, 3, dtype=z.real.dtype)), torch.view_as_real(torch.complex(x.real, y.imag))

    x, y = torch.randn(2, 3, 4, dtype=dtype).unbind(0)
    report = check(compile_for(f), f, x, y, coverage=None, strides=False)
    assert set(eager_of(report)) == {"aten.view_as_real.default"}, eager_of(report)


def test_complex_results(compile_for):
    def f(x):
        return torch.polar(x.abs(), x), torch.polar(x.abs(), x).unsqueeze(0)

    compiled, x = compile_for(f), torch.randn(3, 4)
    for found, expected in zip(compiled(x), f(x)):
        assert found.dtype == torch.complex64 and found.stride() == expected.stride()
        assert_same(torch.view_as_real(found), torch.view_as_real(expected))


def test_conjugated_arguments(compile_for):
    def f(x):
        return torch.view_as_real(x * x)

    compiled, x = compile_for(f), torch.randn(3, 4, dtype=torch.complex64)
    for given in (x.conj(), x, x.conj()):
        assert_same(compiled(given), f(given))


def traced(f, *arguments):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return make_fx(f)(*(mode.from_tensor(a) for a in arguments))


def test_a_graph_with_another_complex_operator_is_left_as_it_is():
    module = traced(lambda x: torch.view_as_real(torch.fft.fft(torch.view_as_complex(x)) * 2), torch.randn(3, 4, 2))
    before = module.code
    assert not complex_pairs.rewrite(module) and module.code == before
    real = traced(lambda x: x * 2, torch.randn(3))
    before = real.code
    assert not complex_pairs.rewrite(real) and real.code == before


def test_a_rewritten_graph_computes_the_same():
    def f(x, z):
        return (torch.view_as_complex(x) * z).neg(), z + z

    x, z = torch.randn(3, 4, 2), torch.randn(4, dtype=torch.complex64)
    module = traced(f, x, z)
    assert complex_pairs.rewrite(module)
    kinds = {n.target for n in module.graph.nodes if n.op == "call_function" and n.meta["val"].is_complex()}
    assert kinds == {torch.ops.aten.view_as_complex.default}
    for found, expected in zip(module(x, z), f(x, z)):
        assert torch.allclose(found, expected)
