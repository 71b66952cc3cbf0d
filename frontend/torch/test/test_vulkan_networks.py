# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Networks on a device with Vulkan through torch.compile: every operator in a program, as on Mesa's lavapipe.

With MORTISE_TEST_DEVICES=vulkan the other tests of this folder run there, too."""

import pytest
import torch
import torch_mortise
from conftest import check
from torch import nn
from torch.nn import functional as F

pytestmark = pytest.mark.skipif(
    all(d["kind"] != "vulkan" for d in torch_mortise.devices()), reason="no device with Vulkan: install mesa-vulkan-drivers (Debian)"
)


def compiled(model, **options):
    return torch.compile(model, backend="mortise", options={"device": "vulkan"}, **options)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.norms = heads, nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.merged, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.merged(self.norms[0](x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.norms[1](x))))


def test_a_transformer_of_several_lengths():
    model = nn.Sequential(Block(48, 4), Block(48, 4)).eval()
    program = compiled(model, dynamic=True)
    for shape in ((2, 20, 48), (3, 33, 48), (2, 7, 48)):
        check(program, model, torch.randn(shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 70])  # a product of a row sums along the weights' rows, others have tiles
def test_layers(dtype, rows):
    model = nn.Sequential(nn.Linear(40, 96), nn.SiLU(), nn.Linear(96, 24)).to(dtype).eval()
    check(compiled(model), model, torch.randn(rows, 40, dtype=dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_convolutional_network(dtype):
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1), nn.Conv2d(8, 8, 3, groups=8)]
    model = nn.Sequential(*layers, nn.SiLU(), nn.Conv2d(8, 16, 1, stride=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))
    model = model.to(dtype).eval()
    check(compiled(model), model, torch.randn(2, 3, 20, 20, dtype=dtype))


# A driver gets these wrong as one program for all sizes (plugins/vulkan/discovery.cpp), from the 17th row or column on.
@pytest.mark.parametrize("kernel, stride, padding", [(3, 3, 1), (3, 2, 1), (2, 2, 1), (7, 2, 3)])
def test_strided_convolutions_of_several_sizes(kernel, stride, padding):
    model = nn.Conv2d(16, 16, kernel, stride=stride, padding=padding, bias=False).eval()
    program = compiled(model, dynamic=True)
    for size in (56, 112, 30):
        check(program, model, torch.randn(1, 16, size, size))


def test_attention_with_fewer_heads_of_keys():
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    check(compiled(attend), attend, *(torch.randn(2, heads, 20, 16) for heads in (4, 2, 2)))
