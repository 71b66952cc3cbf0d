# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimisers whose step is compiled: weights and state after some steps are eager's, and every operator runs in a program."""

import copy

import pytest
import torch
import torch_mortise
from agreement import assert_same
from torch import nn
from torch.optim import SGD, Adam, AdamW, Adamax, RMSprop

STEPS = 4
FORMS = {
    "sgd": (SGD, {"lr": 0.05}),
    "sgd-momentum": (SGD, {"lr": 0.05, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
    "sgd-nesterov": (SGD, {"lr": 0.05, "momentum": 0.9, "nesterov": True, "maximize": True}),
    "sgd-foreach": (SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "foreach": True}),
    "adam": (Adam, {"lr": 0.01}),
    "adam-decay": (Adam, {"lr": 0.01, "weight_decay": 0.1, "maximize": True}),
    "adam-amsgrad": (Adam, {"lr": 0.01, "amsgrad": True}),
    "adam-foreach": (Adam, {"lr": 0.01, "foreach": True, "amsgrad": True}),
    "adamw": (AdamW, {"lr": 0.01}),
    "adamw-foreach": (AdamW, {"lr": 0.01, "foreach": True}),
    "adamw-betas": (AdamW, {"lr": 0.01, "foreach": False, "betas": (0.8, 0.95)}),
    "rmsprop-foreach": (RMSprop, {"lr": 0.01, "momentum": 0.5, "centered": True, "foreach": True}),
    "adamax": (Adamax, {"lr": 0.01}),
}


def weights():
    return [nn.Parameter(torch.randn(shape)) for shape in ((8, 16), (16,), (4, 3, 3, 3), ())]


def train(parameters, optimiser, step, before=lambda number: None):
    generator = torch.Generator().manual_seed(0)
    for number in range(STEPS):
        before(number)
        for parameter in parameters:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        step()
    state = [optimiser.state[parameter] for parameter in parameters]
    return [*parameters, *[one[name] for one in state for name in sorted(one) if isinstance(one[name], torch.Tensor)]]


def check(compile_for, make, options, before=lambda optimiser, number: None):
    parameters = weights()
    twins = copy.deepcopy(parameters)
    ours, eager = make(parameters, **copy.deepcopy(options)), make(twins, **copy.deepcopy(options))
    found = train(parameters, ours, compile_for(ours.step), lambda number: before(ours, number))
    wanted = train(twins, eager, eager.step, lambda number: before(eager, number))
    assert_same(found, wanted)
    report = torch_mortise.last_report()
    assert report["graphs"] and report["coverage"] == 1.0, [g["eager"] for g in report["graphs"]]
    return report


@pytest.mark.parametrize("form", FORMS)
def test_steps(compile_for, form):
    report = check(compile_for, *FORMS[form])
    assert len(report["graphs"]) <= 2  # the first step of some makes their state


def test_a_rate_in_a_tensor_changes_without_another_compilation(compile_for):
    def lower(optimiser, number):
        optimiser.param_groups[0]["lr"].fill_(0.02 / (number + 1))

    report = check(compile_for, AdamW, {"lr": torch.tensor(0.02)}, lower)
    assert len(report["graphs"]) == 1


def test_clipped_gradients(compile_for):
    parameters = weights()
    twins = copy.deepcopy(parameters)
    ours, eager = SGD(parameters, lr=0.1, momentum=0.9), SGD(twins, lr=0.1, momentum=0.9)

    def clipped(these, optimiser):
        def step():
            torch.nn.utils.clip_grad_norm_(these, 0.5, foreach=True)
            optimiser.step()

        return step

    assert_same(train(parameters, ours, compile_for(clipped(parameters, ours))), train(twins, eager, clipped(twins, eager)))
    report = torch_mortise.last_report()
    assert report["graphs"] and report["coverage"] == 1.0, [g["eager"] for g in report["graphs"]]


LISTS = {
    "add-alpha": lambda x, y: torch._foreach_add(x, y, alpha=2),
    "add-numbers": lambda x, y: torch._foreach_add(x, [1.5, 2.5]),
    "mul-tensor": lambda x, y: torch._foreach_mul(x, y[0].sum()),
    "addcmul": lambda x, y: torch._foreach_addcmul(x, x, y, [0.5, 2.0]),
    "addcdiv": lambda x, y: torch._foreach_addcdiv(x, x, torch._foreach_exp(y), 0.5),
    "lerp": lambda x, y: torch._foreach_lerp(x, y, 0.25),
    "lerp-lists": lambda x, y: torch._foreach_lerp(x, y, y),
    "pow": lambda x, y: torch._foreach_pow(2.0, x),
    "maximum": lambda x, y: torch._foreach_maximum(x, y),
    "minimum": lambda x, y: torch._foreach_minimum(x, 0.1),
    "clamp": lambda x, y: torch._foreach_clamp_max(x, [0.1, 0.2]),
    "norm": lambda x, y: torch._foreach_norm(x),
    "norm-1": lambda x, y: torch._foreach_norm(x, 1),
    "div-abs": lambda x, y: torch._foreach_div(torch._foreach_abs(x), 3.0),
}


@pytest.mark.parametrize("call", LISTS.values(), ids=LISTS.keys())
def test_lists(compile_for, call):
    x, y = ([torch.randn(3, 4), torch.randn(5)] for _ in range(2))
    assert_same(compile_for(call)(x, y), call(x, y))
    assert torch_mortise.last_report()["coverage"] == 1.0
