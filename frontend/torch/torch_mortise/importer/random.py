# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers. PyTorch's generator draws a key and an offset in eager, once for each operator, and the program computes the numbers from
them. torch.manual_seed therefore determines the numbers, but they are not the ones that eager would give."""

import math

import torch

from ..dtypes import NAMES, number
from .core import EAGER, decomposes, handles

aten = torch.ops.aten
library = torch.library.Library("mortise", "FRAGMENT")
library.define("seed(*, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,))
library.define("random(Tensor seed, SymInt[] shape, *, ScalarType dtype, str kind) -> Tensor")
BITS = 1 << 62


EAGER[torch.ops.mortise.seed.default] = "PyTorch's generator draws the key of the random numbers, which the program then makes"


@torch.library.impl(library, "seed", "CompositeExplicitAutograd")
def seed(*, device):
    """The generator of the device draws, so that nothing waits for the device."""
    return torch.empty(2, dtype=torch.int64, device=device).random_(-BITS, BITS)


@torch.library.impl(library, "random", "CompositeExplicitAutograd")
def random(seed, shape, *, dtype, kind):
    """Runs in eager if no device takes the op. The numbers differ from those of a device; the same seed gives the same numbers."""
    generator = torch.Generator().manual_seed(int(seed[0]) ^ int(seed[1]))
    with torch.device("cpu"):
        if kind == "permutation":
            made = torch.randperm(shape[0], generator=generator)
        elif kind == "bits":
            made = torch.empty(shape, dtype=dtype).random_(-(1 << 63), None, generator=generator)
        else:
            made = (torch.rand if kind == "uniform" else torch.randn)(shape, generator=generator, dtype=dtype)
    return made.to(seed.device)


@torch.library.register_fake("mortise::seed", lib=library)
def seed_fake(*, device):
    return torch.empty(2, dtype=torch.int64, device=device)


@torch.library.register_fake("mortise::random", lib=library)
def random_fake(seed, shape, *, dtype, kind):
    return torch.empty(shape, dtype=dtype, device=seed.device)


@handles(torch.ops.mortise.random.default)
def random_numbers(e, seed, shape, *, dtype, kind):
    key, offset = (e.reshape(e.slice(seed, 0, i, i + 1), ()) for i in (0, 1))
    shape = tuple(e.sizes(shape))
    if kind == "permutation":
        return e.op("random_permutation", key, offset, shape=shape)
    name = {"bits": "random_bits"}.get(kind, kind)
    return e.op(name, key, offset, shape=shape, dtype=NAMES[number(dtype)])


# ---- decompositions: in terms of the two ops above ------------------------------------------------------

def drawn(shape, dtype, kind="uniform"):
    """On the default device, which is that of the result while a decomposition runs."""
    made, seed = torch.ops.mortise.random, torch.ops.mortise.seed(device=torch.get_default_device())
    if dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        return made(seed, shape, dtype=torch.float32, kind=kind).to(dtype)
    return made(seed, shape, dtype=dtype, kind=kind)


def chosen(dtype, like=None):
    return dtype or (like.dtype if like is not None else torch.get_default_dtype())


@decomposes(aten.rand.default)
def rand(shape, *, dtype=None, **_):
    return drawn(shape, chosen(dtype))


@decomposes(aten.rand_like.default)
def rand_like(x, *, dtype=None, **_):
    return drawn(x.shape, chosen(dtype, x))


@decomposes(aten.randn.default)
def randn(shape, *, dtype=None, **_):
    return drawn(shape, chosen(dtype), "normal")


@decomposes(aten.randn_like.default)
def randn_like(x, *, dtype=None, **_):
    return drawn(x.shape, chosen(dtype, x), "normal")


def integers(low, high, shape, dtype):
    """Integers in [low, high): the remainder of a 63-bit number, as in eager."""
    bits = drawn(shape, torch.int64, "bits")
    return (torch.bitwise_and(bits, (1 << 63) - 1) % (high - low) + low).to(dtype)


@decomposes(aten.randint.default)
def randint(high, shape, *, dtype=torch.int64, **_):
    return integers(0, high, shape, dtype or torch.int64)


@decomposes(aten.randint.low)
def randint_low(low, high, shape, *, dtype=torch.int64, **_):
    return integers(low, high, shape, dtype or torch.int64)


@decomposes(aten.randint_like.default)
def randint_like(x, high, *, dtype=None, **_):
    return integers(0, high, x.shape, chosen(dtype, x))


@decomposes(aten.randint_like.low_dtype)
def randint_like_low(x, low, high, *, dtype=None, **_):
    return integers(low, high, x.shape, chosen(dtype, x))


@decomposes(aten.randperm.default)
def randperm(n, *, dtype=torch.int64, **_):
    return drawn((n,), torch.int64, "permutation").to(dtype or torch.int64)


@decomposes(aten.bernoulli.default)
def bernoulli(x, *, generator=None):
    if generator is not None:
        return NotImplemented
    return (drawn(x.shape, torch.float32) < x).to(x.dtype)


@decomposes(aten.bernoulli.p)
def bernoulli_p(x, p, *, generator=None):
    if generator is not None:
        return NotImplemented
    return (drawn(x.shape, torch.float32) < p).to(x.dtype)


@decomposes(aten.native_dropout.default)
def native_dropout(x, p, train):
    if not train or p == 0:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    mask = drawn(x.shape, torch.float32) >= p
    return x * mask * (1.0 / (1.0 - p) if p < 1 else 0.0), mask


@decomposes(aten.uniform.default)
def uniform(x, low=0.0, high=1.0, *, generator=None):
    return NotImplemented if generator is not None else drawn(x.shape, x.dtype) * (high - low) + low


@decomposes(aten.normal_functional.default)
def normal_functional(x, mean=0.0, std=1.0, *, generator=None):
    return NotImplemented if generator is not None else drawn(x.shape, x.dtype, "normal") * std + mean


@decomposes(aten.normal.float_float)
def normal_floats(mean, std, shape, *, generator=None, dtype=None, **_):
    return NotImplemented if generator is not None else drawn(shape, chosen(dtype), "normal") * std + mean


@decomposes(aten.normal.Tensor_float, aten.normal.float_Tensor, aten.normal.Tensor_Tensor)
def normal_tensors(mean=0.0, std=1.0, *, generator=None):
    if generator is not None:
        return NotImplemented
    parts = [v for v in (mean, std) if isinstance(v, torch.Tensor)]
    shape = torch.broadcast_shapes(*[v.shape for v in parts])
    return drawn(shape, parts[0].dtype, "normal") * std + mean


def inner(x):
    """Uniform in the open interval (0, 1), in f32 or wider."""
    wide = torch.float64 if x.dtype == torch.float64 else torch.float32
    return drawn(x.shape, wide).clamp(min=torch.finfo(wide).eps / 4)


@decomposes(aten.exponential.default)
def exponential(x, rate=1.0, *, generator=None):
    return NotImplemented if generator is not None else (inner(x).log() / -rate).to(x.dtype)


@decomposes(aten.geometric.default)
def geometric(x, p, *, generator=None):
    if generator is not None:
        return NotImplemented
    return (inner(x).log() / math.log1p(-p)).ceil().clamp(min=1).to(x.dtype)


@decomposes(aten.cauchy.default)
def cauchy(x, median=0.0, sigma=1.0, *, generator=None):
    if generator is not None:
        return NotImplemented
    return (median + sigma * torch.tan(torch.pi * (inner(x) - 0.5))).to(x.dtype)


@decomposes(aten.log_normal.default)
def log_normal(x, mean=1.0, std=2.0, *, generator=None):
    return NotImplemented if generator is not None else torch.exp(drawn(x.shape, x.dtype, "normal") * std + mean)


@decomposes(aten.multinomial.default)
def multinomial(weights, count, replacement=False, *, generator=None):
    """Without replacement, the largest of weight / exponential number; with it, where uniform numbers fall in the cumulative sum."""
    if generator is not None:
        return NotImplemented
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    if not replacement or count == 1:
        return (weights / -inner(weights).log()).topk(count).indices
    ends = weights.cumsum(-1)
    place = drawn((*weights.shape[:-1], count), weights.dtype) * ends[..., -1:]
    return torch.searchsorted(ends, place, right=True).clamp(max=weights.shape[-1] - 1)
