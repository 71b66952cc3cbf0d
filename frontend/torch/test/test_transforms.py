# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.func inside compiled functions: gradients, batches of functions, Jacobians, models called with other weights."""

import pytest
import torch
import torch_mortise
from agreement import assert_same
from conftest import Small, check
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, stack_module_state, vjp, vmap


def energy(x, w):
    return torch.tanh(x @ w).square().sum()


TRANSFORMS = {
    "grad": lambda x, w: grad(energy, argnums=(0, 1))(x, w),
    "grad of one row each": lambda x, w: vmap(grad(energy), in_dims=(0, None))(x, w),
    "jacrev": lambda x, w: jacrev(lambda v: torch.sin(v) @ w)(x[0]),
    "jacfwd": lambda x, w: jacfwd(lambda v: torch.sin(v) @ w)(x[0]),
    "hessian": lambda x, w: hessian(lambda v: energy(v, w))(x[0]),
    "vjp": lambda x, w: vjp(lambda v: torch.exp(v) @ w, x)[1](torch.ones(4, 5)),
    "jvp": lambda x, w: jvp(lambda v: torch.exp(v) @ w, (x,), (torch.ones_like(x),)),
    "vmap over columns": lambda x, w: vmap(lambda v: torch.softmax(v, 0) + v.amax(), in_dims=1, out_dims=1)(x),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(compile_for, name):
    check(compile_for(TRANSFORMS[name]), TRANSFORMS[name], torch.randn(4, 6), torch.randn(6, 5))


def test_a_model_with_other_weights(compile_for):
    model, other = Small().eval(), {name: torch.randn_like(p) for name, p in Small().named_parameters()}

    def f(weights, x):
        return functional_call(model, weights, (x,))

    compiled, x = compile_for(f), torch.randn(3, 8)
    check(compiled, f, other, x)
    check(compiled, f, dict(model.named_parameters()), x)


def test_gradients_of_each_sample(compile_for):
    """The gradient of a model's loss for each sample by itself, as in differentially private training."""
    model = Small()
    weights = {name: p.detach() for name, p in model.named_parameters()}

    def of_each(x, target):
        def loss(weights, x, target):
            return (functional_call(model, weights, (x[None],)) - target[None]).square().sum()

        found = vmap(grad(loss), in_dims=(None, 0, 0))(weights, x, target)
        return [found[name] for name in weights]

    x, target = torch.randn(5, 8), torch.randn(5, 8)
    assert_same(compile_for(of_each)(x, target), of_each(x, target), lambda: of_each(x, target))
    assert torch_mortise.last_report()["coverage"] == 1.0


def test_an_ensemble(compile_for):
    models = [Small().eval() for _ in range(3)]
    parameters, buffers = stack_module_state(models)

    def f(x):
        return vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(parameters, buffers)

    x = torch.randn(4, 8)
    check(compile_for(f), f, x)
    with torch.no_grad():
        assert_same(compile_for(f)(x), torch.stack([m(x) for m in models]))


def test_a_compiled_function_under_a_transform(compile_for):
    """torch.func around a compiled function, too: PyTorch runs it in eager there."""
    compiled = compile_for(lambda v: torch.sin(v).sum())
    x = torch.randn(3, 5)
    assert_same(vmap(grad(compiled))(x), torch.cos(x))
