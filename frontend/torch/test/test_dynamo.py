# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What users of Dynamo expect of any backend: graph breaks, stances, regions compiled once, custom operators, tensor subclasses,
higher-order operators."""

import copy
import importlib
import warnings

import pytest
import torch
import torch_mortise
from agreement import assert_same
from conftest import Small, check
from torch import nn

region = importlib.import_module("torch_mortise.region")


def names():
    return {g["name"] for g in torch_mortise.last_report()["graphs"]}


def eager():
    return {e["op"]: e["reason"] for g in torch_mortise.last_report()["graphs"] for e in g["eager"]}


# ---- graph breaks, stances ---------------------------------------------------------------------------


def test_graph_breaks(compile_for):
    def f(x):
        y = x.exp() + 1
        torch._dynamo.graph_break()
        return y.relu() * 2

    check(compile_for(f), f, torch.randn(3, 4))
    assert len(names()) == 2
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(f, backend="mortise", fullgraph=True)(torch.randn(3, 4))


def test_disabled_functions(compile_for):
    calls = []

    @torch.compiler.disable
    def outside(x):
        calls.append(torch.compiler.is_compiling())
        return x * 3

    def f(x):
        return outside(x + 1).relu() - 1

    check(compile_for(f), f, torch.randn(3, 4))
    assert calls == [False, False] and len(names()) == 2


def test_stances(compile_for):
    def f(x):
        return x.relu() + 1

    compiled, x = compile_for(f), torch.randn(3, 4)
    with torch.compiler.set_stance("force_eager"):
        assert_same(compiled(x), f(x))
    assert not names()
    with torch.compiler.set_stance("fail_on_recompile"):
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(x)
    assert_same(compiled(x), f(x))
    with torch.compiler.set_stance("eager_on_recompile"):
        assert_same(compiled(x.double()), f(x.double()))
        assert_same(compiled(x), f(x))
    assert len(names()) == 1


# ---- regions that are compiled once ------------------------------------------------------------------


class Layers(nn.Module):
    def __init__(self, count=4):
        super().__init__()
        self.layers = nn.ModuleList(Small() for _ in range(count))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def test_layers_compiled_each_by_itself(compile_for, device):
    """Regional compilation: one trace and one program serve all layers."""
    model = Layers().eval()
    twin = copy.deepcopy(model)
    for layer in model.layers:
        layer.compile(backend="mortise", options={"device": device})
    x = torch.randn(3, 8)
    with torch.no_grad():
        for _ in range(2):
            assert_same(model(x), twin(x), lambda: twin(x))
    assert len(names()) == 1


@torch.compiler.nested_compile_region
def stamped(layer, x):
    return layer(x)


class Stamped(Layers):
    def forward(self, x):
        for layer in self.layers:
            x = stamped(layer, x)
        return x


def repeated():
    return sum(found.record["repeated"] for one in list(region.regions) for found in one.all_programs())


def test_nested_compile_regions(compile_for):
    """PyTorch traces one layer for all, and the program is imported as if it had repeated the layer itself."""
    model, x = Stamped(9).eval(), torch.randn(3, 8)
    before = repeated()
    check(compile_for(model), model, x)
    assert len(names()) == 1 and repeated() > before


def test_gradients_of_nested_compile_regions(compile_for):
    model = Stamped()
    twin = copy.deepcopy(model)
    compiled, x = compile_for(model), torch.randn(3, 8)
    target = torch.randn(3, 8)
    found, wanted = [torch.autograd.grad((m(x) * target).sum(), list(n.parameters())) for m, n in ((compiled, model), (twin, twin))]
    assert_same(list(found), list(wanted))
    assert torch_mortise.last_report()["coverage"] == 1.0


def test_nested_compile_regions_of_other_shapes(compile_for):
    def f(x, y):
        return stamped(torch.exp, x) + stamped(torch.exp, y).sum(0), stamped(torch.sin, x.t())

    check(compile_for(f), f, torch.randn(3, 4), torch.randn(5, 3, 4))


# ---- custom operators --------------------------------------------------------------------------------


@torch.library.custom_op("mortise_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


doubled.register_fake(torch.empty_like)
doubled.register_autograd(lambda context, gradient: gradient * 2)


@torch.library.custom_op("mortise_test::counted", mutates_args=("count",))
def counted(x: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    count += 1
    return x + count


counted.register_fake(lambda x, count: torch.empty_like(x))


def test_custom_operators(compile_for):
    def f(x):
        return doubled(x.relu() + 1) - 1

    report = check(compile_for(f), f, torch.randn(3, 4), coverage=0.5)
    assert "mortise_test.doubled.default" in eager() and all(eager().values()) and report["coverage"] < 1
    x = torch.randn(3, 4, requires_grad=True)
    found, wanted = [torch.autograd.grad(g(x).sum(), x) for g in (compile_for(f), f)]
    assert_same(list(found), list(wanted))


def test_custom_operators_that_write_to_their_arguments(compile_for):
    def f(x, count):
        y = counted(x * 2, count)
        return y.relu() + count.sum()

    found, wanted = torch.zeros(4), torch.zeros(4)
    compiled, x = compile_for(f), torch.randn(3, 4)
    for _ in range(3):
        assert_same(compiled(x, found), f(x, wanted))
        assert torch.equal(found, wanted)
    assert any("auto_functionalized" in op or "counted" in op for op in eager()) and all(eager().values())


def test_a_write_to_a_tensor_that_the_graph_computes(compile_for):
    def f(x):
        count = x.new_zeros(4)
        y = counted(x * 2, count)
        return y.relu() + count

    assert_same(compile_for(f)(x := torch.randn(3, 4)), f(x))


# ---- tensor subclasses, layouts ----------------------------------------------------------------------


class Quantised(torch.Tensor):
    """A weight of 8 bits with a scale for each row, as quantised subclasses of torchao hold it."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=scale.dtype, device=data.device)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def __tensor_flatten__(self):
        return ["data_", "scale"], None

    @staticmethod
    def __tensor_unflatten__(inner, _, size, stride):
        return Quantised(inner["data_"], inner["scale"])

    def __repr__(self):
        return f"Quantised({self.data_!r}, {self.scale!r})"

    def dequantised(self):
        return self.data_.to(self.scale.dtype) * self.scale

    @classmethod
    def of(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls((weight / scale).round().to(torch.int8), scale)

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.detach.default:
            return cls(*(torch.ops.aten.detach(t) for t in (arguments[0].data_, arguments[0].scale)))
        if function in (torch.ops.aten.t.default, torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            return function(*(a.dequantised() if isinstance(a, Quantised) else a for a in arguments), **(keywords or {}))
        raise NotImplementedError(f"{function}")


def test_quantised_subclasses(compile_for):
    model = Small().eval()
    for layer in (model.first, model.second):
        layer.weight = nn.Parameter(Quantised.of(layer.weight.detach()), requires_grad=False)
    check(compile_for(model), model, torch.randn(3, 8))


def test_results_of_a_subclass(compile_for):
    class Tagged(torch.Tensor):
        pass

    def f(x):
        return x.relu() + 1

    x = torch.randn(3, 4).as_subclass(Tagged)
    found = compile_for(f)(x)
    assert type(found) is Tagged
    assert_same(found.as_subclass(torch.Tensor), f(x).as_subclass(torch.Tensor))


def test_sparse_tensors(compile_for):
    def f(s, x):
        return torch.sparse.mm(s, x.relu()) + 1

    sparse, x = torch.eye(4).to_sparse(), torch.randn(4, 3)
    with torch.no_grad():
        assert_same(compile_for(f)(sparse, x), f(sparse, x))


# ---- higher-order operators --------------------------------------------------------------------------


def test_cond(compile_for):
    def f(x):
        return torch.cond(x.sum() > 0, lambda v: v.relu() + 1, lambda v: v.exp() - 1, (x * 2,)) * 3

    compiled = compile_for(f)
    x = torch.ones(3, 4)
    for sign in (1, -1, 1):
        check(compiled, f, sign * x, coverage=0.7)
    assert eager() == {"cond": "eager chooses or repeats, and what it calls are graphs of their own"}
    assert len(names()) == 3  # two branches


def test_cond_with_gradients(compile_for):
    def f(x):
        return torch.cond(x.sum() > 0, lambda v: v.relu() + 1, lambda v: v.exp() - 1, (x * 2,)).square().sum()

    compiled = compile_for(f)
    for sign in (1, -1):
        x = (sign * torch.rand(3, 4)).requires_grad_()
        assert_same(list(torch.autograd.grad(compiled(x), x)), list(torch.autograd.grad(f(x), x)))


# The bounds of results are measured by runs in eager, which PyTorch's operators of control flow refuse: what they do is written out.


def test_while_loop(compile_for):
    from torch._higher_order_ops.while_loop import while_loop

    def f(x):
        return while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v * 1.5 + 1), (torch.tensor(0), x.relu()))[1] - 1

    def written_out(x):
        v = x.relu()
        for _ in range(5):
            v = v * 1.5 + 1
        return v - 1

    check(compile_for(f), written_out, torch.randn(3, 4), coverage=0.7)
    assert len(names()) == 3 and set(eager()) == {"while_loop"}


@pytest.mark.parametrize("dynamic", [False, True])
def test_control_flow_inside_control_flow(compile_for, dynamic):
    from torch._higher_order_ops.while_loop import while_loop

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x):
            def body(i, v):
                return i + 1, torch.cond(v.sum() > 0, lambda w: self.linear(w).tanh(), lambda w: w.abs() + x, (v,))

            return while_loop(lambda i, v: i < 4, body, (torch.tensor(0), x.relu() - 0.2))[1] * 2

    model = Model().eval()
    compiled = compile_for(model, dynamic=dynamic)

    def written_out(x):
        v = x.relu() - 0.2
        for _ in range(4):
            v = model.linear(v).tanh() if v.sum() > 0 else v.abs() + x
        return v * 2

    for rows in (3, 5, 3) if dynamic else (3, 3):
        check(compiled, written_out, torch.randn(rows, 4), coverage=0.7)
    assert set(eager()) == {"while_loop", "cond"}


def test_scan(compile_for):
    from torch._higher_order_ops.scan import scan

    def f(x):
        carry, rows = scan(lambda c, v: (c * 0.5 + v, c + v), x[0] * 0, x)
        return carry, rows * 2

    def written_out(x):
        carry, rows = x[0] * 0, []
        for row in x:
            rows.append(carry + row)
            carry = carry * 0.5 + row
        return carry, torch.stack(rows) * 2

    check(compile_for(f), written_out, torch.randn(5, 4), coverage=0.7, strides=False)
    assert set(eager()) == {"scan"}


def test_map(compile_for):
    from torch._higher_order_ops.map import map as mapped

    def f(x, y):
        return mapped(lambda row, y: row.sin() + y.exp(), x, y) * 2

    def written_out(x, y):
        return torch.stack([row.sin() + y.exp() for row in x]) * 2

    check(compile_for(f), written_out, torch.randn(5, 4), torch.randn(4), coverage=0.7)
    assert set(eager()) == {"map_impl"}


def test_associative_scan(compile_for):
    from torch._higher_order_ops.associative_scan import associative_scan

    def f(x):
        return associative_scan(lambda a, b: a * b, x + 1, 0, combine_mode="generic") * 2

    check(compile_for(f), f, torch.rand(5, 4), coverage=None, strides=False)


@pytest.mark.parametrize("causal", [False, True])
def test_flex_attention(compile_for, causal):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 128, 128, device="cpu") if causal else None

    def f(q, k, v):
        return flex_attention(q * 1.5, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.01, block_mask=mask) + 1

    q, k, v = torch.randn(3, 1, 2, 128, 16)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        assert_same(compile_for(f)(q, k, v), f(q, k, v))
    assert all(eager().values())
