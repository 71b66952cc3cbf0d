# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators of torch.library that are ops of a plugin: those of the plugin pocket (frontend/capi/test/pocket), which declares
pocket.scale(x) {by = 2} and computes it, and pocket.never(x), which it does not compute."""

import pathlib

import pytest
import torch
import torch_mortise._native

BUILD = pathlib.Path(torch_mortise._native.__file__).parents[2]
POCKET = BUILD / "frontend/capi/test/pocket/libpocket.so"
pytestmark = pytest.mark.skipif(not POCKET.exists(), reason="this build has no plugin pocket")
LIBRARY = torch.library.Library("pocket", "DEF")
CALLS = []  # of operators in eager


def define(name, schema, compute, fake=None, **more):
    """An operator, whose calls in eager are counted, and its fake implementation."""
    def counted(*arguments, **keywords):
        CALLS.append(name)
        return compute(*arguments, **keywords)

    LIBRARY.define(name + schema, **more)
    LIBRARY.impl(name, counted, "CPU")
    LIBRARY.impl(name, fake or (lambda x, *rest, **keywords: torch.empty_like(x)), "Meta")


define("scale", "(Tensor x, float by=2.0) -> Tensor", lambda x, by=2.0: x * by)
define("scale.twice", "(Tensor x, int times) -> Tensor", lambda x, times: x * 2 * times)
define("never", "(Tensor x) -> Tensor", torch.neg)
define("unknown", "(Tensor x) -> Tensor", torch.neg)
OTHER = torch.library.Library("nobody", "DEF")
OTHER.define("twice(Tensor x) -> Tensor")
OTHER.impl("twice", lambda x: x * 2, "CPU")
OTHER.impl("twice", torch.empty_like, "Meta")


@pytest.fixture(autouse=True)
def no_calls():
    CALLS.clear()


def compiled(function, *inputs, plugins=f":{POCKET}", dynamic=False, **options):
    """The outputs of a compiled function, and why operators run in eager, by operator."""
    options = {"device": "pocket,reference" if plugins else "reference", "plugin_path": plugins} | options
    with torch.no_grad():
        outputs = torch.compile(function, backend="mortise", dynamic=dynamic, options=options)(*inputs)
    return outputs, {entry["op"]: entry["reason"] for graph in torch_mortise.last_report()["graphs"] for entry in graph["eager"]}


def test_a_declared_op_runs_on_its_device():
    def run(x):
        return torch.sin(torch.ops.pocket.scale(torch.exp(x), 0.5)) + torch.ops.pocket.scale(x)

    x = torch.randn(3, 4)
    found, eager = compiled(run, x)
    assert eager == {} and CALLS == []
    assert torch.allclose(found, run(x), atol=1e-6)
    report = torch_mortise.last_report()
    assert report["coverage"] == 1 and set(report["placement"]) == {"pocket", "reference"}


def test_one_program_for_all_shapes():
    def run(x):
        return torch.ops.pocket.scale(x, 3.0)

    x = torch.randn(5, 4)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    with torch.no_grad():
        function = torch.compile(run, backend="mortise", dynamic=True, options={"device": "pocket", "plugin_path": f":{POCKET}"})
        for rows in (5, 7):
            x = torch.randn(rows, 4)
            assert torch.equal(function(x), x * 3)
    assert CALLS == [] and len(torch_mortise.last_report()["graphs"]) == 1


def test_equal_layers_are_repeated():
    def run(x):
        for _ in range(12):
            x = torch.exp(-torch.ops.pocket.scale(torch.sin(x), 0.5))
        return x

    x = torch.randn(8)
    found, eager = compiled(run, x)
    assert eager == {} and CALLS == []
    assert torch.allclose(found, run(x), atol=1e-6)


def test_what_no_device_computes_runs_in_eager():
    x = torch.randn(4)
    found, eager = compiled(lambda x: torch.ops.pocket.never(torch.exp(x)), x)
    assert torch.allclose(found, -torch.exp(x)) and CALLS == ["never"]
    assert "the pocket calculator has no such key" in eager["pocket.never.default"]
    assert "the plugin does not declare this op of a vendor" in eager["pocket.never.default"]


def test_an_undeclared_op_runs_in_eager():
    x = torch.randn(4)
    found, eager = compiled(lambda x: torch.ops.nobody.twice(torch.ops.pocket.unknown(x)), x)
    assert torch.equal(found, -2 * x)
    assert "no installed plugin declares the op 'nobody.twice'" in eager["nobody.twice.default"]
    assert "no installed plugin declares the op 'pocket.unknown'; the nearest known is" in eager["pocket.unknown.default"]


def test_without_the_plugin_the_op_runs_in_eager():
    x = torch.randn(4)
    found, eager = compiled(torch.ops.pocket.scale, x, plugins="")
    assert torch.equal(found, x * 2) and CALLS == ["scale"]
    assert "no installed plugin declares the op 'pocket.scale'" in eager["pocket.scale.default"]


def test_what_the_plugin_refuses_runs_in_eager():
    x = torch.randn(4, dtype=torch.float64)
    found, eager = compiled(torch.ops.pocket.scale, x)
    assert torch.equal(found, x * 2) and CALLS == ["scale"]
    assert "plugin 'pocket': expected x to be f32" in eager["pocket.scale.default"]


def test_an_overload_runs_in_eager():
    x = torch.randn(4)
    found, eager = compiled(lambda x: torch.ops.pocket.scale.twice(x, 3), x)
    assert torch.equal(found, x * 6)
    assert "an overload, 'twice', of an op of a vendor" in eager["pocket.scale.twice"]


@pytest.fixture
def again():
    """Defines pocket::scale anew, with another schema or fake implementation."""
    from torch_mortise.importer import vendor

    global LIBRARY
    before = LIBRARY

    def define_again(*arguments, **keywords):
        define("scale", *arguments, **keywords)

    before._destroy()
    LIBRARY = torch.library.Library("pocket", "FRAGMENT")
    vendor.refusal.cache_clear()
    yield define_again
    LIBRARY._destroy()
    LIBRARY = torch.library.Library("pocket", "DEF")
    define("scale", "(Tensor x, float by=2.0) -> Tensor", lambda x, by=2.0: x * by)
    vendor.refusal.cache_clear()


WRONG = {
    "rank": ("(Tensor x) -> Tensor", lambda x: x[None].clone(), lambda x: x.new_empty(1, *x.shape),
             "its plugin infers f32[4], and its fake implementation in PyTorch gives f32[1, 4]"),
    "dtype": ("(Tensor x) -> Tensor", lambda x: x.double(), lambda x: x.new_empty(x.shape, dtype=torch.float64),
              "its plugin infers f32[4], and its fake implementation in PyTorch gives f64[4]"),
    "results": ("(Tensor x) -> (Tensor, Tensor)", lambda x: (x + 0, x + 1), lambda x: (x.new_empty(4), x.new_empty(4)),
                "its plugin infers f32[4], and its fake implementation in PyTorch gives f32[4], f32[4]"),
    "kind": ("(Tensor x, int by=2) -> Tensor", lambda x, by=2: x * by, None,
             "expected attribute 'by' to be a float, found an integer"),
    "list": ("(Tensor x, float[] by=[2.0]) -> Tensor", lambda x, by=(2.0,): x * 2, None,
             "expected attribute 'by' to be a float, found a list of floats"),
    "name": ("(Tensor x, float factor=2.0) -> Tensor", lambda x, factor=2.0: x * factor, None,
             "its plugin declares no attribute 'factor'; the nearest known is"),
    "none": ("(Tensor x, float? by=None) -> Tensor", lambda x, by=None: x + 0, None, "argument 'by' is None, and an attribute has a value"),
    "type": ("(Tensor x, ScalarType by=6) -> Tensor", lambda x, by=None: x + 0, None, "argument 'by' of type ScalarType, which"),
    "operands": ("(Tensor x, Tensor? y=None, Tensor? z=None) -> Tensor", lambda x, y=None, z=None: x * 2, None, None),
    "tag": ("(Tensor x) -> Tensor", torch.rand_like, None, "it draws random numbers, and ops of vendors are pure"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_the_declaration_runs_in_eager(again, case):
    schema, compute, fake, reason = WRONG[case]
    again(schema, compute, fake, **({"tags": torch.Tag.nondeterministic_seeded} if case == "tag" else {}))
    x = torch.randn(4)
    found, eager = compiled(lambda x: torch.ops.pocket.scale(x), x)
    wanted = compute(x)
    if case != "tag":
        assert all(torch.equal(f, w) for f, w in zip(found, wanted))
    if reason is None:
        assert eager == {} and CALLS == []
    else:
        assert reason in eager["pocket.scale.default"] and CALLS == ["scale"]


def test_an_operand_left_out_before_others(again):
    again("(Tensor x, Tensor? y, Tensor z) -> Tensor", lambda x, y, z: x + z)
    x = torch.randn(4)
    found, eager = compiled(lambda x: torch.ops.pocket.scale(x, None, x), x)
    assert torch.equal(found, x + x)
    assert "argument 'y' is None, and operands of a vendor's op are left out only at the end" in eager["pocket.scale.default"]


def test_a_size_that_is_a_symbol_is_compiled_for_each_shape(again):
    again("(Tensor x, float by=2.0, *, SymInt rows) -> Tensor", lambda x, by=2.0, *, rows: x * by)
    x = torch.randn(5, 4)
    found, eager = compiled(lambda x: torch.ops.pocket.scale(x, rows=x.shape[0]), x, dynamic=True)
    assert torch.equal(found, x * 2)
    assert "its plugin declares no attribute 'rows'" in eager["pocket.scale.default"]
