# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What differs between releases of PyTorch where a backend sees it, tried on the one that is installed (figure wheel): how convolutions are
chosen and sizes traced, what graphs of training are made of, and how weights are watched. Needs PyTorch and torch_mortise alone. Prints
{check: what is wrong with it, "" for nothing}."""

import json

import torch
from torch import nn

TOLERANCE = 1e-4  # of the largest number; f32 on the CPU, sums of at most some thousand products in another order


def compiled(model, **keywords):
    """The model for mortise alone, from scratch."""
    import torch_mortise

    torch._dynamo.reset()
    torch_mortise.reset()
    return torch.compile(model, backend="mortise", **keywords)


def apart(found, expected) -> str:
    error = ((found - expected).abs().max() / expected.abs().max()).item()
    return "" if error <= TOLERANCE else f"differs from eager by {error:.2g} of the largest number"


def left_out() -> str:
    """What no program computed."""
    import torch_mortise

    report = torch_mortise.last_report()
    eager = sorted({node["op"] for graph in report["graphs"] for node in graph["eager"]})
    broken = [each["reason"] for each in report["graph_breaks"]]
    return "; ".join(f"runs in eager: {each}" for each in [*eager, *broken]) or ("" if report["graphs"] else "nothing was compiled")


def convolutional() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3, stride=2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.embedding, self.into, self.out = nn.Embedding(50, 32), nn.Linear(32, 96), nn.Linear(32, 50)

    def forward(self, tokens):
        q, k, v = (each.unflatten(-1, (4, 8)).transpose(1, 2) for each in self.into(self.embedding(tokens)).chunk(3, -1))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def trained(model, x, target, run) -> torch.Tensor:
    """The parameters after three steps, as one vector."""
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        optimiser.zero_grad()
        nn.functional.cross_entropy(run(x).flatten(0, -2), target).backward()
        optimiser.step()
    return torch.cat([p.detach().flatten() for p in model.parameters()])


def convolutions_of_several_sizes() -> str:
    model = convolutional().eval().requires_grad_(False)
    run, found = compiled(model, dynamic=True), ""
    for size in (16, 20, 34):
        x = torch.randn(2, 3, size, size)
        found = found or apart(run(x), model(x))
    return found or left_out()


def sequences_of_several_lengths() -> str:
    model = Attention().eval().requires_grad_(False)
    run, found = compiled(model), ""
    for length in (5, 9, 17):
        tokens = torch.randint(50, (2, length))
        found = found or apart(run(tokens), model(tokens))
    return found or left_out()


def training_of_convolutions() -> str:
    x, target = torch.randn(8, 3, 16, 16), torch.randint(4, (8,))
    expected = trained(eager := convolutional(), x, target, eager)
    return apart(trained(model := convolutional(), x, target, compiled(model)), expected) or left_out()


def training_of_attention() -> str:
    tokens, target = torch.randint(50, (2, 12)), torch.randint(50, (24,))
    expected = trained(eager := Attention(), tokens, target, eager)
    return apart(trained(model := Attention(), tokens, target, compiled(model)), expected) or left_out()


def changed_weights() -> str:
    model, x = convolutional().eval().requires_grad_(False), torch.randn(2, 3, 16, 16)
    run = compiled(model)
    found = apart(run(x), model(x))
    model[0].weight.mul_(-2)
    found = found or apart(run(x), model(x))
    model.load_state_dict({name: value + 1 if value.is_floating_point() else value for name, value in model.state_dict().items()})
    found = found or apart(run(x), model(x))
    model[4].weight.data = model[4].weight.flip(0).to(memory_format=torch.channels_last)  # other memory, other strides
    return found or apart(run(x), model(x)) or left_out()


CHECKS = (convolutions_of_several_sizes, sequences_of_several_lengths, training_of_convolutions, training_of_attention, changed_weights)


def main() -> None:
    found = {}
    for check in CHECKS:
        try:
            found[check.__name__] = check()
        except Exception as error:  # a check that raises has failed; the others are tried
            found[check.__name__] = f"{type(error).__name__}: {error}"[:500]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
